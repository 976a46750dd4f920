"""The command line and the composition root: the one part of the core that may import the other two packages.

Commands import what they need when they run, so that ``rir-gym --help`` is quick. Every expected fault is one line on
standard error and exit code 2. This package holds no logic of the method: it names, wires, shows and writes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rir_gym.errors import RirError

__all__ = ["app", "main"]

app = typer.Typer(
    name="rir-gym",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Checkpoint, rollback and reflection for language-model agents in Gymnasium text environments.",
)

# Some versions of typer bring click's exceptions along, others depend on click: this is the class in either case.
_BadCommandLine: type[Exception] = next(
    cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException" and issubclass(cls, Exception)
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]


@app.command("demo")
def _demo(
    episodes: Annotated[int, typer.Option(min=2, help="Held-out seeds a cell at the main budget.")] = 400,
    sweep_episodes: Annotated[int, typer.Option(min=2, help="Seeds a cell at the sweep's other budgets.")] = 100,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the figures do not depend on it.")] = 2,
    as_json: Json = False,
) -> None:
    """Compare five mechanisms on the embedded environment, on one equal budget. Needs no model.

    Example: rir-gym demo --episodes 100 --sweep-episodes 50
    """
    from rir_gym.cli import demo as command

    command.main(episodes=episodes, sweep_episodes=sweep_episodes, workers=workers, as_json=as_json)


@app.command("run")
def _run(
    out: Annotated[Path, typer.Option(help="Folder for the records; must not exist unless --overwrite.")],
    env: Annotated[str, typer.Option(help="Environment id.")] = "rir_gym/Apothecary-v0",
    env_arg: Annotated[
        list[str] | None, typer.Option(help="Argument of the environment, name=JSON; repeatable.")
    ] = None,
    mechanism: Annotated[str, typer.Option(help="react, reflection_only, rollback_only, restart or rir.")] = "rir",
    model: Annotated[str | None, typer.Option(help="Hub name, folder or GGUF file; plays every role.")] = None,
    agent: Annotated[str | None, typer.Option(help="'scripted': an expert that belongs to the environment.")] = None,
    reviewer: Annotated[str, typer.Option(help="Of the scripted agent: evidence, or exact (an oracle).")] = "evidence",
    episodes: Annotated[int, typer.Option(help="How many.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the first episode; the others count up.")] = 0,
    agent_calls: Annotated[int | None, typer.Option(help="B_agent; by default the environment's.")] = None,
    rollbacks: Annotated[int, typer.Option(help="B_rb.")] = 3,
    review_terminal: Annotated[bool, typer.Option(help="Review once when the environment has ended.")] = True,
    memory_position: Annotated[str, typer.Option(help="system (the paper) or tail (keeps the KV cache).")] = "system",
    thought_tokens: Annotated[int, typer.Option(help="Tokens of thought before each action; 0 is none.")] = 0,
    temperature: Annotated[float, typer.Option(help="Of the agent; 0 is greedy.")] = 0.0,
    prompts: Annotated[Path | None, typer.Option(help="Folder of prompt files that replace the packaged ones.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the records that --out holds.")] = False,
    as_json: Json = False,
) -> None:
    """Run episodes and write their records.

    Example: rir-gym run --agent scripted --episodes 20 --out runs/first
    """
    from rir_gym.cli import run as command

    command.main(
        command.Request(
            env=env,
            env_args=command.parse_arguments(env_arg or []),
            mechanism=mechanism,
            model=model,
            agent=agent,
            reviewer=reviewer,
            episodes=episodes,
            seed=seed,
            agent_calls=agent_calls,
            rollbacks=rollbacks,
            review_terminal=review_terminal,
            memory_position=memory_position,
            thought_tokens=thought_tokens,
            temperature=temperature,
            prompts=prompts,
        ),
        out=out,
        existing="overwrite" if overwrite else "refuse",
        as_json=as_json,
    )


@app.command("view")
def _view(
    file: Annotated[Path, typer.Argument(help="A record file or a folder of them.")],
    episode: Annotated[int | None, typer.Option(help="Only this one, counted from 0.")] = None,
) -> None:
    """Show recorded episodes as trees.

    Example: rir-gym view runs/first --episode 0
    """
    from rir_gym.cli import view as command

    command.main(file, episode=episode)


def main() -> None:
    """The entry point: exit code 0, 2 for an expected fault, 130 for an interrupt."""
    try:
        code = app(standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        print("rir-gym: interrupted", file=sys.stderr)
        sys.exit(130)
    except (RirError, _BadCommandLine) as error:
        said = getattr(error, "format_message", error.__str__)()
        print(f"rir-gym: {' '.join(said.split())}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)

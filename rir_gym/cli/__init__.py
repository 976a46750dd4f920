"""The command line and the composition root: the one part of the core that may import the other two packages.

Commands import what they need when they run, so that ``rir-gym --help`` is quick. Every expected fault is one line on
standard error and exit code 2. This package holds no logic of the method: it names, wires, shows and writes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rir_gym.cli import options
from rir_gym.cli.data import data_app
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

Json = options.Json
app.add_typer(data_app)


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
    out: options.Store,
    env: options.Env = "rir_gym/Apothecary-v0",
    env_arg: options.EnvArg = None,
    mechanism: options.MechanismName = "rir",
    model: options.Model = None,
    agent: options.Agent = None,
    reviewer: options.Reviewer = "evidence",
    episodes: options.Episodes = 1,
    seed: options.Seed = 0,
    agent_calls: options.AgentCalls = None,
    rollbacks: options.Rollbacks = 3,
    review_terminal: options.ReviewTerminal = True,
    memory_position: options.MemoryPositionName = "system",
    thought_tokens: options.ThoughtTokens = 0,
    temperature: options.Temperature = 0.0,
    prompts: options.Prompts = None,
    overwrite: options.Overwrite = False,
    as_json: Json = False,
) -> None:
    """Run episodes in this process, keep each record at once, and sum up.

    Example: rir-gym run --agent scripted --episodes 20 --out runs/first
    """
    from rir_gym.cli import run as command
    from rir_gym.cli.run import parse_arguments

    command.main(
        command.Request(
            env=env,
            env_args=parse_arguments(env_arg or []),
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
        existing="overwrite" if overwrite else "resume",
        as_json=as_json,
    )


@app.command("collect")
def _collect(
    out: options.Store,
    env: options.Env = "rir_gym/Apothecary-v0",
    env_arg: options.EnvArg = None,
    mechanism: options.MechanismName = "rir",
    model: options.Model = None,
    agent: options.Agent = None,
    reviewer: options.Reviewer = "evidence",
    episodes: options.Episodes = 1,
    attempts: Annotated[int, typer.Option(help="Attempts at each task, with other draws of the roles.")] = 1,
    seed: options.Seed = 0,
    agent_calls: options.AgentCalls = None,
    rollbacks: options.Rollbacks = 3,
    review_terminal: options.ReviewTerminal = True,
    memory_position: options.MemoryPositionName = "system",
    thought_tokens: options.ThoughtTokens = 0,
    temperature: options.Temperature = 0.0,
    prompts: options.Prompts = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes; the data do not depend on it. 0: this one.")] = 2,
    lockstep: Annotated[int, typer.Option(min=1, help="Episodes a worker plays at once, for servers of models.")] = 1,
    compression: Annotated[str, typer.Option(help="none, or zstd (extra 'data').")] = "none",
    overwrite: options.Overwrite = False,
    as_json: Json = False,
) -> None:
    """Collect episodes with several processes; interrupted or killed, the same command goes on.

    Example: rir-gym collect --agent scripted --episodes 1000 --workers 2 --out data/first
    """
    from rir_gym.cli import collect as command
    from rir_gym.cli.run import parse_arguments

    command.main(
        command.Request(
            env=env,
            env_args=parse_arguments(env_arg or []),
            mechanism=mechanism,
            model=model,
            agent=agent,
            reviewer=reviewer,
            episodes=episodes,
            attempts=attempts,
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
        existing="overwrite" if overwrite else "resume",
        workers=workers,
        lockstep=lockstep,
        compression=compression,
        as_json=as_json,
    )


@app.command("bench")
def _bench(
    suite: Annotated[str | None, typer.Argument(metavar="SUITE", help="Name, or the path of a .toml file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; the same command goes on in it.")] = None,
    episodes: Annotated[int | None, typer.Option(help="n of every cell, instead of the suite's.")] = None,
    section: Annotated[list[str] | None, typer.Option(help="Only this table; repeatable.")] = None,
    mechanism: Annotated[list[str] | None, typer.Option(help="Only this mechanism; repeatable.")] = None,
    model: options.Model = None,
    rules: Annotated[Path | None, typer.Option(help="Rule book of ExpeL, JSON, from training seeds.")] = None,
    workers: Annotated[int, typer.Option(help="Processes; the data do not depend on it. 0: this one.")] = 2,
    compression: Annotated[str, typer.Option(help="none, or zstd (extra 'data').")] = "none",
    labels: Annotated[bool, typer.Option(help="Look up the truth about every episode after the run.")] = True,
    gold: Annotated[
        bool, typer.Option("--gold", help="Measure gold lengths on the training seeds; play nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare mechanisms on a suite: the same seeds and budgets for all. Without a name, list the suites.

    Example: rir-gym bench smoke --out runs/smoke
    """
    from rir_gym.cli import bench as command
    from rir_gym.cli import bench_gold

    if suite is None:
        command.show_suites()
    elif gold:
        bench_gold.main(suite, as_json=as_json)
    else:
        command.main(
            suite,
            out=out,
            episodes=episodes,
            sections=section or (),
            mechanisms=mechanism or (),
            model=model,
            workers=workers,
            rules=rules,
            compression=compression,
            labels=labels,
            as_json=as_json,
        )


@app.command("report")
def _report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of rir-gym bench.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the report; by default RUN/report.")] = None,
    as_json: Json = False,
) -> None:
    """Write the tables and plots of a run as Markdown, one HTML page, SVG files and JSON.

    Example: rir-gym report runs/smoke
    """
    from rir_gym.cli import report as command

    command.main(folder, out=out, as_json=as_json)


@app.command("export")
def _export(
    format: Annotated[
        str, typer.Argument(metavar="FORMAT", help="sft, messages, roles, dpo, kto, tokens, parquet or minari.")
    ],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A record file, or a folder of them.")],
    out: Annotated[Path, typer.Option(help="The new folder; must not exist.")],
    split_by: Annotated[str | None, typer.Option(help="task: hold out whole tasks in a test split.")] = None,
    test_share: Annotated[float, typer.Option(help="Share of tasks in the test split, with --split-by.")] = 0.1,
    only: Annotated[str | None, typer.Option(help="success or all; what is usual depends on the format.")] = None,
    placement: Annotated[str | None, typer.Option(help="Where memory stands in prompts: system or tail.")] = None,
    requests: Annotated[bool, typer.Option("--requests", help="Rows for granted requests for a review, too.")] = False,
    shape: Annotated[str, typer.Option(help="chat, or text for models without a chat template.")] = "chat",
    tokenizer: Annotated[str | None, typer.Option(help="Folder, GGUF file or hub name.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longer rows are left out; needs --tokenizer.")] = None,
    too_long: Annotated[str, typer.Option(help="drop; or cut (tokens only) the middle of prompts.")] = "drop",
    escape: Annotated[bool, typer.Option("--escape", help="Break up control tokens in texts.")] = False,
    labels: Annotated[str, typer.Option(help="Of roles: outcome, oracle, or a file of labels.")] = "outcome",
    with_oracle: Annotated[
        bool, typer.Option("--with-oracle", help="Take mechanisms that read an oracle, too.")
    ] = False,
    keep_duplicates: Annotated[bool, typer.Option("--keep-duplicates", help="Keep rows that train the same.")] = False,
    file: Annotated[str, typer.Option(help="jsonl or parquet, for formats of rows.")] = "jsonl",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad lines out instead of stopping.")] = False,
    prompts: options.Prompts = None,
    as_json: Json = False,
) -> None:
    """Turn records into training data; see docs/exports.md for what each format holds.

    Example: rir-gym export sft data/first --split-by task --out data/first-sft
    """
    from rir_gym.cli import export as command

    command.main(
        command.Wanted(
            format=format,
            only=only,  # type: ignore[arg-type]
            placement=placement,  # type: ignore[arg-type]
            requests=requests,
            split_by=split_by,
            test_share=test_share,
            tokenizer=tokenizer,
            max_tokens=max_tokens,
            too_long=too_long,
            escape=escape,
            shape=shape,
            labels=labels,
            with_oracle=with_oracle,
            duplicates="keep" if keep_duplicates else "drop",
            file=file,  # type: ignore[arg-type]
            errors="skip" if skip_bad else "raise",
            prompts=prompts,
        ),
        data,
        out=out,
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


@app.command("envs")
def _envs(as_json: Json = False) -> None:
    """List every environment: installed or not, gold steps, snapshot mechanism, oracle, expert.

    Example: rir-gym envs --json
    """
    from rir_gym.cli import envs as command

    command.main(as_json=as_json)


@app.command("play")
def _play(
    env: Annotated[str, typer.Argument(metavar="ID", help="Environment id.")],
    env_arg: Annotated[
        list[str] | None, typer.Option(help="Argument of the environment, name=JSON; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Which task.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the record; must not exist.")] = None,
) -> None:
    """Play an environment yourself, with rollback, branches and, on demand, the oracle's hint.

    Example: rir-gym play rir_gym/Apothecary-v0 --seed 3
    """
    from rir_gym.cli import play as command
    from rir_gym.cli.run import parse_arguments

    command.main(env, parse_arguments(env_arg or []), seed=seed, out=out)


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

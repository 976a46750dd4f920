"""The command line and the composition root: the one part of the core that may import the other two packages.

Commands import what they need when they run, so that ``rir-gym --help`` is quick. Every fault is one line on standard
error and an exit code (``rir_gym.cli.faults``). This package holds no logic of the method: it names, wires, shows and
writes.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from rir_gym.cli import complete, options
from rir_gym.cli.asked import Bench, Collect, Demo, Export, Run
from rir_gym.cli.data import data_app
from rir_gym.cli.declare import command, ending
from rir_gym.cli.faults import INTERRUPTED, line_of

__all__ = ["app", "main"]

app = typer.Typer(
    name="rir-gym",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Checkpoint, rollback and reflection for language-model agents in Gymnasium text environments.",
    epilog=ending("rir-gym demo --episodes 10 --sweep-episodes 4", "rir-gym envs", "rir-gym doctor"),
)

Json = options.Json


def _version(asked: bool) -> None:
    if asked:
        from rir_gym import __version__

        print(f"rir-gym {__version__}")
        raise typer.Exit


@app.callback()
def _always(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose; may stand anywhere.")] = False,
) -> None:
    pass


@command(app, "demo", Demo, examples=["rir-gym demo --episodes 10 --sweep-episodes 4"])
def _demo(asked: Demo, as_json: bool) -> None:
    """Compare five mechanisms on the embedded environment.

    All on one equal budget, without a model. Prints tables, and writes a page to open into a new folder.
    """
    from rir_gym.cli import demo

    demo.main(asked, as_json=as_json)


@command(
    app,
    "run",
    Run,
    examples=[
        "rir-gym run --agent scripted --episodes 20 --out runs/first",
        "rir-gym run --config runs/first/settings.toml --out runs/again",
        "rir-gym run --agent scripted --env-arg stores=4 --out runs/four",
        "rir-gym run --model HuggingFaceTB/SmolLM2-135M-Instruct --out runs/smol",
    ],
)
def _run(asked: Run, as_json: bool) -> None:
    """Run episodes in this process, keep each at once, and sum up.

    The folder keeps settings.toml, which --config takes back.
    """
    from rir_gym.cli import run

    run.main(asked.request, out=asked.out, existing="overwrite" if asked.overwrite else "resume", as_json=as_json)


@command(
    app,
    "collect",
    Collect,
    examples=[
        "rir-gym collect --agent scripted --episodes 100 --workers 2 --out data/first",
        "rir-gym collect --config data/first/settings.toml --episodes 120 --out data/first",
    ],
)
def _collect(asked: Collect, as_json: bool) -> None:
    """Collect episodes with several processes.

    Interrupted or killed, the same command goes on. The folder keeps settings.toml, which --config takes back.
    """
    from rir_gym.cli import collect

    collect.main(
        asked.request,
        out=asked.out,
        existing="overwrite" if asked.overwrite else "resume",
        workers=asked.workers,
        lockstep=asked.lockstep,
        compression=asked.compression,
        as_json=as_json,
    )


@command(
    app,
    "bench",
    Bench,
    examples=["rir-gym bench", "rir-gym bench smoke --out runs/smoke", "rir-gym bench smoke --gold"],
)
def _bench(asked: Bench, as_json: bool) -> None:
    """Compare mechanisms on a suite, on the same seeds and budgets.

    Without a name, list the suites. The folder keeps settings.toml, which --config takes back.
    """
    from rir_gym.cli import bench, bench_gold

    if asked.suite is None:
        bench.show_suites(as_json=as_json)
    elif asked.gold:
        bench_gold.main(asked.suite, as_json=as_json)
    else:
        bench.main(asked, as_json=as_json)


@app.command("report", epilog=ending("rir-gym report runs/smoke"))
def _report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of rir-gym bench.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the report; by default RUN/report.")] = None,
    png: Annotated[bool, typer.Option("--png", help="Write each plot as PNG, too (extra 'plots').")] = False,
    as_json: Json = False,
) -> None:
    """Write the tables and plots of a bench run as files.

    As Markdown, one HTML page, SVG files and JSON. An earlier report in the same place is replaced.
    """
    from rir_gym.cli import report

    report.main(folder, out=out, as_json=as_json, png=png)


@command(
    app,
    "export",
    Export,
    examples=[
        "rir-gym export sft data/first --split-by task --out data/first-sft",
        "rir-gym export dpo data/first --only all --out data/first-dpo",
    ],
)
def _export(asked: Export, as_json: bool) -> None:
    """Turn records into training data.

    What each format holds, and which option fits which, is in docs/exports.md.
    """
    from rir_gym.cli import export

    export.main(asked.wanted, asked.data, out=asked.out, as_json=as_json)


@app.command(
    "view",
    epilog=ending(
        "rir-gym view runs/first --episode 0",
        "rir-gym view runs/first --html first.html",
        "rir-gym view runs/first --episode 0 --svg first.svg",
    ),
)
def _view(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Record files, or folders of them.")],
    episode: Annotated[int | None, typer.Option(help="Only this one, counted from 0.")] = None,
    compare: Annotated[
        tuple[int, int] | None, typer.Option(help="Two episodes of one seed side by side, with --html.", metavar="A B")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write one page that needs nothing else.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the tree of one episode as a picture.")] = None,
    png: Annotated[Path | None, typer.Option(help="The same as PNG (extra 'plots').")] = None,
) -> None:
    """Show recorded episodes as trees, here, on a page or as a picture."""
    from rir_gym.cli import view as command

    command.main(files, episode=episode, compare=compare, html=html, svg=svg, png=png)


@app.command("envs", epilog=ending("rir-gym envs", "rir-gym envs --json"))
def _envs(as_json: Json = False) -> None:
    """List every environment and what is known of it.

    Whether it is installed, its gold steps, snapshot mechanism, oracle and expert.
    """
    from rir_gym.cli import envs

    envs.main(as_json=as_json)


@app.command("play", epilog=ending("rir-gym play rir_gym/Apothecary-v0 --seed 3"))
def _play(
    env: Annotated[
        str, typer.Argument(metavar="ID", help="Environment id (rir-gym envs).", autocompletion=complete.env_ids)
    ],
    env_arg: options.EnvArg = None,
    seed: Annotated[int, typer.Option(help="Which task.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the record; must not exist.")] = None,
) -> None:
    """Play an environment yourself, with rollback and branches.

    On demand with the oracle's hint. /help says which words are yours; a pipe can play as well.
    """
    from rir_gym.cli import play
    from rir_gym.cli.settings import parse_arguments

    play.main(env, parse_arguments(env_arg or []), seed=seed, out=out)


app.add_typer(data_app)


@app.command("doctor", epilog=ending("rir-gym doctor --json"))
def _doctor(
    deep: Annotated[bool, typer.Option("--deep", help="Make and reset every environment that is installed.")] = False,
    limit_s: Annotated[float, typer.Option(min=1, help="Seconds for each of them, with --deep.")] = 120,
    as_json: Json = False,
) -> int:
    """Say what is here, what is missing, and what each id needs.

    Versions, extras, Java, accelerators, memory, caches, models. Exit code 1 where --deep found that an environment
    cannot be made although all it needs is here.
    """
    from rir_gym.cli import doctor

    return doctor.main(deep=deep, limit_s=limit_s, as_json=as_json)


def main() -> None:
    """The entry point; the exit codes are those of ``rir_gym.cli.faults``."""
    words, debug = _without_debug(sys.argv[1:])
    try:
        code = app(args=words, prog_name="rir-gym", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        print("rir-gym: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        if debug:
            traceback.print_exc()
        line, code = line_of(error, words)
        print(f"rir-gym: {line}", file=sys.stderr)
        sys.exit(code)
    if code == INTERRUPTED:  # some versions of typer turn the interrupt into this
        print("rir-gym: interrupted", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)


def _without_debug(words: list[str]) -> tuple[list[str], bool]:
    """The words without ``--debug``, which may stand anywhere before "--"; and whether it was there."""
    end = words.index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != "--debug"]
    return [*kept, *words[end:]], len(kept) < end

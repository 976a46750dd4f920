"""``rir-gym data check`` and ``rir-gym data merge``: what a set of records holds, and several sets as one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rir_gym.cli.declare import ending
from rir_gym.cli.options import Compression, Json

if TYPE_CHECKING:
    from rir_gym.data.survey import Survey

__all__ = ["data_app"]

data_app = typer.Typer(
    name="data",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Check and merge sets of records.",
    epilog=ending("rir-gym data check data/first", "rir-gym data merge data/first runs/first --out data/both"),
)

_SHOWN = 10


@data_app.command("check", epilog=ending("rir-gym data check data/first", "rir-gym data check data/first --json"))
def _check(
    path: Annotated[Path, typer.Argument(help="A record file, or a folder of them.")], as_json: Json = False
) -> int:
    """Read and check every record, and print what is there. Exit code 1 where a line is bad or an episode is twice."""
    from rir_gym.data.survey import survey

    found = survey(path)
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        _show(path, found)
    return 0 if found.sound else 1


@data_app.command("merge", epilog=ending("rir-gym data merge data/first runs/first --out data/both"))
def _merge(
    paths: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Record files or folders of them.")],
    out: Annotated[Path, typer.Option(help="The new folder; must not exist.")],
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad lines out instead of stopping.")] = False,
    keep_first: Annotated[bool, typer.Option("--keep-first", help="Of records of one episode that differ.")] = False,
    compression: Compression = "none",
    as_json: Json = False,
) -> None:
    """Put several sets of records into one, every episode once; unknown fields are kept."""
    from rir_gym.data.lines import check_compression
    from rir_gym.data.merge import merge

    done = merge(
        paths,
        out,
        errors="skip" if skip_bad else "raise",
        differing="first" if keep_first else "refuse",
        compression=check_compression(compression),
    )
    for bad in done.report.bad:
        print(f"rir-gym: left out: {bad}", file=sys.stderr)
    if as_json:
        counts = {"episodes": done.episodes, "repeated": done.repeated, "differing": done.differing}
        print(json.dumps({"out": str(out), **counts, "bad": len(done.report.bad)}))
        return
    print(f"{done.episodes} episodes in {out}; left out: {done.repeated} repeated, {done.differing} differing")


def _show(path: Path, found: Survey) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False)
    table.add_column(Text(str(path)), overflow="fold")
    table.add_column("", justify="right", no_wrap=True)
    rate = found.successes / found.episodes if found.episodes else 0
    for name, value in {
        "files": f"{found.files}, {found.bytes / 1e6:.1f} MB",
        "episodes": found.episodes,
        "tasks": found.tasks,
        "successes": f"{found.successes} ({rate:.1%})",
        "with oracle": found.oracle,
        "nodes": found.nodes,
        "branches": found.branches,
        **{name.replace("_", " "): value for name, value in found.counts.items()},
        "repeated episodes": found.repeated,
        "differing episodes": found.differing,
        "torn lines": found.torn,
        "other bad lines": found.bad,
        "tails set aside": len(found.set_aside),
    }.items():
        table.add_row(name, Text(str(value)))
    for (env, mechanism, player), episodes in sorted(found.cells.items()):
        table.add_row(Text(f"{env}, {mechanism}, {player}"), str(episodes))
    console.print(table)
    print(f"sha256 of the records, in any order: {found.records_sha256}")
    for fault in found.faults[:_SHOWN]:
        print(f"rir-gym: {fault}", file=sys.stderr)
    if len(found.faults) > _SHOWN:
        print(f"rir-gym: and {len(found.faults) - _SHOWN} more bad lines", file=sys.stderr)

"""What the long commands can be asked: dataclasses whose fields are options and keys of a settings file alike.

Beside ``Request`` (``rir_gym.cli.request``), which ``run`` and ``collect`` share. Nothing heavy is imported here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from rir_gym.cli import complete, options
from rir_gym.cli.request import Request
from rir_gym.cli.settings import OnOff

__all__ = ["Bench", "Collect", "Demo", "Export", "Run", "Wanted"]

FORMATS = ("sft", "messages", "roles", "dpo", "kto", "tokens", "parquet", "minari")
_one_of = complete.one_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """``rir-gym run``."""

    out: options.Store
    request: Request = field(default_factory=Request)
    overwrite: options.Overwrite = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Collect:
    """``rir-gym collect``."""

    out: options.Store
    request: Request = field(default_factory=Request)
    workers: options.Workers = 2
    lockstep: options.Lockstep = 1
    compression: options.Compression = "none"
    overwrite: options.Overwrite = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """``rir-gym bench``; without a suite it lists them."""

    suite: Annotated[
        str | None,
        Argument(metavar="SUITE", help="Name, or the path of a .toml file.", autocompletion=complete.suites),
    ] = None
    out: Annotated[Path | None, Option(help="Run folder, else runs/SUITE; the same command goes on in it.")] = None
    episodes: Annotated[int | None, Option(help="n of every cell, instead of the suite's.")] = None
    sections: Annotated[tuple[str, ...], Option("--section", help="Only this table; repeatable.")] = ()
    mechanisms: Annotated[
        tuple[str, ...],
        Option("--mechanism", help="Only this mechanism; repeatable.", autocompletion=complete.mechanisms),
    ] = ()
    model: options.Model = None
    rules: Annotated[Path | None, Option(help="Rule book of ExpeL, JSON, from training seeds.")] = None
    workers: Annotated[int, Option(help="Processes; the data do not depend on it. 0: this one.")] = 2
    compression: options.Compression = "none"
    labels: Annotated[bool, Option(help="Look up the truth about every episode after the run.")] = True
    gold: Annotated[bool, Option("--gold", help="Measure gold lengths on the training seeds; play nothing.")] = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is exported, and how: docs/exports.md."""

    format: Annotated[str, Argument(metavar="FORMAT", help=f"{', '.join(FORMATS)}.", autocompletion=_one_of(*FORMATS))]
    only: Annotated[
        Literal["success", "all"] | None,
        Option(help="success or all; what is usual depends on the format.", autocompletion=_one_of("success", "all")),
    ] = None
    placement: Annotated[
        Literal["system", "tail"] | None,
        Option(help="Where memory stands in prompts: system or tail.", autocompletion=_one_of("system", "tail")),
    ] = None
    requests: Annotated[bool, Option("--requests", help="Rows for granted requests for a review, too.")] = False
    split_by: Annotated[
        str | None, Option(help="task: hold out whole tasks in a test split.", autocompletion=_one_of("task"))
    ] = None
    test_share: Annotated[float, Option(help="Share of tasks in the test split, with --split-by.")] = 0.1
    tokenizer: Annotated[str | None, Option(help="Folder, GGUF file or hub name.")] = None
    max_tokens: Annotated[int | None, Option(help="Longer rows are left out; needs --tokenizer.")] = None
    too_long: Annotated[
        str, Option(help="drop; or cut (tokens only) the middle of prompts.", autocompletion=_one_of("drop", "cut"))
    ] = "drop"
    escape: Annotated[bool, Option("--escape", help="Break up control tokens in texts.")] = False
    shape: Annotated[
        str, Option(help="chat, or text for models without a chat template.", autocompletion=_one_of("chat", "text"))
    ] = "chat"
    labels: Annotated[str, Option(help="Of roles: outcome, oracle, or a file of labels.")] = "outcome"
    with_oracle: Annotated[bool, Option("--with-oracle", help="Take mechanisms that read an oracle, too.")] = False
    duplicates: Annotated[
        Literal["drop", "keep"],
        Option("--keep-duplicates", help="Keep rows that train the same."),
        OnOff("keep", "drop"),
    ] = "drop"
    file: Annotated[
        Literal["jsonl", "parquet"],
        Option(help="jsonl or parquet, for formats of rows.", autocompletion=_one_of("jsonl", "parquet")),
    ] = "jsonl"
    errors: Annotated[
        Literal["raise", "skip"],
        Option("--skip-bad", help="Leave bad lines out instead of stopping."),
        OnOff("skip", "raise"),
    ] = "raise"
    prompts: options.Prompts = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """``rir-gym export``."""

    wanted: Wanted
    data: Annotated[Path, Argument(metavar="DATA", help="A record file, or a folder of them.")]
    out: Annotated[Path, Option(help="The new folder; must not exist.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """``rir-gym demo``."""

    episodes: Annotated[int, Option(min=2, help="Held-out seeds a cell at the main budget.")] = 400
    sweep_episodes: Annotated[int, Option(min=2, help="Seeds a cell at the sweep's other budgets.")] = 100
    workers: Annotated[int, Option(min=1, help="Processes; the figures do not depend on it.")] = 2
    out: Annotated[
        Path | None, Option(help="The new folder for the page; by default rir-demo, or rir-demo-2 and so on.")
    ] = None

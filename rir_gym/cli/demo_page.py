"""The page of the demo: its tables and plots as one HTML page, its figures as JSON, and one episode as a tree.

Everything is made by the parts that make reports and views; this module arranges. It knows summaries and a record, and
plays nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from rir_gym.bench.document import Block, Heading, Plot, Table, Text, html_page
from rir_gym.bench.metrics import Summary
from rir_gym.cli.tables import rate
from rir_gym.data.files import new_folder, write_episodes
from rir_gym.errors import StoreError
from rir_gym.view.page import write_page
from rir_gym.view.plots import Series, line_plot

__all__ = ["Part", "folder_for", "write_demo"]

PAGE, TREE, FIGURES = "index.html", "episode.html", "figures.json"
_COUNTS = ("agent_calls", "steps", "reviews", "rollbacks", "corrections", "auxiliary")


@dataclass(frozen=True, slots=True)
class Part:
    """One table of the demo: summaries by mechanism and budget, at which budget its counts are, and what they say."""

    title: str
    summaries: Mapping[str, Mapping[int, Summary]]
    main_budget: int
    margin: str


@contextmanager
def folder_for(out: Path | None) -> Iterator[tuple[Path, Path]]:
    """(where to write, what it will be called): ``rir-demo``, or the next free name, where ``out`` names none.

    Raises:
        OutputExists: ``out`` is there already.
        UsageError: nothing can be written there.
    """
    names = (Path(f"rir-demo{f'-{number}' if number > 1 else ''}") for number in count(1))
    target = next(name for name in names if not name.exists()) if out is None else out
    with new_folder(target) as work:
        yield work, target


def write_demo(
    folder: Path,
    parts: Sequence[Part],
    *,
    about: str,
    command: str,
    figures: Sequence[Mapping[str, Any]],
    record: Mapping[str, Any] | None,
) -> None:
    """The page, the figures, and where there is an episode to show, its record and its tree.

    Raises:
        StoreError, UsageError: it cannot be written.
    """
    blocks: list[Block] = [Heading(1, "rir-gym demo"), Text(about), Text(command, code=True)]
    for number, part in enumerate(parts):
        blocks += _blocks(part, f"budget-{number}")
    if record is not None:
        blocks += [Heading(2, "One episode"), Text(f"{TREE}, beside this page, shows an episode as a tree.")]
        write_page(folder / TREE, [("demo", record)], title="rir-gym demo: one episode")
        write_episodes(folder, [record], [{}])
    try:
        (folder / PAGE).write_text(html_page("rir-gym demo", blocks), "utf-8")
        (folder / FIGURES).write_text(json.dumps(list(figures), indent=1, allow_nan=False) + "\n", "ascii")
    except OSError as error:
        raise StoreError(f"path={str(folder)!r}: cannot be written ({error.strerror or error})") from error


def _blocks(part: Part, name: str) -> list[Block]:
    budgets = list(next(iter(part.summaries.values())))
    success = [[m, *(rate(by_budget[budget]) for budget in budgets)] for m, by_budget in part.summaries.items()]
    main = {mechanism: by_budget[part.main_budget] for mechanism, by_budget in part.summaries.items()}
    counts = [[m, *(f"{getattr(summary, each):.2f}" for each in _COUNTS)] for m, summary in main.items()]
    blocks: list[Block] = [
        Heading(2, part.title),
        Table("success %, 95 % Wilson interval", ["mechanism", *(f"B = {budget}" for budget in budgets)], success),
    ]
    if len(budgets) > 1:
        title = "Success against budget"
        blocks.append(Plot(name, title, _plot(part, title)))
    head = ["mechanism", *(each.replace("_", " ") for each in _COUNTS)]
    blocks += [Table(f"mean an episode at B_agent = {part.main_budget}", head, counts), Text(part.margin)]
    return blocks


def _plot(part: Part, title: str) -> str:
    series = []
    for number, (name, by_budget) in enumerate(part.summaries.items()):
        points = [(float(budget), _percent(summary)) for budget, summary in by_budget.items()]
        series.append(Series(name, points, number, strong=name == "rir"))
    y_label = "success %, 95 % interval"
    return line_plot(series, title=title, x_label="B_agent: agent calls an episode", y_label=y_label, y_range=(0, 100))


def _percent(summary: Summary) -> tuple[float, float, float]:
    value, low, high = (100 * each for each in summary.success)
    return value, low, high

"""``rir-gym demo``: five mechanisms on the embedded environment, one equal budget, held-out seeds, no model.

The grid is data. Cells are independent and every draw follows from the seed, so the figures do not depend on the
number of workers. Nothing here was tuned on the seeds that are shown.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from rir_gym.bench.metrics import Row, paired_difference, row_of, summary_of
from rir_gym.cli.asked import Demo
from rir_gym.cli.demo_page import PAGE, TREE, Part, folder_for, write_demo
from rir_gym.cli.tables import budget_table, count_table
from rir_gym.cli.worlds import make, scripted_mechanism
from rir_gym.episode import Episode
from rir_gym.ledger import Budget
from rir_gym.loop import run
from rir_gym.rollback import RollbackWrapper

__all__ = ["main"]

ENV = "rir_gym/Apothecary-v0"
MECHANISMS = ("react", "reflection_only", "rollback_only", "restart", "rir")
BUDGETS = (24, 28, 36, 60)
MAIN_BUDGET = 28
ROLLBACKS = 3
SLIP = 0.1
FIRST_SEED = 50_000
_LOCKSTEP = 50


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the grid: who reviews, which mechanism, how trusting the agent is, B_agent and how many seeds."""

    reviewer: str
    mechanism: str
    trust: float
    agent_calls: int
    seeds: int


@dataclass(frozen=True, slots=True)
class Section:
    """One table: a reviewer and a trust, over budgets."""

    title: str
    reviewer: str
    trust: float
    budgets: tuple[int, ...]


SECTIONS = (
    Section("Reviewer: evidence only (sees what the agent sees)", "evidence", 0.5, BUDGETS),
    Section("Reviewer: exact (uses_oracle: reads the environment's oracle)", "exact", 0.5, BUDGETS),
    Section(
        "Nothing to learn: the agent never trusts the rumour; reviewer: evidence only", "evidence", 0.0, (MAIN_BUDGET,)
    ),
    Section("Nothing to learn; reviewer: exact (uses_oracle)", "exact", 0.0, (MAIN_BUDGET,)),
)


def main(asked: Demo, *, as_json: bool) -> None:
    """Run the grid, print its tables and one episode's tree, write the page.

    Raises:
        OutputExists, UsageError, StoreError: the page has no place. Nothing was played where that can be seen before.
    """
    with folder_for(asked.out) as (folder, name):
        _run(asked, folder, name, as_json=as_json)
    if not as_json:
        print(f"open {name / PAGE} in a browser, and the tree of that episode: {name / TREE}")


def _run(asked: Demo, folder: Path, name: Path, *, as_json: bool) -> None:
    started = time.perf_counter()
    counts = {True: asked.episodes, False: asked.sweep_episodes}
    cells = [
        Cell(section.reviewer, mechanism, section.trust, budget, counts[budget == MAIN_BUDGET])
        for section in SECTIONS
        for mechanism in MECHANISMS
        for budget in section.budgets
    ]
    rows = dict(_results(cells, asked.workers, quiet=as_json))
    parts = [_part(cells, rows, section) for section in SECTIONS]
    about = (
        f"{ENV}, scripted expert (slip {SLIP}), seeds {FIRST_SEED}.. held out, B_rb = {ROLLBACKS}, L = 4 to 8. Success "
        f"in %, 95 % Wilson intervals; n = {asked.episodes} at B_agent = {MAIN_BUDGET}, else {asked.sweep_episodes}."
    )
    figures = [{**_settings(cell), **summary_of(rows[cell]).to_json()} for cell in cells]
    record = _rescued()
    command = f"rir-gym demo --episodes {asked.episodes} --sweep-episodes {asked.sweep_episodes}"
    write_demo(folder, parts, about=about, command=command, figures=figures, record=record)
    if as_json:
        print(json.dumps({"out": str(name), "page": str(name / PAGE), "cells": figures}))
        return
    console = Console()
    console.print(f"{about}\n", markup=False)
    for part in parts:
        console.print(budget_table(part.summaries, title=part.title))
        at_main = {mechanism: by_budget[MAIN_BUDGET] for mechanism, by_budget in part.summaries.items()}
        console.print(count_table(at_main, title=f"at B_agent = {MAIN_BUDGET}"))
        console.print(part.margin, markup=False)
        console.print()
    if record is not None:
        _show_tree(console, record)
    console.print(f"\n{sum(map(len, rows.values()))} episodes in {time.perf_counter() - started:.0f} s", markup=False)


def _part(cells: list[Cell], rows: dict[Cell, list[Row]], section: Section) -> Part:
    cell_rows = {m: {b: rows[_cell(cells, section, m, b)] for b in section.budgets} for m in MECHANISMS}
    summaries = {m: {b: summary_of(r) for b, r in by_budget.items()} for m, by_budget in cell_rows.items()}
    return Part(section.title, summaries, MAIN_BUDGET, _margin(cell_rows))


def _cell(cells: list[Cell], section: Section, mechanism: str, budget: int) -> Cell:
    key = (section.reviewer, mechanism, section.trust, budget)
    return next(cell for cell in cells if (cell.reviewer, cell.mechanism, cell.trust, cell.agent_calls) == key)


def _settings(cell: Cell) -> dict[str, object]:
    names = {"reviewer": cell.reviewer, "uses_oracle": cell.reviewer == "exact", "mechanism": cell.mechanism}
    return {**names, "trust": cell.trust, "agent_calls_budget": cell.agent_calls}


def _margin(cells: dict[str, dict[int, list[Row]]]) -> str:
    """RIR against the best other mechanism at the main budget, on the same seeds."""
    rival = max((m for m in MECHANISMS if m != "rir"), key=lambda m: summary_of(cells[m][MAIN_BUDGET]).success[0])
    mine, theirs = ([row.success for row in cells[m][MAIN_BUDGET]] for m in ("rir", rival))
    mean, low, high = paired_difference(mine, theirs)
    interval = f"95 % [{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"rir − {rival} at B_agent = {MAIN_BUDGET}, same seeds: {100 * mean:+.1f} points, {interval}"


def _results(cells: list[Cell], workers: int, *, quiet: bool) -> Iterator[tuple[Cell, list[Row]]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} episodes"),
    )
    console = Console(stderr=True)
    hidden = quiet or not console.is_terminal
    bar = Progress(*columns, TimeRemainingColumn(), console=console, disable=hidden, transient=True)
    with bar, ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        task = bar.add_task("demo", total=sum(cell.seeds for cell in cells))
        waiting = {pool.submit(run_cell, cell): cell for cell in cells}
        for done in as_completed(waiting):
            bar.advance(task, waiting[done].seeds)
            yield waiting[done], done.result()


def run_cell(cell: Cell) -> list[Row]:
    """All episodes of one cell, in the order of their seeds."""
    return [row_of(episode) for episode in _episodes(cell)]


def _episodes(cell: Cell) -> Iterator[Episode]:
    mechanism = scripted_mechanism(ENV, cell.mechanism, reviewer=cell.reviewer, trust=cell.trust, slip=SLIP)
    budget = Budget(cell.agent_calls, ROLLBACKS)
    for first in range(FIRST_SEED, FIRST_SEED + cell.seeds, _LOCKSTEP):
        seeds = range(first, min(first + _LOCKSTEP, FIRST_SEED + cell.seeds))
        yield from run(_worlds()[: len(seeds)], mechanism, budget=budget, seeds=seeds)


@cache
def _worlds() -> tuple[RollbackWrapper, ...]:
    return tuple(make(ENV, {}) for _ in range(_LOCKSTEP))


def _rescued() -> dict[str, Any] | None:
    """The record of the first held-out episode in which full RIR rolled back and then succeeded."""
    from rir_gym.data.records import episode_record, header_of

    cell = Cell("evidence", "rir", 0.5, MAIN_BUDGET, _LOCKSTEP)
    mechanism = scripted_mechanism(ENV, cell.mechanism, reviewer=cell.reviewer, trust=cell.trust, slip=SLIP)
    for episode, env in zip(_episodes(cell), _worlds(), strict=True):
        if episode.success and episode.ledger.rollbacks:
            return episode_record(episode, header_of(env, mechanism, agent="scripted"))
    return None


def _show_tree(console: Console, record: dict[str, Any]) -> None:
    from rir_gym.view.tree import episode_summary, episode_tree

    console.print("The first of these episodes in which rir rolled back and succeeded:")
    console.print(episode_summary(record))
    console.print(episode_tree(record, width=console.width))

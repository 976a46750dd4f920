"""Summaries as terminal tables. Knows figures and names, nothing of how they came about."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.table import Table

from rir_gym.bench.metrics import COUNTS, Summary

__all__ = ["budget_table", "count_table", "summary_table"]


def rate(summary: Summary) -> str:
    """Success in % with its 95 % Wilson interval."""
    mean, low, high = (100 * value for value in summary.success)
    return f"{mean:.1f} [{low:.0f},{high:.0f}]"


def budget_table(summaries: Mapping[str, Mapping[int, Summary]], *, title: str) -> Table:
    """Success: rows are mechanisms, columns budgets. Fits 80 columns with four budgets."""
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False
    )
    table.add_column("success %", no_wrap=True)
    for budget in next(iter(summaries.values())):
        table.add_column(f"B = {budget}", justify="right", no_wrap=True)
    for mechanism, by_budget in summaries.items():
        table.add_row(mechanism, *(rate(summary) for summary in by_budget.values()))
    return table


def count_table(summaries: Mapping[str, Summary], *, title: str) -> Table:
    """What the ledger holds, as means an episode."""
    names = ("agent_calls", "steps", "reviews", "rollbacks", "corrections", "auxiliary")
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False
    )
    table.add_column("per episode", no_wrap=True)
    for name in names:
        table.add_column(name.removeprefix("agent_"), justify="right", no_wrap=True)
    for mechanism, summary in summaries.items():
        table.add_row(mechanism, *(f"{getattr(summary, name):.2f}" for name in names))
    return table


def summary_table(summary: Summary, *, mechanism: str) -> Table:
    """One mechanism, one row a figure."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False)
    table.add_column(f"{mechanism}, n = {summary.n}", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_row("success % [95 %]", rate(summary))
    table.add_row("score", f"{summary.score:.3f}")
    for name in COUNTS:
        table.add_row(f"{name.replace('_', ' ')} per episode", f"{getattr(summary, name):.2f}")
    return table

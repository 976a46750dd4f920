"""The report of a run: for each section its tables and plots, with n and intervals, and who reads the oracle.

Values come from ``folder.read_run``; here they are only arranged and put into words. This module knows no environment
by name. The mechanism ``rir`` is the one whose margin over the best other is printed, where a section has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rir_gym.bench.bootstrap import iqm_figure
from rir_gym.bench.document import Block, Heading, Plot, Table, Text
from rir_gym.bench.figures import margin
from rir_gym.bench.folder import Run
from rir_gym.bench.knowing import KNOWING
from rir_gym.bench.plan import Column, named
from rir_gym.bench.report_plots import budget_plots, horizon_plots, scatter
from rir_gym.bench.rows import (
    FIELDS,
    ORACLE_MARK,
    OURS,
    Row,
    counts_said,
    groups,
    named_fields,
    row_of,
    rows_of,
    said,
    seeds_said,
    shown,
    stem,
)
from rir_gym.bench.suite import Section
from rir_gym.bench.truth import TRUTH
from rir_gym.view.plots import bar_rows

__all__ = ["figures_json", "report_blocks"]

_COSTS = ("agent_calls", "steps", "reviews", "coarse", "fine", "patches", "rollbacks", "corrections", "auxiliary")
_TOKENS = ("prompt_tokens", "reused_tokens", "generated_tokens", "subrequests", "reasks", "unreadable")


def report_blocks(run: Run, *, folder: str) -> list[Block]:
    """All of the report, in order."""
    suite, about = run.plan.suite, run.about
    test, training = (seeds_said(range(*about["seeds"][name])) for name in ("test", "training"))
    facts = [
        f"Test seeds {test}; training seeds {training}.",
        f"Revision {about['revisions'][-1]}; " + ", ".join(f"{k} {v}" for k, v in about["versions"].items()) + ".",
        f"A terminal review is {'on' if suite.review_terminal else 'off'} in all cells.",
    ]
    if about["model"]:
        facts.append("Model: " + ", ".join(f"{name} {value}" for name, value in about["model"].items()) + ".")
    blocks: list[Block] = [
        Heading(1, f"{suite.name}: {suite.about}"),
        Text(" ".join(facts)),
        Text(f"rir-gym bench {suite.name} --out {folder}\nrir-gym report {folder}", code=True),
        Text(
            f"{ORACLE_MARK} reads the oracle. Intervals are 95 %: Wilson's for success, else percentiles of 2,000 "
            "resamples of episodes. A number in parentheses is n, how many things the value is a mean over, where "
            "that is not the number of episodes. – stands for what did not occur or is not known."
        ),
    ]
    blocks += [Text(note) for note in run.notes]
    blocks += [Text(f"{name}: {why}.") for name, why in sorted(about["absent"].items())]
    for world in suite.worlds:
        blocks.append(
            Text(
                f"{world.name}: {world.env}, arguments {dict(world.arguments)}; B_agent = ceil(1.8 × {world.gold:g}) = "
                f"{world.agent_calls}, the median gold length of the {world.gold_of} on the training seeds:"
            )
        )
        blocks.append(Text(world.measured, code=True))
    for section in suite.sections:
        blocks += _section(run, section)
    return blocks


def figures_json(run: Run) -> dict[str, Any]:
    """Every figure of every cell as plain JSON values."""
    rows = []
    for section in run.plan.suite.sections:
        for column in run.plan.columns(section):
            for row in rows_of(run, section, column):
                where = {name: getattr(column, name) for name in FIELDS}
                where["horizon"] = list(column.horizon)
                where |= {"section": section.name, "mechanism": row.mechanism, "uses_oracle": row.oracle}
                rows.append({**where, **row.cell.to_json()})
    return {"suite": run.plan.suite.name, "revisions": run.about["revisions"], "notes": list(run.notes), "cells": rows}


# --- a section --------------------------------------------------------------------------------------------------------


def _section(run: Run, section: Section) -> Iterator[Block]:
    columns = [column for column in run.plan.columns(section) if rows_of(run, section, column)]
    yield Heading(2, section.title)
    if not columns:
        yield Text("Nothing of it has been played yet.")
        return
    swept = [name for name in FIELDS if len({getattr(column, name) for column in columns}) > 1]
    fixed = [name for name in FIELDS if name not in swept]
    yield Text("In all of it: " + named_fields(columns[0], fixed) + ".")
    if section.layout == "ablation":
        yield from _ablation(run, section, columns, swept)
    else:
        yield from _success(run, section, columns, swept)
    if len(section.worlds) > 1:
        yield from _worlds_together(run, section, columns, swept)
    focus = _focus(run, section, columns)
    for column in columns:
        yield from _details(run, section, column, swept, folded=column not in focus)
    yield from budget_plots(run, section, columns, swept)
    yield from horizon_plots(run, section, columns, swept)


def _success(run: Run, section: Section, columns: Sequence[Column], swept: Sequence[str]) -> Iterator[Block]:
    table = []
    for mechanism in section.mechanisms:
        found = [row_of(run, section, column, mechanism) for column in columns]
        name = next((row.name for row in found if row is not None), mechanism)
        table.append([name, *(shown("success", row) for row in found)])
    if OURS in section.mechanisms and len(section.mechanisms) > 1:
        table.append([f"{OURS} − best other", *(_margin(run, section, column) for column in columns)])
    head = ["mechanism", *(named_fields(column, swept) or "success" for column in columns)]
    yield Table(
        "Success in % [95 %] (n). The margin is over the mechanism named with it, on the same seeds: points [95 %, "
        "paired bootstrap] (n).",
        head,
        table,
    )


def _margin(run: Run, section: Section, column: Column) -> str:
    rows = {row.mechanism: row for row in rows_of(run, section, column)}
    ours = rows.pop(OURS, None)
    if ours is None or not rows:
        return "–"
    rival = max(rows.values(), key=lambda row: (row.cell.figures["success"].value or 0.0, row.mechanism))
    figure = margin(ours.cell, rival.cell)
    if figure.value is None:
        return "–"
    interval = "" if figure.low is None else f" [{100 * figure.low:+.1f}, {100 * (figure.high or 0):+.1f}]"
    return f"{100 * figure.value:+.1f}{interval} ({figure.n}) {rival.mechanism}"


def _ablation(run: Run, section: Section, columns: Sequence[Column], swept: Sequence[str]) -> Iterator[Block]:
    names = ("success", "score", "steps", "reviews", "rollbacks", "auxiliary")
    head = ["mechanism", "SR % (n)", "DR (score)", "steps", "reviews", "rollbacks", "auxiliary calls"]
    for at, column in groups(columns, ("world", "reviewer")):
        table = [
            [
                row.name + (f", {named_fields(each, inner)}" if inner else ""),
                *(shown(name, row) for name in names),
            ]
            for each in column
            for inner in [[name for name in swept if name not in ("world", "reviewer")]]
            for row in rows_of(run, section, each)
        ]
        yield Table(f"{at} Means an episode [95 %].".strip(), head, table)


def _worlds_together(run: Run, section: Section, columns: Sequence[Column], swept: Sequence[str]) -> Iterator[Block]:
    inner = [name for name in FIELDS if name not in ("world", "agent_calls")]
    for at, some in groups(columns, inner, shown=[name for name in swept if name not in ("world", "agent_calls")]):
        if len({column.world for column in some}) < len(section.worlds) or len(some) != len(section.worlds):
            continue
        table = []
        for mechanism in section.mechanisms:
            rows = [row_of(run, section, column, mechanism) for column in some]
            scores = [[s for _, s in row.cell.by_seed.values() if s is not None] for row in rows if row is not None]
            if len(scores) < len(some) or not all(scores):
                continue
            name = next(row.name for row in rows if row is not None)
            rates = [row.cell.figures["success"].value or 0.0 for row in rows if row is not None]
            mean = f"{100 * sum(rates) / len(rates):.1f}"
            table.append([name, mean, said("iqm", iqm_figure(scores))])
        if table:
            caption = f"All worlds together. {at} Interquartile mean of scores, resampled within each world."
            yield Table(caption, ["mechanism", "mean success %", "score, IQM"], table)


def _details(run: Run, section: Section, column: Column, swept: Sequence[str], *, folded: bool) -> Iterator[Block]:
    rows = rows_of(run, section, column)
    at = named_fields(column, swept)
    where = f" at {at}" if at else ""
    if not folded:
        yield Heading(3, f"Costs and truth{where}")
    tokens = [name for name in _TOKENS if any(row.cell.figures[name].value for row in rows)]
    costs = ("score", "iqm", *_COSTS, "depth", *tokens)
    yield _table(f"Costs{where}: means an episode (depth: a rollback).", costs, rows, folded=folded)
    told = [name for name in TRUTH if any(row.cell.figures[name].n for row in rows)]
    if told:
        yield _table(f"Against the truth{where}: shares in %, delay and progress in steps.", told, rows, folded=folded)
    told = [name for name in KNOWING if any(row.cell.figures[name].n for row in rows)]
    if told:
        yield _table(f"Memory and agreement with the expert{where}: shares in %.", told, rows, folded=folded)
    if folded:
        return
    prefix = stem(section.name, at)
    for name in ("auxiliary", "generated_tokens"):
        if name == "auxiliary" or name in tokens:
            title = f"Success against {name.replace('_', ' ')}{where}, {counts_said(rows)}"
            yield Plot(f"{prefix}-{name.replace('_', '-')}", title, scatter(rows, name, title))
    deep = [row for row in rows if row.cell.depths]
    if deep:
        title = f"Depth of rollbacks{where}"
        svg = bar_rows(
            [(row.name, row.cell.depths) for row in deep],
            title=title,
            x_label="depth k: steps taken back",
            styles=[row.style for row in deep],
        )
        yield Plot(f"{prefix}-depth", title, svg)


def _focus(run: Run, section: Section, columns: Sequence[Column]) -> list[Column]:
    """The columns whose details are shown: of each world and reviewer the first at the world's own budget."""
    found: list[Column] = []
    for _, some in groups(columns, ("world", "reviewer")):
        own = named(run.plan.suite.worlds, some[0].world).agent_calls
        found.append(next((column for column in some if column.agent_calls == own), some[0]))
    return found


def _table(caption: str, names: Sequence[str], rows: Sequence[Row], *, folded: bool) -> Table:
    head = ["mechanism", "n", *(name.replace("_", " ") for name in names)]
    table = [[row.name, str(row.cell.n), *(shown(name, row) for name in names)] for row in rows]
    return Table(caption, head, table, folded=folded)

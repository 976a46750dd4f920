"""The plots of a section: success against costs, depths, budgets and review horizons. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rir_gym.bench.document import Block, Plot
from rir_gym.bench.folder import Run
from rir_gym.bench.plan import Column
from rir_gym.bench.rows import FIELDS, OURS, Row, counts_said, groups, points_of, row_of, rows_of, stem
from rir_gym.bench.suite import Section
from rir_gym.view.plots import Mark, Series, heat_map, line_plot, scatter_plot

__all__ = ["budget_plots", "horizon_plots", "scatter"]


def scatter(rows: Sequence[Row], name: str, title: str) -> str:
    marks = [
        Mark(row.mechanism, row.cell.figures[name].value or 0.0, points_of(row), row.style, row.oracle) for row in rows
    ]
    return scatter_plot(
        marks,
        title=title,
        x_label=f"{name.replace('_', ' ')}{' calls' * (name == 'auxiliary')}, mean an episode",
        y_label="success %, 95 % interval",
        y_range=(0, 100),
        flagged="reads the oracle" if any(row.oracle for row in rows) else "",
    )


def budget_plots(run: Run, section: Section, columns: Sequence[Column], swept: Sequence[str]) -> Iterator[Block]:
    if "agent_calls" not in swept:
        return
    inner = [name for name in FIELDS if name != "agent_calls"]
    for at, some in groups(columns, inner, shown=[name for name in swept if name != "agent_calls"]):
        if len(some) < 2:
            continue
        series = []
        for number, mechanism in enumerate(section.mechanisms):
            found = [(column.agent_calls, row_of(run, section, column, mechanism)) for column in some]
            points = [(float(calls), points_of(row)) for calls, row in found if row is not None]
            if points:
                name = next(row.name for _, row in found if row)
                series.append(Series(name, points, number, strong=mechanism == OURS))
        shown = [row for column in some for row in rows_of(run, section, column)]
        title = f"Success against budget, {counts_said(shown)}. {at}".strip()
        svg = line_plot(
            series,
            title=title,
            x_label="B_agent: agent calls an episode",
            y_label="success %, 95 % interval",
            y_range=(0, 100),
        )
        yield Plot(stem(section.name, at, "budget"), title, svg)


def horizon_plots(run: Run, section: Section, columns: Sequence[Column], swept: Sequence[str]) -> Iterator[Block]:
    if "horizon" not in swept:
        return
    inner = [name for name in FIELDS if name != "horizon"]
    for at, some in groups(columns, inner, shown=[name for name in swept if name != "horizon"]):
        lows = sorted({column.horizon[0] for column in some})
        highs = sorted({column.horizon[1] for column in some})
        for mechanism in section.mechanisms:
            cells = {}
            for column in some:
                row = row_of(run, section, column, mechanism)
                if row is not None:
                    rate, low, high = points_of(row)
                    place = lows.index(column.horizon[0]), highs.index(column.horizon[1])
                    cells[place] = rate, f"{rate:.1f} [{low:.0f}, {high:.0f}]\nn = {row.cell.n}"
            if len(cells) > 1:
                title = f"Success % of {mechanism} by (L_min, L_max). {at}".strip()
                svg = heat_map(
                    [f"{low:g}" for low in lows],
                    [f"{high:g}" for high in highs],
                    cells,
                    title=title,
                    row_label="L_min",
                    column_label="L_max",
                )
                yield Plot(stem(section.name, at, mechanism, "horizon"), title, svg)

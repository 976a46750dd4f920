"""The rows of a report and their words: a mechanism in a column, and how figures and columns are written. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rir_gym.bench.bootstrap import Figure
from rir_gym.bench.figures import CellFigures
from rir_gym.bench.folder import Run
from rir_gym.bench.knowing import KNOWING
from rir_gym.bench.plan import Column
from rir_gym.bench.suite import Section
from rir_gym.bench.truth import TRUTH

__all__ = [
    "FIELDS",
    "ORACLE_MARK",
    "OURS",
    "Row",
    "counts_said",
    "groups",
    "named_fields",
    "points_of",
    "row_of",
    "rows_of",
    "said",
    "seeds_said",
    "shown",
    "stem",
]

ORACLE_MARK = "†"
OURS = "rir"
FIELDS = {
    "world": "world",
    "reviewer": "reviewer",
    "trust": "trust",
    "slip": "ε",
    "agent_calls": "B",
    "rollbacks": "B_rb",
    "horizon": "L",
}
_SHARES = frozenset(("success", *TRUTH, *KNOWING)) - {"delay", "progress_lost"}


@dataclass(frozen=True, slots=True)
class Row:
    """One mechanism in one column: its figures, whether it reads the oracle, and its place in the style of plots."""

    mechanism: str
    cell: CellFigures
    oracle: bool
    style: int

    @property
    def name(self) -> str:
        return self.mechanism + f" {ORACLE_MARK}" * self.oracle


def row_of(run: Run, section: Section, column: Column, mechanism: str) -> Row | None:
    digest = run.plan.places[section.name, column, mechanism]
    if digest not in run.cells:
        return None
    return Row(mechanism, run.cells[digest], run.oracle[digest], section.mechanisms.index(mechanism))


def rows_of(run: Run, section: Section, column: Column) -> list[Row]:
    found = [row_of(run, section, column, mechanism) for mechanism in section.mechanisms]
    return [row for row in found if row is not None]


def groups(
    columns: Sequence[Column], names: Sequence[str], *, shown: Sequence[str] | None = None
) -> list[tuple[str, list[Column]]]:
    """Columns that agree in the fields of these names, in order, with what they agree in (and differ from others)."""
    groups: dict[tuple[Any, ...], list[Column]] = {}
    for column in columns:
        groups.setdefault(tuple(getattr(column, name) for name in names), []).append(column)
    told = names if shown is None else shown
    if len(groups) == 1:
        return [("", next(iter(groups.values())))]
    return [(f"{named_fields(some[0], told)}." if told else "", some) for some in groups.values()]


def named_fields(column: Column, names: Sequence[str]) -> str:
    """ "ε 0.1, B 29": the fields of a column in words."""
    said = []
    for name in names:
        value = getattr(column, name)
        if name == "horizon":
            said.append(f"L {value[0]:g} to {value[1]:g}")
        elif name in ("world", "reviewer"):
            said.append(f"{name} {value}")
        else:
            said.append(f"{FIELDS[name]} {value if isinstance(value, str) else format(value, 'g')}")
    return ", ".join(said)


def shown(name: str, row: Row | None) -> str:
    """ "80.0 [75.8, 83.6]"; its n follows where that is not the number of episodes, and with success always."""
    if row is None:
        return "–"
    figure = row.cell.figures[name]
    return said(name, figure, n=name == "success" or figure.n != row.cell.n)


def said(name: str, figure: Figure, *, n: bool = True) -> str:
    """A figure in words; shares in %."""
    if figure.value is None:
        return "–"
    scale, digits = (100, 1) if name in _SHARES else (1, 3 if name in ("score", "iqm") else 2)
    if name.endswith("_tokens"):
        digits = 0
    value = f"{scale * figure.value:.{digits}f}"
    count = f" ({figure.n})" if n else ""
    if figure.low is None or figure.high is None:
        return f"{value}{count}"
    return f"{value} [{scale * figure.low:.{digits}f}, {scale * figure.high:.{digits}f}]{count}"


def points_of(row: Row) -> tuple[float, float, float]:
    figure = row.cell.figures["success"]
    return 100 * (figure.value or 0.0), 100 * (figure.low or 0.0), 100 * (figure.high or 0.0)


def seeds_said(seeds: range) -> str:
    return f"{seeds[0]} to {seeds[-1]}" + (f" in steps of {seeds.step}" if seeds.step != 1 else "")


def counts_said(rows: Sequence[Row]) -> str:
    """How many episodes each value is a mean over."""
    counts = sorted({row.cell.n for row in rows})
    return f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"


def stem(*parts: str) -> str:
    """A file name of letters, digits and hyphens."""
    text = re.sub(r"\.(?!\d)", "", "-".join(part for part in parts if part)).replace("ε", "slip")
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.").lower() or "plot"

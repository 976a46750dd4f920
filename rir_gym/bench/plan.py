"""A suite unrolled: the cells that have to be played, and which cell stands where in which table.

A cell is one mechanism with everything that its episodes depend on but the seed; cells of several tables that are the
same are played once. The order of playing is world by world, seed by seed, and the mechanism varies fastest, so that a
run that was cut short holds the same seeds of every mechanism. This module knows no mechanism and no environment.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rir_gym.bench.suite import OWN, Reviewer, Section, Suite, World
from rir_gym.data.keys import digest_of
from rir_gym.errors import UnknownName
from rir_gym.jsonable import encode

__all__ = ["BenchCell", "Column", "Plan", "plan_of"]

DEFAULT_ROLLBACKS = 3


@dataclass(frozen=True, slots=True)
class Column:
    """What the cells of one column of a table have in common. ``rollbacks`` may be "own"."""

    world: str
    reviewer: str
    trust: float
    slip: float
    agent_calls: int
    rollbacks: int | str
    horizon: tuple[float, float]


@dataclass(frozen=True, slots=True)
class BenchCell:
    """One mechanism in one column, with all that its episodes depend on but the seed."""

    world: World
    mechanism: str
    reviewer: Reviewer
    trust: float
    slip: float
    agent_calls: int
    rollbacks: int
    l_min: float
    l_max: float
    review_terminal: bool
    memory_position: str

    def config(self) -> dict[str, Any]:
        """Plain JSON values: what the data depend on."""
        whole = asdict(self)
        whole["world"] = {"env": self.world.env, "arguments": dict(self.world.arguments)}
        del whole["reviewer"]["name"]
        plain: dict[str, Any] = encode(whole)
        return plain


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything to be played.

    Args:
        cells: by digest, in the order of their tables.
        episodes: n by digest: the largest of the tables that show the cell.
        places: digest by (section name, column, mechanism).
    """

    suite: Suite
    cells: Mapping[str, BenchCell]
    episodes: Mapping[str, int]
    places: Mapping[tuple[str, Column, str], str]

    def columns(self, section: Section) -> list[Column]:
        """The columns of a table, in order."""
        return list(columns_of(self.suite, section))

    def order(self) -> Iterator[tuple[str, int]]:
        """(digest, seed) of every episode, in the order of playing."""
        by_world: dict[str, list[str]] = {}
        for digest, cell in self.cells.items():
            by_world.setdefault(digest_of(cell.config()["world"]), []).append(digest)
        for digests in by_world.values():
            most = max(self.episodes[digest] for digest in digests)
            for number, seed in enumerate(self.suite.test_seeds(most)):
                for digest in digests:
                    if number < self.episodes[digest]:
                        yield digest, seed


def plan_of(suite: Suite, *, extra: Mapping[str, Any] | None = None) -> Plan:
    """Unroll a suite.

    Args:
        extra: more that the data of every cell with a model depend on (which model); goes into those cells' digests.
    """
    cells: dict[str, BenchCell] = {}
    episodes: dict[str, int] = {}
    places: dict[tuple[str, Column, str], str] = {}
    for section in suite.sections:
        for column, mechanism in itertools.product(columns_of(suite, section), section.mechanisms):
            cell = _cell(suite, column, mechanism)
            config = cell.config()
            if extra and cell.reviewer.needs_model:
                config = {**config, "model": dict(extra)}
            digest = digest_of(config)
            cells.setdefault(digest, cell)
            episodes[digest] = max(section.episodes, episodes.get(digest, 0))
            places[section.name, column, mechanism] = digest
    return Plan(suite, cells, episodes, places)


def columns_of(suite: Suite, section: Section) -> Iterator[Column]:
    """The columns of a section: the product of its lists, the first list slowest."""
    for world, reviewer, trust, slip, rollbacks, horizon in itertools.product(
        section.worlds, section.reviewers, section.trust, section.slip, section.rollbacks, section.horizons
    ):
        for calls in section.agent_calls or (named(suite.worlds, world).agent_calls,):
            yield Column(world, reviewer, trust, slip, calls, rollbacks, horizon)


def named(items: Any, name: str) -> Any:
    """The item of a name.

    Raises:
        UnknownName: there is none.
    """
    found = next((item for item in items if item.name == name), None)
    if found is None:
        raise UnknownName("name", name, [item.name for item in items])
    return found


def _cell(suite: Suite, column: Column, mechanism: str) -> BenchCell:
    rollbacks = suite.caps.get(mechanism, DEFAULT_ROLLBACKS) if column.rollbacks == OWN else int(column.rollbacks)
    return BenchCell(
        world=named(suite.worlds, column.world),
        mechanism=mechanism,
        reviewer=named(suite.reviewers, column.reviewer),
        trust=float(column.trust),
        slip=float(column.slip),
        agent_calls=column.agent_calls,
        rollbacks=rollbacks,
        l_min=float(column.horizon[0]),
        l_max=float(column.horizon[1]),
        review_terminal=suite.review_terminal,
        memory_position=suite.memory_position,
    )

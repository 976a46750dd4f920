"""A suite: which mechanisms are compared, where, with whom, on which seeds and budgets. All of it is data.

``suite_file`` reads one. Everything is checked when it is made. Mechanisms, environments and arguments are names and
values to be looked up elsewhere: this module knows none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rir_gym.errors import UnknownName, UsageError

__all__ = ["Reviewer", "Section", "Suite", "World", "budget_for"]

ROLES = {
    "act": ("expert", "model"),
    "review": ("oracle", "evidence", "model"),
    "where": ("oracle", "evidence", "model"),
    "what": ("scripted", "model"),
}
LAYOUTS = ("grid", "ablation")
OWN = "own"


@dataclass(frozen=True, slots=True)
class World:
    """An environment with its arguments, and B_agent there.

    Args:
        gold: the median number of calls of ``gold_of`` over the training seeds; B_agent is ceil(1.8 gold).
        gold_of: "expert" (the environment's expert without misbeliefs and slips: it has to find out what it does not
            know) or "oracle" (a plan that knows everything).
        measured: the command that measured ``gold``.
        training_arguments: what differs from ``arguments`` on the training seeds (another split).
    """

    name: str
    env: str
    agent_calls: int
    gold: float
    gold_of: str
    measured: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    training_arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _whole(f"worlds.{self.name}.agent_calls", self.agent_calls, 1)
        _number(f"worlds.{self.name}.gold", self.gold, 1, math.inf)
        _one_of(f"worlds.{self.name}.gold_of", self.gold_of, ("expert", "oracle"))
        if self.agent_calls != budget_for(self.gold):
            raise UsageError(
                f"worlds.{self.name}.agent_calls={self.agent_calls!r}: ceil(1.8 gold) = {budget_for(self.gold)}"
            )


@dataclass(frozen=True, slots=True)
class Reviewer:
    """Who plays the roles, and how well: the instruments of a column.

    Args:
        act: "expert" or "model".
        review, where: "oracle" (reads the oracle, degraded as below), "evidence" (sees what the agent sees) or "model".
        what: "scripted" or "model".
        recall, false_alarm, exactness: probabilities; ``delay``: steps that a loss goes unnoticed. Of the oracle's.
    """

    name: str
    review: str
    where: str
    act: str = "expert"
    what: str = "scripted"
    recall: float = 1.0
    false_alarm: float = 0.0
    delay: int = 0
    exactness: float = 1.0

    def __post_init__(self) -> None:
        for role, known in ROLES.items():
            _one_of(f"reviewers.{self.name}.{role}", getattr(self, role), known)
        for name in ("recall", "false_alarm", "exactness"):
            _number(f"reviewers.{self.name}.{name}", getattr(self, name), 0, 1)
        _whole(f"reviewers.{self.name}.delay", self.delay, 0)

    @property
    def reads_oracle(self) -> bool:
        """Whether a role reads the oracle."""
        return "oracle" in (self.review, self.where)

    @property
    def needs_model(self) -> bool:
        """Whether a role is played by a model."""
        return "model" in (self.act, self.review, self.where, self.what)


@dataclass(frozen=True, slots=True)
class Section:
    """One table: every mechanism in every column; a column is one combination of the lists.

    Args:
        worlds, reviewers: names of the suite's.
        mechanisms: names; their order is that of the rows.
        trust, slip: of the expert.
        agent_calls: B_agent; empty is that of the world.
        rollbacks: B_rb; "own" is a mechanism's own cap (``Suite.caps``).
        horizons: pairs (L_min, L_max).
        episodes: n, the first of the suite's test seeds.
        layout: "grid" or "ablation" (the paper's columns).
    """

    name: str
    title: str
    worlds: tuple[str, ...]
    reviewers: tuple[str, ...]
    mechanisms: tuple[str, ...]
    episodes: int
    trust: tuple[float, ...] = (0.5,)
    slip: tuple[float, ...] = (0.1,)
    agent_calls: tuple[int, ...] = ()
    rollbacks: tuple[int | str, ...] = (OWN,)
    horizons: tuple[tuple[float, float], ...] = ((4, 8),)
    layout: str = "grid"

    def __post_init__(self) -> None:
        at = f"sections.{self.name}"
        for name in ("worlds", "reviewers", "mechanisms", "trust", "slip", "rollbacks", "horizons"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise UsageError(f"{at}.{name}={list(values)!r}: at least one, and none twice")
        _whole(f"{at}.episodes", self.episodes, 1)
        _one_of(f"{at}.layout", self.layout, LAYOUTS)
        for name in ("trust", "slip"):
            for value in getattr(self, name):
                _number(f"{at}.{name}", value, 0, 1)
        for calls in self.agent_calls:
            _whole(f"{at}.agent_calls", calls, 1)
        for cap in self.rollbacks:
            if cap != OWN:
                _whole(f"{at}.rollbacks", cap, 1)
        for horizon in self.horizons:
            if not isinstance(horizon, tuple) or len(horizon) != 2:
                raise UsageError(f"{at}.horizons={horizon!r}: pairs [L_min, L_max]")
            low, high = horizon
            _number(f"{at}.horizons", low, 1, math.inf)
            _number(f"{at}.horizons", high, low, math.inf)


@dataclass(frozen=True, slots=True)
class Suite:
    """All of it.

    Args:
        first_seed: of the test seeds; a section's n are those that count up from it.
        training_seeds: [first, number]; what was fixed in advance was fixed on these. Disjoint from the test seeds.
        seed_step: from one seed to the next, of both (2 where an environment's splits are the odd and even seeds).
        caps: B_rb by mechanism where ``rollbacks`` is "own"; 3 for any other.
        review_terminal, memory_position: equal for all cells.
        labels: whether the truth about every episode is looked up after the run.
    """

    name: str
    about: str
    worlds: tuple[World, ...]
    reviewers: tuple[Reviewer, ...]
    sections: tuple[Section, ...]
    first_seed: int
    training_seeds: tuple[int, int]
    seed_step: int = 1
    caps: Mapping[str, int] = field(default_factory=dict)
    review_terminal: bool = True
    memory_position: str = "system"
    labels: bool = True

    def __post_init__(self) -> None:
        for what in ("worlds", "reviewers", "sections"):
            names = [each.name for each in getattr(self, what)]
            if not names or len(set(names)) != len(names):
                raise UsageError(f"{what}={names!r}: at least one, and no name twice")
        for section in self.sections:
            for what, known in (("worlds", self.worlds), ("reviewers", self.reviewers)):
                for name in getattr(section, what):
                    if name not in {each.name for each in known}:
                        raise UnknownName(f"sections.{section.name}.{what}", name, [each.name for each in known])
        _whole("first_seed", self.first_seed, 0)
        _whole("seed_step", self.seed_step, 1)
        if len(self.training_seeds) != 2:
            raise UsageError(f"training_seeds={list(self.training_seeds)!r}: [first, number]")
        _whole("training_seeds", self.training_seeds[0], 0)
        _whole("training_seeds", self.training_seeds[1], 1)
        test = self.test_seeds(max(section.episodes for section in self.sections))
        if both := set(test).intersection(self.training):
            raise UsageError(f"training_seeds={list(self.training_seeds)!r}: {min(both)} is a test seed, too")
        for name, cap in self.caps.items():
            _whole(f"caps.{name}", cap, 1)
        _one_of("memory_position", self.memory_position, ("system", "tail"))

    @property
    def training(self) -> range:
        """The training seeds."""
        first, count = self.training_seeds
        return range(first, first + self.seed_step * count, self.seed_step)

    def test_seeds(self, episodes: int) -> range:
        """The first of the test seeds."""
        return range(self.first_seed, self.first_seed + self.seed_step * episodes, self.seed_step)


def budget_for(gold: float) -> int:
    """B_agent = ceil(1.8 gold), in exact arithmetic for halves."""
    return -(-round(gold * 18) // 10)


def _whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name}={value!r}: an int of at least {least}")


def _number(name: str, value: object, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise UsageError(f"{name}={value!r}: a number from {least} to {most}")


def _one_of(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise UnknownName(name, value, known)

"""Budgets and the ledger's law hold for any mechanism in any environment: random ones of both."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import Maze, check_budgets, check_choices, check_counts, check_views

from rir_gym import (
    Budget,
    Decision,
    DecisionKind,
    Episode,
    Fact,
    Mechanism,
    Patch,
    Restore,
    RestorePoint,
    Restriction,
    RollbackWrapper,
    Verdict,
    VerdictKind,
    View,
    run,
)
from rir_gym.labels import Distances, labels
from rir_gym.operator import Depths, Memories


class Whim:
    """Roles that do anything that is declared, by a generator of their own; every view is kept."""

    def __init__(self, seed: int, restriction: Restriction, full: bool) -> None:
        self.rng, self.restriction, self.full = random.Random(seed), restriction, full
        self.views: list[View] = []
        self.samples = 0

    def act(self, views: Sequence[View]) -> list[Decision]:
        return [self._act(view) for view in views]

    def _act(self, view: View) -> Decision:
        self.views.append(view)
        kind = self.rng.choice([DecisionKind.ACTION] * 6 + list(DecisionKind))
        cost = self.rng.randint(1, min(3, view.agent_calls_left))
        if self.samples and self.rng.random() < 0.5:
            cost, self.samples = 0, self.samples - 1
        else:
            self.samples += cost - 1
        action = self.rng.choice(["a", "b", "c", "junk", "rollback 0"]) if kind is DecisionKind.ACTION else "text"
        return Decision(kind, action, agent_calls=cost)

    def when(self, views: Sequence[View]) -> list[Verdict]:
        return [self._when(view) for view in views]

    def _when(self, view: View) -> Verdict:
        self.views.append(view)
        kinds = [kind for kind in VerdictKind if not (self.full and kind is VerdictKind.UNPARSED)]
        kind = self.rng.choice(kinds)
        if kind is VerdictKind.ROLLBACK and self.restriction.depths.kind == "none":
            kind = VerdictKind.CONTINUE
        learns = self.restriction.memories.kind == "any" and kind is not VerdictKind.NOT_DUE
        facts = tuple(Fact("fact", f"f{self.rng.randrange(9)}", view.t) for _ in range(self.rng.randint(0, 2) * learns))
        return Verdict(kind, self.rng.random(), "why", facts)

    def where(self, views: Sequence[View], verdicts: Sequence[Verdict]) -> list[Restore]:
        return [self._where(view) for view in views]

    def _where(self, view: View) -> Restore:
        depths = {view.t - point.t for point in view.restorable} if self.restriction.nodes == "branch" else set()
        points: list[RestorePoint | None] = [
            point
            for point in view.restorable
            if self.restriction.nodes == "tree" or self.restriction.depths.allows(view.t - point.t, depths)
        ]
        if not self.full or not points:
            points += [None, RestorePoint(999, 0)]
        point = self.rng.choice(points)
        stages: Any = ("coarse", "fine") if self.full else self.rng.choice([(), ("fine",), ("coarse", "fine")])
        return Restore(point, interval_unread=not self.full and self.rng.random() < 0.2, stages=stages)

    def what(self, views: Sequence[View], verdicts: Any, restores: Sequence[Restore]) -> list[Patch]:
        patches = []
        for view, restore in zip(views, restores, strict=True):
            memory = view.memory
            if self.restriction.memories.kind == "any" and restore.point is not None:
                memory = memory.abandon(resumed_at=min(restore.point.t, view.t), ended_at=view.t)  # type: ignore[attr-defined]
            patches.append(Patch(memory, invoked=self.full or self.rng.random() < 0.7, unread=False))
        return patches


RESTRICTIONS = st.one_of(
    st.builds(
        Restriction,
        st.sampled_from(
            [Depths.none(), Depths.zero(), Depths.start(), Depths(), Depths.at_most(2), Depths("between", 1, 3)]
        ),
        st.sampled_from([Memories(), Memories.unchanged()]),
    ),
    st.just(Restriction(nodes="tree")),
)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10**6),
    restriction=RESTRICTIONS,
    calls=st.integers(1, 25),
    rollbacks=st.integers(1, 5),
    cap=st.one_of(st.none(), st.integers(1, 4)),
    terminal=st.booleans(),
    full=st.booleans(),
    submits=st.booleans(),
)
def test_budgets_and_the_law_of_the_ledger_are_never_broken(
    seed: int,
    restriction: Restriction,
    calls: int,
    rollbacks: int,
    cap: int | None,
    terminal: bool,
    full: bool,
    submits: bool,
) -> None:
    whim = Whim(seed, restriction, full)
    mechanism = Mechanism(
        "whim",
        whim.act,
        whim.when,
        whim.where,
        whim.what,
        restriction,
        max_rollbacks=cap,
        review_terminal=terminal,
    )
    env = RollbackWrapper(Maze(seed, submits), snapshot="native")
    [episode] = run([env], mechanism, budget=Budget(calls, rollbacks), seeds=[seed])
    check_budgets(episode, calls, min(rollbacks, cap or rollbacks))
    check_counts(episode)
    check_choices(episode, restriction)
    check_views(whim.views)
    if full:
        assert episode.ledger.unreadable == episode.ledger.unreadable_actions + episode.ledger.unreadable_restores
        if not episode.ledger.abandoned:
            recovered = episode.ledger.rollbacks + episode.ledger.corrections
            assert episode.ledger.auxiliary == episode.ledger.reviews + 3 * recovered
    unknown = Distances(tuple(None for _ in episode.nodes), exact=False)
    assert len(labels(episode, unknown)) == len(episode.nodes)  # the events make the nodes


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), calls=st.integers(1, 20))
def test_the_same_seed_gives_the_same_episode(seed: int, calls: int) -> None:
    def once() -> Episode:
        whim = Whim(seed, Restriction(), full=False)
        mechanism = Mechanism("whim", whim.act, whim.when, whim.where, whim.what)
        env = RollbackWrapper(Maze(seed, True), snapshot="native")
        [episode] = run([env], mechanism, budget=Budget(calls), seeds=[seed])
        return episode

    one, two = once(), once()
    assert [replace(event.value, calls=()) for event in one.events] == [replace(e.value, calls=()) for e in two.events]
    assert one.ledger == two.ledger

"""Random deterministic worlds, and the laws that every episode in them obeys, whatever mechanism played it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import gymnasium as gym

from rir_gym import Decision, DecisionKind, Episode, Patch, Restore, Restriction, Unicode, Verdict, View

LEGAL = ["executed", "dropped", "submitted", "declined", "unparsed"]


class Maze(gym.Env[str, str]):
    """A random deterministic graph; some places end the episode, some steps are commitments. Junk does nothing."""

    action_space = Unicode()
    observation_space = Unicode()

    def __init__(self, seed: int, submits: bool) -> None:
        rng = random.Random(seed)
        self.size = rng.randint(2, 9)
        self.edges = [[rng.randrange(self.size) for _ in "abc"] for _ in range(self.size)]
        self.ends = {place: rng.choice(["", "", "", "", "won", "lost", "cut"]) for place in range(1, self.size)}
        self.commits = {(rng.randrange(self.size), rng.choice("abc")) for _ in range(rng.randint(0, 1))}
        self.place, self.submits = 0, submits

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return self._seen("", False)[0], self._seen("", False)[4]

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        committed = (self.place, action) in self.commits
        if action in tuple("abc"):
            self.place = self.edges[self.place]["abc".index(action)]
        end = "won" if action == "answer" else self.ends.get(self.place, "")
        return self._seen(end, committed)

    def _seen(self, end: str, committed: bool) -> tuple[str, float, bool, bool, dict[str, Any]]:
        oracle = {"success": end == "won", "failed": end == "lost", "score": float(end == "won")}
        info = {"objective": "out", "admissible": ["a", "b", "c"], "committed": committed, "oracle": oracle}
        return f"place {self.place}", float(end == "won"), end in ("won", "lost"), end == "cut", info

    def submit(self, text: str) -> str | None:
        return "answer" if self.submits else None

    def get_state(self) -> int:
        return self.place

    def set_state(self, state: int) -> None:
        self.place = state


def check_budgets(episode: Episode, calls: int, rollbacks: int) -> None:
    ledger = episode.ledger
    decisions = [event.value for event in episode.events if isinstance(event.value, Decision)]
    assert ledger.agent_calls == sum(decision.agent_calls for decision in decisions) <= calls
    assert ledger.rollbacks <= rollbacks == episode.budget.rollbacks
    assert ledger.steps <= ledger.agent_calls
    assert (episode.stopped == "agent_calls") <= (ledger.agent_calls == calls)
    assert episode.stopped in ("terminated", "truncated", "agent_calls", "final")


def check_counts(episode: Episode) -> None:
    ledger = episode.ledger
    kinds = Counter(type(event.value) for event in episode.events)
    outcomes = Counter(event.outcome for event in episode.events)
    acts = [event for event in episode.events if isinstance(event.value, Decision)]
    assert all(event.outcome in LEGAL for event in acts)
    assert ledger.steps == len(episode.nodes) - 1
    assert ledger.reviews == kinds[Verdict]
    assert (ledger.rollbacks, ledger.corrections) == (outcomes["rollback"], outcomes["correction"])
    assert ledger.abandoned == outcomes["abandoned"]
    assert ledger.patches == sum(e.value.invoked for e in episode.events if isinstance(e.value, Patch))
    stages = Counter(s for e in episode.events if isinstance(e.value, Restore) for s in e.value.stages)
    assert (ledger.coarse, ledger.fine) == (stages["coarse"], stages["fine"])
    assert ledger.auxiliary == ledger.reviews + ledger.coarse + ledger.fine + ledger.patches
    assert ledger.requests == sum(event.value.kind is DecisionKind.REQUEST for event in acts)
    assert ledger.unreadable_actions == sum(event.value.kind is DecisionKind.UNPARSED for event in acts)


def check_choices(episode: Episode, restriction: Restriction) -> None:
    recovered = [
        (event, episode.events[i + 1].value)
        for i, event in enumerate(episode.events)
        if event.outcome in ("rollback", "correction") and isinstance(event.value, Verdict)
    ]
    for event, restore in recovered:
        assert isinstance(restore, Restore)
        assert restore.point is not None
        ancestors = {node.id for node in episode.nodes[event.node].branch()}
        depth = event.t - restore.point.t
        assert (event.outcome == "correction") == (restore.point.node == event.node)
        if restriction.nodes == "branch":
            assert restore.point.node in ancestors
            assert restriction.depths.kind != "none"
            assert restriction.depths.kind == "start" or restriction.depths.least <= depth
            assert restriction.depths.most is None or depth <= restriction.depths.most


def check_views(views: Sequence[View]) -> None:
    """What a role sees of the budgets never goes back."""
    for before, after in pairwise(views):
        assert after.agent_calls >= before.agent_calls
        assert after.rollbacks_left <= before.rollbacks_left
        assert after.agent_calls + after.agent_calls_left == before.agent_calls + before.agent_calls_left
        assert min(after.agent_calls_left, after.rollbacks_left) >= 0

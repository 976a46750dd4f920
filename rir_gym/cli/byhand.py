"""One episode that is played by hand: what was done, as an ordinary episode and its record. Knows no terminal.

Every role is the player's. A rollback is written down as the loop writes one: a request, a review, a restore point, and
a memory that stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from rir_gym.base import (
    Decision,
    DecisionKind,
    Mechanism,
    Node,
    Patch,
    Restore,
    RestorePoint,
    Restriction,
    Verdict,
    VerdictKind,
    View,
)
from rir_gym.data.records import episode_record, header_of
from rir_gym.episode import Episode, Event
from rir_gym.errors import UsageError
from rir_gym.ledger import Budget, Ledger
from rir_gym.memory import ReflectionMemory
from rir_gym.rollback import RollbackWrapper

__all__ = ["ByHand"]

_UNLIMITED = 1_000_000


@dataclass(slots=True)
class ByHand:
    """The episode under way. ``hinted``: the player saw what the oracle knows, and the record says so."""

    env: RollbackWrapper
    seed: int
    objective: str
    ledger: Ledger = field(default_factory=Ledger)
    events: list[Event] = field(default_factory=list)
    hinted: bool = False

    @classmethod
    def begin(cls, env: RollbackWrapper, seed: int) -> ByHand:
        """Reset the environment."""
        _, info = env.reset(seed=seed)
        return cls(env, seed, str(info.get("objective", "")))

    def step(self, action: Any) -> None:
        """A task action.

        Raises:
            Whatever the environment raises; the world stands where it stood, and nothing was counted.
        """
        self._step(action, Decision.act(action), "executed")

    def submit(self, text: str) -> None:
        """A final response, by the environment's submit action.

        Raises:
            UsageError: it takes none.
        """
        action = self.env.get_wrapper_attr("submit")(text) if self.env.has_wrapper_attr("submit") else None
        if action is None:
            raise UsageError("submit: this environment takes no final response")
        self._step(action, Decision(DecisionKind.FINAL, text), "submitted")

    def rollback(self, target: Node) -> None:
        """Put the world back.

        Raises:
            UsageError: it stands there already.
            RollbackRefused: as ``RollbackWrapper.rollback``.
        """
        here = self.env.node
        if target is here:
            raise UsageError("rollback: the world stands there already")
        self.env.rollback(target)
        if not here.step.over:  # at an end nobody is asked for an action any more
            self._add(here, Decision(DecisionKind.REQUEST, target=target.t), "dropped")
            self._count("agent_calls", "requests")
        self._add(here, Verdict(VerdictKind.ROLLBACK, diagnosis="the player's wish"), "rollback")
        self._add(here, Restore(RestorePoint(target.id, target.t, target.summary)))
        self._add(here, Patch(self.memory, invoked=False))
        self._count("reviews", "rollbacks")

    @property
    def memory(self) -> ReflectionMemory:
        """M_0: a person remembers by themselves."""
        return ReflectionMemory(self.objective)

    def record(self) -> dict[str, Any]:
        """The record of the episode as it is now; ``stopped`` is "quit" where the environment has not ended it."""
        last = self.env.node
        episode = Episode(
            seed=self.seed,
            objective=self.objective,
            mechanism=_BY_HAND.name,
            budget=Budget(_UNLIMITED, _UNLIMITED),
            nodes=self.env.nodes,
            last=last,
            events=tuple(self.events),
            ledger=self.ledger,
            memory=self.memory,
            stopped="terminated" if last.step.terminated else "truncated" if last.step.truncated else "quit",
        )
        mechanism = replace(_BY_HAND, uses_oracle=self.hinted)
        return episode_record(episode, header_of(self.env, mechanism, agent="a person"))

    def _step(self, action: Any, decision: Decision, outcome: str) -> None:
        here = self.env.node
        self.env.step(action)
        self._add(here, decision, outcome)
        self._count("agent_calls", "steps")

    def _add(self, at: Node, value: Decision | Verdict | Restore | Patch, outcome: str = "") -> None:
        self.events.append(Event(at.id, at.t, value, outcome))

    def _count(self, *names: str) -> None:
        for name in names:
            self.ledger.add(name)


def _a_person(views: Sequence[View], *_: Any) -> NoReturn:
    raise UsageError("mechanism='by hand': its roles are a person's; nobody else can play them")


_BY_HAND = Mechanism("by hand", _a_person, _a_person, _a_person, _a_person, Restriction(nodes="tree"))

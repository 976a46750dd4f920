"""A walk of any length with any number of rollbacks, played by the real loop: records for pictures, pages and tests."""

from __future__ import annotations

import random
from typing import Any, Literal

import gymnasium as gym

from rir_gym import (
    Budget,
    Decision,
    DecisionKind,
    Fact,
    Mechanism,
    Patch,
    Restore,
    RollbackWrapper,
    Unicode,
    Verdict,
    VerdictKind,
    run,
)
from rir_gym.data.records import check_record, episode_record, header_of
from rir_gym.memory import Failure
from rir_gym.operator import Restriction

__all__ = ["wandering_record"]

_THINGS = ("a lamp", "an iron key", "a red door", "dust", "a narrow stair", "an old book", "a cold hearth")
_WAYS = ("go north", "go east", "take the iron key", "open the red door", "wait", "read the old book")


class House(gym.Env[str, str]):
    """Rooms of a house; the world is where one stands. It ends, as a success, in room ``far``."""

    action_space = Unicode()
    observation_space = Unicode()

    def __init__(self, far: int) -> None:
        self.far, self.room = far, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.room = 0
        return self.told()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.room += 1
        observation, info = self.told()
        won = self.room >= self.far
        return observation, float(won), won, False, info

    def told(self) -> tuple[str, dict[str, Any]]:
        draw = random.Random(self.room)
        seen = ", ".join(draw.sample(_THINGS, 3))
        info = {"objective": "Find the way out.", "admissible": list(_WAYS), "committed": self.room == 1}
        info["oracle"] = {"success": self.room >= self.far, "failed": False, "score": float(self.room >= self.far)}
        return f"You are in room {self.room} of the house.\nYou see {seen}.", info

    def get_state(self) -> int:
        return self.room

    def set_state(self, state: int) -> None:
        self.room = state


def wandering_record(
    steps: int,
    branches: int,
    *,
    seed: int = 0,
    depths: tuple[int, ...] = (0, 1, 3, 8, 29),
    nodes: Literal["branch", "tree"] = "branch",
) -> dict[str, Any]:
    """A checked record of nearly ``steps`` real steps and at most ``branches`` - 1 rollbacks; ``depths`` are drawn.

    With ``nodes="tree"`` a rollback may lead to any branch.
    """
    draw = random.Random(seed)
    share = (branches - 1) / max(1, steps)

    def act(views: Any) -> list[Decision]:
        return [
            Decision(DecisionKind.REQUEST, thought="this leads nowhere")
            if draw.random() < share / 2
            else Decision.act(draw.choice(_WAYS), thought=f"room after room; this is call {view.agent_calls}")
            for view in views
        ]

    def when(views: Any) -> list[Verdict]:
        return [verdict(view) for view in views]

    def verdict(view: Any) -> Verdict:
        asked = view.proposed is not None and view.proposed.kind is DecisionKind.REQUEST
        if len(view.restorable) > 3 and draw.random() < 2 * share and not view.terminal:
            learned = (Fact("fact", f"room {view.t} is a dead end", view.t),)
            return Verdict(VerdictKind.ROLLBACK, round(draw.random(), 2), f"the key broke at step {view.t}", learned)
        if asked or draw.random() < 0.1:
            return Verdict(VerdictKind.CONTINUE, round(draw.random(), 2))
        return Verdict.not_due()

    def where(views: Any, verdicts: Any) -> list[Restore]:
        return [
            Restore(view.restorable[-min(len(view.restorable), draw.choice(depths) + 1)], "before the key broke")
            for view in views
        ]

    def what(views: Any, verdicts: Any, restores: Any) -> list[Patch]:
        return [
            Patch(view.memory.abandon(resumed_at=r.point.t, ended_at=view.t, failure=Failure(v.diagnosis)))
            for view, v, r in zip(views, verdicts, restores, strict=True)
        ]

    env = RollbackWrapper(House(10**9))
    mechanism = Mechanism("wandering", act=act, when=when, where=where, what=what, restriction=Restriction(nodes=nodes))
    [episode] = run([env], mechanism, budget=Budget(steps, max(1, branches - 1)), seeds=[seed])
    record = episode_record(episode, header_of(env, mechanism, agent="wanderer"))
    env.close()
    return check_record(record)

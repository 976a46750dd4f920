"""One told episode for the tests of records and views: a rollback, a correction, model calls, an unreadable reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

from rir_gym import (
    Budget,
    Decision,
    DecisionKind,
    Episode,
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
from rir_gym.base import Call, Message
from rir_gym.memory import Failure


class Cellar(gym.Env[str, str]):
    """A stair of ``depth``; "open" at its top, with the lamp, is success. ``say`` words every observation."""

    action_space = Unicode()
    observation_space = Unicode()

    def __init__(self, say: Callable[[str], str] = str) -> None:
        self.say, self.depth, self.lamp = say, 0, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.depth, self.lamp = 0, False
        return self.say("the top of a dark stair"), self.info(False)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.lamp = self.lamp or action == "take lamp"
        self.depth += (action == "go down") - (action == "go up")
        won = action == "open" and self.lamp and self.depth == 0
        told = "the door opens" if won else f"stair {self.depth}, lamp {self.lamp}"
        return self.say(told), float(won), won, False, self.info(won)

    def info(self, won: bool) -> dict[str, Any]:
        return {
            "objective": "open the door with the lamp",
            "admissible": ["take lamp", "go down", "go up", "wait", "open"],
            "committed": False,
            "depths": (self.depth, float("nan")),
            "oracle": {"success": won, "failed": False, "score": float(won)},
        }

    def describe(self) -> str:
        return f"depth {self.depth}"

    def get_state(self) -> tuple[int, bool]:
        return self.depth, self.lamp

    def set_state(self, state: tuple[int, bool]) -> None:
        self.depth, self.lamp = state


def _call(role: Any, text: str, seconds: float, kind: Any = "first") -> Call:
    messages = (Message("system", f"you {role}"), Message("user", "what now?"))
    return Call(
        role,
        messages,
        text,
        kind,
        options=("a", "b"),
        scores=(0.5, -1.0),
        prompt_tokens=20,
        reused_tokens=5,
        generated_tokens=3,
        cut_tokens=2,
        seconds=seconds,
    )


def _script(seconds: float) -> dict[str, list[Any]]:
    request = Decision(DecisionKind.REQUEST, thought="too dark", target=1)
    wrong = Verdict(
        VerdictKind.ROLLBACK, 0.9, "went down", (Fact("fact", "it is dark below", 2),), (_call("review", "R", seconds),)
    )
    return {
        "act": [
            Decision.act("take lamp", thought="light first", calls=(_call("act", "take lamp", seconds),)),
            Decision(DecisionKind.UNPARSED, calls=(_call("act", "hm", seconds), _call("act", "um", seconds, "reask"))),
            Decision.act("go down"),
            request,
            Decision.act("wait"),
            Decision.act("go up"),
            Decision.act("open"),
        ],
        "when": [Verdict.not_due()] * 3
        + [wrong, Verdict(VerdictKind.CONTINUE, 0.25), Verdict(VerdictKind.ROLLBACK, 0.5, "no stair goes up")]
        + [Verdict.not_due(), Verdict(VerdictKind.CONTINUE, 0.0)],
        "where": [1, 2],
    }


class Story:
    """``run`` plays the told episode; ``mechanism`` and ``env`` are those of the last run."""

    def run(self, *, seconds: float = 0.25, say: Callable[[str], str] = str, seed: int = 7) -> Episode:
        lines = _script(seconds)
        self.env = RollbackWrapper(Cellar(say))
        self.mechanism = Mechanism(
            "told",
            act=lambda views: [lines["act"].pop(0) for _ in views],
            when=lambda views: [lines["when"].pop(0) for _ in views],
            where=lambda views, _: [self.restore(view, lines["where"].pop(0), seconds) for view in views],
            what=lambda views, verdicts, restores: [
                Patch(self.patched(view, verdict.diagnosis, restore.point.t), calls=(_call("patch", "P", seconds),))
                for view, verdict, restore in zip(views, verdicts, restores, strict=True)
            ],
            settings={"l_max": float("inf")},
        )
        [episode] = run([self.env], self.mechanism, budget=Budget(12, 2), seeds=[seed])
        return episode

    def restore(self, view: Any, t: int, seconds: float) -> Restore:
        calls = (_call("coarse", "1-2", seconds), _call("fine", "1", seconds))
        return Restore(view.restorable[t], "lamp in hand", 0.75, (1, 2), False, ("coarse", "fine"), calls)

    def patched(self, view: Any, cause: str, t: int) -> Any:
        return view.memory.abandon(resumed_at=t, ended_at=view.t, failure=Failure(cause))


@pytest.fixture
def story() -> Story:
    """The told episode: 1 rollback (from step 2 to 1), 1 correction at step 2, success."""
    return Story()

"""Two tasks on which the order of the mechanisms is known exactly: one needs knowledge, one an undone world.

The agent and the reviewer are fixed and know what they see. ``Doors``: the agent takes the left door unless its memory
blames it, whatever its branch shows; behind it is a sign, and it can walk back. ``Glass``: the agent stumbles once, at
its third call, and what breaks then stays broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import pytest

from rir_gym import Budget, Decision, Fact, Restore, RollbackWrapper, Unicode, Verdict, VerdictKind, View, run
from rir_gym.memory import ReflectionMemory
from rir_policies.mechanisms import MECHANISMS, NEEDS_MODEL
from rir_policies.scripted import ScriptedPatch

WRONG = "left"


class World(gym.Env[str, str]):
    """``rules[place][action]`` is the next place; "end" is success; what is not listed does nothing."""

    action_space = Unicode()
    observation_space = Unicode()

    def __init__(self, rules: dict[str, dict[str, str]], broken: str = "") -> None:
        self.rules, self.broken, self.place = rules, broken, "start"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = "start"
        return self.place, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.place = self.rules.get(self.place, {}).get(action, self.place)
        won = self.place == "end"
        return self.place, float(won), won, False, self._info()

    def _info(self) -> dict[str, Any]:
        won = self.place == "end"
        oracle = {"success": won, "failed": self.place == self.broken, "score": float(won)}
        return {"objective": "reach the end", "oracle": oracle}

    def get_state(self) -> str:
        return self.place

    def set_state(self, state: str) -> None:
        self.place = state


DOORS = {"start": {"on": "doors"}, "doors": {"left": "sign", "right": "end"}, "sign": {"back": "doors"}}
GLASS = {
    "start": {"on": "hall"},
    "hall": {"on": "stair"},
    "stair": {"on": "tower", "stumble": "broken"},
    "tower": {"on": "end"},
}


def through_doors(view: View) -> str:
    memory = view.memory
    assert isinstance(memory, ReflectionMemory)
    facts = [fact.text for fact in memory.environment]
    warned = "left is wrong" in facts or (memory.failure is not None and memory.failure.action == WRONG)
    plan = {"start": "on", "doors": "right" if warned else WRONG, "sign": "back"}
    return plan[view.observation]


def with_glass(view: View) -> str:
    return "stumble" if view.agent_calls == 2 else "on"


@dataclass(frozen=True)
class Plays:
    policy: Any

    def __call__(self, views: Sequence[View]) -> list[Decision]:
        return [Decision.act(self.policy(view)) for view in views]


def reviewer(views: Sequence[View]) -> list[Verdict]:
    """ROLLBACK where the agent stands before the sign or the broken thing; the sign teaches which door is wrong."""
    verdicts = []
    for view in views:
        learned = (Fact("fact", "left is wrong", view.t, invariant=True),) if view.observation == "sign" else ()
        bad = view.observation in ("sign", "broken")
        kind = VerdictKind.ROLLBACK if bad else VerdictKind.CONTINUE
        verdicts.append(Verdict(kind, 1.0, f"it came to the {view.observation}" if bad else "", learned))
    return verdicts


def before_it(views: Sequence[View], verdicts: Sequence[Verdict]) -> list[Restore]:
    """The latest restore point before the last action."""
    return [
        Restore(next((p for p in reversed(view.restorable) if p.t < view.t), None), "before", stages=("coarse", "fine"))
        for view in views
    ]


def succeeds(name: str, rules: dict[str, dict[str, str]], policy: Any, broken: str, calls: int) -> bool:
    made = MECHANISMS[name](
        act=Plays(policy), reviewer=reviewer, where=before_it, what=ScriptedPatch(), l_min=1, l_max=1, uses_oracle=False
    )
    env = RollbackWrapper(World(rules, broken), snapshot="native")
    [episode] = run([env], made, budget=Budget(calls, made.max_rollbacks or 3), seeds=[0])
    return episode.success


FAIL_AT_DOORS = {
    "react": "nothing is remembered",
    "rollback_only": "the same",
    "webrollback": "the same",
    "self_refine": "its critique is forgotten when the agent stands before the doors again",
    "reflexion": "the attempt never fails: it goes round in a circle",
    "restart_with_attribution": "the same",
}
FAIL_WITH_GLASS = {
    "react": "nothing is undone",
    "reflection_only": "the same",
    "self_refine": "the same",
    "ga_rollback": "it looks from step 7 on, and four steps back what broke at step 3 is broken",
}
SCRIPTED = sorted(set(MECHANISMS) - NEEDS_MODEL - {"lats"})


@pytest.mark.parametrize("name", SCRIPTED)
def test_where_knowledge_is_needed_a_rollback_without_memory_fails(name: str) -> None:
    assert succeeds(name, DOORS, through_doors, "", calls=16) is (name not in FAIL_AT_DOORS)


@pytest.mark.parametrize("name", SCRIPTED)
def test_where_the_world_must_be_undone_a_reflection_without_rollback_fails(name: str) -> None:
    assert succeeds(name, GLASS, with_glass, "broken", calls=14) is (name not in FAIL_WITH_GLASS)


def test_the_whole_operator_succeeds_on_both_and_each_half_on_one() -> None:
    order = {
        name: (succeeds(name, DOORS, through_doors, "", 16), succeeds(name, GLASS, with_glass, "broken", 14))
        for name in ("react", "rollback_only", "reflection_only", "restart", "rir")
    }
    assert order == {
        "react": (False, False),
        "rollback_only": (False, True),
        "reflection_only": (True, False),
        "restart": (True, True),
        "rir": (True, True),
    }


def test_with_few_calls_only_the_whole_operator_has_enough() -> None:
    """Glass takes four calls, the stumble and the dropped proposal two more; from the start it is two again."""
    names = ("rollback_only", "restart", "rir")
    assert [succeeds(name, GLASS, with_glass, "broken", 6) for name in names] == [True, False, True]

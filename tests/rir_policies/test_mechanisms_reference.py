"""Each restriction on the loop does, action for action, what thirty lines do without loop, wrapper or tree."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import pytest

from rir_envs.apothecary_policies import Expert, evidence_localizer, evidence_reviewer
from rir_gym import Budget, RestorePoint, RollbackWrapper, Step, VerdictKind, View, run
from rir_gym.memory import Failure, ReflectionMemory
from rir_policies.mechanisms import MECHANISMS
from rir_policies.scripted import ScriptedPatch

CALLS, ROLLBACKS = 26, 3


@dataclass(frozen=True)
class Rule:
    """When (a review is due at step t, t_rev, L), which k, and what is kept of what was learned."""

    due: Any
    depth: Any = lambda t, r: t - r
    least: int = 0
    most: int = 99
    keeps: str = "all"  # all, nothing, cause, cause and facts
    cap: int = ROLLBACKS


def scheduled(t: int, t_rev: int, horizon: float, failed: bool) -> bool:
    return t - t_rev >= horizon


RULES = {
    "react": Rule(lambda t, t_rev, horizon, failed: False),
    "reflection_only": Rule(scheduled, depth=lambda t, r: 0),
    "rollback_only": Rule(scheduled, keeps="nothing"),
    "restart": Rule(scheduled, depth=lambda t, r: t),
    "rir": Rule(scheduled),
    "direct_selection": Rule(scheduled),
    "webrollback": Rule(lambda t, *_: t > 0, least=1, keeps="nothing"),
    "ga_rollback": Rule(lambda t, *_: t > 6, least=1, most=4, keeps="cause", cap=6),
    "reflexion": Rule(lambda t, t_rev, horizon, failed: failed, depth=lambda t, r: t, keeps="cause and facts"),
}


def straight(rule: Rule, act: Expert, seed: int) -> tuple[list[tuple[int, str]], bool]:
    """(step, action) of every real step in order, and whether it ended in success."""
    world: Any = gym.make("rir_gym/Apothecary-v0").unwrapped
    text, info = world.reset(seed=seed)
    past = [(copy.deepcopy(world), Step(None, text, info=info), world.describe())]
    memory, seen, horizon, t_rev, done = ReflectionMemory(info["objective"]), [], 8.0, 0, []
    calls = rollbacks = 0
    while calls < CALLS and not info["oracle"]["success"]:
        t = len(past) - 1
        history = tuple(replace(step, info={"admissible": step.admissible}) for _, step, _ in past)
        points = tuple(RestorePoint(i, i, summary) for i, (_, _, summary) in enumerate(past))
        view = View(seed, info["objective"], history, memory, restorable=points, agent_calls=calls)
        [decision] = act([view])
        calls += 1
        if rule.due(t, t_rev, horizon, info["oracle"]["failed"]):
            view = replace(view, proposed=decision, agent_calls=calls, agent_calls_left=CALLS - calls)
            [verdict] = evidence_reviewer([view])
            rolls = verdict.kind is VerdictKind.ROLLBACK or rule is RULES["reflexion"]
            if rule.keeps == "all":
                memory = memory.learn(verdict.learned)
            t_rev, horizon = t, 4 + (1 - verdict.urgency) * 4
            if rolls and rollbacks < rule.cap:
                view = replace(
                    view, memory=memory, restorable=tuple(p for p in points if rule.least <= t - p.t <= rule.most)
                )
                [found] = evidence_localizer([view], [verdict])
                k = rule.depth(t, found.point.t if found.point else t + 1)
                if k >= 0:  # else nothing was found, and the step goes on
                    restore = replace(found, point=points[t - k])
                    why = verdict.diagnosis or f"the attempt had failed by step {t}"
                    if rule.keeps == "all":
                        [patch] = ScriptedPatch()([replace(view, restorable=points)], [verdict], [restore])
                        memory = patch.memory
                    elif rule.keeps != "nothing":
                        undone = str(history[t - k + 1].action) if k else str(decision.action)
                        seen = [*seen, verdict.learned if rule.keeps == "cause and facts" else ()][-3:]
                        memory = ReflectionMemory(info["objective"]).learn([f for facts in seen for f in facts])
                        memory = replace(memory, failure=Failure(why, action=undone))
                    past = past[: t - k + 1]
                    world, info = copy.deepcopy(past[-1][0]), past[-1][1].info
                    t_rev, horizon, rollbacks = t - k, 8.0, rollbacks + (k > 0)
                    continue
        text, _, _, _, info = world.step(decision.action)
        past.append((copy.deepcopy(world), Step(decision.action, text, info=info), world.describe()))
        done.append((t, decision.action))
    return done, info["oracle"]["success"]


@pytest.mark.parametrize("name", RULES)
def test_each_restriction_is_its_own_thirty_lines(name: str) -> None:
    act = Expert(trust=0.7, slip=0.1)
    made = MECHANISMS[name](act=act, reviewer=evidence_reviewer, where=evidence_localizer, what=ScriptedPatch())
    seeds = range(700, 740)
    envs = [RollbackWrapper(gym.make("rir_gym/Apothecary-v0")) for _ in seeds]
    cap = made.max_rollbacks or ROLLBACKS
    episodes = run(envs, made, budget=Budget(CALLS, cap), seeds=seeds)
    recovered = 0
    for seed, episode in zip(seeds, episodes, strict=True):
        steps = [(node.t - 1, node.step.action) for node in episode.nodes[1:]]
        assert (steps, episode.success) == straight(RULES[name], act, seed), f"seed {seed}"
        recovered += episode.ledger.rollbacks + episode.ledger.corrections
    assert recovered >= (0 if name == "react" else 2)  # the comparison is not of runs without a recovery

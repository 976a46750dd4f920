"""``check_restore``: the public conformance check for authors of environments and of snapshot adapters.

It grows random trees of steps and restores and compares every node with a straight run of its actions from ``reset``.
Usable in any test suite; it knows no environment and no mechanism.

    def test_my_environment_can_be_rolled_back() -> None:
        check_restore(MyEnv)
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np

from rir_gym.arguments import check_count
from rir_gym.base import Node, Step
from rir_gym.errors import UsageError
from rir_gym.rollback import RollbackWrapper
from rir_gym.snapshot.auto import maker_of
from rir_gym.snapshot.layers import layers
from rir_gym.snapshot.process_rng import seeded, write
from rir_gym.snapshot.streams import untouched
from rir_gym.values import fresh, same_value

__all__ = ["RestoreReport", "check_restore"]

_RESTORES_PER_EPISODE = 12
_Make = Callable[[], gym.Env[Any, Any]]


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What was done: ``undone_ends`` restores undid the end of an episode, ``jumps`` went to another branch."""

    mechanism: str
    episodes: int
    steps: int
    restores: int
    undone_ends: int
    jumps: int


def check_restore(
    env_or_factory: gym.Env[Any, Any] | _Make, *, restores: int = 60, steps: int = 6, seed: int = 0, **settings: Any
) -> RestoreReport:
    """Check on random trees that what is restored is what was, and that it goes on as if nothing had happened.

    Args:
        env_or_factory: an environment, or a function that makes one. A ``RollbackWrapper`` in its stack is used as it
            is set (its rng mode, limits and lifetimes), and the wrappers outside of it are played through; else one is
            put on. The straight runs are made on a fresh instance where there is a function or a spec, else on the
            same one, by a reset with the same seed.
        restores: how many restores to try, ancestors, ends and nodes of other branches among them.
        steps: at most so many steps between two restores: admissible commands where ``info`` lists them, else samples.
        seed: everything is drawn from it; the global generators are left as they were.
        settings: those of ``RollbackWrapper``, where the environment is not wrapped in one.

    Raises:
        AssertionError: the first difference, with the environment, the seed and the actions that lead to it.
        UsageError: a bad argument.
        NotRestorable: no mechanism is faithful on this environment.
    """
    check_count("restores", restores, 1)
    check_count("steps", steps, 1)
    check_count("seed", seed, 0)
    make: _Make | None = None
    if isinstance(env_or_factory, gym.vector.VectorEnv):
        raise UsageError(f"env_or_factory={env_or_factory!r}: one environment; of a vector, those in its envs in turn")
    if isinstance(env_or_factory, gym.Env):
        outer = env_or_factory
        wrapped = [layer for layer in layers(outer) if isinstance(layer, RollbackWrapper)]
        if wrapped and settings:
            raise UsageError(f"settings={settings!r}: the environment is wrapped already")
        env = wrapped[0] if wrapped else RollbackWrapper(outer, **settings)
        outer = outer if wrapped and outer.action_space == env.action_space else env
    else:
        env, make = RollbackWrapper.from_factory(env_or_factory, **settings), env_or_factory
        outer = env
    make, rng = make or maker_of(env.env, window=False), np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    while counts["restores"] < restores and counts["episodes"] < restores:
        with untouched():
            reset_seed = int(rng.integers(2**31))
            wanted = min(_RESTORES_PER_EPISODE, restores - counts["restores"])
            if env.settings["rng"] == "resample":
                _resample(env, outer, reset_seed, rng, counts, wanted, steps)
                continue
            _grow(env, outer, reset_seed, rng, counts, wanted, steps)
            _compare_all(env, reset_seed, make)
            env.reset(seed=reset_seed)  # the straight runs may have been made on the same instance
    assert counts["restores"], f"{env}: no restore was possible in {restores} episodes; env.refusal(node) says why"
    return RestoreReport(env.snapshot_report.chosen, **counts)


def _grow(
    env: RollbackWrapper,
    outer: gym.Env[Any, Any],
    seed: int,
    rng: np.random.Generator,
    counts: Counter[str],
    restores: int,
    steps: int,
) -> None:
    """One random tree."""
    _reset(outer, seed)
    space = copy.deepcopy(env.env.action_space)
    space.seed(seed)
    total, target = 0.0, env.node
    counts.update(episodes=1, steps=0, restores=0, undone_ends=0, jumps=0)
    for _ in range(restores):
        for _ in range(int(rng.integers(1, steps + 1))):
            if env.node.step.over or env.steps_taken == env.settings["step_limit"]:
                break
            action = _action(env, space, rng)
            observation, reward, *_ = outer.step(_encoded(env, action))
            if outer is env:
                _same(env, seed, env.node, replace(env.node.step, observation=observation))
            counts["steps"], total = counts["steps"] + 1, total + float(reward)
        kept = [node for node in env.nodes if node is not env.node and env.refusal(node) is None]
        ancestors = [node for node in env.history if node in kept]
        if not kept:
            break
        if target not in kept or rng.random() < 0.7:  # else the same point once more
            choices = ancestors if ancestors and rng.random() < 0.7 else kept
            target = choices[int(rng.integers(len(choices)))]
        counts.update(restores=1, undone_ends=int(env.node.step.over), jumps=int(target not in ancestors))
        observation, reward, _, _, info = env.rollback(target)
        total += float(reward)
        returned = replace(target.step, observation=observation, info=info, oracle=info.get("oracle"))
        _same(env, seed, target, returned)
    if env.settings["reward"] == "telescope" and outer is env:  # a wrapper outside may change rewards
        costs = env.settings["step_cost"] * env.steps_taken + env.settings["rollback_cost"] * env.rollbacks_done
        assert math.isclose(total + costs, env.node.ret, rel_tol=1e-9, abs_tol=1e-9), (
            f"{env}, seed={seed}: rewards and costs sum to {total + costs}, the surviving return is {env.node.ret}"
        )


def _resample(
    env: RollbackWrapper,
    outer: gym.Env[Any, Any],
    seed: int,
    rng: np.random.Generator,
    counts: Counter[str],
    restores: int,
    steps: int,
) -> None:
    """With new futures: what is restored is what was, and a future is a function of the rollback's seed."""
    _reset(outer, seed)
    space = copy.deepcopy(env.env.action_space)
    space.seed(seed)
    counts.update(episodes=1, steps=0, restores=0, undone_ends=0, jumps=0)
    for _ in range(max(restores // 2, 1)):
        _play(env, outer, space, rng, int(rng.integers(1, steps + 1)))
        kept = [node for node in env.nodes if node is not env.node and env.refusal(node) is None]
        if not kept:
            break
        target, future = kept[int(rng.integers(len(kept)))], int(rng.integers(2**31))
        made: list[list[Node]] = []
        for _ in range(2):
            if env.refusal(target) is not None:  # a limit is spent
                break
            counts.update(restores=1, undone_ends=int(env.node.step.over), jumps=int(target not in env.history))
            observation, _, _, _, info = env.rollback(target, seed=future)
            _same(
                env, seed, target, replace(target.step, observation=observation, info=info, oracle=info.get("oracle"))
            )
            made.append(_play(env, outer, space, rng, steps, made[0] if made else None))
            counts.update(steps=len(made[-1]))
        for first, second in zip(*made, strict=False) if len(made) == 2 else ():  # a limit may cut it short
            _same(env, seed, first, second.step)


def _play(
    env: RollbackWrapper,
    outer: gym.Env[Any, Any],
    space: gym.Space[Any],
    rng: np.random.Generator,
    length: int,
    again: list[Node] | None = None,
) -> list[Node]:
    """Some steps, random ones or the actions of ``again``; the nodes that they led to."""
    nodes: list[Node] = []
    while len(nodes) < (length if again is None else len(again)) and not env.node.step.over:
        if env.steps_taken == env.settings["step_limit"]:
            break
        action = _action(env, space, rng) if again is None else fresh(again[len(nodes)].step.action)
        outer.step(_encoded(env, action))
        nodes.append(env.node)
    return nodes


def _encoded(env: RollbackWrapper, action: Any) -> Any:
    """A task action as one of the wrapper's own action space."""
    return (0, action) if isinstance(env.action_space, gym.spaces.OneOf) else action


def _action(env: RollbackWrapper, space: gym.Space[Any], rng: np.random.Generator) -> Any:
    """A listed or sampled action; now and then one that was taken here before."""
    before = [node.step.action for node in env.nodes if node.parent is env.node]
    if before and rng.random() < 0.5:
        return fresh(before[int(rng.integers(len(before)))])
    if listed := env.node.step.admissible:
        return listed[int(rng.integers(len(listed)))]
    return space.sample(mask=env.node.step.info.get("action_mask"))


def _compare_all(env: RollbackWrapper, seed: int, make: _Make | None) -> None:
    """Every node of the tree against a straight run to each of its leaves.

    One instance makes all runs; where it has been used and a run differs, that run is made again on a fresh one, since
    some environments do not reset all of themselves.
    """
    parents = {node.parent for node in env.nodes}
    live, used = make() if make is not None else env.env, False
    try:
        for leaf in [node for node in env.nodes if node not in parents]:
            try:
                _compare_run(env, seed, live, leaf)
            except AssertionError:
                if make is None or not used:
                    raise
                live.close()
                live = make()
                _compare_run(env, seed, live, leaf)
            used = True
    finally:
        if make is not None:
            live.close()


def _compare_run(env: RollbackWrapper, seed: int, live: gym.Env[Any, Any], leaf: Node) -> None:
    root, *rest = leaf.branch()
    observation, info = _reset(live, seed)
    _same(env, seed, root, Step(None, observation, info=info, oracle=info.get("oracle")))
    for node in rest:
        observation, reward, terminated, truncated, info = live.step(fresh(node.step.action))
        flags = bool(terminated), bool(truncated)
        _same(env, seed, node, Step(None, observation, float(reward), *flags, info, info.get("oracle")))


def _reset(env: gym.Env[Any, Any], seed: int) -> tuple[Any, dict[str, Any]]:
    write(seeded(np.random.SeedSequence(seed)))  # for an environment that draws from the global generators
    return env.reset(seed=seed)


def _same(env: RollbackWrapper, seed: int, node: Node, other: Step) -> None:
    for name in ("observation", "reward", "terminated", "truncated", "admissible", "oracle"):
        kept, seen = getattr(node.step, name), getattr(other, name)
        if not same_value(kept, seen):
            actions = [each.step.action for each in node.branch()[1:]]
            raise AssertionError(
                f"{env}, snapshot={env.snapshot_report.chosen}, seed={seed}, actions={actions!r}: "
                f"{name} was {kept!r} in the tree and is {seen!r} now"
            )

"""Keyframes and replay in between: every kept node is exact, and the spacing follows the costs."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import forked_worlds as worlds
import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym import NotRestorable, RollbackRefused, RollbackWrapper
from rir_gym.base import Node
from rir_gym.errors import ReplayMismatch, SnapshotError
from rir_gym.snapshot.auto import LADDER
from rir_gym.snapshot.costs import Costs, best_spacing
from rir_gym.snapshot.fork_audit import supported
from rir_gym.snapshot.heap import Heap
from rir_gym.snapshot.keyframes import Keyframes
from rir_gym.snapshot.lifetime import Lifetime
from rir_gym.snapshot.pickled import Pickle
from rir_gym.snapshot.protocol import Start
from rir_gym.snapshot.world import World
from rir_gym.testing import check_restore

MECHANISMS = [*LADDER, "keyframes:native", "keyframes:heap", "keyframes:pickle", "keyframes:fork"]
forks = pytest.mark.skipif(supported() is not None, reason="worlds are forked on Linux only")


def marked(names: list[str]) -> list[Any]:
    return [pytest.param(name, marks=[forks] if "fork" in name else []) for name in names]


class Walk(gym.Env[Any, int]):
    """Counts its steps and says that it commits at action 2."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.MultiDiscrete([10_000, 10_000])
    calls = itertools.count()

    def __init__(self) -> None:
        self.steps_made = self.cheap_steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.t = 0, 0
        return self.seen(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps_made += 1
        return self.moved(int(action))

    def moved(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        self.place += action + int(self.np_random.integers(5))
        return self.seen(), float(self.place % 3), False, False, {"committed": True} if action == 2 else {}

    def seen(self) -> Any:
        return np.array([self.place, self.t])


class Cheap(Walk):
    """Offers the cheaper step."""

    def replay_step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.cheap_steps += 1
        return self.moved(int(action))


def world_of(env: gym.Env[Any, Any], spacing: int | None = 4, **lifetime: Any) -> tuple[World, Keyframes]:
    keyframes = Keyframes(Pickle(), spacing=spacing)
    world = World(env, keyframes, lifetime=Lifetime(**lifetime))
    world.reset(3, None)
    return world, keyframes


def walk(world: World, actions: list[int]) -> list[Node]:
    return [world.step(action) for action in actions]


# --- exact ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("snapshot", ["keyframes", "keyframes:heap", "keyframes:pickle", "keyframes:deepcopy"])
def test_random_trees_are_exact(snapshot: str) -> None:
    env = RollbackWrapper(gym.make("FrozenLake-v1"), snapshot=snapshot)
    assert env.snapshot_report.chosen == ("keyframes:heap" if snapshot == "keyframes" else snapshot)
    assert check_restore(env, restores=36).undone_ends > 0


@forks
def test_over_forks_too_with_fewer_processes_than_nodes() -> None:
    env = RollbackWrapper.from_factory(worlds.InC, snapshot="keyframes:fork")
    keyframes: Any = env._world.mechanism.inner
    assert keyframes.base.name == "fork"
    keyframes.spacing = 3
    object.__setattr__(keyframes.base, "most", 5)
    assert check_restore(env, restores=24, steps=4).restores == 24
    env.reset(seed=1)
    for step in range(40):
        env.step(step % 3)
    assert env.restorable == tuple(range(41))
    assert len(keyframes.keyframes) <= 5
    seen = [node.step.observation for node in env.history]
    assert [env.rollback(t)[0] for t in (37, 20, 3, 0)] == [seen[t] for t in (37, 20, 3, 0)]
    env.close()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 40)), max_size=12), st.integers(1, 9), st.integers(1, 7))
def test_every_kept_node_can_be_restored_whatever_was_dropped(
    moves: list[tuple[int, int]], spacing: int, last: int
) -> None:
    world, keyframes = world_of(Walk(), spacing, last=last)
    for steps, pick in moves:
        walk(world, [pick % 2] * steps)
        kept = sorted(world.checkpoints)
        assert all(world.missing(world.nodes[at]) is None for at in kept)
        target = world.nodes[kept[pick % len(kept)]]
        world.restore(target)
        assert world.env.unwrapped.seen().tolist() == target.step.observation.tolist()  # type: ignore[attr-defined]
        assert len(keyframes.keyframes) <= len(world.checkpoints)  # none that nobody needs
    world.forget()
    assert keyframes.keyframes == ()


def test_keyframes_are_sparse_and_the_steps_between_are_done_again() -> None:
    world, keyframes = world_of(env := Walk(), spacing=4)
    nodes = walk(world, [0, 1] * 8)
    assert keyframes.keyframes == (0, 4, 8, 12)
    made = env.steps_made
    world.restore(nodes[9])  # t = 10
    assert world.env.unwrapped.steps_made == 8 + 2  # type: ignore[attr-defined]
    assert made == 16


def test_a_keyframe_lives_as_long_as_a_kept_node_needs_it() -> None:
    world, keyframes = world_of(Walk(), spacing=4, last=2)
    walk(world, [1] * 7)
    assert sorted(world.checkpoints) == [0, 5, 6]
    assert keyframes.keyframes == (0, 4)  # node 4 itself is dropped, 5 and 6 need it
    world.restore(world.nodes[5])
    assert world.env.unwrapped.t == 5  # type: ignore[attr-defined]
    with pytest.raises(SnapshotError, match="not kept"):
        world.restore(world.nodes[4])


def test_sizes_are_counted_once() -> None:
    world, _ = world_of(Walk(), spacing=4)
    walk(world, [1] * 10)
    sizes = [kept.size for kept in world.kept()]
    assert [size > 0 for size in sizes] == [t % 4 == 0 for t in range(10)]  # type: ignore[operator]


def test_resampled_futures_are_done_again() -> None:
    env = RollbackWrapper.from_factory(Walk, snapshot="keyframes:heap", rng="resample")
    env._world.mechanism.inner.spacing = 100  # type: ignore[attr-defined]
    env.reset(seed=1)
    first = [env.step(0)[0].tolist() for _ in range(4)]
    env.rollback(1)
    second = [env.step(0)[0].tolist() for _ in range(4)]
    assert first[1:] != second[:3]
    at = env.node
    env.rollback(2)
    assert env.rollback(at)[0].tolist() == second[-1]


# --- the cheaper step -------------------------------------------------------------------------------------------------


def test_an_environment_may_offer_a_cheaper_step_and_wrappers_still_count() -> None:
    stack = gym.wrappers.TimeLimit(Cheap(), 9)
    world, _ = world_of(stack, spacing=100)
    nodes = walk(world, [1, 0, 1, 0, 1])
    world.restore(nodes[3])
    env: Any = world.env.unwrapped
    assert (env.cheap_steps, env.steps_made, world.env._elapsed_steps) == (4, 0, 4)  # type: ignore[attr-defined]
    world.step(1)
    assert (env.cheap_steps, env.steps_made) == (4, 1)
    assert "step" not in vars(env)


# --- differences ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [Heap, Pickle])
def test_the_first_difference_is_reported_and_the_world_is_as_it_was(base: Any) -> None:
    env = Walk()
    keyframes = Keyframes(base(), spacing=100)
    world = World(env, keyframes)
    world.reset(3, None)
    nodes = walk(world, [0, 1, 0, 1, 1])
    expected, here = nodes[2].step.observation.tolist(), world.env.unwrapped.seen().tolist()  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Walk, "seen", lambda self: np.array([self.place + (self.t == 3), self.t]))
        with pytest.raises(ReplayMismatch, match=rf"step=3: observation was .*{expected[0]}.* and is now"):
            world.restore(nodes[3])
    assert world.node is nodes[-1]
    assert world.env.unwrapped.seen().tolist() == here  # type: ignore[attr-defined]
    world.restore(nodes[3])
    assert world.step(1).step.observation.tolist() == nodes[4].step.observation.tolist()


class Drawing(Walk):
    def moved(self, action: int) -> Any:
        self.place += int(np.random.randint(3))
        return super().moved(action)


class Drifting(Walk):
    """Each instance, and each time, another one."""

    def moved(self, action: int) -> Any:
        self.place += next(Walk.calls) % 7
        return super().moved(action)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Drawing, "global random or numpy.random"),
        (Drifting, "after a restore|replay: step="),
    ],
)
def test_what_cannot_be_done_again_is_refused(make: Any, why: str) -> None:
    with pytest.raises(NotRestorable, match=why):
        RollbackWrapper.from_factory(make, snapshot="keyframes:pickle")


# --- commitments (decision 13), under every mechanism -----------------------------------------------------------------


@pytest.mark.timeout(120)
@pytest.mark.parametrize("snapshot", marked(MECHANISMS))
def test_b10_what_was_committed_is_never_undone_or_done_again(snapshot: str) -> None:
    env = RollbackWrapper.from_factory(worlds.Posting, snapshot=snapshot)
    env.reset(seed=1)
    for action in (0, 1, 0):
        env.step(action)
    other = env.node
    env.rollback(1)
    for action in (1, 3, 0, 1):  # it posts at step 3 of this branch
        env.step(action)
    repeats = snapshot == "replay"
    assert env.restorable == ((5,) if repeats else (3, 4, 5))
    for to in (0, 1, 2, other):
        with pytest.raises(RollbackRefused, match="step 3 had an effect outside that cannot be taken back"):
            env.rollback(to)
    assert env.rollback(5)[4]["rollback"]["ok"]  # k = 0 stays legal
    if not repeats:
        seen = env.node.step.observation
        env.rollback(3)
        env.step(0)
        assert env.step(1)[0] == seen
    env.close()


def test_a_keyframe_is_made_right_after_a_step_that_committed() -> None:
    world, keyframes = world_of(Walk(), spacing=100)
    nodes = walk(world, [0, 1, 2, 0, 2, 1, 1])
    assert keyframes.keyframes == (0, 3, 5)
    world.restore(nodes[5])
    assert world.env.unwrapped.t == 6  # type: ignore[attr-defined]


def test_b10_an_environment_may_say_that_it_must_not_be_rolled_back() -> None:
    class Shop(Walk):
        snapshot_refused = "it orders at a real shop"

    for snapshot in ("auto", "heap", "replay"):
        with pytest.raises(NotRestorable, match="Shop says: it orders at a real shop"):
            RollbackWrapper.from_factory(Shop, snapshot=snapshot)


# --- costs ------------------------------------------------------------------------------------------------------------


@given(st.floats(1e-7, 10), st.floats(1e-7, 10), st.floats(0, 10), st.floats(1e-4, 1), st.integers(1, 4000))
def test_the_spacing_is_the_cheapest_one(save: float, step: float, restore: float, p: float, other: int) -> None:
    def cost(k: int) -> float:
        return save / k + p * (restore + step * (k - 1) / 2)

    best = best_spacing(save_s=save, step_s=step, restore_s=restore, rollbacks_per_step=p)
    assert cost(best) <= 1.07 * cost(other)


def test_a_limit_of_latency_is_kept_where_a_keyframe_can_keep_it() -> None:
    costs = dict(save_s=1.0, step_s=0.01, rollbacks_per_step=0.001)  # noqa: C408
    assert best_spacing(restore_s=0.1, **costs) > 100
    assert best_spacing(restore_s=0.1, latency_s=0.5, **costs) == 41
    assert best_spacing(restore_s=0.6, latency_s=0.5, **costs) == 1
    assert best_spacing(restore_s=0.0, save_s=1.0, step_s=0.0, rollbacks_per_step=0.5) == int(1e9)


@dataclass
class Clock:
    """Time that passes only where something is said to cost something."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Priced:
    """Pickle, at a price."""

    clock: Clock
    save_s: float
    restore_s: float
    inner: Pickle = field(default_factory=Pickle)
    name: str = "priced"
    sized: bool = True
    repeats: bool = False
    tied: bool = False

    def save(self, env: Any, node: Node, start: Start) -> Any:
        self.clock.now += self.save_s
        return self.inner.save(env, node, start)

    def restore(self, env: Any, token: Any) -> Any:
        self.clock.now += self.restore_s
        return self.inner.restore(env, token)

    def size(self, token: Any) -> int | None:
        return self.inner.size(token)

    def drop(self, token: Any) -> None: ...

    def forget(self) -> None: ...


def spent(clock: Clock, spacing: int | None, save_s: float, step_s: float, p: float) -> float:
    """Time that saving and restoring took in one long episode with rollbacks of 1 to 40 steps."""
    rng = np.random.default_rng(0)
    keyframes = Keyframes(Priced(clock, save_s, 0.001), spacing=spacing, latency_s=math.inf, clock_fn=clock)
    env = Walk()
    world = World(env, keyframes)
    world.reset(1, None)
    stepping = [False]
    moved = Walk.moved

    def dear(self: Walk, action: int) -> Any:
        clock.now += 0.0 if stepping[0] else step_s
        return moved(self, action)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Walk, "moved", dear)
        for _ in range(1200):
            stepping[0] = True
            world.step(int(rng.integers(2)))
            stepping[0] = False
            keyframes.costs.step.value, keyframes.costs.step.count = step_s, 1
            if rng.random() < p:
                world.keep()
                world.restore(world.node.branch()[max(0, world.node.t - int(rng.integers(1, 40)))])
    return clock.now


@pytest.mark.parametrize(("save_s", "step_s", "p"), [(0.02, 0.001, 0.05), (0.001, 0.02, 0.1), (0.05, 0.0005, 0.2)])
def test_what_it_costs_is_close_to_the_best_fixed_spacing(save_s: float, step_s: float, p: float) -> None:
    fixed = {k: spent(Clock(), k, save_s, step_s, p) for k in (1, 2, 4, 8, 16, 32, 64, 128)}
    assert spent(Clock(), None, save_s, step_s, p) <= 1.3 * min(fixed.values())


def test_one_value_out_of_all_proportion_does_not_decide() -> None:
    costs = Costs()
    for seconds in itertools.chain([0.01] * 20, [50.0], [0.01] * 5):
        costs.step.add(seconds)
        costs.save.add(0.1)
    assert costs.step.value < 0.02
    assert Costs().spacing(price_s=0.0, latency_s=1.0) == 1

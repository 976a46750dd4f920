"""The ladder on environments that break copying in every known way: exact or refused, never wrong."""

from __future__ import annotations

import collections
import functools
import itertools
import logging
import random
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import EzPickle

from rir_gym import NotRestorable, RollbackRefused, RollbackWrapper
from rir_gym.errors import UnknownName
from rir_gym.snapshot.auto import maker_of
from rir_gym.testing import check_restore

SIMULATOR: dict[int, int] = {}
ELSEWHERE: Any = logging.getLogger(__name__)  # a walk from an environment stops at it
TALLY = 0


class Base(gym.Env[int, int]):
    """A counter that mixes its actions; each heir hides state in another place."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Discrete(1000)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = int(self.np_random.integers(50))
        self.begin()
        return self.x, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.x = (self.x * 3 + int(action) + self.hidden(int(action)) + 1) % 997
        return self.x, float(action), False, False, {}

    def begin(self) -> None: ...

    def hidden(self, action: int) -> int:
        return 0


class Rebuilt(Base, EzPickle):
    """EzPickle: a copy is a new, unreset instance."""

    def __init__(self, size: int = 3) -> None:
        EzPickle.__init__(self, size)
        self.x = 0


class Locked(Base):
    def __init__(self) -> None:
        self._lock = threading.Lock()


class Generating(Base):
    def begin(self) -> None:
        self.events = (7 * i for i in itertools.count())

    def hidden(self, action: int) -> int:
        return next(self.events)


class Closure(Base):
    def begin(self) -> None:
        count = 0

        def bump() -> int:
            nonlocal count
            count += 1
            return count

        self.bump = bump

    def hidden(self, action: int) -> int:
        return self.bump()


class ClassLevel(Base):
    log: list[int] = []  # noqa: RUF012

    def begin(self) -> None:
        self.log.clear()

    def hidden(self, action: int) -> int:
        self.log.append(action)
        return sum(self.log) if len(self.log) > 40 else 0  # far beyond what a probe plays


class ModuleLevel(Base):
    def begin(self) -> None:
        global TALLY
        TALLY = 0

    def hidden(self, action: int) -> int:
        global TALLY
        TALLY += 1
        return TALLY if TALLY > 40 else 0


class Handle(Base):
    """An int that names something in a process-wide simulator."""

    def __init__(self) -> None:
        self.handle = len(SIMULATOR)

    def begin(self) -> None:
        SIMULATOR[self.handle] = 0

    def hidden(self, action: int) -> int:
        SIMULATOR[self.handle] += action
        return SIMULATOR[self.handle]


class OutOfSight(Base):
    """Draws on something elsewhere for a secret that no observation shows yet."""

    def hidden(self, action: int) -> int:
        ELSEWHERE.n = getattr(ELSEWHERE, "n", 0) + 1
        self.secret = ELSEWHERE.n
        return 0


class Views(Base):
    def begin(self) -> None:
        self.board = np.zeros((3, 3), dtype=int)
        self.row = self.board[1]

    def hidden(self, action: int) -> int:
        self.row[action] += 1
        return int(self.board.sum())


class WeakParent(Base):
    def begin(self) -> None:
        self.child = type("Child", (), {})()
        self.child.n = 0
        self.ref = weakref.ref(self.child)

    def hidden(self, action: int) -> int:
        child = self.ref()
        assert child is not None
        child.n += 1
        return int(self.child.n)


class BoundMethod(Base):
    """Holds a generator by one of its C methods only: copying code takes such a method for an atom."""

    def begin(self) -> None:
        self.draw = random.Random(4).random

    def hidden(self, action: int) -> int:
        return int(1000 * self.draw())


class PartialMethod(Base):
    def begin(self) -> None:
        self.draw = functools.partial(random.Random(4).randrange, 100)

    def hidden(self, action: int) -> int:
        return self.draw()


class Recursive(Base):
    """A linked list too deep for recursive copying."""

    def begin(self) -> None:
        self.chain: Any = None
        for i in range(5000):
            self.chain = [i, self.chain]


class Clock(Base):
    def hidden(self, action: int) -> int:
        return time.perf_counter_ns() % 997


class Spawning(Base):
    """Draws from sub-generators that it spawns as it goes (kind A21)."""

    def hidden(self, action: int) -> int:
        return int(self.np_random.spawn(1)[0].integers(100))


class OwnSpace(Base):
    def __init__(self) -> None:
        self.dice = gym.spaces.Discrete(90)

    def begin(self) -> None:
        self.dice.seed(3)

    def hidden(self, action: int) -> int:
        return int(self.dice.sample())


class Incomplete(Base):
    """A state pair that forgets one field."""

    def begin(self) -> None:
        self.score = 0

    def hidden(self, action: int) -> int:
        self.score += action
        return self.score // 30

    def get_state(self) -> int:
        return self.x

    def set_state(self, state: int) -> None:
        self.x = state


class ForgetsGenerator(Base):
    def hidden(self, action: int) -> int:
        return int(self.np_random.integers(2))

    def get_state(self) -> int:
        return self.x

    def set_state(self, state: int) -> None:
        self.x = state


class Complete(ForgetsGenerator):
    def get_state(self) -> Any:
        return self.x, self.np_random.bit_generator.state

    def set_state(self, state: Any) -> None:
        self.x, self.np_random.bit_generator.state = state


class Aliased(Complete):
    """A state pair that hands out its own list."""

    def begin(self) -> None:
        self.trail: list[int] = []

    def hidden(self, action: int) -> int:
        self.trail.append(action)
        return len(self.trail)

    def get_state(self) -> Any:
        return self.x, self.np_random.bit_generator.state, self.trail

    def set_state(self, state: Any) -> None:
        self.x, self.np_random.bit_generator.state, self.trail = state


class Tangled(gym.Wrapper[Any, Any, Any, Any]):
    """A wrapper that counts, above a state pair."""

    def reset(self, **kwargs: Any) -> Any:
        self.count = [0]
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        self.count[0] += 1
        observation, *rest = super().step(action)
        return ((observation + self.count[0]) % 1000, *rest)


class Forwarding(gym.Wrapper[Any, Any, Any, Any]):
    """Forwards everything, private names too: the usual cause of endless recursion in copies (kind A15)."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)


def refused(make: Callable[[], gym.Env[Any, Any]]) -> str:
    """The message of the refusal, after which the environment must still play."""
    env = make()
    with pytest.raises(NotRestorable) as raised:
        RollbackWrapper(env)
    env.reset(seed=0)
    assert len([env.step(1) for _ in range(3)]) == 3
    return str(raised.value)


EXACT = [
    *[Base, Views, WeakParent, Spawning, OwnSpace, Complete],
    *[lambda: Tangled(Complete()), lambda: gym.wrappers.TimeLimit(Incomplete(), 9)],
    *[lambda: Tangled(gym.wrappers.TimeLimit(Base(), 7)), lambda: Forwarding(Complete())],
]
FACTORY_ONLY = [Rebuilt, Locked, Closure, Recursive, BoundMethod, PartialMethod, Generating]


@pytest.mark.parametrize("make", [*EXACT, *FACTORY_ONLY])
def test_what_a_factory_can_make_again_is_exact(make: Callable[[], gym.Env[Any, Any]]) -> None:
    report = check_restore(make, restores=20)
    assert report.restores == 20


@pytest.mark.parametrize(
    "make", [*EXACT, *FACTORY_ONLY, ClassLevel, ModuleLevel, Handle, Incomplete, ForgetsGenerator, Aliased]
)
def test_without_a_factory_it_is_exact_or_refused(make: Callable[[], gym.Env[Any, Any]]) -> None:
    try:
        report = check_restore(make(), restores=20, steps=30)
    except NotRestorable:
        refused(make)
    else:
        assert report.restores == 20


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (Generating, "env.events is builtins.generator"),
        (ClassLevel, "class ClassLevel.log"),
        (ModuleLevel, ".TALLY was int 0, is int 6"),
        (Handle, ".SIMULATOR"),
        (OutOfSight, "after the same actions env.secret was"),
        (Clock, "step "),
    ],
)
def test_a_refusal_names_the_object_and_its_path(make: Any, named: str) -> None:
    message = refused(make)
    assert named in message
    assert message.startswith(f"snapshot='auto': {make.__name__} cannot be put back faithfully.")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("make", "snapshot", "named"),
    [
        (Closure, "deepcopy", "env.bump.<count>"),
        (BoundMethod, "deepcopy", "env.draw.__self__ was Random"),
        (Rebuilt, "deepcopy", "env.x was int"),
        (Rebuilt, "pickle", "env.x was int"),
        (Locked, "deepcopy", "env._lock is _thread.lock"),
        (Locked, "pickle", "env._lock is _thread.lock"),
    ],
)
def test_what_copying_gets_wrong_is_refused_by_name_and_exact_in_the_heap(make: Any, snapshot: str, named: str) -> None:
    with pytest.raises(NotRestorable, match=f"snapshot='{snapshot}'") as raised:
        RollbackWrapper(make(), snapshot=snapshot)
    assert named in str(raised.value)
    env = RollbackWrapper(make())
    assert env.snapshot_report.chosen == "heap"
    assert check_restore(env, restores=15).restores == 15


@pytest.mark.parametrize("make", [ClassLevel, ModuleLevel, Handle, Clock])
def test_what_lives_outside_the_instance_is_refused_or_repeated_exactly(make: Any) -> None:
    try:
        env = RollbackWrapper.from_factory(make, snapshot="replay")
    except NotRestorable:
        return
    assert env.snapshot_report.chosen == "replay"
    assert check_restore(env, restores=15, steps=12).restores == 15


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Incomplete, "env.score was"),
        (ForgetsGenerator, "env._np_random was Generator"),
        (Aliased, "env.trail"),
    ],
)
def test_an_incomplete_native_state_is_noticed(make: Any, why: str) -> None:
    env = RollbackWrapper(make())
    assert env.snapshot_report.chosen == "heap"
    assert why in env.snapshot_report.reasons["native"]
    with pytest.raises(NotRestorable, match="native"):
        RollbackWrapper(make(), snapshot="native")


def test_a_complete_native_state_is_preferred_with_the_wrappers_above_it() -> None:
    env = RollbackWrapper(Tangled(gym.wrappers.TimeLimit(Complete(), 5)))
    assert env.snapshot_report.chosen == "native"
    inner = env.unwrapped
    env.reset(seed=0)
    first = [env.step(1)[0] for _ in range(4)]
    env.rollback(0)
    assert [env.step(1)[0] for _ in range(4)] == first
    assert env.unwrapped is inner


@pytest.mark.parametrize("module", ["random", "numpy"])
@pytest.mark.parametrize("agent_draws", [False, True])
def test_an_environment_on_the_global_generators(module: str, agent_draws: bool) -> None:
    def draw() -> int:
        return random.randrange(10**6) if module == "random" else int(np.random.randint(10**6))

    class Global(Base):
        def hidden(self, action: int) -> int:
            return draw()

    def seed() -> None:
        random.seed(5)
        np.random.seed(5)

    def play(env: gym.Env[int, int], steps: int) -> list[tuple[int, int | None]]:
        return [(env.step(1)[0], draw() if agent_draws else None) for _ in range(steps)]

    env = RollbackWrapper(Global())
    bare: gym.Env[int, int] = Global()
    seed()
    bare.reset(seed=0)
    straight = play(bare, 8)
    agent_next = draw()
    seed()
    env.reset(seed=0)
    assert play(env, 8) == straight  # before the first rollback exactly as without a wrapper
    agent = []
    futures = []
    for to in (3, 3, 0, 7, 0):
        before = [node.step.observation for node in env.history]
        env.rollback(to)
        agent += [drawn for _, drawn in play(env, 8 - to)]
        futures.append([node.step.observation for node in env.history])
        assert futures[-1][: to + 2] == before[: to + 2]  # same action, same future
    if not agent_draws:
        assert all(future[1:] == [world for world, _ in straight] for future in futures)
    assert futures[0] == futures[1]
    assert futures[2] == futures[3] == futures[4]
    agent.append(draw())
    seed()
    expected = [draw() for _ in range(8 * (1 + agent_draws) + len(agent))][8 * (1 + agent_draws) :]
    assert agent[-1] == expected[-1 if agent_draws else 0]
    assert [drawn for drawn in agent[:-1] if agent_draws] == (expected[:-1] if agent_draws else [])  # never rewound
    assert (agent[0] if agent_draws else agent[-1]) == agent_next


def test_a_replay_cannot_rewind_the_global_generators() -> None:
    class Global(Base):
        def hidden(self, action: int) -> int:
            return random.randrange(100)

    with pytest.raises(NotRestorable, match=r"replay|global random"):
        RollbackWrapper.from_factory(Global, snapshot="replay")


def test_a_shared_attribute_is_neither_copied_nor_compared() -> None:
    class Logging(Locked):
        def __init__(self) -> None:
            super().__init__()
            self.lines = collections.deque([threading.Lock()])

    for snapshot in ("heap", "deepcopy", "pickle"):
        env = RollbackWrapper(Logging(), share=["_lock", "lines"], snapshot=snapshot)
        lock, lines = env.unwrapped._lock, env.unwrapped.lines
        assert check_restore(env, restores=10).restores == 10
        assert env.unwrapped._lock is lock
        assert env.unwrapped.lines is lines


def test_a_state_that_stops_being_copyable_costs_its_checkpoints_only() -> None:
    class LateLock(Base):
        def hidden(self, action: int) -> int:
            if self.x > 400:
                self.lock = threading.Lock()
            return 0

    class Late(Base):
        def begin(self) -> None:
            self.age = 0
            self.__dict__.pop("lock", None)

        def hidden(self, action: int) -> int:
            self.age += 1
            if self.age == 30:
                self.lock = threading.Lock()
            return 0

    env = RollbackWrapper(Late(), snapshot="deepcopy")
    env.reset(seed=0)
    for _ in range(33):
        env.step(1)
    assert env.restorable == (*range(30), 33)
    with pytest.raises(RollbackRefused, match=r"cannot pickle '_thread\.lock'"):
        env.rollback(31)
    assert env.step(1)[0] == env.node.step.observation
    env.rollback(29)
    assert env.history[-1].t == 29


def test_replay_reports_the_first_difference_and_leaves_the_live_world() -> None:
    drift = iter(range(10**6))

    class Drifts(Base):
        """Exact while it is proven, then no two instances agree (kind B13, a clock that leaks)."""

        def hidden(self, action: int) -> int:
            return 0 if self.x < 990 and not armed else next(drift)

    armed: list[int] = []
    env = RollbackWrapper.from_factory(Drifts, snapshot="replay")
    armed.append(1)
    env.reset(seed=0)
    seen = [env.step(1)[0] for _ in range(5)]
    here = env.node
    with pytest.raises(RollbackRefused, match=rf"replay: step=1: observation was {seen[0]} and is now \d+"):
        env.rollback(4)
    assert env.node is here
    assert env.unwrapped.x == seen[-1]
    env.step(1)


def test_the_live_generator_is_not_left_at_the_proofs_seed() -> None:
    starts = {int(RollbackWrapper(OwnSeed()).reset()[0]) for _ in range(4)}
    assert len(starts) > 1


class Plain(gym.Wrapper[Any, Any, Any, Any]):
    """Does nothing, and does not record its arguments."""


class OwnSeed(Base):
    def begin(self) -> None:
        self.x = int(self.np_random.integers(10**9))


def test_a_wrapper_that_records_no_arguments_is_proven_on_the_live_stack() -> None:
    env = Plain(gym.make("FrozenLake-v1"))
    assert maker_of(env) is None
    for snapshot in ("heap", "pickle", "deepcopy"):
        assert check_restore(Plain(gym.make("FrozenLake-v1")), restores=15, snapshot=snapshot).mechanism == snapshot


def test_a_maker_gives_the_same_stack() -> None:
    env = gym.make("FrozenLake-v1").unwrapped
    make = maker_of(env)
    assert make is not None
    assert type(make()) is type(env)
    assert check_restore(env, snapshot="replay", restores=15).mechanism == "replay"


def test_an_unknown_mechanism_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="known are auto, deepcopy, fork, heap, keyframes, keyframes:deepcopy, "):
        RollbackWrapper(Base(), snapshot="spoon")

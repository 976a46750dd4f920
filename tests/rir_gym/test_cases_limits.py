"""Environments made to deceive a proof: each must be exact or refused by a reason that names the object.

State hides where instances do not hold it and shows in no observation before step 60, long after a proof has ended.
"""

from __future__ import annotations

import array
import collections
import contextvars
import copy
import ctypes
import decimal
import enum
import functools
import itertools
import mmap
import os
import sqlite3
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rir_gym import NotRestorable, RollbackRefused, RollbackWrapper, UsageError
from rir_gym.snapshot import native
from rir_gym.snapshot.native import register_adapter
from rir_gym.testing import check_restore

LATE = 60
OTHER: Any = types.ModuleType("a_module_of_theirs")
OTHER.n, OTHER.box = 0, types.SimpleNamespace(n=0)


class Base(gym.Env[int, int]):
    """A counter that mixes its actions; the hidden number counts only once it is large."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Discrete(1000)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = int(self.np_random.integers(50))
        self.begin()
        return self.x, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        hidden = self.hidden(int(action))
        self.x = (self.x * 3 + int(action) + (hidden if hidden > LATE else 0) + 1) % 997
        return self.x, float(action), False, False, {}

    def begin(self) -> None: ...

    def hidden(self, action: int) -> int:
        return 0


# --- state that no instance holds: (its environment, what the refusal names) ------------------------------------------


class OtherModule(Base):
    def begin(self) -> None:
        OTHER.n = 0

    def hidden(self, action: int) -> int:
        OTHER.n += 1
        return int(OTHER.n)


class ObjectOfAnotherModule(Base):
    def begin(self) -> None:
        OTHER.box.n = 0

    def hidden(self, action: int) -> int:
        OTHER.box.n += 1
        return int(OTHER.box.n)


class HeldModule(Base):
    def __init__(self) -> None:
        self.rules = OTHER

    def begin(self) -> None:
        self.rules.n = 0

    def hidden(self, action: int) -> int:
        self.rules.n += 1
        return int(self.rules.n)


class Tallied(Base):
    total = 0


class BaseClassAttribute(Tallied):
    def begin(self) -> None:
        Tallied.total = 0

    def hidden(self, action: int) -> int:
        Tallied.total += 1
        return Tallied.total


class Meta(type(gym.Env)):  # type: ignore[misc]
    n = 0


class MetaclassAttribute(Base, metaclass=Meta):
    def begin(self) -> None:
        Meta.n = 0

    def hidden(self, action: int) -> int:
        Meta.n += 1
        return Meta.n


class ObjectOfTheClass(Base):
    state = types.SimpleNamespace(n=0)

    def begin(self) -> None:
        self.state.n = 0

    def hidden(self, action: int) -> int:
        self.state.n += 1
        return int(self.state.n)


SINGLETON = types.SimpleNamespace(n=0)
NUMBERS = itertools.count()
CONTEXT: contextvars.ContextVar[int] = contextvars.ContextVar("CONTEXT", default=0)
LOCAL = threading.local()


class Singleton(Base):
    def begin(self) -> None:
        SINGLETON.n = 0

    def hidden(self, action: int) -> int:
        SINGLETON.n += 1
        return int(SINGLETON.n)


class SerialNumbers(Base):
    def begin(self) -> None:
        self.first = next(NUMBERS)

    def hidden(self, action: int) -> int:
        return next(NUMBERS) - self.first


class ContextVariable(Base):
    def begin(self) -> None:
        CONTEXT.set(0)

    def hidden(self, action: int) -> int:
        CONTEXT.set(CONTEXT.get() + 1)
        return CONTEXT.get()


class ThreadLocal(Base):
    def begin(self) -> None:
        LOCAL.n = 0

    def hidden(self, action: int) -> int:
        LOCAL.n += 1
        return int(LOCAL.n)


def counter() -> Callable[[], int]:
    count = [0]

    def bump() -> int:
        count[0] += 1
        return count[0]

    bump.count = count  # type: ignore[attr-defined]
    return bump


BUMP: Any = counter()


class GlobalClosure(Base):
    def begin(self) -> None:
        BUMP.count[0] = 0

    def hidden(self, action: int) -> int:
        return int(BUMP())


def remember(reset: bool = False, memo: dict[str, int] = {"n": 0}) -> int:  # noqa: B006
    memo["n"] = 0 if reset else memo["n"] + 1
    return memo["n"]


class HelperWithADefault(Base):
    def begin(self) -> None:
        remember(reset=True)

    def hidden(self, action: int) -> int:
        return remember()


class MethodWithADefault(Base):
    def begin(self) -> None:
        self.hidden.__func__.__defaults__[0][0] = 0  # type: ignore[attr-defined]

    def hidden(self, action: int, memo: list[int] = [0]) -> int:  # noqa: B006
        memo[0] += 1
        return memo[0]


class FunctionAttribute(Base):
    def bump(self) -> int:
        FunctionAttribute.bump.n += 1  # type: ignore[attr-defined]
        return int(FunctionAttribute.bump.n)  # type: ignore[attr-defined]

    def begin(self) -> None:
        FunctionAttribute.bump.n = 0  # type: ignore[attr-defined]

    def hidden(self, action: int) -> int:
        return self.bump()


class StaticClosure(Base):
    tick = staticmethod(counter())

    def begin(self) -> None:
        self.tick.count[0] = 0  # type: ignore[attr-defined]

    def hidden(self, action: int) -> int:
        return self.tick()


class Mode(enum.Enum):
    CALM = 1


class EnumMember(Base):
    def begin(self) -> None:
        self.mode: Any = Mode.CALM
        self.mode.hits = 0

    def hidden(self, action: int) -> int:
        self.mode.hits += 1
        return int(self.mode.hits)


class ItsOwnSpec(Base):
    def begin(self) -> None:
        if self.spec is None:
            self.spec = gym.envs.registration.EnvSpec("A-v0", entry_point="nowhere:A")
        self.spec.kwargs["n"] = 0

    def hidden(self, action: int) -> int:
        assert self.spec is not None
        self.spec.kwargs["n"] += 1
        return int(self.spec.kwargs["n"])


class DecimalContext(Base):
    def begin(self) -> None:
        decimal.getcontext().prec = 10

    def hidden(self, action: int) -> int:
        decimal.getcontext().prec += 1
        return decimal.getcontext().prec - 10


class EnvironmentVariable(Base):
    def begin(self) -> None:
        os.environ["RIR_GYM_TEST"] = "0"

    def hidden(self, action: int) -> int:
        os.environ["RIR_GYM_TEST"] = str(int(os.environ["RIR_GYM_TEST"]) + 1)
        return int(os.environ["RIR_GYM_TEST"])


class ToAndFro(Base):
    """Back where it was after every second step."""

    def begin(self) -> None:
        SINGLETON.n = 0

    def hidden(self, action: int) -> int:
        SINGLETON.n = 1 - SINGLETON.n
        return 0


class ActsAtDeath(Base):
    """Something dies in a step and acts: a checkpoint would keep it alive."""

    def begin(self) -> None:
        self.log = log = [0]

        class Mortal:
            def __del__(self) -> None:
                log[0] += 100

        self.mortal: Any = Mortal()

    def hidden(self, action: int) -> int:
        self.log[0] += 1
        if self.log[0] == 3:
            self.mortal = None
        return self.log[0]


class Finalizer(Base):
    def begin(self) -> None:
        self.log, self.thing = [0], counter()
        self.final = weakref.finalize(self.thing, self.log.append, 1)

    def hidden(self, action: int) -> int:
        self.log[0] += 1
        return self.log[0]


class HiddenDict(Base):
    """An object whose class shows another ``__dict__`` than it has."""

    class Thing:
        __dict__ = property(lambda self: {})  # type: ignore[assignment]

        def __init__(self) -> None:
            self.n = 0

    def begin(self) -> None:
        self.thing = self.Thing()

    def hidden(self, action: int) -> int:
        self.thing.n += 1
        return self.thing.n


class CachedDraw(Base):
    """Draws once for each argument; the cache outlives every rollback."""

    @functools.lru_cache(maxsize=None)  # noqa: B019, UP033
    def draw(self, key: int) -> int:
        return int(self.np_random.integers(1000))

    def hidden(self, action: int) -> int:
        return self.draw(self.x % 3)


class Database(Base):
    def begin(self) -> None:
        self.database = sqlite3.connect(":memory:")
        self.database.execute("create table t (x)")

    def hidden(self, action: int) -> int:
        self.database.execute("insert into t values (1)")
        return int(self.database.execute("select count(*) from t").fetchone()[0])


REFUSED = [
    (OtherModule, "module a_module_of_theirs.n was int 0, is int 6"),
    (ObjectOfAnotherModule, ".box.n was int 0"),
    (HeldModule, "a_module_of_theirs.n was int 0"),
    (BaseClassAttribute, "class Tallied.total was int 0"),
    (MetaclassAttribute, "class Meta.n was int 0"),
    (ObjectOfTheClass, "class ObjectOfTheClass.state.n was int 0"),
    (Singleton, ".SINGLETON.n was int 0"),
    (SerialNumbers, ".NUMBERS was opaque itertools.count count("),
    (ContextVariable, ".CONTEXT was opaque _contextvars.ContextVar 0"),
    (ThreadLocal, ".LOCAL.n was int 0"),
    (GlobalClosure, "counter.<locals>.bump.count[0] was int 0"),
    (HelperWithADefault, "remember.defaults[1]['n'] was int 0"),
    (MethodWithADefault, "MethodWithADefault.hidden.defaults[0][0] was int 0"),
    (FunctionAttribute, "FunctionAttribute.bump.n was int 0"),
    (StaticClosure, "[0] was int 0"),
    (EnumMember, "env.mode.hits was int 0"),
    (ItsOwnSpec, "env.spec.kwargs was"),
    (DecimalContext, "decimal.getcontext().prec was int 10"),
    (EnvironmentVariable, "os.environ['RIR_GYM_TEST'] was str '0'"),
    (ToAndFro, ".SINGLETON.n was int 0, is int 1"),
    (ActsAtDeath, "env.mortal (ActsAtDeath.begin.<locals>.Mortal) acts when it dies"),
    (Finalizer, "(at env.final)"),
    (HiddenDict, "env.thing"),
    (CachedDraw, "env._np_random was Generator"),
    (Database, "(at env.database)"),
]


@pytest.fixture(autouse=True)
def _process_settings() -> Iterator[None]:
    context = decimal.getcontext().copy()
    yield
    decimal.setcontext(context)
    os.environ.pop("RIR_GYM_TEST", None)


@pytest.mark.parametrize(("make", "named"), REFUSED)
def test_what_no_instance_holds_is_refused_by_name_and_the_live_environment_plays_on(make: Any, named: str) -> None:
    env = make()
    with pytest.raises(NotRestorable) as raised:
        RollbackWrapper(env)
    assert named in str(raised.value)
    assert "\n" not in str(raised.value)
    for _ in range(2):
        assert env.reset(seed=4)[0] == make().reset(seed=4)[0]
        assert len([env.step(1) for _ in range(LATE + 10)]) == LATE + 10


@pytest.mark.parametrize("make", [make for make, _ in REFUSED])
def test_what_no_instance_holds_is_repeated_exactly_or_refused(make: Any) -> None:
    try:
        env = RollbackWrapper.from_factory(make, snapshot="replay")
    except NotRestorable:
        return
    assert env.snapshot_report.chosen == "replay"
    assert check_restore(env, restores=4, steps=LATE).restores == 4


# --- state that looks like something else -----------------------------------------------------------------------------


class Score(int):
    """A number that carries a list."""


class Annotated(Base):
    def begin(self) -> None:
        self.score = Score(3)
        self.score.notes = []  # type: ignore[attr-defined]

    def hidden(self, action: int) -> int:
        self.score.notes.append(action)  # type: ignore[attr-defined]
        return len(self.score.notes)  # type: ignore[attr-defined]


class Marked(np.ndarray):
    """An array that carries a number."""

    def __array_finalize__(self, other: Any) -> None:
        self.n = getattr(other, "n", 0)


class MarkedArray(Base):
    def begin(self) -> None:
        self.board = np.zeros(3).view(Marked)
        self.board.n = 0

    def hidden(self, action: int) -> int:
        self.board.n += 1
        return int(self.board.n)


class MaskedArray(Base):
    def begin(self) -> None:
        self.board = np.ma.masked_array(np.zeros(200), mask=np.zeros(200, dtype=bool))

    def hidden(self, action: int) -> int:
        self.board.mask[int(self.board.mask.sum()) % 200] = True
        return int(self.board.mask.sum())


class Alike:
    """Equal to everything, false, and always printed alike."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "alike"

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int


class EqualToAll(Base):
    def begin(self) -> None:
        self.thing = Alike(0)

    def hidden(self, action: int) -> int:
        self.thing = Alike(self.thing.n + 1)
        return self.thing.n


class Liar:
    """Says of itself that it has not changed, and that it is its own copy."""

    def __init__(self) -> None:
        self.n = 0

    def __getstate__(self) -> dict[str, int]:
        return {"n": 0}

    def __deepcopy__(self, memo: Any) -> Liar:
        return self


class LyingState(Base):
    def begin(self) -> None:
        self.thing = Liar()

    def hidden(self, action: int) -> int:
        self.thing.n += 1
        return self.thing.n


class Peeking:
    """Looking at it changes it."""

    __slots__ = ("_n",)

    def __init__(self) -> None:
        self._n = 0

    @property
    def n(self) -> int:
        self._n += 1
        return self._n


class SideEffects(Base):
    def begin(self) -> None:
        self.thing = Peeking()

    @property
    def peek(self) -> int:
        return self.thing.n

    def hidden(self, action: int) -> int:
        return self.peek


class OnAsking(Base):
    """Every question for one attribute changes it."""

    def begin(self) -> None:
        self.count = -1

    def __getattribute__(self, name: str) -> Any:
        if name == "count":
            fields = object.__getattribute__(self, "__dict__")
            fields["count"] = fields.get("count", 0) + 1
        return object.__getattribute__(self, name)

    def hidden(self, action: int) -> int:
        return int(self.count)


class PartialState(Base):
    def begin(self) -> None:
        self.push = functools.partial(lambda pile, action: pile.append(action) or len(pile), [])

    def hidden(self, action: int) -> int:
        return int(self.push(action))


class KeywordState(Base):
    def begin(self) -> None:
        self.call = functools.partial(dict, n=0)

    def hidden(self, action: int) -> int:
        self.call.keywords["n"] += 1
        return int(self.call()["n"])


class Counting(Base):
    def begin(self) -> None:
        self.ids = itertools.count()

    def hidden(self, action: int) -> int:
        return next(self.ids)


class IteratorInAClosure(Base):
    def begin(self) -> None:
        numbers = iter(range(10**6))
        self.draw = lambda: next(numbers)

    def hidden(self, action: int) -> int:
        return self.draw()


class View(Base):
    def begin(self) -> None:
        self.memory = memoryview(bytearray(4))

    def hidden(self, action: int) -> int:
        self.memory[0] = (self.memory[0] + 1) % 256
        return self.memory[0]


class Mapped(Base):
    def begin(self) -> None:
        self.memory = mmap.mmap(-1, 8)

    def hidden(self, action: int) -> int:
        self.memory[0] = (self.memory[0] + 1) % 256
        return self.memory[0]


class ArrayOverMapped(Base):
    def begin(self) -> None:
        self.board = np.frombuffer(mmap.mmap(-1, 8), dtype=np.int64)

    def hidden(self, action: int) -> int:
        self.board[0] += 1
        return int(self.board[0])


class Growing(Base):
    def begin(self) -> None:
        self.pile = array.array("b")

    def hidden(self, action: int) -> int:
        self.pile.append(action)
        return len(self.pile)


class Point(ctypes.Structure):
    _fields_ = [("n", ctypes.c_int)]


class Struct(Base):
    def begin(self) -> None:
        self.point = Point()

    def hidden(self, action: int) -> int:
        self.point.n += 1
        return int(self.point.n)


class Pointer(Base):
    def begin(self) -> None:
        self.number = ctypes.c_int(0)
        self.place = ctypes.pointer(self.number)

    def hidden(self, action: int) -> int:
        self.place[0] += 1
        return self.place[0]


class OwnDecimalContext(Base):
    def begin(self) -> None:
        self.context = decimal.Context(prec=10)

    def hidden(self, action: int) -> int:
        self.context.prec += 1
        return self.context.prec - 10


class MadeClass(Base):
    def begin(self) -> None:
        self.made: Any = type("Made", (), {"n": 0})

    def hidden(self, action: int) -> int:
        self.made.n += 1
        return int(self.made.n)


class MadeModule(Base):
    def begin(self) -> None:
        self.rules: Any = types.ModuleType("made")
        self.rules.n = 0

    def hidden(self, action: int) -> int:
        self.rules.n += 1
        return int(self.rules.n)


class Bounded(Base):
    def begin(self) -> None:
        self.recent = collections.deque(range(5), maxlen=5)

    def hidden(self, action: int) -> int:
        self.recent.append(self.recent[0] + self.recent[-1] + 1)
        return self.recent[0] % 90


class Ordered(Base):
    def begin(self) -> None:
        self.turns = collections.OrderedDict.fromkeys("abcdef", 0)

    def hidden(self, action: int) -> int:
        self.turns.move_to_end(list(self.turns)[action])
        return sum(i * ord(name) for i, name in enumerate(self.turns)) % 300


class Inner(Base):
    """Another environment inside that is no layer, and is stepped by this one."""

    def __init__(self) -> None:
        self.game = gym.make("FrozenLake-v1")

    def begin(self) -> None:
        self.game.reset(seed=3)
        self.age = 0

    def hidden(self, action: int) -> int:
        self.age += 1
        if self.age % 10 == 0:
            self.game.reset()
        return LATE + int(self.game.step(action)[0])


class Swapping(gym.Wrapper[Any, Any, Any, Any]):
    """A wrapper that puts another environment in its place as it goes."""

    def __init__(self) -> None:
        super().__init__(Counting())
        self.games = [self.env, Annotated()]

    def reset(self, **kwargs: Any) -> Any:
        self.age, self.env = 0, self.games[0]
        self.games[1].reset(**kwargs)
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        self.age += 1
        self.env = self.games[self.age // 7 % 2]
        return self.env.step(action)


class NamesOnly(Base):
    """Which names there are, not what they hold."""

    def begin(self) -> None:
        for name in [name for name in vars(self) if name.startswith("seen_")]:
            delattr(self, name)

    def hidden(self, action: int) -> int:
        setattr(self, f"seen_{len(vars(self))}", None)
        return len(vars(self))


DISGUISED = [
    *[Annotated, MarkedArray, MaskedArray, EqualToAll, LyingState, SideEffects, OnAsking, PartialState, KeywordState],
    *[Counting, IteratorInAClosure, View, Mapped, ArrayOverMapped, Growing, Struct, Pointer, OwnDecimalContext],
    *[MadeClass, MadeModule, Bounded, Ordered, Inner, Swapping, NamesOnly],
]
IN_THE_HEAP = [
    *[Annotated, MarkedArray, MaskedArray, EqualToAll, LyingState, SideEffects, OnAsking, PartialState, KeywordState],
    *[View, Growing, Bounded, Ordered, Inner, NamesOnly],
]


@pytest.mark.parametrize("snapshot", ["auto", "heap", "pickle", "deepcopy"])
@pytest.mark.parametrize("make", DISGUISED)
def test_what_is_in_disguise_is_exact_or_refused(make: Any, snapshot: str) -> None:
    env = make()
    try:
        wrapped = RollbackWrapper(env, snapshot=snapshot)
    except NotRestorable as error:
        refused = str(error)
    else:
        assert check_restore(wrapped, restores=4, steps=LATE).restores == 4
        return
    assert refused.startswith(f"snapshot={snapshot!r}: {type(env.unwrapped).__name__} cannot be put back faithfully. ")
    assert "a place that the walk does not reach" not in refused
    assert make not in IN_THE_HEAP or snapshot not in ("auto", "heap")
    env.reset(seed=0)
    assert len([env.step(1) for _ in range(LATE + 10)]) == LATE + 10


@pytest.mark.parametrize("make", IN_THE_HEAP)
def test_disguises_do_not_deceive_the_heap(make: Any) -> None:
    assert RollbackWrapper(make()).snapshot_report.chosen == "heap"


# --- two worlds that share something ----------------------------------------------------------------------------------


class Sharing(Base):
    def __init__(self, bump: Callable[[], int]) -> None:
        self.bump = bump

    def hidden(self, action: int) -> int:
        return LATE + self.bump()


def test_what_two_environments_share_goes_back_with_the_one_that_is_rolled_back() -> None:
    """In place, what is shared stays shared; a copy would come apart from the other one."""
    bump: Any = counter()
    one, other = RollbackWrapper(Sharing(bump), snapshot="heap"), Sharing(bump)
    one.reset(seed=0)
    other.reset(seed=0)
    at = bump.count[0]
    one.step(1)
    one.step(1)
    one.rollback(0)
    assert bump.count[0] == at
    other.step(1)
    assert one.unwrapped.bump is other.bump
    assert bump.count[0] == at + 1


# --- copies of a wrapper whose states somebody closes -----------------------------------------------------------------


class Handles(Base):
    """Its states are numbers of slots in a C library, which are freed when they are not needed any more."""


LIBRARY: Any = types.SimpleNamespace(slots=[])


def test_a_copied_wrapper_never_restores_a_state_that_the_original_may_have_closed() -> None:
    def save(env: Any) -> int:
        LIBRARY.slots.append(env.x)
        return len(LIBRARY.slots) - 1

    def restore(env: Any, slot: int) -> None:
        assert LIBRARY.slots[slot] is not None, "a state was used after it was closed"
        env.x = LIBRARY.slots[slot]

    name = f"{Handles.__module__}:{Handles.__qualname__}"
    register_adapter(name, save=save, restore=restore, close=lambda slot: LIBRARY.slots.__setitem__(slot, None))
    try:
        env = RollbackWrapper(Handles(), snapshot="native", share=[])
        env.reset(seed=0)
        for _ in range(4):
            env.step(1)
        twin = copy.deepcopy(env)
        env.reset(seed=1)
        assert twin.restorable == (4,)
        with pytest.raises(RollbackRefused, match="stayed with the world that this one was copied from"):
            twin.rollback(1)
        twin.step(2)
        assert twin.rollback(4)[0] == twin.history[4].step.observation
    finally:
        native._REGISTERED.pop(name)


# --- the conformance check in every place -----------------------------------------------------------------------------


class Ends(Base):
    def step(self, action: int) -> Any:
        observation, reward, _, _, info = super().step(action)
        return observation, reward, observation % 7 == 0, False, info


@pytest.mark.parametrize("rng", ["same", "resample"])
@pytest.mark.parametrize("inner", [None, 5])
@pytest.mark.parametrize("outer", [False, True])
def test_the_check_goes_through_ends_limits_and_wrappers_inside_and_outside(rng: Any, inner: Any, outer: bool) -> None:
    steps: list[int] = []

    class Seen(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            steps.append(1)
            return super().step(action)

    env: gym.Env[Any, Any] = gym.wrappers.OrderEnforcing(Ends())
    env = gym.wrappers.TimeAwareObservation(gym.wrappers.TimeLimit(env, inner)) if inner else env
    env = RollbackWrapper(env, rng=rng, step_limit=30, terminal="held" if outer else "pass")
    if outer:
        env = Seen(gym.wrappers.NormalizeReward(gym.wrappers.TimeLimit(env, 9)))
    report = check_restore(env, restores=40)
    assert report.restores >= 40
    assert report.undone_ends > 0
    assert report.jumps > 0
    assert bool(steps) == outer


@pytest.mark.parametrize("outer", [False, True])
def test_the_check_works_on_each_environment_of_a_vector(outer: bool) -> None:
    def make() -> gym.Env[Any, Any]:
        env = RollbackWrapper(gym.wrappers.TimeLimit(Ends(), 5))
        return gym.wrappers.TimeLimit(env, 8) if outer else env

    vector = gym.vector.SyncVectorEnv([make, make])
    vector.reset(seed=0)
    vector.step(np.zeros(2, dtype=np.int64))
    for env in vector.envs:
        assert check_restore(env, restores=15).restores == 15
    vector.reset(seed=0)
    vector.step(np.zeros(2, dtype=np.int64))
    vector.close()


def test_a_vector_is_refused_with_a_hint() -> None:
    vector = gym.vector.SyncVectorEnv([Ends, Ends])
    for wrong in (RollbackWrapper, check_restore):
        with pytest.raises(UsageError, match=r"SyncVectorEnv\(num_envs=2\): one environment"):
            wrong(vector)  # type: ignore[arg-type]
    vector.close()


def test_a_world_outside_that_is_wrong_is_still_found_through_the_wrappers_around() -> None:
    env = RollbackWrapper(Base(), snapshot="heap")
    wrong = env.unwrapped
    base_step = type(wrong).step
    drift = iter(range(10**6))

    def step(action: Any) -> Any:
        observation, *rest = base_step(wrong, action)
        return (observation + next(drift), *rest)

    wrong.step = step  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="observation was"):
        check_restore(gym.wrappers.TimeLimit(env, 50), restores=10)


def test_the_recursion_limit_and_the_working_directory_are_settings_of_the_process(tmp_path: Any) -> None:
    class Deep(Base):
        def hidden(self, action: int) -> int:
            sys.setrecursionlimit(sys.getrecursionlimit() + 1)
            return 0

    class Elsewhere(Base):
        def hidden(self, action: int) -> int:
            os.chdir(tmp_path if os.getcwd() != str(tmp_path) else "/")
            return 0

    limit, place = sys.getrecursionlimit(), os.getcwd()
    try:
        for make, named in ((Deep, "sys.getrecursionlimit() was"), (Elsewhere, "os.getcwd() was")):
            with pytest.raises(NotRestorable) as raised:
                RollbackWrapper(make())
            assert named in str(raised.value)
    finally:
        sys.setrecursionlimit(limit)
        os.chdir(place)

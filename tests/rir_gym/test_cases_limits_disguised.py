"""State in objects that look like something else: each must be exact, or refused by a reason that names the object."""

from __future__ import annotations

import array
import collections
import ctypes
import decimal
import enum
import functools
import itertools
import mmap
import types
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from deceivers import LATE, Base

from rir_gym import NotRestorable, RollbackWrapper
from rir_gym.testing import check_restore


class Score(int):
    """A number that carries a list."""


class Annotated(Base):
    def begin(self) -> None:
        self.score = Score(3)
        self.score.notes = []  # type: ignore[attr-defined]

    def hidden(self, action: int) -> int:
        self.score.notes.append(action)  # type: ignore[attr-defined]
        return len(self.score.notes)  # type: ignore[attr-defined]


class Mode(enum.Enum):
    CALM = 1


class EnumMember(Base):
    def begin(self) -> None:
        self.mode: Any = Mode.CALM
        self.mode.hits = 0

    def hidden(self, action: int) -> int:
        self.mode.hits += 1
        return int(self.mode.hits)


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
    *[EnumMember, MadeClass, MadeModule, Bounded, Ordered, Inner, Swapping, NamesOnly],
]
IN_THE_HEAP = [
    *[Annotated, MarkedArray, MaskedArray, EqualToAll, LyingState, SideEffects, OnAsking, PartialState, KeywordState],
    *[EnumMember, View, Growing, Bounded, Ordered, Inner, NamesOnly],
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

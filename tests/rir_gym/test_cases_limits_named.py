"""State that hides in what the code of an environment names: modules, classes, closures, defaults, globals of any sort.

No instance holds it, so no copy and no heap of the environment reaches it: each is refused by a reason that names it.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
import types
from typing import Any

import gymnasium as gym
import pytest
from deceivers import Base, counter, is_refused_by_name, is_repeated_or_refused

OTHER: Any = types.ModuleType("a_module_of_theirs")
OTHER.n, OTHER.box = 0, types.SimpleNamespace(n=0)


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


class ToAndFro(Base):
    """Back where it was after every second step."""

    def begin(self) -> None:
        SINGLETON.n = 0

    def hidden(self, action: int) -> int:
        SINGLETON.n = 1 - SINGLETON.n
        return 0


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
    (ToAndFro, ".SINGLETON.n was int 0, is int 1"),
]


@pytest.mark.parametrize(("make", "named"), REFUSED)
def test_it_is_refused_by_name_and_the_live_environment_plays_on(make: Any, named: str) -> None:
    is_refused_by_name(make, named)


@pytest.mark.parametrize("make", [make for make, _ in REFUSED])
def test_it_is_repeated_exactly_or_refused(make: Any) -> None:
    is_repeated_or_refused(make)

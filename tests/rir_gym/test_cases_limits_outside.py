"""State that hides outside of Python's objects, or in one that does not show it: settings, deaths, caches.

Each is refused by a reason that names it.
"""

from __future__ import annotations

import decimal
import functools
import os
import sqlite3
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest
from deceivers import Base, counter, is_refused_by_name, is_repeated_or_refused

from rir_gym import NotRestorable, RollbackWrapper


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


class ItsOwnSpec(Base):
    def begin(self) -> None:
        if self.spec is None:
            self.spec = gym.envs.registration.EnvSpec("A-v0", entry_point="nowhere:A")
        self.spec.kwargs["n"] = 0

    def hidden(self, action: int) -> int:
        assert self.spec is not None
        self.spec.kwargs["n"] += 1
        return int(self.spec.kwargs["n"])


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
    (ItsOwnSpec, "env.spec.kwargs was"),
    (DecimalContext, "decimal.getcontext().prec was int 10"),
    (EnvironmentVariable, "os.environ['RIR_GYM_TEST'] was str '0'"),
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
def test_it_is_refused_by_name_and_the_live_environment_plays_on(make: Any, named: str) -> None:
    is_refused_by_name(make, named)


@pytest.mark.parametrize("make", [make for make, _ in REFUSED])
def test_it_is_repeated_exactly_or_refused(make: Any) -> None:
    is_repeated_or_refused(make)


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

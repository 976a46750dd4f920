"""Every kind of object in the heap: put back in place and to the bit, or refused with its type and path."""

from __future__ import annotations

import _thread
import array
import asyncio
import collections
import concurrent.futures
import contextvars
import copy
import ctypes
import dataclasses
import datetime
import decimal
import enum
import functools
import io
import itertools
import json
import multiprocessing
import operator
import pathlib
import queue
import random
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import types
import weakref
import xml.etree.ElementTree
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.heap import Heap
from rir_gym.snapshot.heap.engine import Engine
from rir_gym.snapshot.heap.resolve import kind_of
from rir_gym.snapshot.protocol import Start
from rir_gym.snapshot.transparency import is_python_class


class World:
    """What a test puts into it."""


def heap(**fields: Any) -> tuple[Any, Engine]:
    world = World()
    vars(world).update(fields)
    return world, Engine(world, {})


# --- put back ---------------------------------------------------------------------------------------------------------


class Key:
    """Equal by value."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


class Slotted:
    __slots__ = ("__weakref__", "_hidden", "a", "b")


class Deeper(Slotted):
    __slots__ = ("c", "__dict__")  # noqa: RUF023


class Guarded:
    """Says no to every access but the one that Python itself makes."""

    def __init__(self) -> None:
        vars(self)["n"] = 1

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("frozen")

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return int
        return object.__getattribute__(self, name)


class Posing:
    """Shows another dict than it has."""

    def __init__(self) -> None:
        Posing.real(self)["n"] = 1

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return {"pose": True}

    @staticmethod
    def real(thing: Any) -> dict[str, Any]:
        return _Base.__dict__["__dict__"].__get__(thing)  # type: ignore[no-any-return]


class _Base:
    pass


class PosingToo(_Base, Posing):  # type: ignore[misc]
    pass


@dataclasses.dataclass(slots=True)
class Record:
    a: Any = 1
    b: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Frozen:
    items: list[int]


class Point(NamedTuple):
    x: Any
    y: Any


class Meter(int):
    """A number with fields."""


class Money(decimal.Decimal):
    """A value with fields."""


class Failure(Exception):
    """An error with fields."""


class Loud(list[Any]):
    """Every method lies or raises."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError

    def __len__(self) -> int:
        return 0

    def __setitem__(self, *_: Any) -> None:
        raise AssertionError

    def __getitem__(self, *_: Any) -> Any:
        raise AssertionError


class Register(dict[Any, Any]):
    """Keeps a log of what is set through it."""

    log: list[Any]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.log.append(key)
        super().__setitem__(key, value)

    def clear(self) -> None:
        raise AssertionError

    def update(self, *_: Any, **__: Any) -> None:
        raise AssertionError


class Fine(Slotted):
    """No slots of its own, and no dict."""

    __slots__ = ()


class Coarse(Slotted):
    __slots__ = ()


def closure() -> Any:
    count, log = 0, []

    def bump() -> int:
        nonlocal count
        count += 1
        log.append(count)
        return count

    return bump


def with_defaults(log: list[int] = [], *, more: dict[str, int] = {"n": 0}) -> None:  # noqa: B006
    log.append(1)
    more["n"] += 1


def unset_cell() -> Any:
    if len(sys.argv) < 0:
        value = 1

    def read(new: Any = None, *, drop: bool = False) -> Any:
        nonlocal value
        if drop:
            del value
        elif new is not None:
            value = new
        try:
            return value
        except NameError:
            return "unset"

    return read


def ran(text: str) -> dict[str, Any]:
    space: dict[str, Any] = {"n": [1]}
    exec(text, space)
    return space


def many(thing: Any, *changes: Callable[[Any], Any]) -> Callable[[Any], None]:
    return lambda live: [change(live) for change in changes] and None  # type: ignore[func-returns-value]


Case = tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], Any]]
"""How it is made, how it is changed, how it is seen."""

CASES: dict[str, Case] = {
    "list": (lambda: [1, [2]], lambda live: (live[1].append(3), live.append(4)), repr),
    "list reversed": (lambda: [[1], [2]], lambda live: live.reverse(), repr),
    "long list": (lambda: list(range(2000)), lambda live: live.pop(700), list),
    "list shortened to nothing": (lambda: list(range(2000)), lambda live: live.clear(), list),
    "1 → True": (lambda: [1, 0.0, 2], lambda live: live.__setitem__(slice(None), [True, -0.0, 2.0]), repr),
    "[1] → other [1]": (lambda: [[1]], lambda live: live.__setitem__(0, [1]) or live[0].append(2), repr),
    "dict": (lambda: {"a": 1}, lambda live: live.update(a=2, b=3), repr),
    "dict order": (lambda: {"a": 1, "b": 2}, lambda live: live.update(a=live.pop("a")), list),
    "dict renamed": (lambda: {"a": (v := [1]), "b": v}, lambda live: live.update(c=live.pop("b")), repr),
    "dict from empty": (lambda: {}, lambda live: live.update(a=1), repr),
    "dict from empty, by number": (lambda: {}, lambda live: live.update({1: 1}), repr),
    "dict to empty": (lambda: {"a": 1}, lambda live: live.clear(), repr),
    "dict 1 → True": (lambda: {1: "x"}, lambda live: live.update({True: live.pop(1)}), repr),
    "dict key type": (lambda: {1: "x"}, lambda live: (live.clear(), live.update({"1": "x"})), repr),
    "dict same referents": (
        lambda: {1: "x"},
        lambda live: (live.clear(), live.update({"a": "x", "b": 1})),
        repr,
    ),
    "dict mixed keys": (lambda: {"a": 1, 2: 3}, lambda live: live.update({(1,): live.pop(2)}), repr),
    "dict by value": (
        lambda: {Key(1): [1]},
        lambda live: live.update({Key(2): live.pop(Key(1))}),
        lambda live: [k.value for k in live],
    ),
    "large dict": (lambda: dict.fromkeys(range(3000)), lambda live: live.pop(1500), list),
    "ordered": (lambda: collections.OrderedDict(a=1, b=2, c=3), lambda live: live.move_to_end("a"), repr),
    "ordered popped": (lambda: collections.OrderedDict(a=1, b=2), lambda live: live.popitem(last=False), repr),
    "default": (lambda: collections.defaultdict(list), lambda live: live["a"].append(1), repr),
    "default factory": (
        lambda: collections.defaultdict(list),
        lambda live: setattr(live, "default_factory", int),
        repr,
    ),
    "counter": (lambda: collections.Counter("aab"), lambda live: live.update("b"), repr),
    "chain": (lambda: collections.ChainMap({}, {"a": 1}), lambda live: live.update(a=2), repr),
    "set": (lambda: set("abc"), lambda live: (live.pop(), live.add("z")), list),
    "frozenset": (
        lambda: [frozenset({Key(1)})],
        lambda live: setattr(next(iter(live[0])), "f", 1),
        lambda live: [vars(k) for k in live[0]],
    ),
    "deque": (lambda: collections.deque([1, 2], maxlen=3), lambda live: (live.append(3), live.append(4)), repr),
    "long deque": (lambda: collections.deque(range(2000)), lambda live: live.rotate(), list),
    "tuple": (lambda: (1, ([2],)), lambda live: live[1][0].append(3), repr),
    "named tuple": (lambda: Point([1], 2), lambda live: live.x.append(3), repr),
    "bytearray": (lambda: bytearray(b"abc"), lambda live: live.extend(b"d"), bytes),
    "array": (lambda: array.array("d", [1, 2]), lambda live: live.append(3), repr),
    "namespace": (lambda: types.SimpleNamespace(a=[1]), lambda live: (live.a.append(2), setattr(live, "b", 3)), repr),
    "instance": (lambda: Key(1), lambda live: setattr(live, "value", 2), lambda live: live.value),
    "instance order": (lambda: Point, lambda live: None, lambda live: None),
    "instance dict replaced": (lambda: Key(1), lambda live: setattr(live, "__dict__", {"value": 2}), vars),
    "instance guarded": (Guarded, lambda live: vars(live).update(n=2, m=3), lambda live: dict(vars(live))),
    "instance posing": (PosingToo, lambda live: Posing.real(live).update(n=2), lambda live: dict(Posing.real(live))),
    "slots": (lambda: Slotted(), lambda live: setattr(live, "a", 1), lambda live: hasattr(live, "a")),
    "slots emptied": (lambda: Record([1]), lambda live: delattr(live, "a"), lambda live: hasattr(live, "a")),
    "slots and dict": (
        Deeper,
        lambda live: (setattr(live, "c", 1), setattr(live, "d", 2), setattr(live, "_hidden", 3)),
        lambda live: (hasattr(live, "c"), hasattr(live, "d"), hasattr(live, "_hidden")),
    ),
    "data class": (Record, lambda live: live.b.append(1), repr),
    "frozen": (lambda: Frozen([1]), lambda live: live.items.append(1), repr),
    "number with fields": (lambda: Meter(3), lambda live: setattr(live, "note", 1), lambda live: dict(vars(live))),
    "value with fields": (lambda: Money(3), lambda live: setattr(live, "note", 1), lambda live: dict(vars(live))),
    "error": (
        lambda: Failure("a", [1]),
        lambda live: (live.args[1].append(2), live.add_note("n")),
        lambda live: (live.args, vars(live)),
    ),
    "list with fields": (
        Loud,
        lambda live: (list.append(live, 1), setattr(live, "f", 1)),
        lambda live: (list.__len__(live), vars(live)),
    ),
    "cell": (closure, lambda live: live(), lambda live: [c.cell_contents for c in live.__closure__]),
    "cell filled": (unset_cell, lambda live: live(new=5), lambda live: live()),
    "cell emptied": (lambda: (f := unset_cell(), f(new=3))[0], lambda live: live(drop=True), lambda live: live()),
    "defaults": (
        lambda: types.FunctionType(with_defaults.__code__, {}, "f", ([],)),
        lambda live: live.__defaults__[0].append(1),
        lambda live: repr(live.__defaults__),
    ),
    "function field": (lambda: lambda: None, lambda live: setattr(live, "calls", 1), lambda live: dict(vars(live))),
    "bound method": (
        lambda: Key(1).__eq__,
        lambda live: setattr(live.__self__, "value", 2),
        lambda live: live.__self__.value,
    ),
    "bound method of a list": (lambda: [1].append, lambda live: live(2), lambda live: repr(live.__self__)),
    "partial": (
        lambda: functools.partial(print, [1], end=[2]),
        lambda live: (live.args[0].append(3), live.keywords["end"].append(4)),
        repr,
    ),
    "memory view": (lambda: memoryview(bytearray(b"abc")), lambda live: live.__setitem__(0, 0), bytes),
    "dict view": (lambda: {"a": 1}.items(), lambda live: live.mapping, repr),
    "proxy": (lambda: types.MappingProxyType({"a": [1]}), lambda live: live["a"].append(2), repr),
    "endless": (lambda: itertools.repeat([1]), lambda live: next(live).append(2), repr),
    "random": (lambda: random.Random(1), lambda live: (live.random(), live.gauss(0, 1)), lambda live: live.getstate()),
    "random with fields": (lambda: random.Random(1), lambda live: setattr(live, "f", 1), lambda live: dict(vars(live))),
    "random subclass": (
        lambda: type("Own", (random.Random,), {"getstate": None})(1),
        lambda live: live.random(),
        lambda live: random.Random.getstate(live),
    ),
    "legacy": (lambda: np.random.RandomState(1), lambda live: live.normal(), lambda live: repr(live.get_state())),
    "generator": (
        lambda: np.random.default_rng(1),
        lambda live: live.integers(9, dtype=np.int32),
        lambda live: repr(live.bit_generator.state),
    ),
    "generator spawned": (
        lambda: np.random.default_rng(1),
        lambda live: live.spawn(3),
        lambda live: copy.deepcopy(live.bit_generator.seed_seq).spawn(1)[0].generate_state(2).tolist(),
    ),
    "mersenne": (
        lambda: np.random.Generator(np.random.MT19937(1)),
        lambda live: live.random(),
        lambda live: repr(live.bit_generator.state),
    ),
    "philox": (
        lambda: np.random.Generator(np.random.Philox(1)),
        lambda live: live.random(),
        lambda live: repr(live.bit_generator.state),
    ),
    "sfc": (
        lambda: np.random.Generator(np.random.SFC64(1)),
        lambda live: live.random(),
        lambda live: repr(live.bit_generator.state),
    ),
    "seed sequence": (lambda: np.random.SeedSequence(1, spawn_key=(2,)), lambda live: live.spawn(2), repr),
    "method of a generator": (
        lambda: np.random.default_rng(1).random,
        lambda live: live(),
        lambda live: repr(live.__self__.bit_generator.state),
    ),
    "method of a random": (lambda: random.Random(1).random, lambda live: live(), lambda live: live.__self__.getstate()),
    "text stream": (
        lambda: io.StringIO("a\r\nb", newline="\r\n"),
        lambda live: (live.seek(2), live.write("x\n"), live.seek(1)),
        lambda live: (live.getvalue(), live.tell()),
    ),
    "text stream shortened": (
        lambda: io.StringIO("long text"),
        lambda live: live.truncate(2),
        lambda live: live.getvalue(),
    ),
    "byte stream": (
        lambda: io.BytesIO(b"abc"),
        lambda live: (live.read(), live.write(b"d")),
        lambda live: (live.getvalue(), live.tell()),
    ),
    "stream closed": (
        lambda: io.StringIO("abc"),
        lambda live: live.close(),
        lambda live: live.closed or live.getvalue(),
    ),
    "bytes closed": (
        lambda: io.BytesIO(b"abc"),
        lambda live: live.close(),
        lambda live: live.closed or live.getvalue(),
    ),
    "stream with fields": (lambda: io.StringIO(), lambda live: setattr(live, "f", 1), lambda live: dict(vars(live))),
    "queue": (queue.Queue, lambda live: live.put(1), lambda live: live.qsize()),
    "event": (threading.Event, lambda live: live.set(), lambda live: live.is_set()),
    "semaphore": (lambda: threading.Semaphore(2), lambda live: live.acquire(), lambda live: live._value),
    "executed": (
        lambda: ran("def f():\n  n.append(1)\n"),
        lambda live: (live["f"](), live.update(m=2)),
        lambda live: (live["n"], "m" in live),
    ),
    "time": (lambda: [time.localtime(0), 1], lambda live: live.append(2), repr),
    "match": (lambda: [re.match("a", "a"), 1], lambda live: live.append(2), len),
    "spaces": (
        lambda: gym.spaces.Dict(a=gym.spaces.Discrete(5)),
        lambda live: (live.seed(3), live.sample()),
        lambda live: repr(live["a"].np_random.bit_generator.state),
    ),
}
del CASES["instance order"], CASES["dict view"]


@pytest.mark.parametrize("name", list(CASES))
def test_put_back_in_place(name: str) -> None:
    make, change, see = CASES[name]
    world, engine = heap(thing=make())
    thing, before = world.thing, copied(see(world.thing))
    version = engine.save()
    assert engine.save().delta == [], "what has not changed costs nothing"
    change(thing)
    changed = copied(see(thing))
    assert changed != before, "the test changes nothing"
    second = engine.save()
    assert second.delta
    engine.restore(version)
    assert world.thing is thing
    assert see(thing) == before
    engine.restore(second)
    assert see(thing) == changed
    engine.restore(version)
    change(thing)  # and without a save in between
    assert see(thing) == changed
    engine.restore(version)
    assert see(thing) == before


def copied(seen: Any) -> Any:
    return copy.deepcopy(seen) if isinstance(seen, list | tuple | dict) else seen


def test_a_dict_subclass_is_written_past_its_methods() -> None:
    register = Register(a=1)
    register.log = []
    _, engine = heap(register=register)
    version = engine.save()
    register["b"] = 2
    engine.restore(version)
    assert dict(register) == {"a": 1}
    assert register.log == []


def test_an_instance_may_become_another() -> None:
    class Door:
        pass

    class Open(Door):
        pass

    door = Door()
    _, engine = heap(door=door)
    version = engine.save()
    door.__class__ = Open
    second = engine.save()
    door.by = "me"  # type: ignore[attr-defined]
    engine.save()
    engine.restore(version)
    assert type(door) is Door
    engine.restore(second)
    assert type(door) is Open
    assert vars(door) == {}


def test_a_list_of_a_class_may_become_one_of_another() -> None:
    class A(list[int]):
        __slots__ = ()

    class B(list[int]):
        __slots__ = ()

    items = A([1])
    _, engine = heap(items=items)
    version = engine.save()
    items.__class__ = B  # type: ignore[assignment]
    engine.save()
    engine.restore(version)
    assert type(items) is A


def test_an_instance_with_slots_that_becomes_another_is_refused() -> None:
    thing = Fine()
    thing.a = 1
    _, engine = heap(thing=thing)
    engine.save()
    thing.__class__ = Coarse
    with pytest.raises(SnapshotError, match="has become a Coarse"):
        engine.save()


def test_two_instances_with_one_dict() -> None:
    one, other = Key(1), Key(2)
    other.__dict__ = one.__dict__
    world, engine = heap(one=one, other=other)
    version = engine.save()
    other.value = 5
    one.__dict__ = {"value": 7}
    world.kept = other.__dict__
    engine.save()
    other.value = 6
    engine.save()
    engine.restore(version)
    assert vars(one) is vars(other)
    assert one.value == 1


def test_keys_that_are_hashed_by_fields_are_put_back_first() -> None:
    key = Key(1)
    table = {key: "x"}
    world, engine = heap(key=key, table=table)
    version = engine.save()
    table.clear()
    key.value = 2
    table[key] = "y"
    second = engine.save()
    engine.restore(version)
    assert table[Key(1)] == "x"
    engine.restore(second)
    assert table[Key(2)] == "y"
    assert world.key is next(iter(table))


def test_a_key_that_cannot_be_compared_is_no_obstacle() -> None:
    class Odd:
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("not comparable")

    world, engine = heap(table={"a": 1, Odd(): 2})
    version = engine.save()
    world.table.clear()
    world.table["a"], world.table[Odd()] = 1, 2
    engine.save()
    changed = [id(key) for key in world.table]
    engine.restore(version)
    assert [id(key) for key in world.table] != changed


def test_a_plain_weak_reference_stays() -> None:
    target = Key(1)
    world, engine = heap(target=target, ref=weakref.ref(target))
    version = engine.save()
    target.value = 2
    engine.restore(version)
    assert world.ref() is target
    assert target.value == 1


def test_what_reads_the_memory_of_a_buffer_keeps_reading_it() -> None:
    numbers = array.array("d", [1.0, 2.0])
    world, engine = heap(numbers=numbers, view=memoryview(numbers))
    version = engine.save()
    numbers[0] = 9.0
    engine.restore(version)
    assert world.view[0] == 1.0


@pytest.mark.parametrize("lock", [threading.Lock, threading.RLock])
def test_an_open_lock_is_exact_and_a_held_one_is_refused(lock: Callable[[], Any]) -> None:
    world, engine = heap(lock=lock(), log=[1])
    version = engine.save()
    world.log.append(2)
    with world.lock:
        with pytest.raises(SnapshotError, match="is held"):
            engine.save()
        with pytest.raises(SnapshotError, match="is held"):
            engine.restore(version)
        assert world.log == [1, 2]
    engine.restore(version)
    assert world.log == [1]
    assert world.lock.acquire(blocking=False)


def test_a_child_sequence_and_the_generator_that_holds_it_stay_one() -> None:
    generator = np.random.default_rng(3)
    world, engine = heap(generator=generator, sequence=generator.bit_generator.seed_seq)
    version = engine.save()
    first = [child.generate_state(1)[0] for child in world.sequence.spawn(2)]
    engine.restore(version)
    assert world.sequence is generator.bit_generator.seed_seq
    assert [child.bit_generator.seed_seq.generate_state(1)[0] for child in generator.spawn(2)] == first


# --- values of one's own --------------------------------------------------------------------------------------------


class Mood(enum.Enum):
    """Its members are values, and carry more."""

    CALM = 1
    CROSS = [1]  # noqa: RUF012


class Rank(enum.IntFlag):
    LOW = 1
    HIGH = 2


class Named:
    __slots__ = ("notes",)


class Suit(Named, enum.Enum):
    SPADES = 1


class Tag(decimal.Decimal):
    """A number with slots."""

    __slots__ = ("notes",)


class Path(pathlib.PurePosixPath):
    """A path with fields."""

    __slots__ = ("notes",)


class Day(datetime.date):
    """A day with fields."""


@pytest.mark.parametrize(
    "value",
    [Mood.CALM, Mood.CROSS, Rank.LOW, Rank.LOW | Rank.HIGH, Suit.SPADES, Tag(1), Path("a"), Day(2026, 1, 1)],
)
def test_what_a_value_carries_besides_is_put_back(value: Any) -> None:
    world, engine = heap(value=value, bare=None)
    try:
        bare = engine.save()
        value.notes = [1]
        marked = engine.save()
        value.notes.append(2)
        engine.save()
        engine.restore(marked)
        assert value.notes == [1]
        engine.restore(bare)
        assert not hasattr(value, "notes")
        engine.restore(marked)
        assert world.value is value
        assert value.notes == [1]
    finally:
        engine.restore(bare)


def test_a_mutable_value_of_an_enum_is_put_back() -> None:
    _, engine = heap(mood=Mood.CROSS)
    version = engine.save()
    Mood.CROSS.value.append(2)
    engine.restore(version)
    assert Mood.CROSS.value == [1]


def test_a_class_that_hides_a_dict_of_its_base_is_read_past_it() -> None:
    thing: Any = hiding_its_dict(World)()
    thing.n = 1
    _, engine = heap(thing=thing)
    version = engine.save()
    thing.n = 2
    engine.restore(version)
    assert thing.n == 1


# --- not looked into --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "thing",
    [
        *(
            np,
            Key,
            logging_of("x") if (logging_of := __import__("logging").getLogger) else None,
            np.float64(1),
        ),
        *(
            decimal.Decimal(1),
            datetime.datetime(2026, 1, 1),
            re.compile("a"),
            range(3),
            slice(1),
            np.dtype("f8"),
            np.sin,
        ),
        *(operator.itemgetter(1), property(len), staticmethod(len), random.SystemRandom(), len, np.sum, json.loads),
    ],
)
def test_values_and_what_is_no_state_are_passed_over(thing: Any) -> None:
    _, engine = heap(thing=thing)
    engine.save()
    assert all(node.live is not thing for node in engine.table.nodes())


# --- refused ----------------------------------------------------------------------------------------------------------


def a_generator() -> Iterator[int]:
    yield 1


class Flagged(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int)]


class Hiding:
    __slots__ = ("a",)


Hiding.a = property(lambda self: 1)  # type: ignore[assignment]


def hiding_its_dict(*bases: type) -> type:
    """A class of which the instances have a ``__dict__`` that nobody can ask for."""
    return type("HidesItsDict", bases, {"__dict__": property(lambda self: {})})


class HidingValue(decimal.Decimal):
    __slots__ = ("a",)


HidingValue.a = property(lambda self: 1)  # type: ignore[assignment]

REFUSED: dict[str, Callable[[], Any]] = {
    "generator": a_generator,
    "expression": lambda: (n for n in ()),
    "list iterator": lambda: iter([1]),
    "dict iterator": lambda: iter({1: 1}),
    "zip": lambda: zip([1], [2], strict=True),
    "count": itertools.count,
    "chain": itertools.chain,
    "cycle": lambda: itertools.cycle([1]),
    "repeat that ends": lambda: itertools.repeat(1, 3),
    "cache": lambda: functools.lru_cache(len),
    "socket": socket.socket,
    "file": lambda: open(__file__),  # noqa: SIM115
    "process": lambda: object.__new__(subprocess.Popen),
    "child": multiprocessing.Process,
    "hidden dict": lambda: hiding_its_dict()(),
    "hidden dict of a list": lambda: hiding_its_dict(list)(),
    "hidden dict of a number": lambda: hiding_its_dict(int)(3),
    "hidden dict of an array": lambda: np.zeros(3).view(hiding_its_dict(np.ndarray)),
    "hidden dict of a dict": lambda: hiding_its_dict(dict)(),
    "hidden slot of a value": lambda: HidingValue(1),
    "thread": threading.Thread,
    "executor": lambda: concurrent.futures.ThreadPoolExecutor(1),
    "loop": asyncio.new_event_loop,
    "thread local": threading.local,
    "context": lambda: contextvars.ContextVar("x"),
    "database": lambda: sqlite3.connect(":memory:"),
    "element": lambda: xml.etree.ElementTree.Element("a"),
    "structure": Flagged,
    "c number": lambda: ctypes.c_int(1),
    "simple queue": queue.SimpleQueue,
    "weak set": weakref.WeakSet,
    "weak values": weakref.WeakValueDictionary,
    "weak keys": weakref.WeakKeyDictionary,
    "weak method": lambda: weakref.WeakMethod(Key(1).__eq__),
    "weak callback": lambda: weakref.ref(Key, print),
    "finalizer": lambda: weakref.finalize(Key(1), print),
    "record of an array": lambda: np.zeros(1, [("a", "i4")])[0],
    "flat": lambda: np.zeros(1).flat,
    "hidden slot": Hiding,
    "coroutine-like": lambda: types.coroutine(a_generator)(),
    "frame": sys._getframe,
}


class Holding(gym.Env[int, int]):
    """Holds the thing somewhere deep."""

    observation_space = action_space = gym.spaces.Discrete(2)

    def __init__(self, thing: Any) -> None:
        self.deep = {"list": [thing]}
        self.count = 0


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_nobody_knows_is_refused_with_its_type_and_path(name: str) -> None:
    thing = REFUSED[name]()
    env = Holding(thing)
    mechanism = Heap()
    try:
        with pytest.raises(SnapshotError, match=r"heap: ") as raised:
            mechanism.save(env, None, Start())  # type: ignore[arg-type]
        assert type(thing).__qualname__ in str(raised.value)
        assert "env.deep['list'][0]" in str(raised.value)
        env.deep["list"][0] = None
        mechanism.restore(env, mechanism.save(env, None, Start()))  # type: ignore[arg-type]
    finally:
        if isinstance(thing, socket.socket | io.IOBase | sqlite3.Connection | asyncio.AbstractEventLoop):
            thing.close()


def test_what_c_types_call_themselves_does_not_matter() -> None:
    assert functools._lru_cache_wrapper.__module__ == "functools"
    assert not is_python_class(functools._lru_cache_wrapper)
    assert not is_python_class(sqlite3.Connection)
    assert is_python_class(Record)
    assert is_python_class(Deeper)
    assert is_python_class(type("Made", (), {"__module__": "_thread"}))
    assert kind_of(_thread.LockType) is not None


@pytest.mark.parametrize(
    "cls",
    [
        Key,
        Slotted,
        Deeper,
        Record,
        Point,
        Meter,
        Money,
        Failure,
        Loud,
        Guarded,
        World,
        Holding,
        type("T", (np.ndarray,), {}),
    ],
)
def test_every_class_made_by_a_statement_is_python(cls: type) -> None:
    assert is_python_class(cls)

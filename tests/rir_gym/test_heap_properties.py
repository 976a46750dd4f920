"""The heap on random object graphs: any sequence of changes, saves, restores and drops puts back exactly what was.

What stands at a version is taken down by ``picture``, which knows nothing of the heap: every reachable object once, by
number, so that two pictures are equal only where values, types, orders and aliasing are. And from a version that was
put back, the same changes lead to the same picture as they did the first time.
"""

from __future__ import annotations

import array
import collections
import io
import random
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.heap import blocks, pointers, table
from rir_gym.snapshot.heap.engine import Engine, Version

# --- objects of every kind --------------------------------------------------------------------------------------------


class Thing:
    """A plain instance."""


class Other:
    """What a Thing may become."""


class Key:
    """Equal to, and hashed like, every other of its value."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


class Slotted:
    """Slots that may be empty."""

    __slots__ = ("a", "b", "c")


class Both(Slotted):
    """Slots and a dict."""


class Bag(list[Any]):
    """A list with fields, that shows itself otherwise than it is."""

    def __iter__(self) -> Iterator[Any]:
        return iter(("not", "what", "it", "holds"))

    def __len__(self) -> int:
        return 3


class Table(dict[Any, Any]):
    """A dict with fields, that shows and takes otherwise."""

    def __setitem__(self, key: Any, value: Any) -> None:
        raise AssertionError("written through the class")

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Crowd(set[Any]):
    """A set with fields."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Line(collections.deque[Any]):
    """A deque that shows itself otherwise."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def counter() -> Callable[..., int]:
    """A function with a cell, mutable defaults and fields."""
    count = 0

    def bump(by: int = 1, log: list[int] = [], *, more: dict[str, int] = {"n": 0}) -> int:  # noqa: B006
        nonlocal count
        count += by
        log.append(count)
        more["n"] += 1
        return count

    return bump


def world(seed: int) -> Thing:
    """One of everything, in a shuffled pool, with shared references, cycles and views."""
    rng = random.Random(seed)
    root, big, generator = Thing(), np.zeros(70_001, np.uint8), np.random.default_rng(seed)
    owner, bag, table, crowd, line = np.arange(24.0).reshape(4, 6), Bag([1, 2]), Table(a=1), Crowd([1]), Line([1, 2])
    bag.field = table.field = crowd.field = line.field = [bag]  # type: ignore[attr-defined]
    objects = np.empty((2, 2), dtype=object)
    objects[:] = [[[1], {}], [Key(1), None]]
    error = ValueError("a", [1])
    error.extra = {"x": 1}  # type: ignore[attr-defined]
    buffer = bytearray(b"buffer")
    shared: list[Any] = [1, "x"]
    pool: list[Any] = [
        *(shared, [shared, (shared, [2])], list(range(700)), {}, {"a": shared}, {1: 2}, {Key(1): 1, "b": 2}),
        *(collections.OrderedDict(a=1, b=2), collections.defaultdict(list, a=[1]), collections.Counter("hello")),
        *(set(range(5)), {"x", "y"}, {Key(3)}, collections.deque([1, 2], maxlen=5), collections.deque(range(600))),
        *(buffer, np.frombuffer(buffer, np.uint8), array.array("d", [1.0]), bytearray()),
        *(Thing(), Thing(), Slotted(), Both(), Key(7), bag, table, crowd, line, types.SimpleNamespace(a=shared)),
        *(counter(), error, io.StringIO("text", newline="\r\n"), io.BytesIO(b"bytes")),
        *(owner, owner[1:, ::2], owner.T, np.asfortranarray(owner), np.zeros((0, 3)), np.array(5), objects, big),
        *(
            big[100:],
            np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]),
            np.zeros((70, 50, 40)).transpose(1, 2, 0).copy("K"),
        ),
        *(random.Random(seed), generator, np.random.RandomState(seed), np.random.Generator(np.random.MT19937(seed))),
        *(generator.bit_generator.seed_seq, np.random.SeedSequence(seed), np.array([True, False]), generator.random),
    ]
    rng.shuffle(pool)
    root.pool, root.me, root.spare = pool, root, []  # type: ignore[attr-defined]
    for number in range(0, len(pool), 3):
        if type(pool[number]) is list:
            pool[number].append(pool[rng.randrange(len(pool))])
    return root


# --- what stands there ------------------------------------------------------------------------------------------------

ATOMS = (type(None), bool, int, float, complex, str, bytes, type, np.dtype, types.ModuleType)


def picture(root: Any) -> list[Any]:
    """Every reachable object, numbered in the order of a breadth-first walk, and what it holds by those numbers."""
    numbers: dict[int, int] = {}
    queue: list[Any] = []

    def name(thing: Any) -> Any:
        if isinstance(thing, ATOMS):
            return type(thing).__name__, repr(thing)
        if id(thing) not in numbers:
            numbers[id(thing)] = len(queue)
            queue.append(thing)
        return numbers[id(thing)]

    name(root)
    seen: list[Any] = []
    for thing in queue:  # grows
        seen.append((type(thing).__name__, [name(part) if kind else part for kind, part in parts(thing)]))
    return seen


def parts(thing: Any) -> Iterator[tuple[bool, Any]]:
    """(True, an object that it holds) or (False, a plain value), in order."""
    yield from ((False, value) for value in plain(thing))
    for base, iterate in (
        (list, list.__iter__),
        (tuple, tuple.__iter__),
        (collections.deque, collections.deque.__iter__),
    ):
        if isinstance(thing, base):
            yield from ((True, item) for item in iterate(thing))
    if isinstance(thing, set):
        yield from ((True, item) for item in set.__iter__(thing))
    if isinstance(thing, dict):
        items = collections.OrderedDict.items if isinstance(thing, collections.OrderedDict) else dict.items
        yield from ((True, part) for item in items(thing) for part in item)
        yield True, getattr(thing, "default_factory", None)
    if isinstance(thing, types.FunctionType):
        yield from ((True, part) for part in (thing.__closure__, thing.__defaults__, thing.__kwdefaults__))
    if isinstance(thing, types.CellType):
        yield True, thing.cell_contents
    if isinstance(thing, types.BuiltinFunctionType):
        yield True, thing.__self__
    if isinstance(thing, np.random.Generator):
        yield True, thing.bit_generator
    if isinstance(thing, np.random.BitGenerator):
        yield True, thing.seed_seq
    if isinstance(thing, np.ndarray):
        yield True, thing.base
        if thing.dtype == object:
            yield from ((True, item) for item in thing.flat)
    if isinstance(thing, Slotted):
        for slot in ("a", "b", "c"):
            yield True, getattr(thing, slot, "<empty>")
    if isinstance(thing, BaseException):
        yield True, thing.args
    if hasattr(thing, "__dict__") and not isinstance(thing, np.random.BitGenerator | np.random.RandomState):
        yield True, thing.__dict__


def plain(thing: Any) -> Iterator[Any]:
    """The state of what holds no objects."""
    if isinstance(thing, bytearray):
        yield bytes(thing)
    if isinstance(thing, array.array):
        yield thing.typecode, thing.tobytes()
    if isinstance(thing, random.Random):
        yield thing.getstate()
    if isinstance(thing, np.random.RandomState):
        yield repr(thing.get_state(legacy=False))
        yield thing.get_state(legacy=False)["state"]["key"].tobytes()  # type: ignore[index]
    if isinstance(thing, np.random.BitGenerator):
        yield repr(thing.state)
    if isinstance(thing, np.random.SeedSequence):
        yield repr(thing), thing.generate_state(4).tolist()
    if isinstance(thing, io.StringIO | io.BytesIO):
        yield thing.closed or (thing.getvalue(), thing.tell())
    if isinstance(thing, np.ndarray):
        yield thing.dtype.str, thing.shape, thing.strides, thing.flags.writeable
        if thing.dtype != object:
            yield thing.tobytes()


# --- changes ----------------------------------------------------------------------------------------------------------


def change(root: Any, rng: random.Random) -> None:
    """One change of one object, a function of what stands there and of the generator."""
    pool = root.pool
    kind, thing = rng.random(), pool[rng.randrange(len(pool))]
    if kind < 0.05:
        root.spare.append(pool[rng.randrange(len(pool))])
    elif kind < 0.08 and len(pool) > 30:
        root.spare = [pool.pop(rng.randrange(len(pool)))]
    elif kind < 0.12:
        pool.append(value(root, rng))
    elif kind < 0.2:
        lists = [each for each in pool if type(each) is list and each]
        if len(lists) > 1:
            at = rng.randrange(len(lists) - 1)
            lists[at + 1].insert(0, lists[at].pop())
    else:
        alter(thing, root, rng)


def value(root: Any, rng: random.Random) -> Any:
    """An atom, some with equals of another type; an object that is there; or a new one."""
    there = root.pool[rng.randrange(len(root.pool))]
    made = (
        lambda: [there],
        lambda: (there, [1]),
        lambda: {"a": there},
        lambda: {1: there},
        Thing,
        lambda: {1, 2},
        list,
    )
    atoms = (
        0,
        1,
        True,
        False,
        1.0,
        0.0,
        -0.0,
        "x",
        "a" * rng.randrange(3),
        None,
        10**20 + rng.randrange(3),
        b"",
        (),
        (1,),
    )
    choice = rng.random()
    return rng.choice(atoms) if choice < 0.5 else there if choice < 0.75 else rng.choice(made)()


def key(rng: random.Random) -> Any:
    return rng.choice(
        (1, True, 1.0, "a", "b", "".join(("a", "b")), Key(rng.randrange(4)), (1, "x"), None, rng.randrange(99))
    )


def alter(thing: Any, root: Any, rng: random.Random) -> None:
    """Change an object in one of the ways of its type."""
    if isinstance(thing, list):
        alter_list(thing, root, rng)
    elif isinstance(thing, dict):
        alter_dict(thing, root, rng)
    elif isinstance(thing, set):
        alter_set(thing, rng)
    elif isinstance(thing, collections.deque):
        alter_deque(thing, root, rng)
    elif isinstance(thing, np.ndarray):
        alter_array(thing, root, rng)
    elif isinstance(thing, bytearray):
        if len(thing):
            thing[rng.randrange(len(thing))] = rng.randrange(256)
        elif not root.spare:
            thing.extend(b"grown")
    elif isinstance(thing, array.array):
        thing.append(rng.random()) if rng.random() < 0.5 else thing.reverse()
    elif isinstance(thing, types.FunctionType):
        rng.choice((thing, lambda: setattr(thing, "mark", value(root, rng)), lambda: thing.__dict__.clear()))()
    elif isinstance(thing, random.Random):
        rng.choice((thing.random, lambda: thing.gauss(0, 1), lambda: thing.seed(rng.randrange(9))))()
    elif isinstance(thing, np.random.Generator):
        rng.choice((thing.random, lambda: thing.spawn(1), lambda: thing.integers(9, dtype=np.int32)))()
    elif isinstance(thing, np.random.RandomState):
        rng.choice((thing.random, thing.standard_normal, lambda: thing.seed(rng.randrange(9))))()
    elif isinstance(thing, np.random.SeedSequence):
        thing.spawn(rng.randrange(3))
    elif isinstance(thing, io.StringIO | io.BytesIO):
        alter_stream(thing, rng)
    elif isinstance(thing, Slotted) and rng.random() < 0.7:
        slot = rng.choice("abc")
        delattr(thing, slot) if hasattr(thing, slot) and rng.random() < 0.4 else setattr(thing, slot, value(root, rng))
    elif isinstance(thing, Thing | Other | Both | types.SimpleNamespace | BaseException):
        alter_instance(thing, root, rng)


def alter_list(thing: Any, root: Any, rng: random.Random) -> None:
    size = list.__len__(thing)
    at = rng.randrange(size) if size else 0
    ways: list[Callable[[], Any]] = [
        lambda: list.append(thing, value(root, rng)),
        lambda: list.insert(thing, at, value(root, rng)),
        lambda: list.reverse(thing),
        lambda: list.extend(thing, [value(root, rng) for _ in range(rng.choice((2, 140, 600)))]),
        lambda: list.clear(thing) if rng.random() < 0.2 else None,
    ]
    if size:
        ways += [
            lambda: list.pop(thing, at),
            lambda: list.__setitem__(thing, at, value(root, rng)),
            lambda: list.__setitem__(thing, at, twin(list.__getitem__(thing, at))),
            lambda: list.__delitem__(thing, slice(at, at + 200)),
        ]
    rng.choice(ways)()
    if isinstance(thing, Bag) and rng.random() < 0.3:
        thing.field = value(root, rng)  # type: ignore[attr-defined]


def twin(thing: Any) -> Any:
    """Something equal that is not the same."""
    if isinstance(thing, bool | int | float):
        return {bool: int, int: float, float: int}[type(thing)](thing) if abs(thing) < 2**50 else int(str(thing))
    return list(thing) if type(thing) is list else Key(thing.value) if isinstance(thing, Key) else thing


def alter_dict(thing: Any, root: Any, rng: random.Random) -> None:
    ways: list[Callable[[], Any]] = [
        lambda: dict.update(thing, {key(rng): value(root, rng)}),
        lambda: dict.update(thing, {f"k{rng.randrange(5)}": value(root, rng)}),
        lambda: dict.clear(thing) if rng.random() < 0.3 else None,
    ]
    if isinstance(thing, collections.OrderedDict):
        ways = [lambda: thing.__setitem__(key(rng), value(root, rng)), thing.clear]
        if thing:
            ways.append(lambda: thing.move_to_end(rng.choice(list(thing)), last=rng.random() < 0.5))
            ways.append(lambda: thing.popitem(last=rng.random() < 0.5))
    elif dict.__len__(thing):
        old = rng.choice(list(dict.keys(thing)))
        ways += [
            lambda: dict.pop(thing, old),
            lambda: dict.update(thing, {old: twin(dict.__getitem__(thing, old))}),
            lambda: dict.update(thing, {key(rng): dict.pop(thing, old)}),
            lambda: dict.update(thing, {old: dict.pop(thing, old)}),
        ]
        if type(thing) is dict and rng.random() < 0.1:
            ways = [lambda: dict.update(thing, {f"n{n}": n for n in range(rng.choice((9, 700)))})]
    if isinstance(thing, collections.defaultdict):
        ways += [lambda: thing["new"], lambda: setattr(thing, "default_factory", rng.choice((list, None, dict)))]
        if thing.default_factory is None:
            ways.remove(ways[-2])
    rng.choice(ways)()


def alter_set(thing: Any, rng: random.Random) -> None:
    ways: list[Callable[[], Any]] = [
        lambda: set.add(thing, rng.randrange(1 << 20) * 8),
        lambda: set.add(thing, Key(rng.randrange(20))),
        lambda: set.update(thing, range(rng.choice((3, 100, 1500)))),
        lambda: set.clear(thing) if rng.random() < 0.2 else None,
    ]
    if set.__len__(thing):
        ways += [lambda: set.pop(thing)] * 3 + [lambda: set.discard(thing, next(iter(set.__iter__(thing))))]
    rng.choice(ways)()


def alter_deque(thing: Any, root: Any, rng: random.Random) -> None:
    ways: list[Callable[[], Any]] = [
        lambda: thing.append(value(root, rng)),
        lambda: thing.appendleft(value(root, rng)),
        lambda: thing.rotate(rng.randrange(-3, 4)),
        lambda: thing.extend(range(rng.choice((2, 300)))),
    ]
    rng.choice([*ways, lambda: thing.pop() if collections.deque.__len__(thing) else None])()


def alter_array(thing: Any, root: Any, rng: random.Random) -> None:
    if rng.random() < 0.1 and thing.base is None:
        thing.flags.writeable = not thing.flags.writeable
    elif not thing.flags.writeable or not thing.size:
        return
    elif thing.dtype == object:
        thing[np.unravel_index(rng.randrange(thing.size), thing.shape)] = value(root, rng)
    elif rng.random() < 0.1 and thing.base is None and thing.flags.c_contiguous:
        thing.shape = (thing.size,) if thing.ndim > 1 else thing.shape
    else:
        at = rng.choice((0, thing.size - 1, rng.randrange(thing.size)))
        field = thing["a"] if thing.dtype.names else thing
        field[np.unravel_index(at, thing.shape)] += 1 if thing.dtype.kind != "b" else True


def alter_stream(thing: Any, rng: random.Random) -> None:
    if rng.random() < 0.05:
        thing.close()
    elif not thing.closed:
        thing.write("line\r\n" if isinstance(thing, io.StringIO) else b"line")
        thing.seek(rng.randrange(4))
        thing.mark = [rng.random()]


def alter_instance(thing: Any, root: Any, rng: random.Random) -> None:
    ways: list[Callable[[], Any]] = [
        lambda: setattr(thing, rng.choice(("p", "q", "r")), value(root, rng)),
        lambda: setattr(thing, rng.choice(("p", "q", "r")), value(root, rng)),
        lambda: thing.__dict__.pop("p", None),
        lambda: thing.__dict__.update({"q": thing.__dict__.pop("q", 1)}),
        lambda: root.pool.append(thing.__dict__),
    ]
    if type(thing) in (Thing, Other):
        ways.append(lambda: setattr(thing, "__class__", Other if type(thing) is Thing else Thing))
        ways.append(lambda: setattr(thing, "__dict__", {"new": value(root, rng)}))
        ways.append(lambda: setattr(thing, "__dict__", root.pool[0].__dict__ if type(root.pool[0]) is Thing else {}))
    rng.choice(ways)()


OUTSIDE = -1
"""In the place of a change that is not a function of what stands in the world."""

# --- any sequence -----------------------------------------------------------------------------------------------------


class Model:
    """A world, its heap, and what stood at each version.

    ``outside`` are objects that were in the world and may come back, held by somebody whom the heap does not see.
    """

    def __init__(self, seed: int) -> None:
        self.root = world(seed)
        self.engine = Engine(self.root, {})
        self.versions: dict[int, tuple[Version, list[Any]]] = {}
        self.led: dict[tuple[int, tuple[int, ...]], list[Any]] = {}
        self.at, self.since, self.made = -1, [0], 0
        self.outside: list[Any] = []

    def change(self, seed: int) -> None:
        self.since.append(seed)
        change(self.root, random.Random(seed))

    def meddle(self, seed: int) -> None:
        """Take an object out of the world and keep it, change one that is kept, or put one back."""
        self.since.append(OUTSIDE)
        rng, pool = random.Random(seed), self.root.pool
        kind = rng.random()
        if kind < 0.3 and len(pool) > 20:
            thing = pool.pop(rng.randrange(len(pool)))
            pool[:] = [each for each in pool if each is not thing]
            self.root.spare = []
            self.outside.append(thing)
        elif kind < 0.6 and self.outside:
            seen = Thing()
            seen.pool, seen.spare = self.outside + pool, []  # type: ignore[attr-defined]
            alter(rng.choice(self.outside), seen, rng)
        elif self.outside:
            thing = self.outside[rng.randrange(len(self.outside))]
            if rng.random() < 0.5:
                self.outside = [each for each in self.outside if each is not thing]
            pool.insert(rng.randrange(len(pool)), thing if rng.random() < 0.6 else (thing, [thing]))

    def save(self) -> None:
        version, seen = self.engine.save(), picture(self.root)
        assert seen == picture(self.root)
        if OUTSIDE not in self.since:
            assert self.led.setdefault((self.at, tuple(self.since)), seen) == seen, "the same changes lead elsewhere"
        self.versions[self.made] = version, seen
        self.at, self.since, self.made = self.made, [], self.made + 1

    def restore(self, number: int) -> None:
        version, seen = self.versions[number]
        self.engine.restore(version)
        now = picture(self.root)
        assert now == seen, difference(seen, now)
        self.at, self.since = number, []

    def again(self) -> None:
        """The changes that once led from here to another version, once more."""
        ways = [since for at, since in self.led if at == self.at and not self.since]
        for seed in ways[-1] if ways else ():
            self.change(seed)

    def set_aside(self) -> None:
        """As if everything were new, and grew: the heap sets aside what the world does not reach now."""
        self.save()
        for node in self.engine.table.nodes():
            node.stays = False
        self.engine.set_aside()
        assert picture(self.root) == self.versions[self.at][1]

    def drop(self, number: int) -> None:
        version, _ = self.versions.pop(number)
        self.engine.drop(version)

    def forget(self) -> None:
        self.engine.forget()
        old = [version for version, _ in self.versions.values()]
        self.versions.clear()
        self.save()
        for version in old:
            with pytest.raises(SnapshotError, match="another world or was dropped"):
                self.engine.restore(version)


def difference(old: list[Any], new: list[Any]) -> str:
    pairs = enumerate(zip(old, new, strict=False))
    return next((f"object {n}: {a!r:.300} became {b!r:.300}" for n, (a, b) in pairs if a != b), "length")


class HeapMachine(RuleBasedStateMachine):
    """The rules of a heap's life."""

    @initialize(seed=st.integers(0, 5))
    def begin(self, seed: int) -> None:
        self.model = Model(seed)
        self.model.save()

    @rule(seeds=st.lists(st.integers(0, 10**6), min_size=1, max_size=25))
    def change(self, seeds: list[int]) -> None:
        for seed in seeds:
            self.model.change(seed)

    @rule(seeds=st.lists(st.integers(0, 10**6), min_size=1, max_size=6))
    def meddle(self, seeds: list[int]) -> None:
        for seed in seeds:
            self.model.meddle(seed)

    @rule()
    def save(self) -> None:
        self.model.save()

    @rule()
    def set_aside(self) -> None:
        self.model.set_aside()

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        if self.model.versions:
            self.model.restore(data.draw(st.sampled_from(sorted(self.model.versions))))
            self.model.again()

    @precondition(lambda self: len(self.model.versions) > 1)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.model.drop(data.draw(st.sampled_from(sorted(self.model.versions))))

    @rule()
    def sweep(self) -> None:
        self.model.save()
        self.model.engine.sweep()

    @rule()
    def forget(self) -> None:
        self.model.forget()


TestHeapMachine = pytest.mark.filterwarnings("ignore::DeprecationWarning")(HeapMachine.TestCase)
TestHeapMachine.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


WAYS = ("as it is", "small groups", "large groups", "calm groups", "referents copied")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the table sees what has changed: each way must see the same."""
    if request.param.endswith("groups"):
        few = 4 if request.param == "small groups" else 1
        monkeypatch.setattr(table, "_FEW", few)
        monkeypatch.setattr(blocks, "_FEW", few)
        monkeypatch.setattr(table, "_BLOCK", 1024 if request.param == "large groups" else 8)
    if request.param == "calm groups":
        monkeypatch.setattr(table, "_PATIENCE", 1)
        monkeypatch.setattr(table, "_MORE", 1)
        monkeypatch.setattr(table, "_CALM", 32)
    if request.param == "referents copied":
        monkeypatch.setattr(pointers, "_readable", lambda: False)
    return str(request.param)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("seed", range(3))
def test_a_long_life_of_changes_saves_restores_and_drops(seed: int, way: str) -> None:
    rng, model = random.Random(f"{seed} {way}"), Model(seed)
    model.save()
    for _ in range(120):
        for _ in range(rng.randrange(6)):
            (model.meddle if rng.random() < 0.25 else model.change)(rng.randrange(10**6))
        choice = rng.random()
        if choice < 0.45:
            model.save()
        elif choice < 0.75:
            model.restore(rng.choice(list(model.versions)))
            if rng.random() < 0.5:
                model.again()
                model.save()
        elif choice < 0.85 and len(model.versions) > 3:
            model.drop(rng.choice(list(model.versions)))
        elif choice < 0.98:
            model.set_aside()
        else:
            model.save()
            model.engine.sweep()

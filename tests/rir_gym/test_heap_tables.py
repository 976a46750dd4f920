"""Sets put back to the bit: what they hold, their order, and what they will do next."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.heap import tables
from rir_gym.snapshot.heap.tables import image_of, put_back, same_image


class Plain:
    """Hashed by identity."""


class Crowd(set[Any]):
    """Shows itself otherwise than it is."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 99

    def clear(self) -> None:
        raise AssertionError("cleared through the class")


KINDS: dict[str, Callable[[random.Random], Any]] = {
    "ints": lambda rng: rng.randrange(1 << 20) * 8,
    "near ints": lambda rng: rng.randrange(64),
    "strings": lambda rng: f"word {rng.randrange(500)}",
    "tuples": lambda rng: (rng.randrange(300), "x"),
    "mixed": lambda rng: rng.choice((rng.randrange(99), str(rng.randrange(99)), None, 1.5)),
    "objects": lambda rng: Plain(),
}


def drive(live: set[Any], rng: random.Random, draw: Callable[[random.Random], Any], count: int) -> list[Any]:
    """Additions, removals and pops; what was popped, and the order after each."""
    seen: list[Any] = []
    for _ in range(count):
        choice = rng.random()
        if choice < 0.55:
            set.add(live, draw(rng))
        elif choice < 0.75:
            members = list(set.__iter__(live))
            set.discard(live, rng.choice(members) if members else None)
        elif set.__len__(live):
            seen.append(set.pop(live))
        if choice > 0.995:
            set.clear(live)
    return [seen, list(set.__iter__(live))]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("cls", [set, Crowd])
@given(seed=st.integers(0, 10**6), sizes=st.tuples(st.integers(0, 400), st.integers(0, 900)))
@settings(max_examples=12, deadline=None)
def test_a_set_put_back_goes_on_as_it_did(kind: str, cls: type[set[Any]], seed: int, sizes: tuple[int, int]) -> None:
    live, draw = cls(), KINDS[kind] if kind != "objects" else random.Random(seed).choice
    objects = [Plain() for _ in range(200)]
    pick: Callable[[random.Random], Any] = (lambda rng: rng.choice(objects)) if kind == "objects" else draw  # type: ignore[assignment]
    drive(live, random.Random(seed), pick, sizes[0])
    image = image_of(live, None)
    first = drive(live, random.Random(seed + 1), pick, sizes[1])
    for last in (None, image):
        other = image_of(live, last)
        put_back(live, image)
        assert same_image(live, image)
        assert list(set.__iter__(live)) == list(image.members)
        assert all(member in live for member in image.members)
        assert drive(live, random.Random(seed + 1), pick, sizes[1]) == first
        put_back(live, other)
        assert same_image(live, other)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 8, 19, 20, 77, 78, 5_000, 60_000])
def test_a_table_of_any_size(count: int) -> None:
    live = set(range(0, 8 * count, 8))
    image, order = image_of(live, None), list(live)
    live.clear()
    live.update("ab")
    put_back(live, image)
    assert list(live) == order
    assert len(live) == count
    assert [live.pop() for _ in range(min(count, 3))] == order[:3]


def test_the_slots_that_removals_left_are_state() -> None:
    def emptied() -> set[int]:
        live = set(range(100))
        for number in range(98):
            live.remove(number)
        return live

    live, like = emptied(), emptied()
    image = image_of(live, None)
    live.clear()
    put_back(live, image)
    for number in range(1000, 1010):
        live.add(number)
        like.add(number)
    assert list(live) == list(like)


def test_where_the_last_pop_stopped_is_state() -> None:
    live, like = set(range(20)), set(range(20))
    for _ in range(7):
        live.pop()
        like.pop()
    image = image_of(live, None)
    assert not same_image(set(live), image)
    for _ in range(9):
        live.pop()
    put_back(live, image)
    live.update(range(7))
    like.update(range(7))
    assert [live.pop() for _ in range(20)] == [like.pop() for _ in range(20)]


def test_an_image_shares_the_pieces_that_did_not_change() -> None:
    live = set(range(20_000))
    first = image_of(live, None)
    live.remove(77)
    second = image_of(live, first)
    shared = {id(piece) for piece in first.pieces} & {id(piece) for piece in second.pieces}
    assert len(shared) == len(first.pieces) - 1
    assert second.size(first) < 20_000 < first.size(None)


def test_an_equal_member_that_is_another_object_is_a_change() -> None:
    one, other = (1, "a"), (1, "".join(["a"]))
    live: set[Any] = {one}
    image = image_of(live, None)
    live.remove(one)
    live.add(other)
    assert not same_image(live, image)
    put_back(live, image)
    assert next(iter(live)) is one


def test_references_are_counted_exactly() -> None:
    objects = [Plain() for _ in range(300)]
    base = [sys.getrefcount(each) for each in objects]
    live: set[Any] = set(objects[:150])
    image = image_of(live, None)
    held = [sys.getrefcount(each) for each in objects]
    assert [now - before for now, before in zip(held, base, strict=True)] == [2] * 150 + [0] * 150
    live -= set(objects[:100])
    live |= set(objects[150:])
    other = image_of(live, image)
    for _ in range(20):
        put_back(live, image)
        put_back(live, other)
    put_back(live, image)
    del other
    gc.collect()
    assert [sys.getrefcount(each) for each in objects] == held
    del image
    live.clear()
    assert [sys.getrefcount(each) for each in objects] == base


def test_what_only_the_set_held_dies_with_it() -> None:
    live: set[Any] = {Plain() for _ in range(50)}
    dead = [weakref.ref(each) for each in live]
    image = image_of(live, None)
    live.clear()
    put_back(live, image)
    put_back(live, image)
    del image
    assert all(ref() is not None for ref in dead)
    live.clear()
    assert all(ref() is None for ref in dead)


def test_growing_leaves_no_reference_to_the_numbers_that_fill() -> None:
    big = 10**6
    before = sys.getrefcount(3)
    live: set[Any] = set(range(big, big + 500))
    image = image_of(live, None)
    for _ in range(50):
        live.clear()
        put_back(live, image)
    assert abs(sys.getrefcount(3) - before) < 20


def test_a_table_that_cannot_be_made_is_refused_and_the_set_is_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    live = set(range(100))
    image = image_of(live, None)
    live.clear()
    monkeypatch.setattr(tables, "_SMALLEST", image.mask + 1)
    with pytest.raises(SnapshotError, match="cannot be made in this version"):
        put_back(live, image)
    monkeypatch.undo()
    live.add(1)
    assert live == {1}
    put_back(live, image)
    assert live == set(range(100))


def test_without_memory_the_members_and_their_order_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_readable", lambda: False)
    live: set[Any] = {1, 2, 3, "x"}
    image = image_of(live, None)
    live.add(9)
    assert not same_image(live, image)
    put_back(live, image)
    assert same_image(live, image)
    assert live == {1, 2, 3, "x"}
    assert image.size(None) > 0


def test_without_memory_an_order_that_cannot_be_put_back_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_readable", lambda: False)
    live: set[Any] = {0, 8}  # in a table of 8 slots both begin at the first: the one that came first stands there
    backward: set[Any] = {8}
    backward.add(0)
    assert list(live) != list(backward)
    image = image_of(backward, None)
    wrong = tables.SetImage(((b"", tuple(live)),), 2)
    backward.add(16)
    put_back(backward, image)
    with pytest.raises(SnapshotError, match="iteration order cannot be put back"):
        put_back(backward, tables.SetImage(((b"", (2, 1)),), 2))
    assert backward == {1, 2}
    assert wrong.used == 2


def test_the_layout_is_read_here() -> None:
    """Here CPython's layout is what the self-test expects, so that the rest of this file tests what it says."""
    assert sys.implementation.name != "cpython" or tables._readable()


def test_a_layout_that_behaves_otherwise_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_HEAD", tables._HEAD + 8)
    tables._readable.cache_clear()
    assert not tables._readable()
    monkeypatch.undo()
    tables._readable.cache_clear()
    assert tables._readable()


STRESS = """
    import random, sys
    from rir_gym.snapshot.heap.engine import Engine

    class World: pass

    class Member:
        def __init__(self, n): self.n = n
        def __eq__(self, other): return isinstance(other, Member) and self.n == other.n
        def __hash__(self): return hash(self.n)

    rng, world = random.Random(7), World()
    world.sets = [set() for _ in range(5)]
    engine, versions = Engine(world, {}), []
    restores = 0
    while restores < 20_000:
        for live in rng.sample(world.sets, 2):
            for _ in range(rng.randrange(8)):
                choice = rng.random()
                if choice < 0.6:
                    live.add(rng.choice((rng.randrange(1 << 20), Member(rng.randrange(60)), str(rng.randrange(80)))))
                elif live:
                    live.pop() if choice < 0.8 else live.discard(next(iter(live)))
            if rng.random() < 0.02:
                live.clear()
        if rng.random() < 0.2:
            versions.append((engine.save(), [list(live) for live in world.sets]))
        if len(versions) > 20:
            engine.drop(versions.pop(rng.randrange(20))[0])
        if versions:
            version, orders = rng.choice(versions)
            engine.restore(version)
            restores += 1
            assert [list(live) for live in world.sets] == orders
    print("sound", restores)
"""


def test_twenty_thousand_restores_leave_memory_sound() -> None:
    root = Path(tables.__file__).parents[3]
    environment = {**os.environ, "PYTHONMALLOC": "debug", "PYTHONPATH": str(root)}
    command = [sys.executable, "-X", "dev", "-W", "ignore", "-c", textwrap.dedent(STRESS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "sound 20000"

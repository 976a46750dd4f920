"""numpy arrays in the heap: every layout, in place, in blocks that versions share, whatever happens in between."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.heap.arrays import ArrayKind, Blocks
from rir_gym.snapshot.heap.engine import Engine


class World:
    """What a test puts into it."""


def heap(**fields: Any) -> tuple[Any, Engine]:
    world = World()
    vars(world).update(fields)
    return world, Engine(world, {})


def memory(live: Any) -> tuple[Any, ...]:
    return live.dtype, live.shape, live.strides, live.tobytes("A")


ARRAYS: dict[str, Callable[[], Any]] = {
    "c": lambda: np.arange(24.0).reshape(2, 3, 4).copy(),
    "fortran": lambda: np.asfortranarray(np.arange(24.0).reshape(4, 6)),
    "permuted": lambda: np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0).copy("K"),
    "0-d": lambda: np.array(3.5),
    "bool": lambda: np.array([True, False, True]),
    "bytes": lambda: np.array([b"ab", b"c"]),
    "unicode": lambda: np.array(["ab", "c"]),
    "dates": lambda: np.array(["2026-01-01"], dtype="M8[s]"),
    "records": lambda: np.zeros(4, dtype=[("a", "i4"), ("b", "f8"), ("c", "u1", (3,))]),
    "half": lambda: np.zeros(3, np.float16),
    "big": lambda: np.zeros(100_003, np.uint8),
    "big f8": lambda: np.zeros((120, 130)),
    "big fortran": lambda: np.zeros((120, 130), order="F"),
    "big permuted": lambda: np.zeros((30, 40, 50)).transpose(2, 0, 1).copy("K"),
}


def touch(live: Any) -> None:
    """Change the last byte."""
    plain = live.transpose(sorted(range(live.ndim), key=lambda axis: -live.strides[axis]))
    plain.reshape(-1).view(np.uint8)[-1:] ^= 1


@pytest.mark.parametrize("name", list(ARRAYS))
def test_every_layout_is_put_back_in_place(name: str) -> None:
    world, engine = heap(array=ARRAYS[name]())
    array, version, before = world.array, engine.save(), memory(world.array)
    touch(array)
    changed, second = memory(array), engine.save()
    assert changed != before
    for target, expected in ((version, before), (second, changed), (version, before)):
        engine.restore(target)
        assert world.array is array
        assert memory(array) == expected
    touch(array)
    engine.restore(version)
    assert memory(array) == before


@pytest.mark.parametrize("name", list(ARRAYS))
def test_what_did_not_change_costs_nothing(name: str) -> None:
    _world, engine = heap(array=ARRAYS[name]())
    engine.save()
    assert engine.save().delta == []


@given(places=st.lists(st.lists(st.integers(0, 200_004), max_size=6), min_size=2, max_size=8), data=st.data())
@settings(max_examples=25, deadline=None)
def test_single_bytes_of_a_large_array(places: list[list[int]], data: st.DataObject) -> None:
    world, engine = heap(array=np.zeros(200_005, np.uint8))
    versions = []
    for touched in places:
        for place in touched:
            world.array[place] += 1
        versions.append((engine.save(), world.array.copy()))
    for _ in range(6):
        version, then = data.draw(st.sampled_from(versions))
        world.array[data.draw(st.integers(0, 200_004))] += 1
        engine.restore(version)
        assert np.array_equal(world.array, then)


def test_versions_of_a_large_array_share_all_but_the_blocks_that_changed() -> None:
    world, engine = heap(array=np.zeros((1000, 1000)))
    first = engine.save()
    world.array[500, 500] = 1
    second = engine.save()
    assert engine.size(first) > 8_000_000
    assert engine.size(second) < 10_000


@pytest.mark.parametrize("outcome", ["a save that fails", "a restore that fails"])
def test_a_large_change_is_not_lost_by_what_fails(outcome: str) -> None:
    world, engine = heap(array=np.zeros(100_000, np.uint8), trouble=None)
    first = engine.save()
    world.array[70_000] = 1
    if outcome == "a save that fails":
        world.trouble = (each for each in ())
        with pytest.raises(SnapshotError, match="generator"):
            engine.save()
        world.trouble = None
        second = engine.save()
        engine.restore(first)
        assert not world.array.any()
        engine.restore(second)
        assert world.array[70_000] == 1
    else:
        world.small = np.zeros(3)
        second = engine.save()
        world.array[80_000] = 1
        world.small.resize(4, refcheck=False)
        with pytest.raises(SnapshotError, match="resized"):
            engine.restore(second)
        assert world.array[70_000] == world.array[80_000] == 1
        world.small.resize(3, refcheck=False)
        third = engine.save()
        engine.restore(second)
        assert (world.array[70_000], world.array[80_000]) == (1, 0)
        engine.restore(third)
        assert (world.array[70_000], world.array[80_000]) == (1, 1)


def test_views_follow_their_owner_and_stay_views() -> None:
    owner = np.zeros((4, 5))
    world, engine = heap(owner=owner, row=owner[1], turned=owner.T[::2], deep=owner[1:][1:, 1:])
    version = engine.save()
    world.row[:] = 7
    world.deep[...] = 8
    engine.save()
    engine.restore(version)
    assert not owner.any()
    world.turned[:] = 5
    assert owner.any()
    assert world.row.base is owner


def test_an_owner_that_only_its_views_reach() -> None:
    world, engine = heap(view=np.zeros(10)[2:5])
    version = engine.save()
    world.view[:] = 1
    world.view.base[9] = 4
    engine.restore(version)
    assert not world.view.base.any()


@pytest.mark.parametrize("owner", [bytearray(16), memoryview(bytearray(16))])
def test_an_array_on_the_memory_of_another_object(owner: Any) -> None:
    world, engine = heap(owner=owner, array=np.frombuffer(owner, np.uint8))
    version = engine.save()
    world.array[3] = 9
    engine.restore(version)
    assert bytes(owner) == bytes(16)
    owner[4] = 7
    assert world.array[4] == 7


def test_an_array_on_memory_that_nobody_knows_is_refused(tmp_path: Any) -> None:
    world, engine = heap(array=np.memmap(tmp_path / "a", np.uint8, "w+", shape=(8,)))
    with pytest.raises(SnapshotError, match="mmap"):
        engine.save()
    world.array[0] = 1


def test_arrays_of_objects_hold_references() -> None:
    inner, zero = [1], np.empty((), dtype=object)
    zero[()] = inner
    array = np.empty((2, 2), dtype=object)
    array[0, 0], array[1, 1] = inner, np.array(5)
    _world, engine = heap(array=array, zero=zero, inner=inner)
    held = [array[0, 0], array[1, 1]]
    version = engine.save()
    inner.append(2)
    array[0, 0], array[1, 1], array[0, 1] = [1], 5, [[3]]
    zero[()] = 4
    second = engine.save()
    engine.restore(version)
    assert [array[0, 0], array[1, 1]] == [held[0], held[1]] == [[1], 5]
    assert array[0, 0] is inner is zero[()]
    assert array[1, 1] is held[1]
    assert array[0, 1] is None
    engine.restore(second)
    assert array[0, 1] == [[3]]
    assert zero[()] == 4


def test_equal_objects_in_an_array_are_told_apart() -> None:
    array = np.array([1, 0.0, None], dtype=object)
    _, engine = heap(array=array)
    version = engine.save()
    array[0], array[1] = True, -0.0
    engine.restore(version)
    assert [repr(each) for each in array] == ["1", "0.0", "None"]


@pytest.mark.parametrize(
    "dtype",
    [[("a", object), ("b", "i4")], np.dtypes.StringDType() if hasattr(np.dtypes, "StringDType") else [("a", object)]],
)
def test_memory_that_holds_hidden_objects_is_refused(dtype: Any) -> None:
    _, engine = heap(array=np.zeros(2, dtype=dtype))
    with pytest.raises(SnapshotError, match="holds objects"):
        engine.save()


def test_negative_zero_and_nan_are_what_they_were() -> None:
    array = np.array([0.0, np.nan])
    _, engine = heap(array=array)
    version = engine.save()
    assert engine.save().delta == []
    array[0] = -0.0
    engine.restore(version)
    assert not np.signbit(array[0])


def test_a_shape_set_in_place_is_put_back() -> None:
    array = np.arange(12.0)
    _, engine = heap(array=array)
    version = engine.save()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        array.shape = (3, 4)
    array[1] = 0
    second = engine.save()
    engine.restore(version)
    assert array.shape == (12,)
    assert array.tolist() == list(range(12))
    engine.restore(second)
    assert array.shape == (3, 4)
    assert not array[1].any()


def test_an_array_may_be_locked_and_unlocked() -> None:
    array = np.zeros(3)
    _, engine = heap(array=array)
    version = engine.save()
    array[:] = 1
    array.flags.writeable = False
    second = engine.save()
    engine.restore(version)
    assert array.tolist() == [0, 0, 0]
    assert array.flags.writeable
    engine.restore(second)
    assert array.tolist() == [1, 1, 1]
    assert not array.flags.writeable


def test_a_resized_array_is_refused_and_nothing_is_changed() -> None:
    array, log = np.zeros(3), [1]
    world, engine = heap(array=array, log=log)
    version = engine.save()
    array.resize(5, refcheck=False)
    log.append(2)
    world.new = "field"
    with pytest.raises(SnapshotError, match="resized"):
        engine.restore(version)
    assert log == [1, 2]
    assert world.new == "field"
    assert array.size == 5
    engine.save()


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.matrix([[1, 2], [3, 4]]),
        lambda: np.ma.array([1, 2, 3], mask=[0, 1, 0]),
        lambda: np.rec.array([(1, 2.0)], dtype=[("a", int), ("b", float)]),
    ],
)
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_subclasses(make: Callable[[], Any]) -> None:
    world, engine = heap(array=make())
    version, before, plain = engine.save(), repr(world.array), np.ndarray.view(world.array, np.ndarray)
    raw = plain.tobytes()
    plain.reshape(-1).view(np.uint8)[0] ^= 255
    world.array.note = [1]
    engine.save()
    engine.restore(version)
    assert repr(world.array) == before
    assert plain.tobytes() == raw
    assert not hasattr(world.array, "note") or isinstance(world.array, np.recarray)


def test_an_empty_array() -> None:
    world, engine = heap(array=np.zeros((0, 3)))
    version = engine.save()
    world.array = np.zeros((0, 3))
    engine.restore(version)
    assert world.array.shape == (0, 3)


def test_the_shadow_is_one_copy_for_all_versions() -> None:
    kind, array = ArrayKind(), np.zeros(100_000, np.uint8)
    first = kind.read(array, None)
    array[5] = 1
    second = kind.read(array, first)
    assert isinstance(first[1], Blocks)
    assert first[1].shadow is second[1].shadow
    assert kind.same(array, second)
    assert not kind.same(array, first)  # though the shadow stood at the second
    assert not kind.same(np.zeros_like(array), second)

"""Which objects containers hold, as bytes: identities, never equality; by memory and without it."""

from __future__ import annotations

import array
import gc
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from rir_gym.snapshot.heap import pointers
from rir_gym.snapshot.heap.pointers import SEPARATOR, identities, referents


class Odd(list[Any]):
    """Shows itself otherwise than it is."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 1


def addresses(data: bytes) -> list[int]:
    return array.array("Q", data).tolist()


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize(
    "objects", [[], [None], [1, True, 1.0, 0.0, -0.0, [1], [1]], list(range(10_000)), Odd([1, 2, "x"])]
)
def test_the_identities_of_a_list(monkeypatch: pytest.MonkeyPatch, objects: list[Any], memory: bool) -> None:
    if not memory:
        monkeypatch.setattr(pointers, "_readable", lambda: False)
    assert addresses(identities(objects)) == [id(each) for each in list.__iter__(objects)]


@pytest.mark.parametrize("memory", [True, False])
def test_nested_arrays_are_objects_like_any_other(monkeypatch: pytest.MonkeyPatch, memory: bool) -> None:
    import numpy as np

    if not memory:
        monkeypatch.setattr(pointers, "_readable", lambda: False)
    objects: list[Any] = [np.zeros(3), np.array(1), [np.zeros(2), np.zeros(2)], "text"]
    assert addresses(identities(objects)) == [id(each) for each in objects]


def test_containers_are_told_apart_by_the_separator() -> None:
    a, b, c = object(), object(), object()
    between = id(SEPARATOR[0])
    seen = addresses(referents(([a, b], SEPARATOR, [c], SEPARATOR, {"x": a}, SEPARATOR)))
    assert seen == [id(b), id(a), between, id(c), between, id(a), between]  # a list from its end


@pytest.mark.parametrize(
    ("container", "held"),
    [
        ([1, "x"], lambda c: list(c)),
        ({1: "x"}, lambda c: ["x", 1]),
        ({"a": 5, "b": "x"}, lambda c: list(c.values())),
        (types.CellType("x"), lambda c: [c.cell_contents]),
    ],
)
def test_what_the_interpreter_visits_is_what_a_block_relies_on(container: Any, held: Any) -> None:
    assert sorted(addresses(referents((container,)))) == sorted(id(each) for each in held(container))


def test_the_fields_of_an_instance_are_visited_through_its_dict() -> None:
    class Thing:
        pass

    thing = Thing()
    thing.a, thing.b = object(), object()  # type: ignore[attr-defined]
    held = vars(thing)
    before = referents((thing, held))
    assert {id(thing.a), id(thing.b)} <= set(addresses(before))  # type: ignore[attr-defined]
    thing.a = object()  # type: ignore[attr-defined]
    assert referents((thing, held)) != before
    replaced = referents((thing, held))
    thing.__dict__ = dict(held)
    assert referents((thing, held)) != replaced


def test_no_reference_is_kept() -> None:
    thing = object()
    before = sys.getrefcount(thing)
    for _ in range(100):
        referents(([thing], SEPARATOR, {"x": thing}))
    gc.collect()
    assert sys.getrefcount(thing) == before


def test_the_layout_is_read_here() -> None:
    assert sys.implementation.name != "cpython" or pointers._readable()


def test_a_layout_that_is_not_the_known_one_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointers, "_ITEMS", pointers._ITEMS - 16)
    pointers._readable.cache_clear()
    assert not pointers._readable()
    monkeypatch.undo()
    pointers._readable.cache_clear()
    assert pointers._readable()

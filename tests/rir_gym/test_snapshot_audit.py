"""The walk over a world: what it sees, and where it says that it cannot see."""

from __future__ import annotations

import array
import collections
import copy
import functools
import threading
import weakref
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rir_gym.snapshot.audit import difference, fingerprint, generators, opaque


class Slotted:
    __slots__ = ("__hidden", "n")

    def __init__(self) -> None:
        self.n, self.__hidden = 1, 2

    def change(self) -> None:
        self.__hidden += 1


class Mapping(dict[str, int]):
    note = "x"


class Holder(gym.Env[Any, Any]):
    """Holds whatever it is given."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _nan() -> float:
    return float("nan")


def _cell() -> Any:
    n = [0]
    return lambda: n


CHANGES: dict[str, tuple[Any, Any]] = {
    "int": ([1], lambda v: v.__setitem__(0, 2)),
    "type only": ([1], lambda v: v.__setitem__(0, True)),
    "nested": ({"a": [({"b": {1, 2}},)]}, lambda v: v["a"][0][0]["b"].add(3)),
    "dict order": ({"a": 1, "b": 2}, lambda v: v.update(a=v.pop("a"))),
    "deque": (collections.deque([1, 2]), lambda v: v.rotate(1)),
    "bytearray": (bytearray(b"ab"), lambda v: v.__setitem__(0, 0)),
    "array": (np.zeros((2, 2)), lambda v: v.__setitem__((1, 1), 5)),
    "array of objects": (np.array([[1], None], dtype=object), lambda v: v[0].append(2)),
    "array.array": (array.array("i", [1, 2]), lambda v: v.append(3)),
    "slots": (Slotted(), lambda v: v.change()),
    "heir of dict": (Mapping(a=1), lambda v: v.update(a=2)),
    "attribute of an heir of dict": (Mapping(), lambda v: setattr(v, "note", "y")),
    "closure": (_cell(), lambda v: v().append(1)),
    "default dict": (collections.defaultdict(list), lambda v: v["new"]),
    "partial": (functools.partial(print, [1]), lambda v: v.args[0].append(2)),
    "bound method": ([[1].append], lambda v: v[0](2)),
    "long text": (["x" * 500], lambda v: v.__setitem__(0, "x" * 499 + "y")),
    "generator": (np.random.default_rng(1), lambda v: v.random()),
    "spawned": (np.random.default_rng(1), lambda v: v.spawn(1)),
    "legacy generator": (np.random.RandomState(1), lambda v: v.rand()),
    "exception": (ValueError([1]), lambda v: v.args[0].append(2)),
    "counter": (collections.Counter("ab"), lambda v: v.update("a")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_and_its_path_named(name: str) -> None:
    value, change = copy.deepcopy(CHANGES[name]) if name != "closure" else (_cell(), CHANGES[name][1])
    env = Holder(value)
    before = fingerprint(env)
    assert difference(before, fingerprint(env)) is None
    change(env.value)
    found = difference(before, fingerprint(env))
    assert found is not None
    assert "env.value" in found


def test_two_names_of_one_object_are_state() -> None:
    shared: list[int] = []
    together, apart = Holder([shared, shared]), Holder([[], []])
    assert difference(fingerprint(together), fingerprint(apart)) == "env.value[1] was same as env.value[0], is list 0"


def test_two_views_of_one_array_are_state_and_one_view_is_none() -> None:
    board = np.zeros((2, 2))
    env = Holder([board, board[0]])
    assert difference(fingerprint(env), fingerprint(copy.deepcopy(env))) is not None
    single = Holder([np.arange(4).reshape(2, 2).ravel()])
    assert difference(fingerprint(single), fingerprint(copy.deepcopy(single))) is None


def test_where_a_weak_reference_points_is_state() -> None:
    target = type("Plain", (), {})()
    env = Holder([target, weakref.ref(target)])
    assert difference(fingerprint(env), fingerprint(copy.deepcopy(env))) is not None
    assert any("dead" in token for _, token in fingerprint(Holder(weakref.ref(type("Gone", (), {})()))))


def test_nan_and_plain_copies_are_no_difference() -> None:
    env = Holder({"a": _nan(), "b": [1.5, (2, "x")], "c": {3, 1}, "d": np.array([np.nan])})
    assert difference(fingerprint(env), fingerprint(copy.deepcopy(env))) is None


def test_the_order_of_a_set_is_state() -> None:
    one, two = {0, 8, 16}, {16, 8, 0}
    assert one == two
    expected = None if list(one) == list(two) else "env.value{0}"
    found = difference(fingerprint(Holder(one)), fingerprint(Holder(two)))
    assert (found or "").startswith(expected or "")
    assert (found is None) == (expected is None)


def test_opaque_objects_are_named() -> None:
    env = Holder({"lock": threading.Lock(), "numbers": (i for i in range(3)), "fine": [1]})
    assert opaque(env) == [("env.value['lock']", "_thread.lock"), ("env.value['numbers']", "builtins.generator")]


def test_generators_are_found_once_each_wherever_they_are() -> None:
    rng = np.random.default_rng(1)
    space = gym.spaces.Discrete(3, seed=2)
    env = Holder({"a": rng, "b": [rng], "space": space, "bound": np.random.default_rng(3).random})
    found = [(path, each) for path, each in generators(env) if path.startswith("env.")]
    assert [path for path, _ in found] == [
        "env.value['a']",
        "env.value['space']._np_random",
        "env.value['bound'].__self__",
    ]
    assert len({id(each) for _, each in found}) == 3


def test_shared_and_static_parts_are_not_looked_into() -> None:
    env = Holder(Slotted())
    before = fingerprint(env, share=["value"])
    env.value.change()
    assert difference(before, fingerprint(env, share=["value"])) is None
    before = fingerprint(env, static=[f"{__name__}:Slotted"])
    env.value.change()
    assert difference(before, fingerprint(env, static=[f"{__name__}:Slotted"])) is None


def test_a_deep_chain_is_walked_without_recursion() -> None:
    chain: Any = None
    for i in range(5_000):
        chain = [i, chain]
    assert len(fingerprint(Holder(chain))) > 5_000


def test_difference_of_lengths() -> None:
    assert difference([("a", "1")], [("a", "1"), ("b", "2")]) == "b is there only once"
    assert difference([("a", "1")], [("c", "1")]) == "a became c"

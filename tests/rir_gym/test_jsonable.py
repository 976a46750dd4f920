"""Any value as strict JSON and back, as a property."""

import enum
import json
import os
import subprocess
import sys
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rir_gym.errors import RecordError
from rir_gym.jsonable import MAX_DEPTH, Opaque, decode, encode
from rir_gym.values import same_value

text = st.text(st.characters(codec=None, categories=None)) | st.sampled_from(["$float", "$", "\ud83d\ude00", "\ud800"])
leaves = st.none() | st.booleans() | st.integers() | st.floats() | text | st.binary()
keys = st.none() | st.booleans() | st.integers() | text | st.tuples(st.integers(), text)
dtypes = (
    hnp.boolean_dtypes() | hnp.integer_dtypes() | hnp.floating_dtypes(sizes=(16, 32, 64)) | hnp.unicode_string_dtypes()
)
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, min_side=0, max_side=3))
values = st.recursive(
    leaves | arrays | st.builds(Opaque, text),
    lambda inner: st.lists(inner) | st.dictionaries(text, inner) | st.dictionaries(keys, inner),
    max_leaves=12,
)


def through_json(value):
    return json.loads(json.dumps(value, allow_nan=False).encode("ascii"))


def same(a, b):
    """Equal and of equal types, all the way down; key by key in order."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return len(a) == len(b) and all(same(x, y) and same(a[x], b[y]) for x, y in zip(a, b, strict=True))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return same_value(a, b)


@given(values)
def test_round_trip_through_strict_ascii_json(value):
    assert same(decode(through_json(encode(value))), value)


@given(values)
def test_what_was_read_encodes_to_the_same_json(value):
    once = json.dumps(encode(value))
    assert json.dumps(encode(decode(json.loads(once)))) == once


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


class Broken:
    def __repr__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, (2,)), [1, [2]]),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.float64("nan"), {"$float": "nan"}),
        (np.uint64(2**64 - 1), {"$int": "0xffffffffffffffff"}),
        (-(2**63), -(2**63)),
        (2**63, {"$int": "0x8000000000000000"}),
        (Level.HIGH, 3),
        (Colour.RED, {"$repr": "<Colour.RED: 1>"}),
        ({"b", "a"}, ["a", "b"]),
        (frozenset([2, 10]), [10, 2]),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ({1: "x", "1": "y"}, {"$dict": [[1, "x"], ["1", "y"]]}),
        ({"$float": "nan"}, {"$dict": [["$float", "nan"]]}),
        (bytearray(b"x"), {"$bytes": "eA=="}),
        (np.array([[1, 2]], dtype=np.int8), {"$array": {"dtype": "|i1", "shape": [1, 2], "data": [1, 2]}}),
        (np.array([None, (1,)], dtype=object), [None, [1]]),
        (1 + 2j, {"$repr": "(1+2j)"}),
        (Broken(), {"$repr": f"<{Broken.__module__}.Broken>"}),
        ("a\u2028b\x00", "a\u2028b\x00"),
        ("\ud83d\ude00!", {"$str": ["\ud83d", "\ude00!"]}),
    ],
)
def test_what_each_kind_becomes(value, expected):
    found = encode(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)


def test_an_unknown_object_is_text_without_its_address_and_of_bounded_length():
    assert encode(object()) == {"$repr": "<object object>"}
    assert len(encode(Opaque)["$repr"]) < 100
    assert len(encode(range)["$repr"]) < 100
    long = type("Long", (), {"__repr__": lambda self: "x" * 10_000})()
    assert len(encode(long)["$repr"]) == 2000


def test_a_cycle_and_a_well_end_at_the_greatest_depth():
    cycle = []
    cycle.append(cycle)
    well = "water"
    for _ in range(3000):
        well = {"down": well}
    for value in (cycle, well):
        depth, at = 0, encode(value)
        while not (isinstance(at, dict) and "$repr" in at):
            depth, at = depth + 1, at[0] if isinstance(at, list) else at["down"]
        assert depth == MAX_DEPTH


def test_sets_of_text_are_the_same_in_every_process():
    program = "from rir_gym.jsonable import encode; print(encode({'facts': {f'f{i}' for i in range(20)}}))"
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "value",
    [
        {"$pickle": "gASVAA=="},
        {"$float": "nan", "$int": "0x1"},
        {"$float": "1.0"},
        {"$int": 3},
        {"$int": "ten"},
        {"$bytes": "é"},
        {"$dict": [[1]]},
        {"$dict": [[{"$dict": []}, 1]]},
        {"$array": {"dtype": "|O", "shape": [1], "data": [1]}},
        {"$array": {"dtype": "<f8", "shape": [10**12], "data": [1]}},
        {"$array": {"dtype": "<f8", "shape": [-1], "data": [1]}},
        {"$array": {"dtype": "no such", "shape": [], "data": [1]}},
        {"$array": {"shape": []}},
        {"$str": [1]},
    ],
)
def test_malformed_objects_are_refused(value):
    with pytest.raises(RecordError, match=r"\$"):
        decode({"deep": [value]})

"""The text space: every string, and nothing else."""

from __future__ import annotations

import copy

import pytest
from gymnasium.spaces import Text
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym import Unicode


@settings(deadline=None, max_examples=50)
@given(st.text())
def test_every_string_is_a_member_and_survives_json(text: str) -> None:
    space = Unicode()
    assert text in space
    assert space.from_jsonable(space.to_jsonable([text, ""])) == [text, ""]


@pytest.mark.parametrize("value", [3, None, b"bytes", ["a"], 1.5])
def test_nothing_else_is_a_member(value: object) -> None:
    assert value not in Unicode()


def test_samples_are_members_and_follow_the_seed() -> None:
    one, two = Unicode(seed=3), Unicode(seed=3)
    drawn = [one.sample() for _ in range(20)]
    assert drawn == [two.sample() for _ in range(20)]
    assert all(sample in one for sample in drawn)
    assert len(set(drawn)) > 10


def test_masks_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be masked"):
        Unicode().sample(mask=(1, None))


def test_equality_copy_and_flattening() -> None:
    assert Unicode() == Unicode(seed=1)
    assert Unicode() != Text(3)
    assert copy.deepcopy(Unicode()) == Unicode()
    assert not Unicode().is_np_flattenable
    assert repr(Unicode()) == "Unicode()"

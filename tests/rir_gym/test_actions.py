"""How a rollback is written as an action: text, Discrete, and OneOf for the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete, OneOf, Text, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym import Unicode, UsageError
from rir_gym.actions import ActionCode


@pytest.mark.parametrize("inner", [Unicode(), Text(20)])
def test_text_reads_the_whole_string_and_nothing_less(inner: Any) -> None:
    code = ActionCode(inner, 8, "rollback")
    assert code.space() == Unicode()
    assert code.read("rollback 3", 5) == (3, None)
    assert code.read("rollback -2", 5) == (-2, None)
    for text in ("rollback", "rollback x", " rollback 3", "rollback 3 ", "rollback 3\n", "Rollback 3", "rollback 3.0"):
        assert code.read(text, 5) == (None, text)
    assert code.read(17, 5) == (None, 17)


def test_a_restore_point_of_any_length_is_an_int_out_of_range() -> None:
    to, _ = ActionCode(Unicode(), 8, "rollback").read("rollback " + "9" * 5000, 5)
    assert to is not None
    assert to > 10**9


def test_the_keyword_is_configurable_and_one_word() -> None:
    code = ActionCode(Unicode(), 8, "zurück.")
    assert code.read("zurück. 1", 4) == (1, None)
    assert code.read("zurückx 1", 4) == (None, "zurückx 1")
    for keyword in ("", "two words", "tab\t", 3):
        with pytest.raises(UsageError, match="keyword="):
            ActionCode(Unicode(), 8, keyword)  # type: ignore[arg-type]


def test_an_environment_command_that_reads_as_a_rollback_is_an_error() -> None:
    code = ActionCode(Unicode(), 8, "rollback")
    code.check_collision(["go north", "rollback the carpet"])
    code.check_collision(None)
    with pytest.raises(UsageError, match="'rollback 2' is an action of the environment"):
        code.check_collision(["go north", "rollback 2"])


@settings(deadline=None, max_examples=60)
@given(n=st.integers(1, 6), start=st.integers(-5, 9), depth=st.integers(1, 8), t=st.integers(0, 30))
def test_discrete_counts_depths_after_the_environments_own_actions(n: int, start: int, depth: int, t: int) -> None:
    code = ActionCode(Discrete(n, start=start), 8, "rollback")
    space = code.space()
    assert (int(space.n), int(space.start)) == (n + 8, start)
    assert code.read(np.int64(start + n - 1 + depth), t) == (t - depth, None)
    assert code.read(start + n - 1, t) == (None, start + n - 1)
    with pytest.raises(UsageError, match="action="):
        code.read(start + n + 8, t)


def test_what_is_no_int_goes_to_a_discrete_environment_as_it_is() -> None:
    code = ActionCode(Discrete(3), 8, "rollback")
    for junk in ("left", None, 1.5, -4):
        assert code.read(junk, 5) == (None, junk)


@pytest.mark.parametrize("inner", [Box(-1, 1, (2,)), MultiDiscrete([2, 3]), Tuple((Discrete(2), Box(0, 1, (1,))))])
def test_other_spaces_are_one_of_two(inner: Any) -> None:
    code = ActionCode(inner, 4, "rollback")
    space = code.space()
    assert space == OneOf((inner, Discrete(4, start=1)))
    space.seed(0)
    inner.seed(0)
    action = inner.sample()
    assert code.read((0, action), 9) == (None, action)
    assert code.read((1, np.int64(3)), 9) == (6, None)
    for junk in (None, 3, (2, 1), (1, 0), (1, 5), (1, "x"), (0,), "ab"):
        with pytest.raises(UsageError, match="action="):
            code.read(junk, 9)


def test_the_outer_space_has_a_generator_of_its_own() -> None:
    inner = Box(-1, 1, (3,), seed=5)
    inner.sample()
    outer = ActionCode(inner, 4, "rollback").space()
    outer.spaces[0].seed(5)
    before = inner.np_random.bit_generator.state
    outer.sample()
    assert inner.np_random.bit_generator.state == before
    fresh_one, fresh_two = (ActionCode(inner, 4, "rollback").space().spaces[0].sample() for _ in range(2))
    assert not np.array_equal(fresh_one, fresh_two)


def test_the_mask_is_int8_and_keeps_the_environments_own() -> None:
    code = ActionCode(Discrete(3, start=2), 4, "rollback")
    mask = code.mask({}, iter([True, False]))["action_mask"]
    assert mask.dtype == np.int8
    assert mask.tolist() == [1, 1, 1, 1, 0, 0, 0]
    own = np.array([0, 1, 0], dtype=np.int64)
    masked = code.mask({"action_mask": own}, iter([True] * 9))["action_mask"]
    assert masked.tolist() == [0, 1, 0, 1, 1, 1, 1]
    assert code.space().sample(mask=masked) in (3, 5, 6, 7, 8)
    assert ActionCode(Unicode(), 4, "rollback").mask({}, iter(())) == {}

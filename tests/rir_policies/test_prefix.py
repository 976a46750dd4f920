"""What is kept of prompts: the longest known beginning, whatever was kept before and whatever was forgotten."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rir_policies.prefix import PrefixStates, PrefixTree

Ids = st.lists(st.integers(0, 2), min_size=1, max_size=9)


def tree(limit: int = 10**9) -> PrefixTree[list[tuple[int, ...]]]:
    """A payload is, per token, the tokens up to it: what was computed for it depends on all of them."""
    return PrefixTree(cut=lambda payload, start, stop: payload[start:stop], size=len, limit=limit)


def computed(ids: list[int], start: int = 0) -> list[tuple[int, ...]]:
    return [tuple(ids[: i + 1]) for i in range(start, len(ids))]


def longest(ids: list[int], known: list[list[int]]) -> int:
    return max((n for other in known for n in range(len(ids) + 1) if ids[:n] == other[:n]), default=0)


@given(st.lists(Ids, max_size=12), Ids)
def test_a_match_is_the_longest_known_beginning_and_what_was_computed_for_it(
    known: list[list[int]], asked: list[int]
) -> None:
    kept = tree()
    for ids in known:
        _, at = kept.match(ids)
        kept.insert(ids, computed(ids, at), start=at)
    pieces, length = kept.match(asked)
    assert length == longest(asked, known)
    assert [token for piece in pieces for token in piece] == computed(asked)[:length]
    assert kept.tokens == len({tuple(ids[:n]) for ids in known for n in range(1, len(ids) + 1)})  # each kept once
    assert kept.bytes == kept.tokens


@given(st.lists(Ids, min_size=1, max_size=20), st.integers(1, 12))
def test_the_limit_holds_and_what_is_left_is_still_right(known: list[list[int]], limit: int) -> None:
    kept = tree(limit)
    for ids in known:
        pieces, at = kept.match(ids)
        assert [token for piece in pieces for token in piece] == computed(ids)[:at]
        kept.insert(ids, computed(ids, at), start=at)
        assert kept.bytes == kept.tokens <= limit


def test_the_branch_that_was_not_used_for_longest_goes_first() -> None:
    kept = tree(6)
    for ids in ([1, 1, 1], [2, 2, 2]):
        kept.insert(ids, computed(ids), start=0)
    kept.match([1, 1, 1])
    kept.insert([0], computed([0]), start=0)
    assert [kept.match(ids)[1] for ids in ([1, 1, 1], [2, 2, 2], [0])] == [3, 0, 1]


def test_a_payload_whose_beginning_was_forgotten_is_not_kept() -> None:
    kept = tree()
    kept.insert([1, 2, 3], computed([1, 2, 3], 2), start=2)
    assert kept.match([1, 2, 3]) == ([], 0)


@given(st.lists(Ids, max_size=10), Ids)
def test_states_are_good_after_exactly_their_tokens(known: list[list[int]], asked: list[int]) -> None:
    kept: PrefixStates[Any] = PrefixStates(size=lambda state: 1, limit=5)
    for ids in known:
        kept.insert(ids, tuple(ids))
    state, length = kept.match(asked)
    assert (state or ()) == tuple(asked[:length])
    assert kept.bytes <= 5
    if len({tuple(ids) for ids in known}) <= 5:
        assert length == max((len(ids) for ids in known if asked[: len(ids)] == ids), default=0)

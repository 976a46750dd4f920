"""Options in one row: every option is predicted along its own tokens, and every shared beginning stands there once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rir_policies.packing import option_tries

Tails = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=20)


@given(Tails, st.integers(1, 40))
def test_each_option_is_in_one_trie_along_its_own_tokens(tails: list[list[int]], limit: int) -> None:
    tries = option_tries(tails, limit=limit)
    assert sorted(member for trie in tries for member in trie.members) == list(range(len(tails)))
    for trie in tries:
        longest = max(len(tails[member]) for member in trie.members)
        assert len(trie.tokens) <= max(limit, longest - 1)
        lines = trie.ancestors()
        for member, path in zip(trie.members, trie.paths, strict=True):
            assert path[0] == -1
            assert [trie.tokens[node] for node in path[1:]] == tails[member][:-1]
            assert lines[path[-1]] == list(path[1:]) if len(path) > 1 else True
            assert [trie.depths[node] for node in path[1:]] == list(range(len(path) - 1))


@given(Tails)
def test_nothing_is_computed_twice_in_one_trie(tails: list[list[int]]) -> None:
    (trie,) = option_tries(tails, limit=10**6)
    beginnings = {tuple(tail[:n]) for tail in tails for n in range(1, len(tail))}
    assert len(trie.tokens) == len(beginnings)
    assert all(parent < node for node, parent in enumerate(trie.parents))

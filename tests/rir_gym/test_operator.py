"""The operator acts; restrictions are exactly ordered; the declared (k, M+) is what may be chosen."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym.errors import UsageError
from rir_gym.memory import Fact, ReflectionMemory
from rir_gym.operator import WHOLE, Depths, Memories, Operator, Restriction, Space


@dataclass(frozen=True)
class Listed:
    notes: tuple[str, ...] = ()

    def render(self) -> str:
        return ""

    def learn(self, learned: Any) -> Listed:
        return self

    def to_json(self) -> dict[str, Any]:
        return {}


PLAIN = ReflectionMemory("g")
MEMORIES = [
    PLAIN,
    PLAIN.learn([Fact("fact", "x")]),
    *(Listed(tuple("abcde"[:n])) for n in range(6)),
    Listed(("z",)),
]
T = 5
SPACES = [
    Space(t, frozenset(points), memory)
    for t in range(T + 1)
    for n in range(t + 2)
    for points in combinations(range(t + 1), n)
    for memory in (PLAIN, Listed(("a", "b", "c", "d", "e")))
]
DEPTHS = st.one_of(
    st.sampled_from([Depths.none(), Depths.start(), Depths()]),
    st.builds(lambda least, more: Depths("between", least, least + more), st.integers(0, 2), st.integers(0, 2)),
    st.builds(lambda least: Depths("between", least), st.integers(0, 3)),
)
RULES = st.one_of(
    st.sampled_from([Memories.unchanged(), Memories(), Memories.notes()]), st.builds(Memories.notes, st.integers(1, 4))
)


def allowed(rule: Restriction, space: Space) -> set[tuple[int, int]]:
    chosen = [(k, i) for k in range(T + 1) for i in range(len(MEMORIES))]
    return {(k, i) for k, i in chosen if rule.allows(Operator(k, MEMORIES[i]), space)}


EVERY = {
    rule: [allowed(rule, space) for space in SPACES]
    for rule in (WHOLE, Restriction(Depths.none()), Restriction(memories=Memories.unchanged()))
}


@settings(max_examples=120, deadline=None, derandomize=True)
@given(a=st.builds(Restriction, DEPTHS, RULES), b=st.builds(Restriction, DEPTHS, RULES))
def test_the_order_is_inclusion_in_every_space(a: Restriction, b: Restriction) -> None:
    for rule in (a, b):
        EVERY.setdefault(rule, [allowed(rule, space) for space in SPACES])
    assert (a <= b) == all(mine <= theirs for mine, theirs in zip(EVERY[a], EVERY[b], strict=True))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(rules=st.lists(st.builds(Restriction, DEPTHS, RULES), min_size=3, max_size=3))
def test_it_is_a_partial_order_below_the_whole_operator(rules: list[Restriction]) -> None:
    a, b, c = rules
    assert a <= a <= WHOLE
    assert Restriction(Depths.none(), Memories.unchanged()) <= a
    assert not (a <= b <= c) or a <= c
    if a <= b <= a and "none" not in (a.depths.kind, b.depths.kind):
        assert a == b


def test_the_rules_by_hand() -> None:
    chain = [Depths.none(), Depths.zero(), Depths.at_most(2), Depths.at_most(4), Depths()]
    assert all((a <= b) == (i <= j) for i, a in enumerate(chain) for j, b in enumerate(chain))
    assert Depths.start() <= Depths()
    assert not Depths.start() <= Depths.at_most(9)
    assert not Depths("between", 1) <= Depths.start()
    kept = [Memories.unchanged(), Memories.notes(1), Memories.notes(3), Memories.notes(), Memories()]
    assert all((a <= b) == (i <= j) for i, a in enumerate(kept) for j, b in enumerate(kept))


def test_a_jump_to_another_branch_is_outside_of_the_class() -> None:
    tree = Restriction(nodes="tree")
    assert not tree <= WHOLE
    assert tree >= WHOLE
    with pytest.raises(UsageError, match="nodes='tree'"):
        Restriction(Depths.start(), nodes="tree")


@given(past=st.lists(st.integers(), min_size=1, max_size=9), data=st.data())
def test_two_operators_in_a_row_are_one(past: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(past) - 1))
    j = data.draw(st.integers(0, len(past) - 1 - k))
    once, memory = Operator(k, PLAIN)(past)
    assert memory == PLAIN
    assert len(once) == len(past) - k
    twice = Operator(j, MEMORIES[1])(once)
    assert twice == Operator(k + j, MEMORIES[1])(past)
    with pytest.raises(UsageError, match="depth="):
        Operator(len(past), PLAIN)(past)


def test_only_what_can_be_restored_is_in_the_space() -> None:
    space = Space(4, frozenset({1, 4}), PLAIN)
    assert space.depths == {0, 3}
    assert [k for k in range(5) if WHOLE.allows(Operator(k, PLAIN), space)] == [0, 3]
    start = Restriction(Depths.start())
    assert [k for k in range(5) if start.allows(Operator(k, PLAIN), space)] == [3]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Depths("between", 2, 1),
        lambda: Depths("between", -1),
        lambda: Depths("none", 1),
        lambda: Depths("start", 0, 3),
        lambda: Depths("some"),
        lambda: Memories("notes", 0),
        lambda: Memories("any", 3),
        lambda: Memories("few"),
        lambda: Restriction(nodes="forest"),
    ],
)
def test_rules_that_are_none_are_refused(make: Any) -> None:
    with pytest.raises(UsageError, match="="):
        make()


def test_words() -> None:
    assert str(WHOLE) == "any k; any M+"
    assert str(Restriction(Depths("between", 1, 4), Memories.notes(3))) == "1 <= k <= 4; M+ = at most 3 notes"
    assert str(Restriction(Depths.zero(), Memories.unchanged())) == "k = 0; M+ = M"
    assert str(Restriction(Depths.start(), Memories.notes())) == "k = t (the start); M+ = notes"
    assert "any kept node" in str(Restriction(nodes="tree"))

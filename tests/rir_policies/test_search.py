"""The tree's statistics: visits add up, a sample is played once, UCT never selects what is spent."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym.errors import UsageError
from rir_gym.memory import Fact
from rir_policies.search import Place, SearchActor, SearchMemory, place_fact


def seen(*places: Place) -> SearchMemory:
    return SearchMemory("g").learn([place_fact(place, len(place.path)) for place in places])


def test_a_place_survives_as_a_fact() -> None:
    place = Place(("go 雪", 'say "x"'), 7, 0.25, ("a", "b"), shut=True)
    memory = seen(place)
    assert memory.places == (place,)
    assert memory.learn([Fact("fact", "the door is red"), Fact("affordance", "{}")]) == memory


def test_a_sample_that_was_taken_is_not_untried_any_more() -> None:
    memory = seen(Place((), 0, 1.0, ("a", "b")), Place(("a",), 1, 1.0))
    root = memory.place(())
    assert root is not None
    assert root.untried == ("b",)


def test_uct_by_hand() -> None:
    root, a, b = Place((), 0, 0.5, ()), Place(("a",), 1, 0.9, ("x",)), Place(("b",), 2, 0.2, ("y",))
    memory = seen(Place((), 0, 0.5, ("a", "b")), a, b)
    assert memory.place(()) == root
    first = memory.select(1.0)
    assert first is not None
    assert first.path == ("a",)
    for _ in range(5):
        memory = memory.backup(("a",), 0.1, since=0)
    second = memory.select(1.0)
    assert second is not None
    assert second.path == ("b",)
    greedy = memory.select(0.0)
    assert greedy is not None
    assert greedy.path == ("b",)


def test_a_spent_tree_selects_nothing() -> None:
    memory = seen(Place((), 0, 0.5, ("a",)), Place(("a",), 1, 0.5, shut=True))
    assert memory.select(1.0) is None
    assert SearchMemory("g").select(1.0) is None


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), exploration=st.floats(0, 3))
def test_selection_goes_to_what_is_open_and_visits_add_up(seed: int, exploration: float) -> None:
    rng = random.Random(seed)
    memory = seen(Place((), 0, 0.5, ("a", "b")))
    for rollouts in range(25):
        place = memory.select(exploration)
        if place is None:
            break
        known = memory.place(place.path)
        assert known == place
        assert not place.shut
        if place.untried is None:
            reached = Place(place.path, place.node, place.value, tuple(rng.sample("abc", rng.randint(1, 3))))
        else:
            assert place.untried
            ends = rng.random() < 0.5
            samples = None if ends or rng.random() < 0.3 else tuple(rng.sample("abc", 2))
            reached = Place((*place.path, place.untried[0]), rollouts + 1, rng.random(), samples, shut=ends)
        memory = memory.learn([place_fact(reached, 0)]).backup(reached.path, rng.random(), since=0)
        root = memory.place(())
        assert root is not None
        assert root.visits == rollouts + 1 == memory.iterations
        for each in memory.places:
            children = [p for p in memory.places if p.path[:-1] == each.path and p.path]
            assert each.visits >= sum(child.visits for child in children)
            assert 0 <= each.mean <= 1
            taken = {child.path[-1] for child in children}
            assert not taken & set(each.untried or ())


@pytest.mark.parametrize("counts", [{"samples": 0}, {"root": -1}])
def test_an_expansion_of_nothing_is_refused(counts: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        SearchActor(lambda views: [], **counts)

"""A block tells every change of what its containers hold, calm or not, whatever their flattened contents look like."""

from __future__ import annotations

import itertools
import random
from operator import is_
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym.snapshot.heap import table as table_module
from rir_gym.snapshot.heap.blocks import Block, Node
from rir_gym.snapshot.heap.engine import Engine
from rir_gym.snapshot.heap.resolve import kind_of
from rir_gym.snapshot.heap.table import Table

A, B = ("a", "tuple"), ("b", "tuple")
LISTS: list[list[Any]] = [[], [A], [B], [A, B], [B, A], [1, A]]
DICTS: list[dict[Any, Any]] = [
    *({}, {1: A}, {1: A, 2: B}, {2: B, 1: A}, {2: B}, {A: 1}, {True: A}, {B: 2, 1: A}),
    *({"x": A, "y": 1}, {"x": A, "y": 1, "z": B, "w": 2}, {1: A, "x": B}, {"x": B, 1: A}),
    *({"x": B}, {"y": B, 2: A}, {1: A, "y": B, 2: A}),
]


def nodes_of(*containers: Any) -> list[Node]:
    return [Node(each, kind := kind_of(type(each)), kind.read(each, None)) for each in containers]  # type: ignore[union-attr,arg-type]


def fill(container: Any, content: Any) -> None:
    """What stands at the beginning of both stays: a dict that loses its last keys keeps the form of its table."""
    if type(container) is list:
        container[:] = content
        return
    pairs = zip(list(container.items()), content.items(), strict=False)
    same = len(list(itertools.takewhile(lambda pair: all(map(is_, *pair)), pairs)))
    for key in list(container)[same:]:
        del container[key]
    container.update(content)


def holds(container: Any) -> list[Any]:
    """What it holds, by identity and in order."""
    return (
        [id(each) for pair in container.items() for each in pair] if type(container) is dict else [*map(id, container)]
    )


def assert_seen(block: Block, containers: list[Any], contents: tuple[Any, ...]) -> None:
    before = [holds(each) for each in containers]
    for container, content in zip(containers, contents, strict=True):
        fill(container, content)
    wrong = [n for n, (each, old) in enumerate(zip(containers, before, strict=True)) if holds(each) != old]
    assert sorted([containers.index(node.live) for node, _ in block.changed()]) == wrong


class Lists(list[Any]):
    """Compared by identity, as a list is not."""

    def index(self, thing: Any, *_: Any) -> int:
        return next(number for number, each in enumerate(self) if each is thing)


@pytest.mark.parametrize("calm", [True, False])
@pytest.mark.parametrize(
    "first", [[1, 2, 2, 3], [1, 1, 1, 1], [2, 1, 1, 4], [3, 2, 9, 2], [1, 2, 8, 2], [1, 1, 11, 13]]
)
def test_every_rearrangement_of_two_lists_and_two_dicts_is_seen(calm: bool, first: list[int]) -> None:
    containers = Lists([list(LISTS[first[0]]), list(LISTS[first[1]]), dict(DICTS[first[2]]), dict(DICTS[first[3]])])
    start = tuple([each.copy() for each in containers])
    block = Block(nodes_of(*containers), 1, calm=calm)
    for contents in itertools.product(LISTS, LISTS, DICTS, DICTS):
        assert_seen(block, containers, contents)
        for container, content in zip(containers, start, strict=True):
            fill(container, content)
        assert block.changed() == []


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([*LISTS, *DICTS]), min_size=1, max_size=7),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_what_moves_from_one_to_the_next_is_seen(first: list[Any], rng: random.Random, calm: bool) -> None:
    containers = Lists([each.copy() for each in first])
    block = Block(nodes_of(*containers), 1, calm=calm)
    for _ in range(20):
        contents = [each.copy() for each in containers]
        one, other = rng.randrange(len(contents)), rng.randrange(len(contents))
        if rng.random() < 0.5 and type(contents[one]) is type(contents[other]) and contents[one]:
            moved = contents[one].popitem() if type(contents[one]) is dict else contents[one].pop()
            if type(contents[other]) is dict:
                contents[other] = dict([moved, *contents[other].items()])
            else:
                contents[other].insert(0, moved)
        else:
            contents[one] = rng.choice(LISTS if type(contents[one]) is list else DICTS)
        assert_seen(block, containers, tuple(contents))
        for container, content in zip(containers, first, strict=True):
            fill(container, content)
        assert block.changed() == []


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "_FEW", 4)
    monkeypatch.setattr(table_module, "_PATIENCE", 2)
    monkeypatch.setattr(table_module, "_BLOCK", 16)
    monkeypatch.setattr(table_module, "_HOT", 0)


class World:
    """What a test puts into it."""


def rules(size: int) -> dict[int, dict[int, list[Any]]]:
    return {state: {action: [(state, action)] for action in range(4)} for state in range(size)}


def blocks_of(table: Table) -> list[tuple[int, bool]]:
    return sorted([(len(block.nodes), block.calm) for block in table.blocks.values()])


@pytest.mark.usefixtures("at_once")
def test_what_does_not_change_becomes_calm_together_and_what_is_disturbed_waits_longer() -> None:
    world: Any = World()
    world.rules, world.count = rules(20), 0
    engine = Engine(world, {})
    kept = [engine.save()]
    assert not any(calm for _, calm in blocks_of(engine.table))
    for _ in range(6):
        world.count += 1
        kept.append(engine.save())
    assert max(blocks_of(engine.table))[0] >= 64
    assert max(blocks_of(engine.table))[1]
    world.rules[7][2][0] = (7, 2)  # equal, and not the same
    kept.append(engine.save())
    assert [type(node.live) for node, _, _ in kept[-1].changes()] == [list]
    assert not any(calm for _, calm in blocks_of(engine.table))
    assert len(engine.table.blocks) > 2
    waited = 0
    while not any(calm for _, calm in blocks_of(engine.table)):
        world.count, waited = world.count + 1, waited + 1
        kept.append(engine.save())
    assert waited >= 6
    old = kept[0]
    engine.restore(old)
    assert world.rules == rules(20)
    assert world.count == 0


@pytest.mark.usefixtures("at_once")
def test_a_restore_into_a_calm_block_is_known_afterwards() -> None:
    world: Any = World()
    world.rules, world.count = rules(20), 0
    engine = Engine(world, {})
    for _ in range(8):
        world.count += 1
        version = engine.save()
    assert any(calm for _, calm in blocks_of(engine.table))
    world.rules[3][1].append("more")
    world.rules[4].clear()
    engine.restore(version)
    assert world.rules == rules(20)
    assert engine.table.changed() == []
    world.rules[3][1].append("more")
    assert [node.live for node, _ in engine.table.changed()] == [world.rules[3][1]]


@pytest.mark.usefixtures("at_once")
def test_a_save_that_is_refused_leaves_the_change_to_be_seen() -> None:
    world: Any = World()
    world.rules, world.count = rules(20), 0
    engine = Engine(world, {})
    for _ in range(8):
        world.count += 1
        version = engine.save()
    assert any(calm for _, calm in blocks_of(engine.table))
    world.rules[3][1][0] = (each for each in ())
    for _ in range(3):
        with pytest.raises(Exception, match="generator"):
            engine.save()
    world.rules[3][1][0] = (3, 1)
    world.rules[3][1].append("more")
    later = engine.save()
    engine.restore(version)
    assert world.rules[3][1] == [(3, 1)]
    engine.restore(later)
    assert world.rules[3][1] == [(3, 1), "more"]

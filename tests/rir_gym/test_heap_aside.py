"""What the world no longer reaches is not compared, and is nevertheless exact wherever it is reached again."""

from __future__ import annotations

import collections
import random
import weakref
from typing import Any

import numpy as np
import pytest

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.heap import engine as engine_module
from rir_gym.snapshot.heap.engine import Engine, Version
from rir_gym.snapshot.heap.table import ASIDE
from rir_gym.snapshot.native import _REGISTERED, register_adapter


class World:
    """What a test puts into it."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


@pytest.fixture(autouse=True)
def at_every_save(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the world had grown much at each save."""
    monkeypatch.setattr(engine_module, "_ASIDE_FROM", -(10**9))


def heap(**fields: Any) -> tuple[Any, Engine, Version]:
    """A world, its heap, and a version before any of what a test adds."""
    world = World(**fields)
    engine = Engine(world, {})
    return world, engine, engine.save()


def aside(engine: Engine) -> list[Any]:
    return [node.live for node in engine.table.nodes() if node.place == ASIDE]


# --- what is set aside ------------------------------------------------------------------------------------------------


def test_a_world_that_makes_its_objects_anew_compares_as_many_after_many_steps_as_after_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    world, engine, _ = heap(now=[])
    versions: list[Version] = []
    compared: list[int] = []
    for turn in range(60):
        world.now = [World(turn=turn, log=[turn, number], table={"at": number}) for number in range(60)]
        world.last = (world.now[0], {turn})
        versions.append(engine.save())
        compared.append(engine.table.compared)
    assert engine.table.size > 60 * 180
    assert max(compared[-20:]) <= max(compared[:20]) < 1_500
    for at in [*random.Random(0).sample(range(60), 25), 59, 0, 59]:
        engine.restore(versions[at])
        assert [(each.turn, each.log, each.table) for each in world.now] == [
            (at, [at, n], {"at": n}) for n in range(60)
        ]
        assert world.last[0] is world.now[0]
        assert world.last[1] == {at}


def test_what_was_there_at_the_first_save_is_compared_for_good() -> None:
    rooms = {name: World(items=[name]) for name in ("hall", "kitchen")}  # as a module might hold them, unseen
    world, engine, _ = heap(room=rooms["hall"], seen=rooms["kitchen"])
    world.seen = None
    without = engine.save()
    rooms["kitchen"].items.append("knife")
    changed = engine.save()
    engine.restore(without)
    world.room = rooms["kitchen"]
    assert world.room.items == ["kitchen"]
    engine.restore(changed)
    assert rooms["kitchen"].items == ["kitchen", "knife"]


def test_what_a_weak_reference_shows_is_not_set_aside() -> None:
    world, engine, _ = heap(things=[])
    thing = World(hp=5)
    world.things.append(thing)
    world.target = weakref.ref(thing)
    engine.save()
    world.things.clear()
    version = engine.save()
    world.target().hp = 1
    hurt = engine.save()
    engine.restore(version)
    assert world.target().hp == 5
    engine.restore(hurt)
    assert world.target().hp == 1
    assert thing not in aside(engine)


def test_what_is_set_aside_is_let_go_when_no_version_reaches_it() -> None:
    world, engine, _ = heap(now=None)
    versions = []
    for turn in range(200):
        world.now = World(turn=[turn])
        versions.append(engine.save())
        if len(versions) > 5:
            engine.drop(versions.pop(0))
        engine.sweep()
        assert engine.table.size < 40
    assert len(aside(engine)) > 4
    engine.restore(versions[0])
    assert world.now.turn == [195]


# --- linked again -----------------------------------------------------------------------------------------------------


def family() -> tuple[World, list[Any]]:
    """An object, and all that hangs on it: a set, an array, an instance behind a tuple."""
    child = World(name="child", crowd={1, 2}, cells=np.arange(3))
    return World(children=(child,), log=[child]), [child]


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("behind", ["itself", "tuple", "new object"])
def test_linked_again_with_all_that_hangs_on_it(changed: bool, behind: str) -> None:
    world, engine, empty = heap(place=None)
    parent, (child,) = family()
    world.place = parent
    linked = engine.save()
    world.place = None
    engine.save()
    assert {id(each) for each in aside(engine)} >= {id(parent), id(child), id(child.crowd), id(child.cells)}
    if changed:
        child.crowd.add(3)
        child.cells[0] = 9
        child.name = "other"
        child.more = {"new": []}
        parent.log.append(parent)
    world.place = {"itself": parent, "tuple": (1, (parent,)), "new object": [World(of=child), parent]}[behind]
    again = engine.save()
    assert not {id(each) for each in aside(engine)} & {id(parent), id(child), id(child.crowd), id(child.cells)}
    child.crowd.add(4)
    child.cells[1] = 9
    later = engine.save()

    def state() -> tuple[Any, ...]:
        return sorted(child.crowd), child.cells.tolist(), child.name, len(parent.log), hasattr(child, "more")

    was = [1, 2], [0, 1, 2], "child", 1, False
    back = ([1, 2, 3], [9, 1, 2], "other", 2, True) if changed else was
    at_last = (sorted([*back[0], 4]), [back[1][0], 9, 2], *back[2:])
    for version, expected in random.Random(1).choices([(linked, was), (again, back), (later, at_last)], k=20):
        engine.restore(version)
        assert state() == expected
        if len(state()[0]) == 2:
            engine.restore(empty)
            assert world.place is None


def test_a_version_reaches_what_was_changed_while_nobody_looked() -> None:
    world, engine, empty = heap(place=None)
    parent, (child,) = family()
    world.place = parent
    linked = engine.save()
    world.place = None
    unlinked = engine.save()
    assert child in aside(engine)
    for leave in (unlinked, empty):
        engine.restore(leave)
        child.crowd.clear()
        child.cells[:] = 7
        parent.log.append("x")
        parent.children = ()
        engine.restore(linked)
        assert parent.children == (child,)
        assert parent.log == [child]
        assert child.crowd == {1, 2}
        assert child.cells.tolist() == [0, 1, 2]
        engine.restore(unlinked)


def test_the_fields_of_an_instance_that_were_linked_as_a_dict_too() -> None:
    world, engine, empty = heap(thing=None, fields=None)
    thing = world.thing = World(x=1)
    world.fields = vars(thing)
    engine.save()
    thing.x = 2
    both = engine.save()
    world.fields = None
    engine.save()
    assert any(each is vars(thing) for each in aside(engine))
    thing.x = 5
    alone = engine.save()
    world.fields = vars(thing)
    thing.x = 6
    again = engine.save()
    for version, x in ((alone, 5), (empty, None), (alone, 5), (both, 2), (again, 6), (empty, None), (again, 6)):
        engine.restore(version)
        assert x is None or (thing.x, vars(thing)) == (x, {"x": x})


def test_a_seed_sequence_that_is_counted_by_its_generator_too() -> None:
    world, engine, empty = heap(rng=None, seeds=None)
    world.rng = np.random.default_rng(0)
    seeds = world.seeds = world.rng.bit_generator.seed_seq
    seeds.spawn(1)
    one = engine.save()
    world.seeds = None
    engine.save()
    seeds.spawn(2)
    three = engine.save()
    for version, count in ((empty, None), (three, 3), (one, 1), (three, 3), (empty, None), (one, 1)):
        engine.restore(version)
        assert count is None or seeds.n_children_spawned == count


def test_an_object_met_on_two_branches_and_set_aside_on_one() -> None:
    outside = World(hp=9)
    world, engine, root = heap(held=None)
    world.held = outside
    one = engine.save()
    world.held = None
    engine.save()
    assert outside in aside(engine)
    engine.restore(root)
    outside.hp = 7
    world.held = [outside]
    two = engine.save()
    world.held = None
    gone = engine.save()
    for version, hp in ((one, 9), (two, 7), (gone, None), (one, 9), (root, None), (two, 7), (one, 9)):
        engine.restore(version)
        assert hp is None or outside.hp == hp
        outside.hp = 0
        engine.sweep()


# --- failures ---------------------------------------------------------------------------------------------------------


class Machine:
    """Stands for an object of a C library."""

    state, broken = 0.0, False


def test_what_cannot_be_written_leaves_what_was_set_aside_as_it_was() -> None:
    def load(live: Machine, state: float) -> None:
        if live.broken:
            raise OSError("broken")
        live.state = state

    name = f"{Machine.__module__}:{Machine.__qualname__}"
    register_adapter(name, save=lambda live: live.state, restore=load)
    try:
        world, engine, _ = heap(place=None)
        machine, log = Machine(), [1]
        world.place = (machine, log)
        linked = engine.save()
        world.place = None
        unlinked = engine.save()
        assert machine in aside(engine)
        machine.state, machine.broken = 3.0, True
        log.append(2)
        with pytest.raises(SnapshotError, match="broken"):
            engine.restore(linked)
        assert (world.place, machine.state, log) == (None, 3.0, [1, 2])
        assert machine in aside(engine)
        engine.restore(unlinked)
        machine.broken = False
        engine.restore(linked)
        assert (world.place, machine.state, log) == ((machine, log), 0.0, [1])
    finally:
        del _REGISTERED[name]


def test_a_save_that_fails_while_it_meets_what_was_set_aside_changes_nothing() -> None:
    world, engine, _ = heap(place=None)
    parent, (child,) = family()
    world.place = parent
    linked = engine.save()
    world.place = None
    engine.save()
    child.trouble = (each for each in ())
    child.crowd.add(3)
    world.place = parent
    with pytest.raises(SnapshotError, match="generator"):
        engine.save()
    assert child in aside(engine)
    del child.trouble
    again = engine.save()
    engine.restore(linked)
    assert child.crowd == {1, 2}
    engine.restore(again)
    assert child.crowd == {1, 2, 3}


# --- blocks -----------------------------------------------------------------------------------------------------------


def test_a_factory_that_was_a_value() -> None:
    table: collections.defaultdict[Any, Any] = collections.defaultdict()
    table[1] = list
    _, engine, _ = heap(table=table, others=[[number] for number in range(20)])
    version = engine.save()
    table.clear()
    table.default_factory = list
    table["x"] = 1  # the referents are the same, in the same order
    changed = engine.save()
    engine.restore(version)
    assert (dict(table), table.default_factory) == ({1: list}, None)
    engine.restore(changed)
    assert (dict(table), table.default_factory) == ({"x": 1}, list)


@pytest.mark.parametrize("few", [1, 256])
def test_many_blocks_change_in_one_step_while_some_of_their_objects_leave_them(
    monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    from rir_gym.snapshot.heap import blocks, table

    monkeypatch.setattr(table, "_BLOCK", 4)
    monkeypatch.setattr(table, "_FEW", few)
    monkeypatch.setattr(blocks, "_FEW", few)
    world, engine, _ = heap(things=[[number] for number in range(60)])
    versions = []
    for turn in range(30):
        for number in range(turn % 7, 60, 7):
            world.things[number].append(turn)
        if turn % 5 == 0:
            world.things[turn].extend(range(600))  # too long for a block
        versions.append((engine.save(), [list(each) for each in world.things]))
    assert 0 <= engine.table.hot <= 60
    for version, things in random.Random(0).choices(versions, k=30):
        engine.restore(version)
        assert world.things == things
        assert sorted(id(node) for node in engine.table.watched()) == sorted(set(map(id, engine.table.nodes())))

"""Keyframes with a working directory: it is as at the keyframe when steps are done again, and exact after it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import forked_worlds as worlds
import odd_worlds as odd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym import RollbackWrapper
from rir_gym.errors import ReplayMismatch, SnapshotError
from rir_gym.snapshot.fork_audit import supported
from rir_gym.snapshot.heap import Heap
from rir_gym.snapshot.keyframes import Keyframes
from rir_gym.snapshot.lifetime import Lifetime
from rir_gym.snapshot.pickled import Pickle
from rir_gym.snapshot.world import World
from rir_gym.testing import check_restore

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="working directories need a POSIX system"),
    pytest.mark.timeout(180),
]


class Library(worlds.Base):
    """Action 0 writes a file of the step, 1 adds to a common one, 2 deletes the oldest; what it reads counts."""

    def __init__(self, place: str) -> None:
        self.workdir = place

    def begin(self) -> None:
        for file in Path(self.workdir).iterdir():
            file.unlink()

    def hidden(self, action: int) -> int:
        place = Path(self.workdir)
        if action == 0:
            (place / str(self.t)).write_text(str(self.x))
        elif action == 1:
            with open(place / "common", "a") as file:
                file.write(f"{self.x} ")
        elif action == 2:
            for file_ in sorted(place.iterdir())[:1]:
                file_.unlink()
        return sum(len(each.read_text()) for each in place.iterdir())


def files(place: str) -> dict[str, Any]:
    """Contents and times, of the directory's own too."""
    found = {each.name: (each.read_text(), each.stat().st_mtime_ns) for each in Path(place).iterdir()}
    return {**found, "": Path(place).stat().st_mtime_ns}


@pytest.mark.parametrize("base", [Heap, Pickle])
@settings(max_examples=12, deadline=None)
@given(
    moves=st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=7), st.integers(0, 60)), max_size=7),
    spacing=st.integers(1, 9),
    last=st.integers(1, 9),
)
def test_every_kept_node_comes_back_with_its_files(base: Any, moves: Any, spacing: int, last: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        keyframes = Keyframes(base(), spacing=spacing)
        world = World(Library(place), keyframes, lifetime=Lifetime(last=last))
        world.reset(3, None)
        seen = {0: files(place)}
        for actions, pick in moves:
            for action in actions:
                world.step(action)
                seen[world.node.id] = files(place)
            kept = sorted(world.checkpoints)
            target = world.nodes[kept[pick % len(kept)]]
            world.restore(target)
            assert files(place) == seen[target.id]
            assert world.env.unwrapped.x == target.step.observation  # type: ignore[attr-defined]
        held = world._files._at_keyframes
        assert set(held) == set(keyframes.keyframes)  # and none that nobody needs
        world.forget()
        assert not world._files._at_keyframes


def test_where_the_steps_go_astray_world_and_files_are_as_they_were(tmp_path: Path) -> None:
    world = World(Library(str(tmp_path)), Keyframes(Pickle(), spacing=100))
    world.reset(3, None)
    nodes = [world.step(action) for action in (0, 1, 1, 0, 2, 1)]
    here = files(str(tmp_path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Library, "info", lambda self: (tmp_path / "stray").write_text("x") and {})
        patch.setattr(Library, "begin", lambda self: None)
        with pytest.raises(ReplayMismatch, match="step=2"):
            world.restore(nodes[3])
    assert files(str(tmp_path)) == here
    assert world.node is nodes[-1]
    world.restore(nodes[3])
    assert world.step(2).step.observation == nodes[4].step.observation


def test_what_cannot_be_saved_costs_that_node_only(tmp_path: Path) -> None:
    world = World(Library(str(tmp_path)), Keyframes(Pickle(), spacing=3))
    world.reset(3, None)
    nodes = [world.step(1) for _ in range(4)]
    os.mkfifo(tmp_path / "pipe")
    world.keep()
    with pytest.raises(SnapshotError, match="a named pipe"):
        world.restore(nodes[-1])
    world.restore(nodes[1])  # over what cannot be saved
    assert sorted(file.name for file in tmp_path.iterdir()) == ["common"]


@pytest.mark.skipif(supported() is not None, reason="worlds are forked on Linux only")
def test_over_forks_too() -> None:
    env = RollbackWrapper.from_factory(odd.Ledger, snapshot="keyframes:fork")
    env._world._files.inner.spacing = 3  # type: ignore[attr-defined]
    env.set_wrapper_attr("posted", None)
    env.reset(seed=1)
    books = [""]
    for action in (0, 1, 2, 0, 1, 2, 1):
        env.step(action)
        books.append(env.get_wrapper_attr("book")())
    for at in (5, 4, 2, 1):
        env.rollback(at)
        assert env.get_wrapper_attr("book")() == books[at]
    env.close()


@pytest.mark.parametrize("snapshot", ["keyframes", "keyframes:pickle"])
def test_it_is_proven_and_random_trees_agree_with_straight_runs(snapshot: str, tmp_path: Path) -> None:
    report = check_restore(lambda: Library(str(tmp_path)), restores=24, snapshot=snapshot)
    assert report.mechanism.startswith("keyframes:")

"""Game files of others: what is whole is played like any game, what is broken is one clear error."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_envs.textworld import coin_collector, cooking, simple
from rir_envs.textworld_files import game_file, story_fault
from rir_envs.textworld_games import game_of
from rir_envs.textworld_making import cached
from rir_gym.errors import MissingDependency, UsageError
from rir_gym.rollback import RollbackWrapper

pytestmark = pytest.mark.skipif(find_spec("textworld") is None, reason="needs the extra 'textworld'")

Change = Callable[[bytearray], object]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.getbasetemp() / "textworld-games"  # every test file of a run uses the same
        folder.mkdir(exist_ok=True)
        patch.setenv("RIR_GYM_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def whole(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A game under the name that TextWorld would give it."""
    made, place = cached(game_of("coin_collector")), tmp_path_factory.mktemp("own") / "tw-coin_collector-x.z8"
    shutil.copy(made, place)
    shutil.copy(made.with_suffix(".json"), place.with_suffix(".json"))
    return place


@pytest.fixture
def own(whole: Path, tmp_path: Path) -> Path:
    """A copy to be spoilt."""
    shutil.copy(whole.with_suffix(".json"), tmp_path / "own.json")
    return Path(shutil.copy(whole, tmp_path / "own.z8"))


def refused(path: Any, match: str) -> None:
    with pytest.raises(UsageError, match=match) as caught:
        cooking(path=path)
    assert str(caught.value).startswith(f"path={(str(path) if isinstance(path, Path) else path)!r}: ")


def spoil(path: Path, change: Change, *, mend: bool = False) -> None:
    story = bytearray(path.read_bytes())
    change(story)
    if mend:  # so that only playing shows it
        length = 8 * int.from_bytes(story[0x1A:0x1C], "big")
        story[0x1C:0x1E] = (sum(story[64:length]) & 0xFFFF).to_bytes(2, "big")
    path.write_bytes(story)


def test_a_file_is_played_like_a_game_that_is_made(whole: Path, cache: Path) -> None:
    played, made = cooking(path=str(whole)), coin_collector()
    assert played.reset() == made.reset()
    assert played.oracle.plan() == made.oracle.plan()
    state = played.get_state()
    for command in played.oracle.plan() or ():
        last = played.step(command)
        assert last == made.step(command)
        assert played.describe() == made.describe()
    assert last[4]["oracle"]["success"]
    played.set_state(state)
    made.reset()
    assert played.oracle.plan() == made.oracle.plan()
    with pytest.raises(UsageError, match="this very game"):
        made.set_state(state)
    played.close()
    made.close()


def test_the_users_files_are_not_touched_again(own: Path, cache: Path) -> None:
    env = simple(path=str(own))
    own.write_bytes(b"gone")
    own.with_suffix(".json").unlink()
    observation, _ = env.reset()
    assert env.reset()[0] == observation
    env.close()


@pytest.mark.usefixtures("cache")
def test_a_file_goes_through_a_spec_and_can_be_rolled_back(whole: Path) -> None:
    env = gym.make("rir_gym/TextWorld-SimpleRollback-v0", path=str(whole))
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))  # type: ignore[union-attr]
    assert isinstance(again, RollbackWrapper)
    first = env.reset()
    assert again.reset() == first
    again.step(first[1]["admissible"][0])
    assert again.rollback(0)[0] == first[0]
    assert again.snapshot_report.chosen == "native"
    env.close()
    again.close()


@pytest.mark.parametrize("argument", [{"level": 1}, {"game_seed": 0}, {"split": "train"}])
def test_a_file_and_a_choice_of_game_exclude_each_other(argument: dict[str, Any], whole: Path) -> None:
    with pytest.raises(UsageError, match="choose another"):
        cooking(path=whole, **argument)


HEADERS: dict[str, tuple[Change, str]] = {
    "empty": (lambda story: story.clear(), "has 0 bytes"),
    "torn": (lambda story: story.__delitem__(slice(100_000, None)), "and has 100000"),
    "version": (lambda story: story.__setitem__(0, 5), "begins with 5"),
    "text": (lambda story: story.__setitem__(slice(None), b"a story " * 999), "begins with 97"),
    "glulx": (lambda story: story.__setitem__(slice(4), b"Glul"), "Glulx"),
    "one byte": (lambda story: story.__setitem__(50_000, story[50_000] ^ 1), "checksum"),
    "no length": (lambda story: story.__setitem__(slice(0x1A, 0x1C), b"\0\0"), "says that it has 0 bytes"),
    "start": (lambda story: story.__setitem__(slice(6, 8), b"\0\0"), "its start outside"),
}


@pytest.mark.parametrize("name", sorted(HEADERS))
def test_a_broken_story_file_is_never_loaded(name: str, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rir_envs.textworld_files.in_child", None)
    spoil(own, HEADERS[name][0])
    refused(own, HEADERS[name][1])


@given(st.binary(max_size=200))
def test_any_bytes_have_a_fault_or_none(story: bytes) -> None:
    assert story_fault(story) is None or isinstance(story_fault(story), str)


def test_every_single_byte_that_is_changed_is_seen(whole: Path) -> None:
    story, rng = whole.read_bytes(), random.Random(1)
    assert story_fault(story) is None
    for _ in range(20):
        changed = bytearray(story)
        changed[rng.randrange(64, 8 * int.from_bytes(story[0x1A:0x1C], "big"))] ^= rng.randrange(1, 256)
        assert "checksum" in str(story_fault(bytes(changed)))


SPOILT: dict[str, Change] = {
    "turned around": lambda story: story.__setitem__(slice(20_000, 60_000), bytes(reversed(story[20_000:60_000]))),
    "noise": lambda story: [story.__setitem__(slice(at, at + 8), b"\xbe" * 8) for at in range(70_000, 300_000, 997)],
}


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", sorted(SPOILT))
def test_a_file_that_breaks_the_interpreter_does_not_break_this_process(name: str, own: Path, cache: Path) -> None:
    before = sorted(cache.rglob("file-*"))
    spoil(own, SPOILT[name], mend=True)
    assert story_fault(own.read_bytes()) is None
    refused(own, "TextWorld can load|made by TextWorld|of this very game")
    assert sorted(cache.rglob("file-*")) == before


@pytest.mark.usefixtures("cache")
def test_the_json_of_another_game_is_refused(own: Path) -> None:
    shutil.copy(cached(game_of("treasure_hunter")).with_suffix(".json"), own.with_suffix(".json"))
    refused(own, "is of another")


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("text", ["{", "[]", "{}", "[" * 100_000, "\ud800"])
def test_a_json_that_describes_no_game_is_refused(text: str, own: Path) -> None:
    own.with_suffix(".json").write_bytes(text.encode("utf-8", "surrogatepass"))
    refused(own, "describes a TextWorld game")


def test_what_is_no_file_is_refused_at_once(tmp_path: Path, own: Path) -> None:
    (tmp_path / "folder.z8").mkdir()
    os.mkfifo(tmp_path / "pipe.z8")
    (tmp_path / "big.z8").write_bytes(bytes((1 << 20) + 1))
    shutil.copy(own, tmp_path / "alone.z8")
    refused(tmp_path / "folder.z8", "folder.z8 is not a file")
    refused(tmp_path / "pipe.z8", "pipe.z8 is not a file")
    refused(tmp_path / "big.z8", "has 1048577 bytes")
    refused(tmp_path / "none.z8", "there is no none.z8")
    refused(tmp_path / "alone.z8", "there is no alone.json")
    for path in ("", "game", "game.z5", "game.Z8", "/dev/zero", "a\0.z8", "x" * 5000 + ".z8", "~nobody-here/x.z8"):
        refused(path, "path=")
    for path in (3, b"x.z8", True, ["x.z8"]):
        refused(path, "path=")


def test_glulx_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "game.ulx").write_bytes(b"Glul" + bytes(100))
    refused(tmp_path / "game.ulx", r"no Glulx \(.ulx\) since 1.7, so it is not restorable")
    textworld = pytest.importorskip("textworld")
    with pytest.raises(NotImplementedError, match="Glulx"):  # the day it plays them again, this refusal is out of date
        textworld.start(str(tmp_path / "game.ulx"))


def test_a_missing_dependency_names_the_extra(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textworld", None)
    with pytest.raises(MissingDependency, match="needs the extra 'textworld'"):
        cooking(path=whole)


def test_a_trial_that_hangs_is_given_up(own: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rir_envs.textworld_files._TIMEOUT_S", 0.01)
    spoil(own, lambda story: story.extend(b"another file"))
    refused(own, "not done in 0 s")


def test_equal_contents_are_one_game(whole: Path, own: Path) -> None:
    first, second = game_file("x", str(whole)), game_file("y", own)
    assert first == second
    assert hash(first) == hash(second)
    assert first.name == second.name
    spoil(own, lambda story: story.extend(b" "))
    assert game_file("x", own) != first
    assert "story" not in repr(first)

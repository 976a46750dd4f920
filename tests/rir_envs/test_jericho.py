"""Z-machine games: played on a real story file, put back with what jericho forgets; every bad file is one error."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import story_files
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from rir_envs import jericho_story
from rir_envs.jericho import OBJECTIVE, REFUSED, JerichoEnv
from rir_envs.jericho_story import fault_of
from rir_envs.jericho_text import sayable, told
from rir_envs.textworld_games import game_of
from rir_envs.textworld_making import cached
from rir_gym.base import Oracle
from rir_gym.errors import MissingDependency, UsageError
from rir_gym.rollback import RollbackWrapper
from rir_gym.testing import check_restore

needs_jericho = pytest.mark.skipif(find_spec("jericho") is None, reason="needs the extra 'jericho'")
makes_games = pytest.mark.skipif(find_spec("textworld") is None, reason="the story files are made by TextWorld")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.getbasetemp() / "textworld-games"  # every test file of a run uses the same
        folder.mkdir(exist_ok=True)
        patch.setenv("RIR_GYM_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def story(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """A cooking game of TextWorld under a name that says nothing, and commands that win it."""
    made = cached(game_of("cooking", level=1))
    own = tmp_path_factory.mktemp("own") / "ein Spiel"
    shutil.copy(made, own)
    described = json.loads(made.with_suffix(".json").read_text("utf-8"))
    return str(own), list(described["metadata"]["walkthrough"])


def finished(env: gym.Env[Any, Any], commands: list[str]) -> list[Any]:
    returned = []
    for command in commands:
        returned.append(env.step(command))
        if returned[-1][2]:
            break
    return returned


@needs_jericho
@makes_games
def test_a_game_is_won_and_its_points_are_the_reward(story: tuple[str, list[str]]) -> None:
    env = JerichoEnv(game=story[0], objective="Cook.")
    observation, info = env.reset(seed=1)
    assert env.known
    assert "-= " in observation
    assert ">" not in observation.splitlines()[-1]
    assert info == {
        "objective": "Cook.",
        "admissible": None,
        "committed": False,
        "oracle": {"success": False, "failed": False, "score": 0.0},
    }
    assert isinstance(env.oracle, Oracle)
    assert (env.oracle.plan(), env.oracle.distance(), env.oracle.recoverable(9)) == (None, None, None)
    returned = finished(env, story[1])
    observation, _, over, truncated, info = returned[-1]
    assert (over, truncated) == (True, False)
    assert info["oracle"] == {"success": True, "failed": False, "score": 1.0}
    assert sum(each[1] for each in returned) == env._most > 1
    assert env.describe().endswith("game won")
    with pytest.raises(UsageError, match="over"):
        env.step("look")


@needs_jericho
@makes_games
def test_passes_both_checkers(story: tuple[str, list[str]]) -> None:
    check_env(JerichoEnv(game=story[0]), skip_render_check=True)
    env = JerichoEnv(game=story[0], commands=[*story[1], "look", "drop all", "save"], max_steps=9)
    report = check_restore(env, restores=24)
    assert (report.mechanism, report.restores) == ("heap", 24)
    assert report.undone_ends > 0


@needs_jericho
@makes_games
def test_the_first_reward_after_a_restore_and_undoing_the_end_are_right(story: tuple[str, list[str]]) -> None:
    env: Any = RollbackWrapper(JerichoEnv(game=story[0]))
    env.reset(seed=3)
    straight = [(each[0], each[1], each[2]) for each in finished(env, story[1])]
    for point in (0, len(straight) - 1, len(straight) // 2):
        env.rollback(point)
        assert [(each[0], each[1], each[2]) for each in finished(env, story[1][point:])] == straight[point:]


@needs_jericho
@makes_games
def test_a_seed_fixes_a_game_and_none_goes_on_from_the_last(story: tuple[str, list[str]]) -> None:
    one, other = JerichoEnv(game=story[0]), JerichoEnv(game=story[0], machine_seed=7)
    drawn = []
    for env in (one, other, one):
        env.reset(seed=5)
        drawn.append(env._engine._seed)
        assert env._engine._seed > 0
    assert drawn[0] == drawn[2] != 7 == drawn[1]
    one.reset(seed=5)
    one.reset()
    assert one._engine._seed != drawn[0]


@needs_jericho
@makes_games
def test_junk_and_commands_to_the_interpreter_change_nothing(
    story: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    env: Any = JerichoEnv(game=story[0])
    env.reset(seed=1)
    memory = env._engine.get_state()[0].tobytes()
    for junk in ("save", "SAVE", "look. save", "look then restore", "script", "restart", "quit", "undo", "oops save",
                 "tw-print", "$ve", "\\help", "say \\x", "x" * 1_000_000, "è", "水 火", "\x00", "\ud800", "wait. quit",
                 '"save"', "look,save", "transcripted"):  # fmt: skip
        observation, reward, over, truncated, _ = env.step(junk)
        assert (observation, reward, over, truncated) == (REFUSED, 0.0, False, False), junk
    assert env._engine.get_state()[0].tobytes() == memory
    for plain in ("", "   ", "\n", "xyzzy", "look at all of the things that are not here"):
        observation, _, over, _, _ = env.step(plain)
        assert (observation != REFUSED, over) == (True, False)
    assert os.listdir(tmp_path) == []
    assert capfd.readouterr() == ("", "")


@needs_jericho
@makes_games
def test_two_games_in_one_process_do_not_notice_each_other(story: tuple[str, list[str]]) -> None:
    one, other = JerichoEnv(game=story[0]), JerichoEnv(game=story[0])
    assert one.reset(seed=1) == other.reset(seed=1)
    straight = finished(one, story[1])
    one.reset(seed=1)
    mixed = []
    for command in story[1][: len(straight)]:
        one.step("look")
        mixed.append(other.step(command))
    assert mixed == straight
    one.close()
    one.close()
    assert other.reset(seed=1)[0]
    with pytest.raises(UsageError, match="closed"):
        one.reset()


@needs_jericho
@makes_games
def test_spawned_workers_and_specs(story: tuple[str, list[str]]) -> None:
    kwargs = {"game": story[0], "commands": ["look", "inventory"]}
    here = gym.make(EnvSpec.from_json(gym.make("rir_gym/JerichoRollback-v0", **kwargs).spec.to_json()))  # type: ignore[union-attr]
    make = [lambda: gym.make("rir_gym:rir_gym/Jericho-v0", **kwargs)]
    vector = gym.vector.AsyncVectorEnv(make, shared_memory=False, context="spawn")
    try:
        first = here.reset(seed=3)[0]
        assert list(vector.reset(seed=[3])[0]) == [first]
        assert list(vector.step(["inventory"])[0]) == [here.step("inventory")[0]]
        assert here.step("rollback 0")[0] == first
    finally:
        vector.close()
        here.close()


@needs_jericho
@makes_games
def test_a_limit_of_steps_truncates_and_is_rolled_back(story: tuple[str, list[str]]) -> None:
    env: Any = RollbackWrapper(JerichoEnv(game=story[0], max_steps=2))
    env.reset(seed=1)
    assert env.step("look")[2:4] == (False, False)
    assert env.step("save")[2:4] == (False, True)
    env.rollback(1)
    assert env.step("look")[2:4] == (False, True)


@needs_jericho
def test_a_game_that_jericho_does_not_know_has_no_points(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(story_files.story(story_files.echoing()))
    env: Any = RollbackWrapper(JerichoEnv(game=str(tmp_path / "mine"), max_steps=3))
    assert not env.unwrapped.known
    assert env.reset(seed=1)[0] == "hello there"
    assert [env.step("look")[:4] for _ in range(2)] == [("noted", 0.0, False, False)] * 2
    _, _, over, truncated, info = env.step("look")
    assert (over, truncated) == (False, True)
    assert info["oracle"] == {"success": False, "failed": False, "score": 0.0}
    assert env.rollback(0)[0] == "hello there"
    assert info["objective"] == OBJECTIVE
    assert env.unwrapped.describe() == "hello there"


@needs_jericho
def test_a_game_that_stops_ends_the_episode(cache: Path, tmp_path: Path) -> None:
    for name, end in {"quits": story_files.QUIT, "breaks": story_files.ILLEGAL}.items():
        code = story_files.says("hello") + story_files.READ + story_files.READ + story_files.says("bye") + end
        (tmp_path / name).write_bytes(story_files.story(code))
        env: Any = RollbackWrapper(JerichoEnv(game=str(tmp_path / name)))
        assert env.reset(seed=1)[0] == "hello"
        assert env.step("look")[2] is False
        assert env.step("look")[:3] == ("bye", 0.0, True)
        env.rollback(1)
        assert env.step("go")[:3] == ("bye", 0.0, True)


@needs_jericho
def test_a_story_that_cannot_be_played_is_one_error(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is whole, under a right checksum; one would kill this process, one would keep it for ever."""
    broken = {
        story_files.QUIT: "halts before",
        story_files.ILLEGAL: "halts before",
        story_files.DIVIDE_BY_ZERO: "broke down",
        story_files.FOREVER: "not done in 2 s",
    }
    for number, (code, match) in enumerate(broken.items()):
        (tmp_path / f"{number}.z5").write_bytes(story_files.story(code))
        monkeypatch.setattr(jericho_story, "_TIMEOUT_S", 2.0 if code == story_files.FOREVER else 60.0)
        with pytest.raises(UsageError, match=match):
            JerichoEnv(game=str(tmp_path / f"{number}.z5"))


@needs_jericho
@makes_games
def test_a_broken_file_is_one_error(story: tuple[str, list[str]], tmp_path: Path) -> None:
    content = Path(story[0]).read_bytes()
    files: dict[str, tuple[bytes, str]] = {
        "empty.z8": (b"", "has 0 bytes"),
        "short.z5": (content[:1000], "says that it has"),
        "flipped.z8": (content[:5000] + bytes([content[5000] ^ 1]) + content[5001:], "checksum"),
        "text.z5": (b"You are in a maze of twisty little passages." * 9, "begins with 89"),
        "glulx.ulx": (b"Glul" + bytes(300), "Glulx"),
        "blorb.zblorb": (b"FORM" + bytes(300), "Blorb"),
        "zero.z8": (bytes([8]) + bytes(4000), "dictionary outside"),
        "big.z8": (bytes((1 << 20) + 1), "at most"),
    }
    for name, (said, match) in files.items():
        (tmp_path / name).write_bytes(said)
        with pytest.raises(UsageError, match=match) as caught:
            JerichoEnv(game=str(tmp_path / name))
        assert str(caught.value).startswith(f"game={str(tmp_path / name)!r}: ")
    os.mkfifo(tmp_path / "pipe.z8")
    for path, match in (("none.z8", "there is none"), ("pipe.z8", "not a file"), (".", "not a file")):
        with pytest.raises(UsageError, match=match):
            JerichoEnv(game=str(tmp_path / path))


def test_wrong_arguments_are_usage_errors(tmp_path: Path) -> None:
    for game in (None, "", 3, b"x.z8", "a\0b", "x" * 5000, "~nobody-here/x"):
        with pytest.raises(UsageError, match="game="):
            JerichoEnv(game=game)  # type: ignore[arg-type]
    wrong: dict[str, list[Any]] = {
        "machine_seed": [0, -1, 2**31, True, 1.5, "1"],
        "objective": [3],
        "commands": ["look", [1], 5],
        "max_steps": [0, True, 1.5],
        "render_mode": ["human"],
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(UsageError, match=f"{name}="):
                JerichoEnv(game="x", **{name: value})


def test_without_jericho_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "old.z5").write_bytes(story_files.story(story_files.echoing()))
    monkeypatch.setitem(sys.modules, "jericho", None)
    with pytest.raises(MissingDependency, match="'jericho'"):
        JerichoEnv(game=str(tmp_path / "old.z5"))


@given(st.binary(max_size=200))
def test_any_bytes_are_judged(content: bytes) -> None:
    assert fault_of(content) is None or isinstance(fault_of(content), str)


@given(st.text(), st.sampled_from([3, 5, 8]))
def test_what_is_sayable_is_plain_and_holds_no_command_to_the_interpreter(text: str, version: int) -> None:
    for tried in (text, f"look. {text}", f"{text}. save", f"take {text} then RESTORE game"):
        command = sayable(tried, version=version)
        if command is not None:
            assert command.isascii()
            assert "\\" not in command
            assert command.isprintable()
            assert "save" not in tried
            assert "RESTORE" not in tried


def test_replies_lose_prompt_and_status_line() -> None:
    assert told("\nYou see an egg.\n\n>") == "You see an egg."
    assert told("Taken.\n\n>     -= Attic =-0/1") == "Taken."
    assert told("2 > 1, it says.\n") == "2 > 1, it says."

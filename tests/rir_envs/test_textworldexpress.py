"""TextWorldExpress: won by its own gold, put back by verified replay; no Java outlives its environment."""

from __future__ import annotations

import copy
import logging
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from rir_envs.textworldexpress import REFUSED, TextWorldExpressEnv
from rir_envs.textworldexpress_game import GAMES
from rir_envs.textworldexpress_java import Java
from rir_envs.textworldexpress_oracle import GoldOracle
from rir_gym.base import Oracle
from rir_gym.errors import MissingDependency, NotRestorable, ReplayMismatch, UsageError, WorldDied
from rir_gym.rollback import RollbackWrapper
from rir_gym.testing import check_restore

runs = pytest.mark.skipif(
    find_spec("textworld_express") is None or which("java") is None,
    reason="needs Java and the extra 'textworld_express'",
)


@pytest.fixture
def env() -> Iterator[TextWorldExpressEnv]:
    made = TextWorldExpressEnv(game="coin", params={"numLocations": 3})
    yield made
    made.close()


@pytest.fixture(scope="module")
def every() -> Iterator[dict[str, TextWorldExpressEnv]]:
    """One environment of each game: a start of Java takes its time."""
    made = {game: TextWorldExpressEnv(game=game, game_seed=3) for game in GAMES}
    yield made
    for each in made.values():
        each.close()


@runs
@pytest.mark.parametrize("game", GAMES)
def test_the_gold_of_every_game_wins_and_asking_for_it_changes_nothing(
    every: dict[str, TextWorldExpressEnv], game: str
) -> None:
    env = every[game]
    observation, info = env.reset(seed=0)
    assert observation.startswith(info["objective"])
    assert info["admissible"] == sorted(set(info["admissible"]))
    assert isinstance(env.oracle, Oracle)
    plan = env.oracle.plan()
    assert plan
    assert env.oracle.recoverable(len(plan) - 1) is None
    total = 0.0
    for at, command in enumerate(plan):
        assert (env.oracle.distance(), env.oracle.best_action()) == (len(plan) - at, command)
        assert env.oracle.recoverable(len(plan) - at) is True
        assert len(env.describe()) < 400
        _, reward, over, _, info = env.step(command)
        total += reward
    assert over
    assert total == pytest.approx(1.0)
    assert info["oracle"] == {"success": True, "failed": False, "score": 1.0}
    assert (info["admissible"], env.oracle.plan(), env.oracle.distance()) == ([], [], 0.0)
    with pytest.raises(UsageError, match="over"):
        env.step("look around")


@runs
def test_passes_both_checkers() -> None:
    env = TextWorldExpressEnv(game="coin")
    check_env(env, skip_render_check=True)
    env.close()
    report = check_restore(lambda: TextWorldExpressEnv(game="sorting"), restores=12)
    assert (report.mechanism, report.restores) == ("native", 12)


@runs
def test_a_lost_game_is_undone(every: dict[str, TextWorldExpressEnv]) -> None:
    env: Any = RollbackWrapper(every["simonsays"])
    _, info = env.reset(seed=0)
    wrong = next(each for each in info["admissible"] if each != every["simonsays"].oracle.best_action())
    _, _, over, _, info = env.step(wrong)
    assert over
    assert info["oracle"]["failed"]
    assert (every["simonsays"].oracle.distance(), every["simonsays"].oracle.recoverable(9)) == (float("inf"), False)
    env.rollback(0)
    plan = every["simonsays"].oracle.plan()
    assert [env.step(command)[2] for command in plan][-1] is True
    assert env.node.step.oracle["success"]


@runs
def test_off_its_way_nothing_is_known(env: TextWorldExpressEnv) -> None:
    env.reset(seed=0)
    env.step("inventory")
    assert (env.oracle.plan(), env.oracle.distance(), env.oracle.recoverable(99)) == (None, None, None)
    assert env.oracle.recoverable(0) is False


@runs
def test_junk_is_answered(env: TextWorldExpressEnv) -> None:
    env.reset(seed=0)
    for junk in ("", "  ", "\n", "x" * 1_000_000, "x" * 201, "\ud800"):
        observation, reward, over, truncated, _ = env.step(junk)
        assert (observation, reward, over, truncated) == (REFUSED, 0.0, False, False)
    for strange in ("水 火", "è", "\x00", '"', "\\n", "<|im_end|>", "take", "x" * 200, "help", "e\n", "s o0\ne"):
        observation, reward, over, _, info = env.step(strange)
        assert (reward, over) == (0.0, False)
        assert observation
        assert info["admissible"]


@runs
def test_the_seed_fixes_a_game_in_any_process() -> None:
    script = (
        "import hashlib, sys\n"
        "from rir_envs.textworldexpress import TextWorldExpressEnv\n"
        "for game in ('cookingworld', 'twc'):\n"
        "    env, said = TextWorldExpressEnv(game=game, split='test'), []\n"
        "    for seed in (1, 2):\n"
        "        said.append(env.reset(seed=seed))\n"
        "        for at in range(12):\n"
        "            listed = said[-1][-1]['admissible']\n"
        "            said.append(env.step(listed[at * 7 % len(listed)]))\n"
        "    print(game, hashlib.sha256(repr(said).encode()).hexdigest())\n"
        "    env.close()\n"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True
        )
        for seed in ("1", "2")
    ]
    assert [(each.returncode, each.stderr) for each in told] == [(0, "")] * 2
    assert told[0].stdout == told[1].stdout != ""


@runs
def test_two_in_one_process_do_not_notice_each_other(every: dict[str, TextWorldExpressEnv]) -> None:
    """Two games in one Java would: the lists of commands of one shrink when the other is sorted."""
    one, other = every["sorting"], TextWorldExpressEnv(game="sorting", game_seed=3)
    assert one.reset(seed=0) == other.reset(seed=0)
    plan = one.oracle.plan()
    assert plan
    straight = [one.step(command) for command in plan]
    one.reset(seed=0)
    mixed = []
    for command in plan:
        mixed.append(other.step(command))
        one.step(command)
        other.oracle.plan()
    other.close()
    assert mixed == straight


@runs
def test_close_and_collection_leave_no_java() -> None:
    for end in ("close", "del"):
        env = TextWorldExpressEnv(game="coin")
        process = env._express._java.process
        assert process.poll() is None
        if end == "close":
            env.close()
            env.close()
            with pytest.raises(UsageError, match="closed"):
                env.reset()
        del env
        deadline = time.monotonic() + 10
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert process.poll() is not None


@runs
def test_the_end_of_a_process_however_it_comes_ends_its_java() -> None:
    script = (
        "import os, sys, signal\n"
        "from rir_envs.textworldexpress import TextWorldExpressEnv\n"
        "env = TextWorldExpressEnv(game='coin')\n"
        "print(env._express._java.process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL) if sys.argv[1] == 'kill' else sys.exit()\n"
    )
    for how in ("kill", "exit"):
        done = subprocess.run([sys.executable, "-c", script, how], capture_output=True, text=True)
        pid = int(done.stdout)
        deadline = time.monotonic() + 20
        while Path(f"/proc/{pid}/cmdline").exists() and time.monotonic() < deadline:
            if b"java" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                break
            time.sleep(0.05)
        else:
            assert not Path(f"/proc/{pid}/cmdline").exists(), how


@runs
def test_a_java_that_dies_is_one_error_and_a_rollback_or_a_reset_starts_another() -> None:
    env: Any = RollbackWrapper(TextWorldExpressEnv(game="coin", game_seed=5))
    first, info = env.reset(seed=0)
    handlers = list(logging.getLogger().handlers)
    said = env.step(info["admissible"][0])[0]
    for mend in ("rollback", "reset"):
        env.unwrapped._express._java.process.kill()
        env.unwrapped._express._java.process.wait()
        with pytest.raises(WorldDied, match="Java"):
            env.step(info["admissible"][0])
        assert (env.rollback(0)[0] if mend == "rollback" else env.reset(seed=0)[0]) == first
        assert env.step(info["admissible"][0])[0] == said
    assert logging.getLogger().handlers == handlers
    env.close()


@runs
def test_a_java_that_hangs_is_stopped(env: TextWorldExpressEnv) -> None:
    env.reset(seed=0)
    java = env._express._java
    slow = Java("a test", Path(find_spec("textworld_express").origin).parent / "textworld-express.jar", answer_s=0.5)  # type: ignore[union-attr,arg-type]
    thread = slow._gateway.jvm.java.lang.Thread
    with pytest.raises(WorldDied, match="did not answer"):
        slow.ask(thread.sleep, 60_000)
    assert not slow.alive
    slow.stop()
    assert java.alive


@runs
def test_a_state_that_cannot_be_made_again_is_noticed(env: TextWorldExpressEnv) -> None:
    env.reset(seed=0)
    env.step("inventory")
    state = env.get_state()
    forged = type(state)(state.task, state.seed + 1, state.commands, state.digests, state.fields, state.generator)
    with pytest.raises(ReplayMismatch, match="another answer"):
        env.set_state(forged)
    env.set_state(state)
    assert env.step("inventory")[0].startswith("Inventory")
    other = TextWorldExpressEnv(game="coin")
    with pytest.raises(UsageError, match="this very game"):
        other.set_state(state)
    other.close()


@runs
def test_forks_copies_and_pickles_are_refused_by_name(env: TextWorldExpressEnv) -> None:
    env.reset(seed=0)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="get_state"):
            copied(env)
    pid = os.fork()
    if pid == 0:
        try:
            env.step("inventory")
        except WorldDied as error:
            os._exit(0 if "belongs to process" in str(error) else 3)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert env.step("inventory")[0].startswith("Inventory")
    with pytest.raises(NotRestorable, match="heap"):
        RollbackWrapper(env, snapshot="heap")


@runs
def test_specs_and_spawned_workers() -> None:
    kwargs: dict[str, Any] = {"game": "coin", "params": {"numLocations": 5}, "split": "dev"}
    made = gym.make("rir_gym/TextWorldExpressRollback-v0", **kwargs)
    assert made.spec is not None
    here = gym.make(EnvSpec.from_json(made.spec.to_json()))
    made.close()
    vector = gym.vector.AsyncVectorEnv(
        [lambda: gym.make("rir_gym:rir_gym/TextWorldExpress-v0", **kwargs)], shared_memory=False, context="spawn"
    )
    try:
        first = here.reset(seed=3)[0]
        assert list(vector.reset(seed=[3])[0]) == [first]
        assert list(vector.step(["inventory"])[0]) == [here.step("inventory")[0]]
        assert here.step("rollback 0")[0] == first
    finally:
        vector.close()
        here.close()


def test_wrong_arguments_are_usage_errors() -> None:
    wrong: dict[str, list[Any]] = {
        "game": ["zork", "", None, ["coin"]],
        "game_seed": [-1, 1000, True, 1.5, "1"],
        "split": ["all", None, 3],
        "params": [3, "numLocations=3", {"n": "3"}, {"n": True}, {"a,b": 1}, {3: 1}],
        "render_mode": ["human"],
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(UsageError, match=f"{name}="):
                TextWorldExpressEnv(**{name: value})


@runs
def test_settings_that_the_generator_does_not_take_are_usage_errors(env: TextWorldExpressEnv) -> None:
    for params, match in (({"numLocations": 99}, "less than or equal"), ({"zzz": 3}, "Unrecognized property")):
        with pytest.raises(UsageError, match=match) as caught:
            TextWorldExpressEnv(game="coin", params=params)
        assert str(caught.value).startswith(f"params={params!r}: ")
    short = TextWorldExpressEnv(game="mapreader", params={"numLocations": 5})
    refused = []
    for seed in range(20):
        try:
            short.reset(seed=seed)
        except UsageError as error:
            refused.append(str(error))
    assert refused
    assert all("can be made with these" in each for each in refused)
    short.close()
    for call in (lambda: env.step("look"), env.describe, env.get_state):
        with pytest.raises(UsageError, match="reset"):
            call()
    env.reset()
    with pytest.raises(UsageError, match="action=int"):
        env.step(1)  # type: ignore[arg-type]


def test_what_is_missing_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "textworld_express", None)
        with pytest.raises(MissingDependency, match="'textworld_express'"):
            TextWorldExpressEnv()
    if find_spec("py4j") is not None:
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(MissingDependency, match="needs Java, version 8 or later"):
            Java("a game", tmp_path / "x.jar")


def test_a_java_that_does_not_start_is_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("py4j")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for script in ("#!/bin/sh\nexec sleep 60\n", "#!/bin/sh\necho no such option\nexit 1\n", "#!/bin/sh\nexit 1\n"):
        java.write_text(script)
        java.chmod(0o755)
        with pytest.raises(WorldDied, match="did not start"):
            Java("a game", tmp_path / "x.jar", start_s=1.0)


def test_the_oracle_follows_its_way_and_no_other() -> None:
    way = ("a", "b")
    for said, plan in (((), ["a", "b"]), (("a",), ["b"]), (("b",), None), (("a", "c"), None)):
        oracle = GoldOracle(lambda said=said: ("playing", said, way))  # type: ignore[misc]
        assert oracle.plan() == plan
    assert GoldOracle(lambda: ("playing", (), None)).distance() is None

"""ScienceWorld: the contract, exact restores, what it refuses, its Java processes, the gold path and who follows it.

Java is dear, so one environment of this module keeps the processes that the tests then share.
"""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

pytest.importorskip("scienceworld", reason="needs the extra 'scienceworld'")

import rir_gym as rg
from rir_envs import scienceworld_java as java
from rir_envs import scienceworld_tasks as tasks
from rir_envs.scienceworld import UNREADABLE, ScienceWorldEnv
from rir_envs.scienceworld_gold import gold_path
from rir_envs.scienceworld_policies import Expert, evidence_localizer, evidence_reviewer
from rir_gym.errors import MissingDependency, NotRestorable, ReplayMismatch, UnknownName, UsageError, WorldDied
from rir_gym.testing import check_restore
from rir_policies.mechanisms import react, rir
from rir_policies.scripted import ScriptedPatch

SHORT = {"task": "find-animal", "variation": 0}
STEPS = ("open door to greenhouse", "go to greenhouse", "open door to hallway", "go to hallway", "look around")


@pytest.fixture(scope="module", autouse=True)
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScienceWorldEnv]:
    """Keeps Java processes at hand, and the gold paths of a run in one folder."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.getbasetemp() / "scienceworld-paths"
        folder.mkdir(exist_ok=True)
        patch.setenv("RIR_GYM_CACHE", str(folder))
        env = ScienceWorldEnv(**SHORT)
        env.reset(seed=0)
        yield env
        env.close()
    assert java.idle() == 0 or _held()


@pytest.fixture
def env() -> Iterator[ScienceWorldEnv]:
    made = ScienceWorldEnv(**SHORT)
    yield made
    made.close()


def played(env: Any, commands: Any) -> list[Any]:
    return [env.step(command) for command in commands]


def processes() -> set[int]:
    """The living Java processes that this process has started."""
    return {link.process.pid for link in (*java._pool.idle, *java._pool.lent) if link.process.poll() is None}


# --- the contract -----------------------------------------------------------------------------------------------------


def test_it_passes_gymnasiums_check(env: ScienceWorldEnv) -> None:
    check_env(env, skip_render_check=True)


def test_it_is_restored_exactly_under_the_name_that_it_is_made_by() -> None:
    report = check_restore(gym.make("rir_gym/ScienceWorldRollback-v0", **SHORT), restores=6, steps=3)
    assert (report.mechanism, report.restores) == ("native", 6)
    gc.collect()


def test_the_gold_path_succeeds_and_the_rewards_sum_to_the_score(env: ScienceWorldEnv) -> None:
    _, info = env.reset(seed=0)
    assert "animal" in info["objective"]
    assert info["admissible"] is None
    assert info["committed"] is False
    assert info["task"] == {**SHORT, "simplifications": ""}
    assert info["oracle"] == {"success": False, "failed": False, "score": 0.0}
    plan = env.oracle.plan()
    assert plan is not None
    assert env.oracle.distance() == len(plan)
    assert (env.oracle.recoverable(len(plan)), env.oracle.recoverable(len(plan) - 1)) == (True, None)
    total = 0.0
    for number, command in enumerate(plan):
        assert env.oracle.best_action() == command
        _, reward, over, truncated, info = env.step(command)
        total += reward
        assert over == (number == len(plan) - 1)
        assert not truncated
    assert info["oracle"] == {"success": True, "failed": False, "score": 1.0}
    assert total == pytest.approx(1.0)
    assert (env.oracle.plan(), env.oracle.distance(), env.oracle.progress()) == ((), 0, 1.0)
    with pytest.raises(UsageError, match="ended"):
        env.step("look around")


def test_a_wrong_focus_fails_and_off_the_path_nothing_is_known(env: ScienceWorldEnv) -> None:
    env.reset(seed=0)
    env.step("look around")
    assert (env.oracle.plan(), env.oracle.distance(), env.oracle.recoverable(500)) == (None, None, None)
    assert env.oracle.recoverable(0) is False
    said, reward, over, _, info = env.step("focus on agent")
    assert said == "You focus on the agent."
    assert (reward, over) == (0.0, True)
    assert info["oracle"] == {"success": False, "failed": True, "score": 0.0}
    assert (env.oracle.distance(), env.oracle.recoverable(500), env.oracle.plan()) == (float("inf"), False, None)


def test_sigma_tells_the_place_and_what_is_carried_and_looking_changes_nothing(env: ScienceWorldEnv) -> None:
    env.reset(seed=0)
    first = env.describe()
    assert first.startswith("in ")
    assert "carrying an orange" in first
    assert played(env, STEPS[:2])[-1][0] == "You move to the greenhouse."
    assert env.describe().startswith("in greenhouse; carrying")


def test_commands_are_listed_on_request_and_listing_draws_nothing() -> None:
    settings = {"task": "grow-plant", "variation": 0}
    listing, silent = ScienceWorldEnv(**settings, admissible=True), ScienceWorldEnv(**settings)
    _, info = listing.reset(seed=0)
    silent.reset(seed=0)
    assert len(info["admissible"]) > 100
    assert {"look around", "wait1"} <= set(info["admissible"])
    assert info["admissible"] == sorted(set(info["admissible"]))
    assert listing.replay_step("wait1")[4]["admissible"] is None
    silent.step("wait1")
    for command in ("wait", "look around", "wait", "look around"):
        assert listing.step(command)[:4] == silent.step(command)[:4]
        assert listing._live().randomness.state() == silent._live().randomness.state()
    listing.close()
    silent.close()


# --- which task -------------------------------------------------------------------------------------------------------


def test_the_table_is_that_of_the_simulator(keeper: ScienceWorldEnv) -> None:
    link = java.lend()
    assert list(link.server.getTaskNames()) == list(tasks.TASKS)
    assert set(link.server.getPossibleSimplifications().split(", ")) == set(tasks.SIMPLIFICATIONS) - {"easy"}
    assert [link.server.getTaskMaxVariations(name) for name in tasks.TASKS] == [
        len(tasks.variations(name)) for name in tasks.TASKS
    ]
    for name in ("identify-life-stages-2", "grow-fruit"):
        link.load(name, 0, "", seed=1)
        told = [
            list(each())
            for each in (link.server.getVariationsTrain, link.server.getVariationsDev, link.server.getVariationsTest)
        ]
        assert told == [list(tasks.variations(name, split)) for split in tasks.SPLITS]
    java.give_back(link)


@pytest.mark.parametrize(
    ("wrong", "allowed"),
    [
        ({"task": "boiling"}, "grow-fruit"),
        ({"task": None}, "grow-fruit"),
        ({"variation": 30}, "from 0 to 29"),
        ({"variation": -1}, "from 0 to 29"),
        ({"variation": True}, "from 0 to 29"),
        ({"variation": "0"}, "from 0 to 29"),
        ({"variation": 0, "split": "test"}, "from 21 to 29"),
        ({"split": "valid"}, "dev, test, train"),
        ({"simplifications": "hard"}, "openDoors"),
        ({"simplifications": None}, "openDoors"),
        ({"task": "power-component", "simplifications": "noElectricalAction"}, "needs"),
        ({"admissible": 1}, "True or False"),
        ({"start_timeout": -1.0}, "at least 0"),
        ({"render_mode": "human"}, "'ansi'"),
    ],
)
def test_a_wrong_argument_is_one_error_that_tells_what_is_allowed(wrong: dict[str, Any], allowed: str) -> None:
    with pytest.raises(UsageError, match=allowed):
        ScienceWorldEnv(**wrong)


def test_a_seed_draws_the_variation_of_the_split_and_nothing_else() -> None:
    env = ScienceWorldEnv(task="find-animal", split="dev")
    drawn = [env.reset(seed=seed)[1]["task"]["variation"] for seed in (0, 1, 2, 0)]
    assert drawn[0] == drawn[3]
    assert len(set(drawn)) > 1
    assert set(drawn) <= set(tasks.variations("find-animal", "dev"))
    env.close()
    fixed = ScienceWorldEnv(**SHORT, simplifications=" openDoors,teleportAction")
    assert fixed.reset(seed=0) == fixed.reset(seed=1)
    assert "open" in fixed.step("look around")[0]
    assert fixed.step("teleport to kitchen")[0] != UNREADABLE
    fixed.close()


# --- it repeats -------------------------------------------------------------------------------------------------------

_REPEATED = ("boil", "grow-fruit", "mendelian-genetics-unknown-plant", "chemistry-mix", "find-animal")
_SAID = (
    "open door to kitchen",
    "go to kitchen",
    "open door to greenhouse",
    "go to greenhouse",
    "wait",
    "look around",
    "wait1",
)
_SCRIPT = """
import hashlib, json
from rir_envs.scienceworld import ScienceWorldEnv
out = {}
for task in %r:
    env = ScienceWorldEnv(task=task, variation=0)
    seen = [env.reset(seed=3)] + [env.step(command) for command in %r * 2]
    out[task] = hashlib.sha256(repr(seen).encode()).hexdigest()
    env.close()
print(json.dumps(out))
"""


def test_every_kind_of_task_repeats_in_another_process(capfd: pytest.CaptureFixture[str]) -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    script = _SCRIPT % (_REPEATED, _SAID)
    told = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    exec(compile(script, "here", "exec"), {})  # in this process, whose Java has played other tasks before
    assert capfd.readouterr().out == told


def test_a_task_that_does_not_repeat_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rir_envs.scienceworld.NOT_REPEATING", {"find-animal": "its animals move"})
    with pytest.raises(NotRestorable, match=r"find-animal.*its animals move"):
        rg.RollbackWrapper(ScienceWorldEnv(**SHORT))


def test_a_state_fits_any_instance_any_number_of_times_and_a_false_one_leaves_the_world_alone(
    env: ScienceWorldEnv,
) -> None:
    env.reset(seed=0)
    played(env, STEPS[:2])
    saved = env.get_state()
    ahead = played(env, STEPS[2:])
    other = ScienceWorldEnv(task="boil")
    for one in (env, other, env):
        one.set_state(saved)
        assert played(one, STEPS[2:]) == ahead
    other.close()
    trail = (*saved.trail[:2], replace(saved.trail[2], said="You go nowhere."))
    with pytest.raises(
        ReplayMismatch, match=r"step=2: 'find-animal 0' does not repeat: `go to greenhouse` gave 'You go nowhere"
    ):
        env.set_state(replace(saved, trail=trail))
    assert env.step("look around")[0].startswith("This room is called the hallway")
    with pytest.raises(UsageError, match="get_state"):
        env.set_state("x")  # type: ignore[arg-type]


def test_an_instance_plays_the_next_episode_as_a_fresh_one_does(env: ScienceWorldEnv) -> None:
    env.reset(seed=0)
    played(env, STEPS)
    used = [env.reset(seed=1), *played(env, STEPS)]
    fresh = ScienceWorldEnv(**SHORT)
    assert [fresh.reset(seed=1), *played(fresh, STEPS)] == used
    fresh.close()


# --- what is said to it -----------------------------------------------------------------------------------------------

JUNK = (
    "",
    " ",
    "\n",
    "\x00",
    "lo\nok around",
    "日本語の命令 ☃",
    "\ud800",
    "Ω" * 900,
    "x" * 1_000_000,
    "!x",
    "e\n",
    "\u202e",
    "rollback",
)


def test_junk_is_answered_and_changes_nothing(env: ScienceWorldEnv) -> None:
    env.reset(seed=0)
    before = env.step("look around")[0]
    for junk in JUNK:
        said, reward, over, truncated, info = env.step(junk)
        assert said == UNREADABLE, junk[:20]
        assert (reward, over, truncated, info["oracle"]["failed"]) == (0.0, False, False, False)
    assert env.step("look around")[0] == before
    saved = env.get_state()
    env.set_state(saved)
    assert env.commands[-1] == "look around"
    with pytest.raises(UsageError, match="str"):
        env.step(7)  # type: ignore[arg-type]


def test_an_ambiguous_command_is_asked_about_and_restored(env: ScienceWorldEnv) -> None:
    env.reset(seed=0)
    asked = env.step("pick up door")[0]
    saved = env.get_state()
    answered = env.step("0")[0]
    env.set_state(saved)
    assert env.step("0")[0] == answered
    assert asked.startswith(("Ambiguous", "The door"))


def test_calls_out_of_order_are_clear_errors(env: ScienceWorldEnv) -> None:
    for early in (lambda: env.step("x"), env.get_state, env.describe, env.oracle.plan, lambda: env.task):
        with pytest.raises(UsageError, match="reset"):
            early()
    env.close()
    env.close()
    with pytest.raises(UsageError, match="closed"):
        env.reset()
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="get_state"):
            copied(env)


# --- Java -------------------------------------------------------------------------------------------------------------


def test_two_in_one_process_do_not_disturb_each_other() -> None:
    first, second, alone = (ScienceWorldEnv(task="grow-plant", variation=0) for _ in range(3))
    alone.reset(seed=0)
    expected = played(alone, ("wait", "look around", "wait1"))
    first.reset(seed=0)
    second.reset(seed=0)
    assert first._live() is not second._live()
    seen = [(first.step(command), second.step(command)) for command in ("wait", "look around", "wait1")]
    assert seen == [(each, each) for each in expected]
    for env in (first, second, alone):
        env.close()


def make_short() -> gym.Env[Any, Any]:
    return gym.make("rir_gym:rir_gym/ScienceWorldRollback-v0", task="find-animal", variation=0)


def test_spawned_workers_and_one_of_them_rolled_back(env: ScienceWorldEnv) -> None:
    first, _ = env.reset(seed=0)
    straight = [first, *(returned[0] for returned in played(env, STEPS[:3]))]
    envs = gym.vector.AsyncVectorEnv([make_short, make_short], shared_memory=False, context="spawn")
    assert list(envs.reset(seed=0)[0]) == [straight[0]] * 2
    envs.step([STEPS[0]] * 2)
    assert list(envs.step([STEPS[1]] * 2)[0]) == [straight[2]] * 2
    assert list(envs.step(["rollback 1", STEPS[2]])[0]) == [straight[1], straight[3]]
    assert envs.step([STEPS[1], "look around"])[0][0] == straight[2]
    envs.close()


def test_a_java_that_dies_is_one_error_and_is_never_lent_again() -> None:
    env = rg.RollbackWrapper(ScienceWorldEnv(**SHORT))
    env.reset(seed=0)
    env.step(STEPS[0])
    dead = env.unwrapped._live().process.pid  # type: ignore[attr-defined]
    os.kill(dead, signal.SIGKILL)
    with pytest.raises(WorldDied, match=r"step\('go to greenhouse'\).*roll back"):
        env.step(STEPS[1])
    assert dead not in processes()
    assert env.step(STEPS[1])[0] == "You move to the greenhouse."  # the wrapper has put the world back
    env.close()


def test_a_dead_one_that_waits_is_not_lent(env: ScienceWorldEnv) -> None:
    env.reset(seed=0)
    link = java.lend()
    java.give_back(link)
    os.kill(link.process.pid, signal.SIGKILL)
    link.process.wait()
    assert java.lend() is not link or pytest.fail("a dead process was lent")
    env.reset(seed=0)
    os.kill(env._live().process.pid, signal.SIGKILL)
    env._live().process.wait()
    assert env.reset(seed=0)[0]
    for lent in list(java._pool.lent):
        if lent is not env._live() and not any(lent is each for each in _held()):
            java.give_back(lent)


def _held() -> list[java.Link]:
    return [each._seat.link for each in gc.get_objects() if type(each) is ScienceWorldEnv and each._seat.link]


_ENDS = """
import subprocess, sys, gc
from rir_envs import scienceworld_java as java
from rir_envs.scienceworld import ScienceWorldEnv
first, second = ScienceWorldEnv(), ScienceWorldEnv()
first.reset(seed=0); second.reset(seed=0)
pids = [env._live().process.pid for env in (first, second)]
how = sys.argv[1]
if how == "closed":
    first.close(); assert java.idle() == 1; second.close(); assert java.idle() == 0
elif how == "forgotten":
    del first, second; gc.collect(); assert java.idle() == 0
print(*pids, flush=True)
if how == "killed":
    import os, signal; os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["closed", "forgotten", "ended", "killed"])
def test_no_java_is_left(how: str) -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    told = subprocess.run(
        [sys.executable, "-c", _ENDS, how], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    pids = [int(each) for each in told.stdout.split()]
    assert len(pids) == 2, told.stderr
    for pid in pids:
        for _ in range(100):
            if not Path(f"/proc/{pid}").exists() or "zombie" in Path(f"/proc/{pid}/status").read_text():
                break
            subprocess.run(["sleep", "0.1"], check=True)
        else:
            pytest.fail(f"the Java process {pid} lives")


def _fake_java(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(folder))


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("exec sleep 60", "start_timeout=0.5"),
        ("echo 'Unrecognized VM option' >&2; exit 1", "Unrecognized VM option"),
        ("exit 0", "ended at once"),
        ("echo not a port; echo x; sleep 60", "Java 17"),
    ],
)
def test_a_java_that_does_not_start_is_one_error(
    script: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_java(tmp_path, script, monkeypatch)
    monkeypatch.setattr(java, "_pool", java.Pool())
    env = ScienceWorldEnv(**SHORT, start_timeout=0.5 if "sleep" in script else 60.0)
    with pytest.raises(java.JavaMissing, match=told):
        env.reset(seed=0)
    assert not processes()
    env.close()


def test_no_java_and_no_extra_are_errors_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_pool", java.Pool())
    env = ScienceWorldEnv(**SHORT)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(java.JavaMissing, match=r"JAVA_HOME.*apt-get install"):
        env.reset(seed=0)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(java.JavaMissing, match=r"PATH.*apt-get install"):
        env.reset(seed=0)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"pip install 'rir-gym\[scienceworld\]'"):
        env.reset(seed=0)
    env.close()


def test_what_is_forked_from_us_cannot_use_or_end_our_java(env: ScienceWorldEnv) -> None:
    env.reset(seed=0)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            env.step("look around")
        except UsageError:
            env.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert env.step(STEPS[0])[0] == "The door is now open."


# --- who follows the path ---------------------------------------------------------------------------------------------


def test_the_demonstrator_succeeds_without_faults_and_its_faults_are_fixed_by_the_seed() -> None:
    path = gold_path(tasks.Task("find-animal", 0))
    assert path is not None
    env = rg.RollbackWrapper(ScienceWorldEnv(**SHORT))
    roles = {"reviewer": evidence_reviewer, "where": evidence_localizer, "what": ScriptedPatch()}

    def actions(build: Any, trust: float, slip: float) -> tuple[list[str], Any]:
        episode = rg.run([env], build(act=Expert(trust=trust, slip=slip), **roles), budget=rg.Budget(40), seeds=[3])[0]
        return [node.step.action for node in env.node.branch()[1:]], episode

    said, episode = actions(react, 0.0, 0.0)
    assert tuple(said) == path
    assert episode.success
    assert actions(rir, 0.0, 0.0)[1].success
    misread, failed = actions(react, 1.0, 0.0)
    assert not failed.success
    assert misread == actions(react, 1.0, 0.0)[0]
    assert actions(rir, 1.0, 0.0)[1].success  # the memory tells what the focus did
    env.close()


def test_the_demonstrator_refuses_what_is_no_probability_and_other_worlds() -> None:
    for wrong in (-0.1, 1.1, True, "x"):
        with pytest.raises(UsageError, match="probability"):
            Expert(trust=wrong)  # type: ignore[arg-type]
    env = rg.RollbackWrapper(gym.make("rir_gym/Apothecary-v0"))
    with pytest.raises(UsageError, match="ScienceWorld"):
        rg.run([env], react(act=Expert()), budget=rg.Budget(2), seeds=[0])


def test_an_unknown_task_is_no_gold_path() -> None:
    with pytest.raises(UnknownName):
        tasks.variations("x")

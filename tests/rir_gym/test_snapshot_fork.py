"""Forked worlds: exact for whatever lives in one process, refused where copies would share, and nothing left behind."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import glob
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked_worlds as worlds
import gymnasium as gym
import numpy as np
import pytest

from rir_gym import NotRestorable, RollbackRefused, RollbackWrapper
from rir_gym.errors import SnapshotError, UsageError, WorldDied
from rir_gym.snapshot.fork import packed
from rir_gym.snapshot.fork_audit import supported
from rir_gym.snapshot.fork_env import ForkedEnv
from rir_gym.testing import check_restore

pytestmark = [
    pytest.mark.skipif(supported() is not None, reason="worlds are forked on Linux only"),
    pytest.mark.timeout(180),
]


def forked(make: Any, **settings: Any) -> RollbackWrapper:
    return RollbackWrapper.from_factory(make, snapshot="fork", **settings)


@contextlib.contextmanager
def closing(env: Any) -> Any:
    try:
        yield env
    finally:
        env.close()


def descendants(of: int) -> list[int]:
    """All processes that live and descend from one, by their parents in /proc (zombies are none)."""
    parents: dict[int, int] = {}
    for place in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = Path(place).read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                parents[int(place.split("/")[2])] = int(fields[1])
    found, last = {of}, set[int]()
    while found != last:
        last = set(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return sorted(found - {of})


@pytest.fixture(autouse=True)
def others() -> Iterator[None]:
    """Processes that other tests of this session left running are none of ours."""
    OTHERS.clear()
    OTHERS.update(descendants(os.getpid()))
    yield
    OTHERS.clear()


OTHERS: set[int] = set()


def ours() -> list[int]:
    return [process for process in descendants(os.getpid()) if process not in OTHERS]


def soon(condition: Any, within_s: float = 30.0) -> bool:
    end = time.monotonic() + within_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(condition())


# --- exact ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [worlds.InC, worlds.Everywhere, worlds.Reader])
def test_whatever_lives_in_one_process_is_exact(make: Any) -> None:
    with closing(forked(make)) as env:
        report = check_restore(env, restores=24, steps=4)
    assert (report.mechanism, report.restores) == ("fork", 24)


def test_the_ladder_reaches_it_where_the_state_is_in_c() -> None:
    with closing(RollbackWrapper.from_factory(worlds.InC)) as env:
        assert env.snapshot_report.chosen == "fork"
        assert list(env.snapshot_report.reasons) == ["native", "heap", "pickle", "deepcopy"]


def test_of_a_spec() -> None:
    given = gym.make("FrozenLake-v1")
    with closing(RollbackWrapper(given, snapshot="fork")) as env:
        assert isinstance(env.unwrapped, ForkedEnv)
        assert env.spec is not None
        assert [layer.kwargs["snapshot"] for layer in env.spec.additional_wrappers] == ["fork"]
        assert check_restore(env, restores=12).undone_ends > 0
        again = gym.make(env.spec)
        assert again.reset(seed=3)[0] == env.reset(seed=3)[0]
        again.close()


def test_the_callers_global_generators_are_the_environments() -> None:
    plain = worlds.Everywhere()
    with closing(forked(worlds.Everywhere)) as env:
        ends = []
        for world in (plain, env):
            random.seed(4)
            np.random.seed(4)
            world.reset(seed=1)
            ends.append([world.step(2)[0] for _ in range(5)] + [random.random(), float(np.random.random())])
        assert ends[0] == ends[1]
        env.rollback(2)
        outside = random.getstate()
        assert [env.step(2)[0] for _ in range(3)] == ends[0][2:5]  # its own stream is rewound
        assert random.getstate() == outside  # and nobody else's


def test_resample_reseeds_there_what_python_reaches_and_is_refused_elsewhere() -> None:
    with closing(RollbackWrapper(gym.make("FrozenLake-v1"), snapshot="fork", rng="resample")) as env:
        assert check_restore(env, restores=16).restores == 16
    with pytest.raises(NotRestorable, match=r"rng='resample': a generator inside env.held"):
        RollbackWrapper.from_factory(worlds.Hidden, snapshot="fork", rng="resample")


# --- attributes -------------------------------------------------------------------------------------------------------


def test_attributes_methods_and_objects_are_asked_of_what_lives() -> None:
    with closing(forked(worlds.Talking)) as env:
        env.reset(seed=2)
        twin = worlds.Talking()
        twin.reset(seed=2)
        env.step(1)
        twin.step(1)
        there = env.get_wrapper_attr
        assert there("describe")() == twin.describe() == env.node.summary
        assert there("oracle").distance() == twin.oracle.distance()
        assert there("oracle").plan(most=3) == twin.oracle.plan(most=3)
        assert there("oracle").env.x == twin.x
        assert (there("submit")("four"), there("limits"), there("note")) == (1, {"deep": [1, 2]}, "mine")
        assert env.render() == twin.render()
        assert (env.has_wrapper_attr("oracle"), env.has_wrapper_attr("nothing")) == (True, False)
        oracle = there("oracle")
        env.step(2)
        env.rollback(0)
        twin.reset(seed=2)
        assert oracle.distance() == twin.oracle.distance()  # it follows the world
        env.set_wrapper_attr("note", "yours")
        env.step(0)
        assert there("note") == "yours"
        env.rollback(0)
        assert there("note") == "mine"  # the checkpoint is from before
        assert there("np_random").integers(9) == twin.np_random.integers(9)
        with pytest.raises(AttributeError):
            there("nothing")
        with pytest.raises(TypeError, match="unexpected keyword"):
            there("oracle").plan(least=1)


def test_an_error_of_the_environment_is_its_own_and_the_world_goes_on() -> None:
    with closing(forked(functools.partial(worlds.Moody, "raises"))) as env:
        env.set_wrapper_attr("armed", True)
        env.reset(seed=1)
        seen = [env.step(1)[0] for _ in range(3)]
        with pytest.raises(KeyError, match="at step 4") as raised:
            env.step(3)
        assert "forked_worlds.py" in "".join(raised.value.__notes__)
        assert env.node.t == 3
        env.rollback(1)
        assert [env.step(1)[0] for _ in range(2)] == seen[1:]


def test_it_is_neither_copied_nor_pickled() -> None:
    with closing(forked(worlds.Counting)) as env:
        env.reset(seed=0)
        for copying in (copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="lives in another process"):
                copying(env)
        env.step(1)
        assert env.rollback(0)[4]["rollback"]["ok"]


# --- worlds that die, and steps that do not return --------------------------------------------------------------------


@pytest.mark.parametrize("mood", ["dies", "segfaults"])
def test_a_crash_names_the_action_and_the_run_goes_on_from_the_last_checkpoint(mood: str) -> None:
    with closing(forked(functools.partial(worlds.Moody, mood))) as env:
        env.set_wrapper_attr("armed", True)
        env.reset(seed=1)
        seen = [env.step(1)[0] for _ in range(3)]
        for _ in range(2):
            with pytest.raises(WorldDied, match=r"the environment's process died in step\(3\)"):
                env.step(3)
            assert env.node.t == 3
        straight = env.step(2)[0]
        env.rollback(1)
        assert [env.step(1)[0] for _ in range(2)] == seen[1:]
        assert env.step(2)[0] == straight
        env.reset(seed=1)
        assert [env.step(1)[0] for _ in range(3)] == seen


def test_an_exit_of_the_environment_is_an_error_and_no_exit() -> None:
    with closing(forked(functools.partial(worlds.Moody, "exits"))) as env:
        env.set_wrapper_attr("armed", True)
        env.reset(seed=1)
        with pytest.raises(RuntimeError, match="SystemExit: 4"):
            env.step(3)
        env.step(1)


def test_b11_a_step_that_never_returns_is_ended_marked_and_undone() -> None:
    with closing(forked(functools.partial(worlds.Moody, "hangs"), step_timeout=2.0)) as env:
        env.set_wrapper_attr("armed", True)
        env.reset(seed=1)
        seen = [env.step(1)[0] for _ in range(3)]
        began = time.monotonic()
        observation, reward, terminated, truncated, info = env.step(3)
        assert 1.5 < time.monotonic() - began < 60
        assert (observation, reward, terminated, truncated, info["timeout"]) == (seen[-1], 0.0, False, True, True)
        assert "step(3) did not return within 2.0 s" in str(env.refusal(env.node.t) or env._world.env.gone)
        late = env.node
        env.rollback(1)
        assert [env.step(1)[0] for _ in range(2)] == seen[1:]
        with pytest.raises(RollbackRefused, match="did not return within"):
            env.rollback(late)
        assert env.step(3)[4]["timeout"]
        assert env.reset(seed=1)[0] != seen[0]
        assert [env.step(1)[0] for _ in range(3)] == seen


@pytest.mark.parametrize("step_timeout", [0, -1.0, float("nan"), float("inf"), "3", True])
def test_a_limit_is_a_positive_number(step_timeout: Any) -> None:
    with pytest.raises(UsageError, match="step_timeout="):
        forked(worlds.Counting, step_timeout=step_timeout)


def test_only_a_fork_can_end_a_step() -> None:
    with pytest.raises(UsageError, match=r"step_timeout=1.0: 'heap' cannot end a step; fork, keyframes:fork can"):
        RollbackWrapper.from_factory(worlds.Counting, snapshot="heap", step_timeout=1.0)
    with closing(RollbackWrapper.from_factory(worlds.Counting, step_timeout=1.0)) as env:
        assert env.snapshot_report.chosen == "fork"  # although the heap would do


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("thread", "2 threads run in it"),
        ("child", "it has child processes"),
        ("shared memory", "memory is mapped as shared"),
        ("socket", "it holds something that copies would share: socket:"),
        ("pipe", "it holds something that copies would share: pipe:"),
        ("java", "a Java virtual machine runs in it"),
    ],
)
def test_what_copies_would_share_is_refused_by_name(what: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(NotRestorable, match=why):
        forked(functools.partial(worlds.Holding, what, str(tmp_path)))


def test_b9_what_writes_files_is_refused_or_put_back_with_them() -> None:
    with pytest.raises(NotRestorable, match="has written to a file since"):
        forked(worlds.Writing)
    with closing(forked(functools.partial(worlds.Writing, declares=True))) as env:
        assert check_restore(env, restores=12, steps=4).restores == 12


def test_a_file_that_is_written_late_costs_the_checkpoints_from_before_and_nothing_else() -> None:
    with closing(forked(functools.partial(worlds.Writing, late=40))) as env:
        env.reset(seed=1)
        for _ in range(40):
            env.step(1)
        assert env.restorable == tuple(range(41))
        env.step(1)
        assert env.restorable == (41,)
        assert "has written to a file since" in str(env.refusal(40))
        assert env.step(1)[4].get("rollback") is None
        env.reset(seed=1)
        env.step(1)
        assert env.restorable == (0, 1)


def test_printing_is_no_file() -> None:
    with closing(forked(worlds.Printing)) as env:
        env.reset(seed=1)
        seen = [env.step(1)[0] for _ in range(3)]
        env.rollback(0)
        assert [env.step(1)[0] for _ in range(3)] == seen


def test_a_function_that_another_process_cannot_call_is_refused() -> None:
    for make in (lambda: worlds.Counting(), functools.partial(lambda: worlds.Counting())):
        with pytest.raises(NotRestorable, match=r"cannot be sent to another process: give a spec"):
            forked(make)
    with pytest.raises(NotRestorable, match="no fresh instance can be made"):
        RollbackWrapper(worlds.Counting(), snapshot="fork")


def test_a19_a_copy_that_ends_the_process_ends_another_one() -> None:
    with closing(RollbackWrapper.from_factory(worlds.Fragile)) as env:
        assert env.snapshot_report.chosen == "fork"
        assert "a copy of it ends the process" in env.snapshot_report.reasons["deepcopy"]
        env.reset(seed=3)
        for _ in range(20):  # n checkpoints from one state
            env.step(1)
            env.rollback(0)


# --- bounded, and nothing left behind ---------------------------------------------------------------------------------


def test_evicted_checkpoints_are_ended_and_their_number_is_bounded() -> None:
    with closing(forked(worlds.Counting)) as env:
        env.reset(seed=0)
        object.__setattr__(env._world.mechanism.inner, "most", 12)
        env._world._most = 12
        for step in range(59):
            env.step(step % 3)
            assert len(env.checkpoints) <= 13
        assert {0, 58, 59} <= set(env.restorable)
        # a keeper, what lives, and the checkpoints
        assert soon(lambda: len(ours()) == 2 + len(env.checkpoints))
        middle = env.restorable[4]
        assert env.rollback(middle)[0] == env.nodes[middle].step.observation
    assert soon(lambda: not ours())


def test_many_episodes_leave_no_process_descriptor_or_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    gc.collect()
    open_before = len(os.listdir("/proc/self/fd"))
    env = worlds.tiny_fork(keep=4)
    for episode in range(30):
        env.reset(seed=episode)
        for step in range(5):
            env.step(step % 3)
        env.rollback(3)
        env.step(0)
    assert len(ours()) < 20
    env.close()
    env.close()
    assert ours() == []
    assert len(os.listdir("/proc/self/fd")) == open_before
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RollbackRefused, match="closed"):
        env.step(1)


def test_a_world_that_is_forgotten_ends() -> None:
    env = worlds.tiny_fork()
    env.reset(seed=0)
    env.step(1)
    assert ours()
    del env
    gc.collect()
    assert soon(lambda: not ours())


def test_what_nobody_closed_is_closed_when_the_process_ends(tmp_path: Path) -> None:
    script = PARENT.replace("time.sleep(600)", "raise ValueError('the end')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "ValueError: the end" in done.stderr
    assert list(tmp_path.iterdir()) == []


PARENT = """
import sys, time
import forked_worlds
env = forked_worlds.tiny_fork()
env.reset(seed=0)
for step in range(10):
    env.step(step % 3)
env.rollback(4)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_stays_when_the_asking_process_is_killed(how: signal.Signals, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        left = descendants(parent.pid)
        assert len(left) >= 10
        parent.send_signal(how)
        parent.wait(30)
        assert soon(lambda: not any(_lives(pid) for pid in left)), [pid for pid in left if _lives(pid)]
        assert list(tmp_path.iterdir()) == []  # the live one was closed
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout is not None:
            parent.stdout.close()


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_copy_of_the_asking_process_ends_nothing() -> None:
    with closing(worlds.tiny_fork()) as env:
        env.reset(seed=0)
        child = os.fork()
        if child == 0:
            try:
                env.step(1)
            except SnapshotError:
                env.close()
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        env.step(1)
        assert env.rollback(0)[4]["rollback"]["ok"]


def test_an_interrupted_question_is_never_answered_to_the_next() -> None:
    with closing(ForkedEnv(packed(functools.partial(worlds.Moody, "hangs")))) as env:
        env.set_wrapper_attr("armed", True)
        env.reset(seed=1)
        first = env.freeze()
        seen = env.step(1)[0]
        signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        signal.alarm(1)
        try:
            with pytest.raises(KeyboardInterrupt):
                env.step(3)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with pytest.raises(WorldDied, match=r"step\(3\) was interrupted"):
            env.step(1)
        env.wake(first)
        assert env.step(1)[0] == seen
        first.close()


def test_a_checkpoint_whose_process_was_ended_by_others_is_refused_and_the_world_goes_on() -> None:
    with closing(forked(worlds.Counting)) as env:
        env.reset(seed=0)
        env.step(1)
        env.step(2)
        before = set(ours())
        sleeping = env._world.checkpoints[1].token
        sleeping.close()  # it ends
        assert soon(lambda: len(ours()) < len(before))
        seen = env.node
        with pytest.raises(RollbackRefused, match="the process of this checkpoint has died"):
            env.rollback(1)
        assert env.node is seen
        env.step(0)
        assert env.rollback(0)[4]["rollback"]["ok"]

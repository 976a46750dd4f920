"""Workspace as an environment: its contract, its folder, what it refuses, and that it is put back exactly."""

from __future__ import annotations

import copy
import gc
import hashlib
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from rir_envs.workspace import WorkspaceEnv
from rir_envs.workspace_making import FAMILIES
from rir_envs.workspace_tools import REFUSED
from rir_envs.workspace_world import ACCEPTED, REJECTED
from rir_gym.base import Oracle
from rir_gym.errors import RollbackRefused, UsageError
from rir_gym.rollback import RollbackWrapper
from rir_gym.testing import check_restore

HOSTILE = (
    *("/etc/passwd", "../secret.txt", "a/../../secret.txt", "inbox/../../x.txt", "..", ".", "~/x.txt", "//x.txt"),
    *("notes/\u202e.txt", "notes/．．/x.txt", "notes/a\0.txt", "a" * 5000 + ".txt", "NOTES/Count.csv", "a/b/c/d/e.txt"),
    *(
        "notes",
        "notes/",
        "x.",
        ".x",
        "a..b.txt",
        "-rf.txt",
        "con/../x.txt",
        "a\\..\\x.txt",
        "C:\\x.txt",
        "é.txt",
        "٣.txt",
    ),
    *("secret", "notes/x.txt\nlist", "%2e%2e/x.txt", "$HOME/x.txt", "`x`.txt", "a;b.txt"),
)


@pytest.fixture
def env() -> Iterator[WorkspaceEnv]:
    made = WorkspaceEnv(family="invoices")
    yield made
    made.close()


@pytest.fixture
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which workspaces are made, with things around them that must stay as they are."""
    around = tmp_path / "around"
    around.mkdir()
    (around / "secret.txt").write_text("secret")
    (around / "folder").mkdir()
    (around / "folder" / "secret.txt").write_text("deeper")
    monkeypatch.setattr(tempfile, "tempdir", str(around))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def digest(folder: Path) -> str:
    """Everything in a folder, workspaces left out."""
    told = hashlib.sha256()
    for root, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if not name.startswith(("rir-workspace-", "rir-gym-", "rir_gym")))
        for name in sorted(files):
            path = Path(root, name)
            told.update(f"{path} {path.lstat().st_mode}".encode() + path.read_bytes())
    return told.hexdigest()


def on_disk(env: WorkspaceEnv) -> dict[str, bytes]:
    root = Path(str(env.workdir))
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def solve(env: Any) -> dict[str, Any]:
    info: dict[str, Any] = {}
    for command in env.get_wrapper_attr("oracle").plan():
        *_, info = env.step(command)
    return info


def hostile(rng: random.Random, env: WorkspaceEnv) -> str:
    """A random command with random or hostile arguments; most are about files that are there."""
    files = sorted(env.get_state().state.files) or ["none.txt"]

    def path() -> str:
        return rng.choice(HOSTILE) if rng.random() < 0.4 else rng.choice([*files, "new/a.txt", "tmp/b.doc"])

    def text() -> str:
        return rng.choice(
            ["x", "two\\nlines", "\udce9", "日本 ☃", "a" * 7000, "\x00", "", '"', "{", "1 / 0", "select 1"]
        )

    arguments = rng.choice(
        [[path()], [path(), path()], [path(), text()], [text()], [], ["north", path()], [path(), "9"]]
    )
    tool = rng.choice(["list", "read", "search", "write", "append", "move", "copy", "delete", "query", "post"])
    tool = rng.choice([tool, tool, tool, tool, "calculate", "send", "nothing"])
    if rng.random() < 0.3:
        names = rng.sample(["path", "to", "text", "folder", "sql", "line"], min(len(arguments), 3))
        return json.dumps({"tool": tool, **dict(zip(names, arguments, strict=False))})
    if rng.random() < 0.05:
        return rng.choice(
            ["", "\n", "x" * 1_000_000, "[" * 5000, "{" * 5000, '{"tool": 1}', "ls -la; rm -rf /", "\ud800"]
        )
    return " ".join([tool, *arguments])


# --- the contract ---------------------------------------------------------------------------------------------------


def test_it_passes_gymnasiums_check(env: WorkspaceEnv) -> None:
    check_env(env, skip_render_check=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_restored_exactly(family: str) -> None:
    report = check_restore(lambda: WorkspaceEnv(family=family), restores=6, steps=4)
    assert report.mechanism == "native"


def test_its_wrapped_id_is_restored_exactly() -> None:
    report = check_restore(gym.make("rir_gym/WorkspaceRollback-v0"), restores=12)
    assert (report.mechanism, report.restores) == ("native", 12)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plan_of_the_oracle_succeeds(family: str) -> None:
    env = gym.make("rir_gym/Workspace-v0", family=family)
    for seed in range(3):
        _, info = env.reset(seed=seed)
        assert info["admissible"] is None
        assert info["oracle"] == {"success": False, "failed": False, "score": 0.0}
        assert isinstance(env.get_wrapper_attr("oracle"), Oracle)
        assert 10 <= env.get_wrapper_attr("oracle").distance() <= 40
        info = solve(env)
        assert info["oracle"] == {"success": True, "failed": False, "score": 1.0}
        assert env.get_wrapper_attr("oracle").distance() == 0
        assert list(env.get_wrapper_attr("oracle").plan()) == []
    env.close()


def test_progress_never_falls_along_a_plan_and_the_distance_counts_down() -> None:
    for family in FAMILIES:
        env = WorkspaceEnv(family=family)
        env.reset(seed=1)
        before, left = 0.0, env.oracle.distance()
        for command in env.oracle.plan() or ():
            *_, info = env.step(command)
            assert info["oracle"]["score"] >= before
            before, left = info["oracle"]["score"], (left or 0) - 1
            assert env.oracle.distance() == left
        env.close()


def test_an_answer_ends_the_episode_right_or_wrong(env: WorkspaceEnv) -> None:
    env.reset(seed=0)
    *commands, last = env.oracle.plan() or ()
    for command in commands:
        env.step(command)
    saved = env.get_state()
    observation, reward, over, _, info = env.step(env.submit("no such number"))
    assert (observation, reward, over, info["oracle"]["failed"]) == (REJECTED, 0.0, True, True)
    with pytest.raises(UsageError, match="ended"):
        env.step("list")
    env.set_state(saved)
    observation, reward, over, _, info = env.step(env.submit(f"  ${last.removeprefix('submit ')} "))
    assert (observation, reward, over, info["oracle"]["success"]) == (ACCEPTED, 1.0, True, True)


def test_the_right_answer_alone_is_not_enough(env: WorkspaceEnv) -> None:
    env.reset(seed=0)
    assert env.step((env.oracle.plan() or ())[-1])[0] == REJECTED


def test_what_is_sent_is_committed_and_bars_the_way_back() -> None:
    env = RollbackWrapper(WorkspaceEnv(family="orders"))
    env.reset(seed=0)
    plan = env.get_wrapper_attr("oracle").plan()
    first_send = next(i for i, command in enumerate(plan) if command.startswith("send "))
    committed = [env.step(command)[4]["committed"] for command in plan]
    assert committed == [command.startswith("send ") for command in plan]
    with pytest.raises(RollbackRefused):
        env.rollback(first_send)
    env.reset(seed=0)
    *_, info = env.step("send nobody slips/slip-01.doc")
    assert info["committed"] is False
    env.close()


def test_json_calls_do_what_lines_do() -> None:
    lines, calls = WorkspaceEnv(family="labels"), WorkspaceEnv(family="labels")
    assert lines.reset(seed=2) == calls.reset(seed=2)
    path = lines.get_state().state.files
    first = sorted(path)[0]
    for line, call in (
        (f"read {first}", {"tool": "read", "path": first}),
        (f"copy {first} tmp/a.doc", {"tool": "copy", "path": first, "to": "tmp/a.doc"}),
        ("write x.txt a\\nb", {"tool": "write", "path": "x.txt", "text": "a\nb"}),
        ("append x.txt c", {"tool": "append", "path": "x.txt", "text": "c"}),
        ("calculate 1 + 2", {"tool": "calculate", "expression": "1 + 2"}),
        ("submit(7)", {"tool": "submit", "answer": 7}),
    ):
        assert lines.step(line) == calls.step(json.dumps(call))
    assert on_disk(lines) == on_disk(calls)
    lines.close()
    calls.close()


# --- which task -----------------------------------------------------------------------------------------------------


def test_a_seed_fixes_the_episode_in_another_process_and_under_another_hash_seed() -> None:
    script = (
        "import hashlib, json; from rir_envs.workspace import WorkspaceEnv\n"
        "out = []\n"
        "for seed in range(16):\n"
        "    env = WorkspaceEnv(); seen = [env.reset(seed=seed)]\n"
        "    for command in [*env.oracle.plan()[:6], 'search \"Subject:\"', 'list', 'read notes/x.txt']:\n"
        "        seen.append(env.step(command))\n"
        "    out.append(hashlib.sha256(repr(seen).encode()).hexdigest()); env.close()\n"
        "print(json.dumps(out))\n"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    told = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "77")
    ]
    assert told[0] == told[1]
    assert len(set(json.loads(told[0]))) == 16


def test_the_splits_have_no_task_seed_and_no_task_in_common() -> None:
    tasks = {}
    for split in ("train", "test"):
        env = WorkspaceEnv(split=split)  # type: ignore[arg-type]
        names = set()
        for seed in range(40):
            env.reset(seed=seed)
            names.add(env.get_state().task.name)
        tasks[split] = names
        assert {name.split("/")[0] for name in names} == set(FAMILIES)
        assert {int(name.rsplit("/", 1)[1]) % 2 for name in names} == {split == "test"}
        env.close()
    assert not tasks["train"] & tasks["test"]


def test_a_task_seed_is_the_task_whatever_the_reset_seed() -> None:
    env = WorkspaceEnv(family="logs", task_seed=5, level=1)
    assert env.reset(seed=1) == env.reset(seed=2) == env.reset()
    assert env.get_state().task.name == "logs/1/5"
    env.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"family": "nothing"},
        {"level": 4},
        {"level": True},
        {"split": "dev"},
        {"task_seed": -1},
        {"task_seed": 2**32},
        {"task_seed": 1.0},
        {"task_seed": True},
        {"split": "train", "task_seed": 1},
        {"render_mode": "human"},
        {"attachments": "."},
        {"gaia": "none.jsonl"},
        {"gaia": "x", "family": "logs"},
    ],
)
def test_a_bad_argument_is_one_clear_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"{next(reversed(wrong))}=|{next(iter(wrong))}="):
        WorkspaceEnv(**wrong)


def test_calls_out_of_order_are_clear_errors(env: WorkspaceEnv) -> None:
    for call in (lambda: env.step("list"), env.describe, env.get_state, lambda: env.oracle.plan()):
        with pytest.raises(UsageError, match="reset"):
            call()
    env.reset(seed=0)
    with pytest.raises(UsageError, match="str"):
        env.step(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="get_state"):
        env.set_state("x")  # type: ignore[arg-type]
    env.close()
    env.close()
    for call in (env.reset, lambda: env.step("list"), env.describe):
        with pytest.raises(UsageError, match="closed"):
            call()


# --- the folder -----------------------------------------------------------------------------------------------------


def test_the_folder_is_private_and_goes_away(surroundings: Path) -> None:
    around = surroundings / "around"
    first, second = WorkspaceEnv(family="logs"), WorkspaceEnv(family="logs")
    assert (first.workdir, second.workdir) == (None, None)
    first.reset(seed=0)
    second.reset(seed=0)
    paths = [Path(str(each.workdir)) for each in (first, second)]
    assert paths[0] != paths[1]
    assert {path.parent for path in paths} == {around}
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in paths)
    kept = first.workdir
    first.reset(seed=1)
    assert first.workdir == kept
    first.close()
    assert not paths[0].exists()
    del second
    gc.collect()
    assert not paths[1].exists()
    script = (
        "import tempfile, sys; tempfile.tempdir = sys.argv[1]\n"
        "from rir_envs.workspace import WorkspaceEnv; env = WorkspaceEnv(); env.reset(seed=0); print(env.workdir)"
    )
    paths_of = os.pathsep.join(path for path in sys.path if path)
    said = subprocess.run(
        [sys.executable, "-c", script, str(around)],
        env={**os.environ, "PYTHONPATH": paths_of},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.strip().startswith(str(around))
    assert not Path(said.strip()).exists()


def test_a_forked_child_does_not_remove_the_folder_of_its_parent(tmp_path: Path) -> None:
    script = (
        "import os, tempfile, sys; tempfile.tempdir = sys.argv[1]\n"
        "from rir_envs.workspace import WorkspaceEnv; env = WorkspaceEnv(); env.reset(seed=0)\n"
        "child = os.fork()\n"
        "if not child: sys.exit()\n"
        "os.waitpid(child, 0); print(len(os.listdir(env.workdir)))"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    said = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert int(said) > 0
    assert not list(tmp_path.iterdir())


def test_worlds_that_fork_are_put_back_and_leave_no_folder(surroundings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(surroundings / "around"))
    env = RollbackWrapper(gym.make("rir_gym/Workspace-v0", family="labels"), snapshot="fork")
    start, _ = env.reset(seed=1)
    env.step("write a.txt x")
    env.rollback(0)
    assert env.step("list")[0] == start
    env.close()
    assert not list((surroundings / "around").glob("rir-workspace-*"))


def test_what_tools_say_is_what_lies_on_disk(env: WorkspaceEnv) -> None:
    env.reset(seed=0)
    assert on_disk(env) == env.get_state().state.files
    env.step("move inbox/scan-01.doc filed/deep/er.doc")
    env.step("write a.txt hello")
    env.step("delete inbox/scan-02.doc")
    assert on_disk(env) == env.get_state().state.files
    assert on_disk(env)["a.txt"] == b"hello\n"
    for path in [each for each in on_disk(env) if each.startswith("inbox/")]:
        env.step(f"delete {path}")
    assert not Path(str(env.workdir), "inbox").exists()


def test_what_somebody_else_does_to_the_folder_is_seen(env: WorkspaceEnv) -> None:
    env.reset(seed=0)
    root = Path(str(env.workdir))
    (root / "inbox" / "scan-01.doc").unlink()
    (root / "hello.txt").write_text("from outside")
    assert env.step("read hello.txt")[0] == "hello.txt:\nfrom outside"
    assert env.step("read inbox/scan-01.doc")[0].startswith(REFUSED)
    assert env.oracle.plan() is None


def test_foreign_things_are_not_followed_and_give_way(env: WorkspaceEnv, tmp_path: Path) -> None:
    env.reset(seed=0)
    root, secret = Path(str(env.workdir)), tmp_path / "secret.txt"
    secret.write_text("secret")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "deep.txt").write_text("deep")
    (root / "link.txt").symlink_to(secret)
    (root / "folder").symlink_to(tmp_path / "folder")
    (root / "UPPER.txt").write_text("x")
    os.mkfifo(root / "pipe.txt")
    (root / "huge.txt").write_bytes(b"x" * (9 * 1024 * 1024))
    before = env.step("list")[0]
    assert not any(word in before for word in ("link", "folder", "UPPER", "pipe", "huge"))
    for command in ("read link.txt", "read folder/deep.txt", "read pipe.txt", "move link.txt a.txt", "search secret"):
        assert "secret" not in env.step(command)[0].removeprefix("Found")
    saved = env.get_state()
    for path in ("link.txt", "folder/deep.txt", "pipe.txt"):
        assert env.step(f"write {path} mine")[0].startswith("Wrote")
    assert secret.read_text() == "secret"
    assert (tmp_path / "folder" / "deep.txt").read_text() == "deep"
    env.set_state(saved)
    assert secret.read_text() == "secret"


def test_a_disk_that_refuses_is_told_in_the_observation(env: WorkspaceEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    env.reset(seed=0)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rir_envs.workspace_disk.Disk._put", full)
    observation, *_, info = env.step("write a.txt hello")
    assert observation == "Refused: the disk says: No space left on device."
    assert "a.txt" not in env.get_state().state.files
    assert info["oracle"]["failed"] is False


def test_states_are_values_that_fit_any_instance(env: WorkspaceEnv) -> None:
    env.reset(seed=0)
    saved = env.get_state()
    observation, disk = env.step("search invoice"), on_disk(env)
    solve(env)
    other = WorkspaceEnv()
    other.set_state(saved)
    for each in (env, other, env):
        each.set_state(saved)
        assert on_disk(each) == disk
        assert each.step("search invoice") == observation
        each.step("delete inbox/scan-01.doc")
    other.close()


def test_an_instance_plays_the_next_episode_as_a_fresh_one_does(env: WorkspaceEnv) -> None:
    rng = random.Random(5)
    for seed in range(4):
        fresh = WorkspaceEnv(family="invoices")
        assert env.reset(seed=seed) == fresh.reset(seed=seed)
        for _ in range(15):
            action = hostile(rng, env)
            outcome = env.step(action)
            assert outcome == fresh.step(action)
            if outcome[2]:
                break
        assert on_disk(env) == on_disk(fresh)
        fresh.close()


def test_no_copy_and_no_pickle(env: WorkspaceEnv) -> None:
    env.reset(seed=0)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="get_state"):
            copied(env)


def test_environments_in_spawned_workers_are_what_they_are_here() -> None:
    make = [lambda: gym.make("rir_gym:rir_gym/Workspace-v0", family="labels")] * 2
    vector = gym.vector.AsyncVectorEnv(make, shared_memory=False, context="spawn")
    here = gym.make("rir_gym/Workspace-v0", family="labels")
    try:
        observations, _ = vector.reset(seed=[3, 4])
        assert [str(each) for each in observations] == [here.reset(seed=seed)[0] for seed in (3, 4)]
        assert list(vector.step(["list", "list"])[0]) == list(observations)
    finally:
        vector.close()
        here.close()


# --- hostile play ---------------------------------------------------------------------------------------------------


def test_hostile_play_never_leaves_the_folder_never_hangs_and_is_put_back(surroundings: Path) -> None:
    """Random tools with random and hostile arguments, rollbacks in between; set the variable for more episodes."""
    before, slowest = digest(surroundings), 0.0
    episodes = int(os.environ.get("RIR_GYM_HOSTILE_EPISODES", "10"))
    rng = random.Random(7)
    env = RollbackWrapper(WorkspaceEnv())
    inner = env.unwrapped
    assert isinstance(inner, WorkspaceEnv)
    for episode in range(episodes):
        env.reset(seed=episode)
        disks = {env.node.id: on_disk(inner)}
        for _ in range(40):
            started = time.perf_counter()
            observation = env.step(hostile(rng, inner))[0]
            slowest = max(slowest, time.perf_counter() - started)
            assert len(observation) < 7_000
            assert "secret" not in observation.replace("secret.txt", "").replace("'secret'", "")
            disks[env.node.id] = on_disk(inner)
            assert disks[env.node.id] == inner.get_state().state.files
            if env.node.step.over:
                break
            if rng.random() < 0.1:
                kept = [node for node in env.nodes if env.refusal(node) is None]
                target = rng.choice(kept)
                assert env.rollback(target)[0] == target.step.observation
                assert on_disk(inner) == disks[target.id]
    assert digest(surroundings) == before
    assert slowest < 3.0  # a busy machine; by itself the slowest takes a tenth of that
    env.close()
    assert digest(surroundings) == before
    assert not list((surroundings / "around").glob("rir-workspace-*"))


def test_every_hostile_path_is_refused_by_every_tool(env: WorkspaceEnv) -> None:
    env.reset(seed=0)
    files = env.get_state().state.files
    known = "inbox/scan-01.doc"
    for path in HOSTILE:
        calls: list[dict[str, str]] = [
            *({"tool": tool, "path": path} for tool in ("read", "delete")),
            *({"tool": tool, "path": path, "to": "a.txt"} for tool in ("move", "copy")),
            *({"tool": tool, "path": known, "to": path} for tool in ("move", "copy")),
            *({"tool": "query", "path": path, "sql": "select 1"}, {"tool": "send", "path": path, "to": "x"}),
            {"tool": "append", "path": path, "text": "x"},
        ]
        for call in calls:
            observation, *_, info = env.step(json.dumps(call))
            assert observation.startswith(REFUSED), call
            assert not info["committed"]
    assert env.get_state().state.files == files

"""An environment with a working directory: its files are a part of the world, with every mechanism and limit."""

from __future__ import annotations

import copy
import functools
import gc
import http.server
import os
import shutil
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rir_gym import (
    Budget,
    Decision,
    DecisionKind,
    Mechanism,
    NotRestorable,
    Patch,
    ReflectionMemory,
    Restore,
    RollbackRefused,
    RollbackWrapper,
    Unicode,
    Verdict,
    VerdictKind,
    run,
)
from rir_gym.base import Node
from rir_gym.errors import SnapshotError
from rir_gym.memory import Failure
from rir_gym.snapshot.files.mechanism import Files
from rir_gym.snapshot.lifetime import Lifetime
from rir_gym.snapshot.native import Native
from rir_gym.snapshot.pickled import Pickle
from rir_gym.snapshot.replay import Replay
from rir_gym.snapshot.world import World
from rir_gym.testing import check_restore

MECHANISMS = ("native", "heap", "pickle", "deepcopy", "fork", "replay")


class Tower(gym.Env[str, str]):
    """Every step writes the save file; "load" reads it again, "note" adds to a log, "raze" removes all files."""

    action_space = Unicode()
    observation_space = Unicode()
    commands = ("up", "down", "note", "load", "raze")

    def __init__(self, workdir: Any) -> None:
        self.workdir, self.floor = workdir, 0

    @property
    def place(self) -> Path:
        return Path(self.workdir if isinstance(self.workdir, str) else self.workdir[0])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        self.floor = int(self.np_random.integers(5))
        return self.said(), self.info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        save = self.place / "save.txt"
        if action == "load":
            self.floor = int(save.read_text()) if save.exists() else -1
        self.floor += {"up": 1, "down": -1}.get(action, 0)
        if action == "raze":
            for path in self.place.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif action == "note":
            (self.place / "logs").mkdir(exist_ok=True)
            with open(self.place / "logs" / "log", "a") as log:
                log.write(f"floor {self.floor}\n")
        elif action == "pipe":
            os.mkfifo(self.place / "pipe")
        else:
            save.write_text(str(self.floor))
        return self.said(), float(self.floor), False, False, self.info()

    def said(self) -> str:
        files = sorted((path.name, path.read_text()) for path in self.place.rglob("*") if path.is_file())
        return f"floor {self.floor}, files {files}"

    def info(self) -> dict[str, Any]:
        return {"admissible": list(self.commands), "objective": "climb"}

    def describe(self) -> str:
        return f"floor {self.floor}"


class Kept(Tower):
    """With a state pair of its own, which knows nothing of files."""

    def get_state(self) -> dict[str, Any]:
        return copy.deepcopy(self.__dict__)

    def set_state(self, state: dict[str, Any]) -> None:
        self.__dict__.clear()
        self.__dict__.update(copy.deepcopy(state))


def factory(place: Path, snapshot: str) -> Callable[[], Tower]:
    if snapshot == "fork" and not sys.platform.startswith("linux"):
        pytest.skip("fork needs Linux")
    return functools.partial(Kept if snapshot == "native" else Tower, str(place))


def wrapped(place: Path, snapshot: str, **settings: Any) -> RollbackWrapper:
    return RollbackWrapper.from_factory(factory(place, snapshot), snapshot=snapshot, **settings)


def files(place: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(place)): (path.stat().st_mtime_ns, path.read_text() if path.is_file() else None)
        for path in [place, *place.rglob("*")]
    }


@pytest.mark.parametrize("snapshot", MECHANISMS)
def test_a_save_file_goes_back_with_the_world(tmp_path: Path, snapshot: str) -> None:
    place = tmp_path / "saves"
    env = wrapped(place, snapshot)
    env.reset(seed=3)
    seen = [files(place)]
    for action in ("up", "note", "up", "raze", "up", "note"):
        env.step(action)
        seen.append(files(place))
    for to in (4, 2, 1, 0):
        observation, *_ = env.rollback(to)
        assert observation == env.node.step.observation
        assert files(place) == seen[to]
    env.rollback(env.nodes[6])
    assert files(place) == seen[6]
    env.rollback(1)
    _, floor, *_ = env.step("load")
    assert floor == env.nodes[1].step.reward  # what the file says, not what the abandoned branch wrote
    env.close()


@pytest.mark.parametrize("snapshot", MECHANISMS)
def test_random_trees_agree_with_straight_runs(tmp_path: Path, snapshot: str) -> None:
    restores = 8 if snapshot == "fork" else 24
    report = check_restore(factory(tmp_path / "saves", snapshot), restores=restores, snapshot=snapshot)
    assert (report.mechanism, report.restores) == (snapshot, restores)


def test_transcript_memory_and_files_agree_after_a_rollback(tmp_path: Path) -> None:
    """Both sides go back: what the agent has read, what the environment is, and what its directory holds."""
    place, views = tmp_path / "saves", list[Any]()
    env = wrapped(place, "heap")
    lines = ["up", "up", "note", "down", "load"]

    def act(asked: Sequence[Any]) -> list[Decision]:
        views.extend(asked)
        return [Decision.act(lines.pop(0)) for _ in asked]

    def when(asked: Sequence[Any]) -> list[Verdict]:
        due = len(views) == 4
        return [Verdict(VerdictKind.ROLLBACK, 1.0, "too high") if due else Verdict.not_due() for _ in asked]

    mechanism = Mechanism(
        "told",
        act=act,
        when=when,
        where=lambda asked, _: [Restore(view.restorable[1], "one floor is enough") for view in asked],
        what=lambda asked, verdicts, restores: [
            Patch(view.memory.abandon(resumed_at=1, ended_at=view.t, failure=Failure("too high"))) for view in asked
        ],
    )
    [episode] = run([env], mechanism, budget=Budget(5, 1), seeds=[0])
    first = int(env.nodes[0].summary.split()[1])
    after = views[4]
    assert after.t == 1
    assert [step.action for step in after.history] == [None, "up"]
    assert after.observation == f"floor {first + 1}, files [('save.txt', '{first + 1}')]"
    assert isinstance(after.memory, ReflectionMemory)
    assert "too high" in after.memory.render()
    assert [step.step.action for step in episode.last.branch()] == [None, "up", "load"]
    assert episode.last.step.observation == after.observation == env.unwrapped.said()
    assert [event.outcome for event in episode.events if isinstance(event.value, Decision)][3] == "dropped"
    assert env.node is episode.last
    assert env.node.t == 2
    env.close()


@pytest.mark.parametrize("snapshot", ["heap", "replay"])
def test_a_step_that_leaves_something_that_cannot_be_saved(tmp_path: Path, snapshot: str) -> None:
    place = tmp_path / "saves"
    env = wrapped(place, snapshot)
    env.reset(seed=0)
    env.step("up")
    before = files(place)
    env.step("pipe")
    env.step("up")
    assert env.restorable == (0, 1, 3)
    assert "'pipe' is a named pipe" in str(env.refusal(2))
    env.step("up")
    with pytest.raises(RollbackRefused, match="named pipe"):
        env.rollback(3)
    env.rollback(1)
    assert files(place) == before
    env.close()


def test_directories_are_as_before_after_a_proof_and_after_a_refusal(tmp_path: Path) -> None:
    class Forgetful(Tower):
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("no copies")

    place = tmp_path / "saves"
    place.mkdir()
    (place / "yours").write_text("untouched")
    before = files(place)
    with pytest.raises(NotRestorable, match="no copies"):
        RollbackWrapper(Forgetful(str(place)), snapshot="deepcopy")
    RollbackWrapper(Tower(str(place))).close()
    assert files(place) == before
    os.mkfifo(place / "pipe")
    with pytest.raises(NotRestorable, match="'pipe' is a named pipe"):
        RollbackWrapper(Tower(str(place)))
    assert (place / "yours").exists()


@pytest.mark.parametrize("snapshot", ["pickle", "heap", "replay"])
def test_limits_free_what_no_checkpoint_needs(tmp_path: Path, snapshot: str) -> None:
    place = tmp_path / "saves"
    env = wrapped(place, snapshot, keep=2)
    env.reset(seed=0)
    store = env._world._files.workdirs.blobs
    for number in range(12):
        (place / "ballast").write_bytes(bytes([number]) * 100_000)
        env.step("up")
        assert store.bytes_held <= 3 * 100_000 + 100
        assert sum(held.size or 0 for held in env.checkpoints) >= store.bytes_held
    sizes = [kept.size for kept in env.checkpoints]
    assert len(sizes) == 3
    assert min(sizes[1:]) >= 100_000
    assert len(os.listdir(store.folder)) <= 3 + 3
    env.close()


def test_a_byte_budget_counts_files(tmp_path: Path) -> None:
    place = tmp_path / "saves"
    env = wrapped(place, "replay", keep_bytes=1_000_000)
    env.reset(seed=0)
    for number in range(40):
        (place / "ballast").write_bytes(bytes([number]) * 100_000)
        env.step("up")
    assert env._world._files.workdirs.blobs.bytes_held <= 1_100_000
    assert 3 <= len(env.checkpoints) <= 11
    assert env.restorable[0] == 0
    env.close()


def test_contents_are_reused_by_the_next_episode_and_gone_at_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "temporary"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))

    class Stocked(Tower):
        def reset(self, **given: Any) -> tuple[str, dict[str, Any]]:
            said = super().reset(**given)
            (self.place / "stock").write_text("x" * 200_000)
            return said

    env = RollbackWrapper(Stocked(str(tmp_path / "saves")), snapshot="heap")
    for seed in range(3):
        env.reset(seed=seed)
        env.step("up")
        env.step("up")
        [folder] = private.iterdir()
        assert sum(path.stat().st_size == 200_000 for path in folder.iterdir()) == 1
        assert 200_000 <= (env.checkpoints[0].size or 0) < 210_000
    env.close()
    assert list(private.iterdir()) == []
    lost = RollbackWrapper(Stocked(str(tmp_path / "other")), snapshot="heap")
    lost.reset(seed=0)
    lost.step("up")
    assert len(list(private.iterdir())) == 1
    del lost
    gc.collect()
    assert list(private.iterdir()) == []


def test_a_copied_wrapper_keeps_its_own_contents(tmp_path: Path) -> None:
    place = tmp_path / "saves"
    env = wrapped(place, "pickle")
    env.reset(seed=0)
    env.step("up")
    env.step("note")
    twin = copy.deepcopy(env)
    assert "stayed with the world" in str(twin.refusal(1))
    twin.step("up")
    before = files(place)
    twin.step("raze")
    twin.rollback(3)
    assert files(place) == before
    twin.close()
    env.rollback(1)
    assert sorted(files(place)) == [".", "save.txt"]
    env.close()


class Own(Tower):
    """Each instance has a directory of its own, inside one that was there before."""

    def __init__(self, inside: Path) -> None:
        super().__init__(tempfile.mkdtemp(dir=inside))

    def close(self) -> None:
        shutil.rmtree(self.workdir)


@pytest.mark.parametrize("snapshot", ["heap", "replay"])
def test_an_instance_may_have_a_directory_of_its_own(tmp_path: Path, snapshot: str) -> None:
    env = RollbackWrapper.from_factory(lambda: Own(tmp_path), snapshot=snapshot, share=("workdir",))
    env.reset(seed=0)
    env.step("up")
    times = [stamp for stamp, _ in files(Path(env.unwrapped.workdir)).values()]
    env.step("note")
    env.rollback(1)
    assert [stamp for stamp, _ in files(Path(env.unwrapped.workdir)).values()] == times
    env.close()
    assert list(tmp_path.iterdir()) == []


class Diary(gym.Env[str, str]):
    """What is in its directory before a reset decides how the episode begins; the reset changes it."""

    action_space = Unicode()
    observation_space = Unicode()
    drift = 0

    def __init__(self, workdir: Path) -> None:
        self.workdir = workdir

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return self.write("begun"), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return self.write(action), 0.0, False, False, {}

    def write(self, text: str) -> str:
        with open(self.workdir / "diary", "a") as diary:
            diary.write(f"{text}\n")
        return (self.workdir / "diary").read_text() + "!" * type(self).drift


def test_actions_are_done_again_on_what_the_first_reset_found(tmp_path: Path) -> None:
    (tmp_path / "diary").write_text("old\n")
    world = World(Diary(tmp_path), Replay(lambda: Diary(tmp_path)))
    for seed in range(2):
        nodes = [world.reset(seed, None)] + [world.step(action) for action in ("a", "b", "c")]
        world.keep()
        world.restore(nodes[1])
        assert (tmp_path / "diary").read_text() == nodes[1].step.observation
        world.restore(nodes[3])
        assert (tmp_path / "diary").read_text() == nodes[3].step.observation
    world.forget()


def test_where_the_mechanism_fails_the_directory_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "diary").write_text("old\n")
    world = World(Diary(tmp_path), Replay(lambda: Diary(tmp_path)))
    nodes = [world.reset(0, None), world.step("a"), world.step("b")]
    world.keep()
    before = files(tmp_path)
    monkeypatch.setattr(Diary, "drift", 1)
    with pytest.raises(SnapshotError, match="step=0: observation was"):
        world.restore(nodes[1])
    assert files(tmp_path) == before
    monkeypatch.setattr(Diary, "drift", 0)
    world.restore(nodes[1])
    world.forget()

    class Broken(Kept):
        def set_state(self, state: Any) -> None:
            raise RuntimeError("jammed")

    world = World(Broken(str(tmp_path / "saves")), Native())
    nodes = [world.reset(0, None), world.step("up"), world.step("note")]
    world.keep()
    before = files(tmp_path)
    with pytest.raises(SnapshotError, match="jammed"):
        world.restore(nodes[1])
    assert files(tmp_path) == before
    world.forget()


def test_files_that_a_state_pair_writes_are_put_right(tmp_path: Path) -> None:
    class Writing(Kept):
        def set_state(self, state: Any) -> None:
            super().set_state(state)
            shutil.rmtree(self.place)  # the folder aside in it, too
            self.place.mkdir()
            (self.place / "save.txt").write_text("restored")
            (self.place / "more").write_text("restored")

    place = tmp_path / "saves"
    world = World(Writing(str(place)), Native())
    node = [world.reset(0, None), world.step("up")][1]
    before = files(place)
    world.step("up")
    world.restore(node)
    assert files(place) == before
    world.forget()


@pytest.mark.parametrize(
    ("workdir", "reason"),
    [(3, "workdir=3: a path"), ([""], "a sequence of paths"), (b"x", "a path"), ({"a": 1}, "a path")],
)
def test_a_declaration_that_is_no_path_is_refused(workdir: Any, reason: str) -> None:
    with pytest.raises(NotRestorable, match=reason.replace("(", r"\(")):
        RollbackWrapper(Tower(workdir))


def test_declarations_of_several_layers_and_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    two.mkdir()
    link = tmp_path / "link"
    link.symlink_to(two)
    monkeypatch.chdir(tmp_path)
    env = RollbackWrapper(Tower(["one", str(link)]), snapshot="heap")
    env.reset(seed=0)
    (two / "x").write_text("1")
    env.step("up")
    (two / "x").write_text("2")
    env.step("up")
    link.unlink()
    link.symlink_to(one)  # what a link meant is settled when it is first met
    env.rollback(0)
    assert (two / "x").read_text() == "1"
    assert not (one / "save.txt").exists()
    env.close()
    with pytest.raises(NotRestorable, match="declare the outer one"):
        RollbackWrapper(Tower([str(tmp_path), str(one)]))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(NotRestorable, match="set TMPDIR"):
        RollbackWrapper(Tower(str(tmp_path)))

    class Above(gym.Wrapper[str, str, str, str]):
        workdir = str(two)

    world = World(Above(gym.make("FrozenLake-v1", disable_env_checker=True)), Pickle())
    node = world.reset(0, None)
    world.step(0)
    (two / "x").write_text("3")
    world.step(0)
    world.restore(node)
    assert (two / "x").read_text() == "1"
    world.forget()


def test_without_a_directory_nothing_is_added() -> None:
    env = RollbackWrapper(gym.make("FrozenLake-v1"), snapshot="pickle")
    env.reset(seed=0)
    env.step(0)
    [kept] = env.checkpoints
    assert type(kept.token).__module__ == Pickle.__module__
    assert env._world._files.workdirs.blobs._folder == ""
    env.close()


def test_tokens_end_once_and_their_bytes_move(tmp_path: Path) -> None:
    (tmp_path / "diary").write_text("x" * 1000)
    env, inner = Diary(tmp_path), Replay(lambda: Diary(tmp_path))
    mechanism = Files(inner)
    mechanism.begin(env)
    mechanism.forget()
    env.reset(seed=0)
    world = World(env, inner, lifetime=Lifetime())
    node: Node = world.reset(0, None)
    first = mechanism.save(env, node, world.start)
    second = mechanism.save(env, node, world.start)
    assert (mechanism.size(first) or 0) > 1000
    assert mechanism.size(second) == 0
    total = mechanism.workdirs.blobs.bytes_held
    mechanism.drop(first)
    assert mechanism.size(second) == total
    mechanism.forget()
    assert mechanism.workdirs.blobs.bytes_held == 0
    world.forget()


# --- effects outside that no mechanism takes back -------------------------------------------------------------------


class _Shop(http.server.BaseHTTPRequestHandler):
    orders: list[str]

    def do_POST(self) -> None:
        self.orders.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


class Orders(Tower):
    """ "order" posts to a server, and says that it cannot be taken back."""

    commands = ("up", "down")

    def __init__(self, workdir: str, address: str) -> None:
        super().__init__(workdir)
        self.address = address

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action != "order":
            return super().step(action)
        with urllib.request.urlopen(urllib.request.Request(f"{self.address}/order", method="POST")):
            pass
        said, reward, over, cut, info = super().step(action)
        return said, reward, over, cut, {**info, "committed": True}


def test_what_a_server_was_told_is_not_taken_back_and_the_agent_reads_why(tmp_path: Path) -> None:
    handler = type("Shop", (_Shop,), {"orders": []})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        env = RollbackWrapper(Orders(str(tmp_path / "saves"), address), snapshot="heap")
        env.reset(seed=0)
        env.step("up")
        env.step("order")
        env.step("up")
        before = files(tmp_path)
        observation, reward, *_, info = env.step("rollback 1")
        assert info["rollback"]["ok"] is False
        assert "step 2 had an effect outside that cannot be taken back" in info["rollback"]["reason"]
        assert (observation, reward) == (env.unwrapped.said(), 0.0)
        assert files(tmp_path) == before
        assert env.restorable == (2, 3)
        env.step("rollback 2")
        assert handler.orders == ["/order"]  # type: ignore[attr-defined]
        env.close()
        server.shutdown()


def test_requests_for_review_are_agents_and_files_stay(tmp_path: Path) -> None:
    """A declined request steps nothing and touches no file."""
    place = tmp_path / "saves"
    env = wrapped(place, "heap")
    stamps = list[Any]()

    def act(asked: Sequence[Any]) -> list[Decision]:
        stamps.append(files(place))
        return [Decision.act("up") if len(stamps) != 2 else Decision(DecisionKind.REQUEST) for _ in asked]

    mechanism = Mechanism(
        "asks",
        act=act,
        when=lambda asked: [
            Verdict(VerdictKind.CONTINUE, 0.0) if view.proposed and view.proposed.kind is DecisionKind.REQUEST
            else Verdict.not_due()
            for view in asked
        ],
        where=lambda asked, _: pytest.fail("nothing is to be put back"),
        what=lambda *_: pytest.fail("nothing is to be put back"),
    )  # fmt: skip
    run([env], mechanism, budget=Budget(3, 1), seeds=[0])
    assert stamps[1] == stamps[2]
    env.close()

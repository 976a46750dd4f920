"""The collector: the same data whoever plays them, and what it does when a worker or an environment fails."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from rir_gym.data import read_episodes
from rir_gym.data.collect import Cell, Job, collect
from rir_gym.data.keys import key_of
from rir_gym.data.records import episode_record, header_of
from rir_gym.data.store import open_store
from rir_gym.data.survey import survey
from rir_gym.errors import CollectError, RecordError, StoreError, UnknownName, UsageError

PLAYERS = '''
"""A player for tests: gives prepared records, and fails as its recipes say."""
import json, os, signal, sys, time
from pathlib import Path
from rir_gym.data.collect import Played
from rir_gym.errors import ModelError, UnknownName

def make(settings):
    if settings.get("broken"):
        raise UnknownName("env", settings["broken"], ["a", "b"])
    return Player(settings)

class Player:
    def __init__(self, settings):
        self.settings = settings
        self.base = json.loads(Path(settings["record"]).read_text())

    def note(self, text):
        with open(self.settings["log"], "a") as log:
            log.write(text + "\\n")

    def __call__(self, recipes):
        self.note(f"{os.getpid()} plays {[recipe['seed'] for recipe in recipes]}")
        return [self.play(**recipe) for recipe in recipes]

    def play(self, seed, do="", flag=None):
        if flag is not None and os.path.exists(flag):
            do = ""
        elif flag is not None:
            open(flag, "w").close()
        if do == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if do == "exit":
            os._exit(11)
        if do == "raise":
            raise ZeroDivisionError("a world broke")
        if do == "ours":
            raise ModelError("model='m': broken")
        if do == "wait":
            time.sleep(600)
        if do == "interrupt":
            raise KeyboardInterrupt
        record = json.loads(json.dumps(self.base))
        record["header"]["seed"] = seed + (do == "another")
        if do == "no record":
            del record["nodes"]
        return Played(record, {"act": 0.5})

    def close(self):
        self.note(f"{os.getpid()} closes")
'''


@pytest.fixture
def world(story, tmp_path, monkeypatch):
    return World(story, tmp_path, monkeypatch)


class World:
    """Jobs of a player that lies in a module of its own, where spawned processes find it."""

    def __init__(self, story, tmp_path, monkeypatch):
        record = episode_record(story.run(), header_of(story.env, story.mechanism, agent="script"))
        (tmp_path / "record.json").write_text(json.dumps(record))
        (tmp_path / "modules").mkdir()
        (tmp_path / "modules/players_for_tests.py").write_text(PLAYERS)
        monkeypatch.syspath_prepend(tmp_path / "modules")
        self.record, self.path, self.notices, self.progress = record, tmp_path, [], []
        self.log = tmp_path / "log"
        self.log.touch()

    def cell(self, make="players_for_tests:make", **more):
        return Cell(make, {"record": str(self.path / "record.json"), "log": str(self.log), **more})

    def job(self, seed, cell=None, **recipe):
        key = key_of({**self.record, "header": {**self.record["header"], "seed": seed}})
        return Job(key, cell or self.cell(), {"seed": seed, **recipe})

    def collect(self, jobs, *, name="s", notify=None, **more):
        notify = notify or self.progress.append
        with open_store(self.path / name, {"a": 1}) as store:
            return collect(store, jobs, notify=notify, notice=self.notices.append, **more)

    def seeds(self, name="s"):
        return [record["header"]["seed"] for record in read_episodes(self.path / name)]

    def played(self):
        return [line.split(" plays ") for line in self.log.read_text().splitlines() if "plays" in line]


def test_jobs_are_played_in_their_order_and_told_one_by_one(world):
    assert world.collect([world.job(seed) for seed in range(5)]) == 5
    assert world.seeds() == list(range(5))
    assert [(step.key.seed, step.success, step.done, step.total) for step in world.progress] == [
        (seed, True, seed + 1, 5) for seed in range(5)
    ]
    assert world.log.read_text().splitlines()[-1] == f"{os.getpid()} closes"


def test_the_data_do_not_depend_on_workers_or_lockstep(world):
    sums = set()
    for name, more in {
        "here": {},
        "lockstep": {"lockstep": 4},
        "one": {"workers": 1},
        "three": {"workers": 3, "lockstep": 2},
    }.items():
        assert world.collect([world.job(seed) for seed in range(13)], name=name, **more) == 13
        assert sorted(world.seeds(name)) == list(range(13))
        sums.add(survey(world.path / name).records_sha256)
    assert len(sums) == 1
    assert not world.notices


def test_several_workers_share_few_jobs(world):
    world.collect([world.job(seed) for seed in range(2)], workers=2)
    assert len({process for process, _ in world.played()}) == 2
    assert world.log.read_text().count("closes") == 2


def test_only_what_is_missing_is_played(world):
    jobs = [world.job(seed) for seed in range(7)]
    world.collect(jobs[::2])
    world.log.write_text("")
    world.progress.clear()
    assert world.collect(jobs) == 3
    assert [seeds for _, seeds in world.played()] == ["[1]", "[3]", "[5]"]
    assert world.progress[-1].total == 3
    assert world.collect(jobs, workers=2) == 0
    assert sorted(world.seeds()) == list(range(7))


def test_cells_are_made_once_and_closed(world):
    cells = [world.cell(number=number) for number in range(2)]
    world.collect([world.job(seed, cells[seed // 3]) for seed in range(6)], lockstep=2)
    assert [line.split(" ", 1)[1] for line in world.log.read_text().splitlines()] == [
        "plays [0, 1]",
        "plays [2]",
        "closes",
        "plays [3, 4]",
        "plays [5]",
        "closes",
    ]


# --- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("do", "said"), [("die", "SIGKILL"), ("exit", "exit code 11"), ("raise", "a world broke")])
def test_an_episode_that_fails_once_is_played_again_in_a_new_worker(world, do, said):
    jobs = [world.job(seed) for seed in range(6)]
    jobs[2] = world.job(2, do=do, flag=str(world.path / "flag"))
    assert world.collect(jobs, workers=1) == 6
    assert world.seeds() == list(range(6))
    assert [said in notice for notice in world.notices] == [True]
    assert "1 episodes begin again" in world.notices[0]
    assert len({process for process, _ in world.played()}) == 2


@pytest.mark.parametrize(("do", "said"), [("die", "SIGKILL"), ("exit", "exit code 11"), ("raise", "ZeroDiv")])
def test_an_episode_that_fails_twice_ends_the_run_and_what_is_finished_stays(world, do, said):
    jobs = [world.job(seed) for seed in range(6)]
    jobs[3] = world.job(3, do=do)
    with pytest.raises(CollectError, match=rf"seed=3 .*failed 2 times.*{said}"):
        world.collect(jobs, workers=1)
    assert world.seeds() == [0, 1, 2]
    assert [step.key.seed for step in world.progress] == [0, 1, 2]
    jobs[3] = world.job(3)
    assert world.collect(jobs, workers=1) == 3


@pytest.mark.parametrize("workers", [0, 1])
def test_our_own_errors_come_through_as_they_are(world, workers):
    from rir_gym.errors import ModelError

    with pytest.raises(ModelError, match=r"^model='m': broken$"):
        world.collect([world.job(0), world.job(1, do="ours")], workers=workers)
    assert world.seeds() == [0]
    with pytest.raises(UnknownName, match=r"^env='x': unknown; known are a, b$"):
        world.collect([world.job(0, world.cell(broken="x"))], workers=workers, name="t")
    assert not (world.path / "t").exists()


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("do", "error", "said"), [("another", UsageError, "for the job"), ("no record", RecordError, "nodes: missing")]
)
def test_a_player_that_gives_something_else_is_refused(world, workers, do, error, said):
    with pytest.raises(error, match=said):
        world.collect([world.job(0), world.job(1, do=do)], workers=workers)
    assert world.seeds() == [0]


@pytest.mark.parametrize("make", ["nowhere:make", "players_for_tests:nothing", "players_for_tests", "", ":x"])
def test_a_function_that_does_not_exist_is_named(world, make):
    with pytest.raises(UsageError, match="no such module:function"):
        world.collect([world.job(0, world.cell(make))])


def test_an_exception_of_an_environment_comes_through_without_workers(world):
    with pytest.raises(ZeroDivisionError):
        world.collect([world.job(0), world.job(1, do="raise")])
    assert world.seeds() == [0]


def test_a_full_disk_ends_the_run_and_what_is_finished_stays(world):
    left = [3]

    def write(fd, data):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return os.write(fd, data)

    with open_store(world.path / "s", {"a": 1}, write=write) as store:
        with pytest.raises(StoreError, match="No space left"):
            collect(store, [world.job(seed) for seed in range(9)], workers=2)
        kept = len(store.keys)
    assert len(world.seeds()) == kept == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_an_interrupt_keeps_what_is_finished_and_leaves_no_worker(world, workers):
    jobs = [world.job(seed) for seed in range(200)]
    seen = []

    def notify(step):
        seen.append(step.key.seed)
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.collect(jobs, notify=notify, workers=workers)
    kept = world.seeds()
    assert set(seen[:4]) <= set(kept)
    assert len(set(kept)) == len(kept) < 200
    assert not [process for process, _ in world.played() if int(process) != os.getpid() and alive(int(process))]
    assert world.collect(jobs, workers=workers) == 200 - len(kept)
    assert sorted(world.seeds()) == list(range(200))


def test_bad_arguments_play_nothing(world):
    jobs = [world.job(0), world.job(1)]
    for more, said in (
        ({"workers": -1}, "workers=-1"),
        ({"workers": True}, "workers=True"),
        ({"lockstep": 0}, "lockstep=0"),
        ({"lockstep": 1.5}, r"lockstep=1\.5"),
    ):
        with pytest.raises(UsageError, match=said):
            world.collect(jobs, **more)
    with pytest.raises(UsageError, match="1 keys stand there more than once"):
        world.collect([*jobs, world.job(1)])
    assert not world.played()


# --- processes ------------------------------------------------------------------------------------------------------


def alive(process):
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(process, seconds=20):
    deadline = time.monotonic() + seconds
    while alive(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


PARENT = """
import sys
sys.path.insert(0, sys.argv[1])
if __name__ == "__main__":
    import pickle
    from rir_gym.data.collect import collect
    from rir_gym.data.store import open_store
    with open(sys.argv[3], "rb") as file:
        jobs = pickle.load(file)
    with open_store(sys.argv[2], {"a": 1}) as store:
        collect(store, jobs, workers=2, notify=lambda step: print(step.key.seed, flush=True))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_die_with_their_parent_and_the_same_call_goes_on(world, sign):
    import pickle

    jobs = [world.job(seed) for seed in range(30)] + [world.job(30 + n, do="wait") for n in range(2)]
    (world.path / "jobs").write_bytes(pickle.dumps(jobs))
    (world.path / "parent.py").write_text(PARENT)
    command = [sys.executable, "parent.py", str(world.path / "modules"), str(world.path / "s"), "jobs"]
    parent = subprocess.Popen(
        command, cwd=world.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    acknowledged = {int(parent.stdout.readline()) for _ in range(20)}
    os.killpg(parent.pid, sign) if sign == signal.SIGINT else os.kill(parent.pid, sign)
    rest, errors = parent.communicate(timeout=60)
    acknowledged |= {int(seed) for seed in rest.split()}
    assert parent.returncode in (-sign, 1 if sign == signal.SIGINT else -sign)
    assert errors.count("Traceback") == (sign == signal.SIGINT)  # the parent's own, none of a worker
    workers = {int(process) for process, _ in world.played()}
    assert 1 <= len(workers) <= 2  # a quick one may have played all before the other began
    assert all(gone(process) for process in workers)
    assert acknowledged <= set(world.seeds())
    assert len(set(world.seeds())) == len(world.seeds())
    world.collect([world.job(seed) for seed in range(32)])
    assert sorted(world.seeds()) == list(range(32))

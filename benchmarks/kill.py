"""kill -9 at random moments of a running two-worker collection: is a finished episode ever lost or there twice?

    python benchmarks/kill.py [--quick] [--kills N] [--seed N] [--json PATH]

Linux only (it looks for the workers in /proc). A collection of Apothecary episodes runs in a process group of its own.
At a random moment either one worker, or the collecting process, or the whole group gets SIGKILL; three of four moments
are counted from the first new episode, the others from the start (imports, opening, repair). The collecting process
writes the key of every episode that it has been told is in the store into a log of its own, one unbuffered write each:
what stands there was finished. After each kill the store is read as it lies, then collected on. When a store is
complete it is checked against a collection that nobody disturbed, and the next one begins.

Printed and written: kills by victim, ``while_playing`` (kills after new episodes were in the store), episodes
acknowledged, ``lost`` (acknowledged, not in the store), ``twice`` (in the store more than once), torn tails, stores
completed, ``wrong`` (complete stores whose records differ from the undisturbed ones).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rir_gym.cli.request import Request, config_of, jobs_of
from rir_gym.data import ReadReport, read_episodes
from rir_gym.data.collect import Progress, collect
from rir_gym.data.keys import canonical, key_of
from rir_gym.data.store import open_store
from rir_gym.data.survey import survey

WORKERS = 2
VICTIMS = ("worker", "parent", "group")


def request(episodes: int, first: int) -> Request:
    """What is collected."""
    return Request("rir_gym/Apothecary-v0", "rir", agent="scripted", episodes=episodes, seed=first)


def fill(folder: Path, log: Path, wanted: Request, *, workers: int) -> None:
    """Collect, and acknowledge each episode in the log after it is in the store."""
    acknowledged = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def notify(progress: Progress) -> None:
        os.write(acknowledged, canonical(list(progress.key)).encode() + b"\n")

    with open_store(folder, config_of(wanted)) as store:
        collect(store, jobs_of(wanted), workers=workers, notify=notify)
    os.close(acknowledged)


@dataclass
class Result:
    """All counts of a run."""

    kills: Counter[str] = field(default_factory=Counter)
    while_playing: int = 0
    acknowledged: int = 0
    lost: int = 0
    twice: int = 0
    torn: int = 0
    stores: int = 0
    wrong: int = 0
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def sound(self) -> bool:
        """Nothing lost, nothing twice, every store complete and right."""
        return not (self.lost or self.twice or self.wrong or self.failed)


def kill_one(folder: Path, log: Path, wanted: Request, rng: random.Random, longest_s: float) -> tuple[str, str]:
    """Start a collection, kill at a random moment: what was killed ("" where all was over before), and what it said."""
    command = [sys.executable, __file__, "--fill", str(folder), str(log), str(wanted.episodes), str(wanted.seed)]
    waits = rng.random() < 0.75
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen(command, start_new_session=True, stderr=said)
        victim, before = rng.choice(VICTIMS), size_of(log)
        while waits and size_of(log) == before and running.poll() is None:
            time.sleep(0.001)
        moment = time.monotonic() + rng.uniform(0, longest_s)
        while running.poll() is None and time.monotonic() < moment:
            time.sleep(0.001)
        if running.poll() is not None:
            victim = ""
        elif victim == "group":
            os.killpg(running.pid, signal.SIGKILL)
        elif victim == "parent":
            running.kill()
        else:
            workers = children(running.pid)
            while not workers and running.poll() is None:
                time.sleep(0.001)
                workers = children(running.pid)
            with contextlib.suppress(ProcessLookupError):
                if workers:
                    os.kill(rng.choice(workers), signal.SIGKILL)
            time.sleep(rng.uniform(0, longest_s))  # let it go on with a new worker, then end it too
            running.kill()
        code = running.wait()
        said.seek(0)
        return victim, said.read() if code not in (0, -signal.SIGKILL) else ""


def size_of(log: Path) -> int:
    """Bytes of the log; 0 where there is none yet."""
    return log.stat().st_size if log.exists() else 0


def children(parent: int) -> list[int]:
    """The worker processes of a collecting process."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent and b"spawn_main" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
    return found


def look(folder: Path, log: Path, result: Result) -> None:
    """Compare a store, as it lies, with the log."""
    report, stored = ReadReport(), Counter[str]()
    with contextlib.suppress(ValueError):  # killed before there was a record
        for record in read_episodes(folder, errors="skip", report=report):
            stored[canonical(list(key_of(record)))] += 1
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    acknowledged = {line.strip() for line in lines if line.endswith("\n")}
    result.lost += len(acknowledged - set(stored))
    result.twice += sum(count > 1 for count in stored.values())
    result.torn += len(report.bad)


def measure(kills: int, episodes: int, seed: int, longest_s: float) -> Result:
    """So many kills, over as many stores as it takes."""
    rng, result, started = random.Random(seed), Result(), time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        while sum(result.kills.values()) < kills:
            name = f"{result.stores}"
            folder, log = Path(place) / name, Path(place) / f"{name}.log"
            wanted = request(episodes, 1000 * result.stores)
            fill(Path(place) / f"{name}.calm", Path(place) / f"{name}.calm.log", wanted, workers=0)
            over = False
            while not over and sum(result.kills.values()) < kills:
                before = size_of(log)
                victim, said = kill_one(folder, log, wanted, rng, longest_s)
                look(folder, log, result)
                result.while_playing += bool(victim) and size_of(log) > before
                over = not victim and not said
                result.kills.update([victim] if victim else [])
                result.failed += [said[-300:]] if said else []
            fill(folder, log, wanted, workers=WORKERS)
            look(folder, log, result)
            done, calm = survey(folder), survey(Path(place) / f"{name}.calm")
            result.wrong += not (done.sound and done.episodes == episodes)
            result.wrong += done.records_sha256 != calm.records_sha256
            result.acknowledged += len(set(log.read_text().splitlines()))
            result.stores += 1
    result.seconds = round(time.perf_counter() - started, 1)
    return result


def main() -> None:
    """Measure, print, and write JSON where asked; exit code 1 where anything was lost, twice or wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20 kills instead of 200")
    parser.add_argument("--kills", type=int, help="how many")
    parser.add_argument("--episodes", type=int, default=400, help="of one store")
    parser.add_argument("--longest", type=float, default=0.8, help="seconds before a kill, at most")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and victims")
    parser.add_argument("--json", type=Path, help="write the counts there")
    parser.add_argument("--fill", nargs=4, metavar=("FOLDER", "LOG", "EPISODES", "FIRST"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fill:
        folder, log, episodes, first = given.fill
        fill(Path(folder), Path(log), request(int(episodes), int(first)), workers=WORKERS)
        return
    kills = given.kills or (20 if given.quick else 200)
    result = measure(kills, given.episodes, given.seed, given.longest)
    row: dict[str, Any] = {**asdict(result), "kills": dict(result.kills), "sound": result.sound}
    for name, value in row.items():
        print(f"{name:>14}  {value}")
    if given.json:
        given.json.write_text(json.dumps(row, indent=1) + "\n")
    sys.exit(0 if result.sound else 1)


if __name__ == "__main__":
    main()

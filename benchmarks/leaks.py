"""Many episodes of forked worlds: does a process, a file descriptor or a temporary file stay behind?

    python benchmarks/leaks.py [--quick] [--episodes N] [--kills N] [--json PATH]

Linux only. First N episodes in one wrapper, each with rollbacks, then ``close``; then, N times, a process of its own
that plays forked worlds and gets SIGKILL at a random moment. Counted after each part: processes that descend from the
one that asked and still live, descriptors more than before, files in the temporary folder (the world makes one for each
instance, and removes it when it is closed). All three must be 0; exit status 1 where they are not.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

from rir_gym import RollbackWrapper


class Leaving(gym.Env[int, int]):
    """A counter with a temporary file."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Discrete(1000)

    def __init__(self) -> None:
        descriptor, self.place = tempfile.mkstemp(prefix="rir_leaving")
        os.close(descriptor)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = int(self.np_random.integers(1000))
        return self.x, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.x = (self.x * 3 + int(action)) % 997
        return self.x, 0.0, False, False, {}

    def close(self) -> None:
        Path(self.place).unlink(missing_ok=True)


def play(episodes: int, seed: int, told: bool) -> None:
    """So many episodes in one wrapper, each with two rollbacks."""
    rng = random.Random(seed)
    env = RollbackWrapper.from_factory(Leaving, snapshot="fork", keep=6)
    if told:
        print("ready", flush=True)
    for episode in range(episodes):
        env.reset(seed=episode)
        for _ in range(2):
            for _ in range(rng.randrange(1, 6)):
                env.step(rng.randrange(3))
            env.rollback(rng.choice(env.restorable))
    env.close()


def parents() -> dict[int, int]:
    """The parent of each process that is no zombie."""
    found = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = place.read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                found[int(place.parent.name)] = int(fields[1])
    return found


def descendants(of: int) -> set[int]:
    """All that descend from a process."""
    known, found, last = parents(), {of}, set[int]()
    while found != last:
        last = set(found)
        found |= {pid for pid, parent in known.items() if parent in found}
    return found - {of}


def gone_within(pids: set[int], seconds: float) -> set[int]:
    """Those that still live after at most so long."""
    end = time.monotonic() + seconds
    while (left := pids & parents().keys()) and time.monotonic() < end:
        time.sleep(0.01)
    return left


def kill_one(folder: str, seed: int) -> tuple[int, int]:
    """Play in a process of its own, kill it: how many processes it had, and how many of them stay."""
    rng = random.Random(seed)
    command = [sys.executable, __file__, "--play", str(seed)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": folder}, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        parent.stdout.readline()
        time.sleep(rng.uniform(0, 0.5))
        before = descendants(parent.pid)
        parent.kill()
        parent.wait()
    return len(before), len(gone_within(before, 20))


def measure(episodes: int, kills: int, seed: int) -> dict[str, Any]:
    """All counts."""
    row: dict[str, Any] = {"episodes": episodes, "kills": kills}
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        gc.collect()
        descriptors, began = len(os.listdir("/proc/self/fd")), time.perf_counter()
        play(episodes, seed, False)
        row["seconds"] = round(time.perf_counter() - began, 1)
        row["processes"] = len(gone_within(descendants(os.getpid()), 5))
        row["descriptors"] = len(os.listdir("/proc/self/fd")) - descriptors
        row["files"] = len(os.listdir(folder))
        ended = [kill_one(folder, seed + number) for number in range(kills)]
        row["processes_killed_with"] = sum(had for had, _ in ended)
        row["processes_after_kills"] = sum(stay for _, stay in ended)
        row["files_after_kills"] = len(os.listdir(folder)) - row["files"]
        del os.environ["TMPDIR"]
        tempfile.tempdir = None
    row["sound"] = not any(row[name] for name in row if name.startswith(("processes_after", "files", "descriptors")))
    row["sound"] = row["sound"] and not row["processes"]
    return row


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="30 episodes and 3 kills")
    parser.add_argument("--episodes", type=int, help="of the first part; 1000 if not quick")
    parser.add_argument("--kills", type=int, help="of the second part; 20 if not quick")
    parser.add_argument("--seed", type=int, default=0, help="of lengths, rollbacks and moments")
    parser.add_argument("--json", type=Path, help="write the counts there")
    parser.add_argument("--play", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play is not None:
        play(10**6, given.play, True)
        return
    episodes = given.episodes if given.episodes is not None else (30 if given.quick else 1000)
    kills = given.kills if given.kills is not None else (3 if given.quick else 20)
    row = measure(episodes, kills, given.seed)
    for name, value in row.items():
        print(f"{name:>22}  {value}")
    if given.json:
        given.json.write_text(json.dumps(row, indent=1) + "\n")
    sys.exit(0 if row["sound"] else 1)


if __name__ == "__main__":
    main()

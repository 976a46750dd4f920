"""Working directories: what a checkpoint of one costs against a full copy, and is what comes back what was there?

    python benchmarks/files.py [--quick] [--seed N] [--place FOLDER] [--json PATH]

Cost: a directory of 2,000 files and 200 MB; each step writes 1,000 bytes into three of them. Full copies
(``shutil.copytree``) and steps take turns, and after some steps the directory is put back by one step, and to the
start. Medians by the clock and of the processor (``_cpu``: what a machine that is busy with other things leaves of
the difference); ``copy_over_checkpoint`` is the ratio of time, ``bytes_ratio`` that of bytes, ``met`` whether both are
at least 50. "first" is the first checkpoint, which has to keep everything; "look" is the status of each file alone,
which no checkpoint can do without. Exactness: 1,000 random edits (writes,
same-size rewrites with the old time, truncations, moves, deletions, modes, times, links, folders) for each seed, a
checkpoint after some, and random restores; every restore is compared with an independent look at everything. --quick:
a tenth of the bytes, fewer steps and seeds. ``--place``: where, if not where temporary files go.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from directory_edits import edit, look

from rir_gym.snapshot.files.workdirs import Trees, Workdirs

FILES, FOLDERS, CHANGED, TARGET = 2000, 40, 3, 50
BYTES, STEPS, SEEDS, EDITS = (20_000_000, 200_000_000), (10, 40), (2, 20), 1000


class Time(NamedTuple):
    """Of one call, in seconds: by the clock, and of the processor for this process, system calls included."""

    clock: float
    cpu: float


def timed(act: Callable[[], Any]) -> Time:
    """How long one call takes."""
    started, cpu = time.perf_counter(), time.process_time()
    act()
    return Time(time.perf_counter() - started, time.process_time() - cpu)


def put(workdirs: Workdirs, trees: Trees) -> None:
    """A restore alone."""
    with workdirs.put(trees):
        pass


def cost(place: str, total: int, steps: int, seed: int) -> dict[str, Any]:
    """Times in milliseconds and bytes."""
    rng, root, copied = random.Random(seed), os.path.join(place, "world"), os.path.join(place, "copy")
    paths = [os.path.join(root, str(number % FOLDERS), f"{number}.bin") for number in range(FILES)]
    for folder in range(FOLDERS):
        os.makedirs(os.path.join(root, str(folder)))
    for path in paths:
        Path(path).write_bytes(rng.randbytes(total // FILES))
    workdirs, kept = Workdirs(), list[Trees]()
    names = ("copy", "look", "checkpoint", "restore", "restore to the start")
    times: dict[str, list[Time]] = {name: [] for name in names}
    first = timed(lambda: kept.append(workdirs.save([root])[0]))
    stored = [workdirs.blobs.bytes_held]
    for step in range(steps):
        if step % 4 == 0:
            times["copy"].append(timed(lambda: shutil.copytree(root, copied, symlinks=True)))
            shutil.rmtree(copied)
        for path in rng.sample(paths, CHANGED):
            with open(path, "r+b") as file:
                file.write(rng.randbytes(1000))
        times["look"].append(timed(lambda: [os.lstat(path) for path in paths]))
        times["checkpoint"].append(timed(lambda: kept.append(workdirs.save([root])[0])))
        stored.append(workdirs.blobs.bytes_held)
        if step % 5 == 4:
            times["restore"].append(timed(lambda: put(workdirs, kept[-2])))
        if step % 10 == 9:
            times["restore to the start"].append(timed(lambda: put(workdirs, kept[0])))
    workdirs.close()
    shutil.rmtree(root)
    clock = {name: statistics.median(value.clock for value in values) for name, values in times.items()}
    cpu = {name: statistics.median(value.cpu for value in values) for name, values in times.items()}
    each = statistics.median(after - before for before, after in pairwise(stored))
    ratio = clock["copy"] / clock["checkpoint"]
    return {
        "files": FILES,
        "bytes": total,
        "first_ms": round(1000 * first.clock, 2),
        **{f"{name}_ms": round(1000 * value, 2) for name, value in clock.items()},
        **{f"{name}_cpu_ms": round(1000 * value, 2) for name, value in cpu.items()},
        "checkpoint_bytes": each,
        "copy_over_checkpoint": round(ratio, 1),
        "copy_over_checkpoint_cpu": round(cpu["copy"] / cpu["checkpoint"], 1),
        "bytes_ratio": round(total / each, 1),
        "met": ratio >= TARGET and total / each >= TARGET,
    }


def exactness(place: str, edits: int, seed: int) -> dict[str, Any]:
    """Counts; ``wrong`` restores are those after which anything differs."""
    rng, root = random.Random(seed), os.path.join(place, "edited")
    os.mkdir(root)
    workdirs, kept, done, restores, wrong = Workdirs(), list[tuple[Trees, Any]](), Counter[str](), 0, 0
    while sum(done.values()) < edits:
        done.update(filter(None, [edit(root, rng)]))
        if rng.random() < 0.3:
            kept.append((workdirs.save([root])[0], look(root)))
        if kept and rng.random() < 0.15:
            trees, expected = rng.choice(kept)
            put(workdirs, trees)
            restores, wrong = restores + 1, wrong + (look(root) != expected)
    left = sum(file.stat().st_size for file in Path(workdirs.blobs.folder).iterdir())
    workdirs.close()
    shutil.rmtree(root)
    return {"seed": seed, "edits": dict(done), "checkpoints": len(kept), "bytes": left, "restores": restores} | {
        "wrong": wrong
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write JSON where asked; 1 where a restore was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the bytes, fewer steps and seeds")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--place", type=Path, help="a folder on the file system to be measured")
    parser.add_argument("--json", type=Path, help="write the figures there")
    asked = parser.parse_args(argv)
    full = not asked.quick
    with tempfile.TemporaryDirectory(dir=asked.place) as place:
        costs = cost(place, BYTES[full], STEPS[full], asked.seed)
        runs = [exactness(place, EDITS, asked.seed + number) for number in range(SEEDS[full])]
    for name, value in costs.items():
        print(f"{name:>24}  {value}")
    edits = sum((Counter(run["edits"]) for run in runs), Counter[str]())
    total = {name: sum(run[name] for run in runs) for name in ("checkpoints", "restores", "wrong")}
    print(f"{'edits':>24}  {sum(edits.values())}: {dict(edits.most_common())}")
    for name, count in total.items():
        print(f"{name:>24}  {count}")
    if asked.json:
        asked.json.write_text(json.dumps({"cost": costs, "exactness": runs, "quick": asked.quick}, indent=1) + "\n")
    return int(total["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())

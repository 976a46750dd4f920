"""Collecting Apothecary episodes: how fast with 1 and 2 workers, whether the data are the same, how large, how read.

    python benchmarks/collect.py [--quick] [--json PATH]

Rows of ``collect``: workers, episodes_per_s (wall clock, start of the processes left out), cpu_s (user and system time
of the processes), records_sha256. ``speedup`` is 2 workers over 1; ``same`` says that 1, 2 and 4 workers gave the same
records. ``per_1000``: MB and seconds of collecting (1 worker), checking and reading, plain and with zstd.
``reading``: the most memory that reading took, by tracemalloc, over the first tenth and over all of the records.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

from rir_gym.cli.request import Request, config_of, jobs_of
from rir_gym.data import read_episodes
from rir_gym.data.collect import Progress, collect
from rir_gym.data.store import open_store
from rir_gym.data.survey import survey


def request(episodes: int) -> Request:
    """What is collected."""
    return Request("rir_gym/Apothecary-v0", "rir", agent="scripted", episodes=episodes)


def fill(folder: Path, episodes: int, workers: int, *, compression: str = "none") -> tuple[float, float]:
    """Collect into a new store: episodes/s after the first tenth is there, and CPU seconds of all processes."""
    marks: list[float] = []

    def notify(progress: Progress) -> None:
        marks.append(time.perf_counter())

    before = os.times()
    wanted = request(episodes)
    with open_store(folder, config_of(wanted), compression=compression) as store:  # type: ignore[arg-type]
        collect(store, jobs_of(wanted), workers=workers, notify=notify)
    after = os.times()
    first = episodes // 10
    return (episodes - first - 1) / (marks[-1] - marks[first]), sum(after[:4]) - sum(before[:4])


def timed(work: Any) -> float:
    """Seconds that a call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def drain(folder: Path, *, most: int | None = None) -> int:
    """Read records and keep none."""
    return sum(1 for _ in islice(read_episodes(folder), most))


def peak_mb(folder: Path, most: int) -> float:
    """The most memory that reading so many records takes, in MB."""
    tracemalloc.start()
    drain(folder, most=most)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return round(peak / 1e6, 3)


def measure(episodes: int, read: int, rounds: int) -> dict[str, Any]:
    """All figures."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for round_ in range(rounds):  # in turns, so that the machine's other load falls on all of them
            for workers in (1, 2, 4):
                folder = place / f"{workers}-{round_}"
                rate, cpu_s = fill(folder, episodes, workers)
                found = survey(folder)
                rows.append(
                    {
                        "workers": workers,
                        "episodes_per_s": round(rate, 1),
                        "cpu_s": round(cpu_s, 2),
                        "records_sha256": found.records_sha256,
                    }
                )
        best = {n: max(row["episodes_per_s"] for row in rows if row["workers"] == n) for n in (1, 2, 4)}
        sizes: list[dict[str, Any]] = []
        for compression in ("none", "zstd"):
            folder = place / compression
            seconds = timed(lambda: fill(folder, read, 1, compression=compression))  # noqa: B023
            size = sum(file.stat().st_size for file in folder.glob("episodes*"))
            sizes.append(
                {
                    "compression": compression,
                    "mb_per_1000": round(size / 1e3 / read, 2),
                    "collect_s_per_1000": round(1000 * seconds / read, 2),
                    "check_s_per_1000": round(1000 * timed(lambda: survey(folder)) / read, 2),  # noqa: B023
                    "read_s_per_1000": round(1000 * timed(lambda: drain(folder)) / read, 2),  # noqa: B023
                }
            )
        reading = [
            {"compression": name, "episodes": most, "peak_mb": peak_mb(place / name, most)}
            for name in ("none", "zstd")
            for most in (read // 10, read)
        ]
    return {
        "cpus": os.cpu_count(),
        "load": [round(value, 1) for value in os.getloadavg()],
        "collect": rows,
        "speedup": round(best[2] / best[1], 2),
        "same": len({row["records_sha256"] for row in rows}) == 1,
        "per_1000": sizes,
        "reading": reading,
    }


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer episodes")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    figures = measure(300, 600, 1) if given.quick else measure(2000, 10_000, 3)
    for name, value in figures.items():
        rows = value if isinstance(value, list) and value and isinstance(value[0], dict) else [value]
        for row in rows:
            print(f"{name:>9}  {row}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()

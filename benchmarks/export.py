"""Exporting Apothecary episodes: megabytes and seconds per 1,000 of them, and the most memory that reading takes.

    python benchmarks/export.py [--quick] [--json PATH]

Collects the episodes (10,000; 200 with --quick) with two workers, checks them, and exports them to ``sft``, ``dpo`` and
``parquet``. ``collect`` and ``check`` are seconds per 1,000; a row of ``exports`` has MB and seconds per 1,000, rows,
and ``peak_rss_mb``, the most memory of a process that did nothing but this export (imports included). ``reading``: the
most memory that reading took, by tracemalloc, over the first tenth and over all of the records.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

from rir_gym.cli.request import Request, config_of, jobs_of
from rir_gym.data import read_episodes
from rir_gym.data.collect import collect
from rir_gym.data.store import open_store
from rir_gym.data.survey import survey

FORMATS = ("sft", "dpo", "parquet")

_EXPORT = """
import json, resource, sys, time
from rir_gym.cli.export import Wanted, plan_of
from rir_gym.data.exports import export
started = time.perf_counter()
report = export(sys.argv[1], sys.argv[2], sys.argv[3], plan_of(Wanted(sys.argv[1], split_by="task")))
seconds = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
print(json.dumps({**report.to_json(), "seconds": seconds, "peak_rss_mb": peak}))
"""


def fill(folder: Path, episodes: int) -> float:
    """Collect; seconds."""
    started = time.perf_counter()
    wanted = Request("rir_gym/Apothecary-v0", "rir", agent="scripted", episodes=episodes)
    with open_store(folder, config_of(wanted)) as store:
        collect(store, jobs_of(wanted), workers=2)
    return time.perf_counter() - started


def exported(format: str, data: Path, out: Path, episodes: int) -> dict[str, Any]:
    """One export in a process of its own."""
    command = [sys.executable, "-c", _EXPORT, format, str(data), str(out)]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return {
        "format": format,
        "mb_per_1000": round(said["bytes"] / 1e3 / episodes, 2),
        "s_per_1000": round(1000 * said["seconds"] / episodes, 2),
        "rows": said["rows"],
        "left_out": said["left_out"],
        "peak_rss_mb": round(said["peak_rss_mb"], 1),
    }


def peak_mb(folder: Path, most: int) -> float:
    """The most memory that reading so many records takes, in MB."""
    tracemalloc.start()
    for _ in islice(read_episodes(folder), most):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return round(peak / 1e6, 3)


def measure(episodes: int) -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        data = place / "data"
        collected = fill(data, episodes)
        started = time.perf_counter()
        found = survey(data)
        checked = time.perf_counter() - started
        return {
            "cpus": os.cpu_count(),
            "load": [round(value, 1) for value in os.getloadavg()],
            "episodes": found.episodes,
            "sound": found.sound,
            "data_mb_per_1000": round(found.bytes / 1e3 / episodes, 2),
            "collect_s_per_1000": round(1000 * collected / episodes, 2),
            "check_s_per_1000": round(1000 * checked / episodes, 2),
            "exports": [exported(format, data, place / format, episodes) for format in FORMATS],
            "reading": [
                {"episodes": most, "peak_mb": peak_mb(data, most)} for most in (max(episodes // 10, 1), episodes)
            ],
        }


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 episodes")
    parser.add_argument("--episodes", type=int, default=10_000, help="how many")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    figures = measure(200 if given.quick else given.episodes)
    for name, value in figures.items():
        rows = value if isinstance(value, list) and value and isinstance(value[0], dict) else [value]
        for row in rows:
            print(f"{name:>18}  {row}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""The benchmarks of forked worlds and of keyframes run, count what they say, and tell a leak."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rir_gym.snapshot.fork_audit import supported

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


@pytest.mark.skipif(supported() is not None, reason="worlds are forked on Linux only")
def test_nothing_is_left_behind(tmp_path: Path) -> None:
    done = run("leaks.py", "--episodes", "10", "--kills", "3", "--json", str(tmp_path / "leaks.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    row = json.loads((tmp_path / "leaks.json").read_text())
    assert (row["episodes"], row["kills"], row["sound"]) == (10, 3, True)
    assert row["processes_killed_with"] >= 3  # there was something that could have stayed


def test_every_spacing_is_played_on_three_profiles(tmp_path: Path) -> None:
    done = run("keyframes.py", "--quick", "--json", str(tmp_path / "keyframes.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "keyframes.json").read_text())
    assert [row["profile"] for row in rows] == ["dear saves", "dear steps", "both"]
    for row in rows:
        assert set(row["seconds"]) == {"1", "2", "4", "8", "16", "32", "64", "128", "auto"}
        assert all(seconds > 0 for seconds in row["seconds"].values())
        assert row["ratio"] > 0
    assert rows[0]["spacing_at_the_end"] > rows[2]["spacing_at_the_end"] >= rows[1]["spacing_at_the_end"]

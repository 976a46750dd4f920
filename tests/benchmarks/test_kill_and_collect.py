"""The benchmarks of collecting: they run, and the one of kills notices what it is there to notice."""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return lambda name: importlib.import_module(name)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_few_kills_lose_nothing(script: Any) -> None:
    kill = script("kill")
    result = kill.measure(kills=3, episodes=60, seed=1, longest_s=0.3)
    assert sum(result.kills.values()) == 3
    assert result.sound, result
    assert result.acknowledged >= 60


def test_what_is_lost_or_there_twice_is_noticed(script: Any, tmp_path: Path) -> None:
    kill = script("kill")
    store, log = tmp_path / "s", tmp_path / "log"
    kill.fill(store, log, kill.request(6, 0), workers=0)
    result = kill.Result()
    kill.look(store, log, result)
    assert (result.lost, result.twice, result.torn) == (0, 0, 0)
    lines = (store / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (store / "episodes.jsonl").write_bytes(b"".join([*lines[1:], lines[2], lines[0][:-9]]))
    kill.look(store, log, result)
    assert (result.lost, result.twice, result.torn) == (1, 1, 1)
    assert not result.sound
    assert kill.Result(kills=Counter(worker=1)).sound


def test_the_figures_of_collecting(script: Any) -> None:
    pytest.importorskip("zstandard", reason="compressed records need zstandard")
    figures = script("collect").measure(30, 40, 1)
    assert figures["same"]
    assert {row["workers"] for row in figures["collect"]} == {1, 2, 4}
    assert all(row["episodes_per_s"] > 0 and row["cpu_s"] > 0 for row in figures["collect"])
    plain, packed = figures["per_1000"]
    assert packed["mb_per_1000"] < plain["mb_per_1000"]
    json.dumps(figures)

"""The benchmark of exports runs, and its figures are of what it says."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_a_few_episodes_are_collected_checked_and_exported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("datasets", reason="the extra data")
    monkeypatch.syspath_prepend(str(FOLDER))
    export = importlib.import_module("export")
    data = tmp_path / "data"
    assert export.fill(data, 30) > 0
    for format in export.FORMATS:
        row = export.exported(format, data, tmp_path / format, 30)
        assert row["rows"]["train"] > 0
        assert row["mb_per_1000"] > 0
        assert 10 < row["peak_rss_mb"] < 5000
    assert export.peak_mb(data, 30) < 5

"""The benchmark of working directories: what it writes, and that it notices a wrong restore."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def files() -> Iterator[Any]:
    """The script, made small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        script = importlib.import_module("files")
        patch.setattr(script, "FILES", 60)
        patch.setattr(script, "BYTES", (60_000, 60_000))
        patch.setattr(script, "EDITS", 60)
        yield script


def test_what_is_written(files: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "place"
    place.mkdir()
    assert files.main(["--quick", "--place", str(place), "--json", str(tmp_path / "out.json")]) == 0
    written = json.loads((tmp_path / "out.json").read_text())
    assert list(place.iterdir()) == []
    cost = written["cost"]
    assert (cost["files"], cost["bytes"], cost["checkpoint_bytes"]) == (60, 60_000, 3_000)
    assert min(cost[name] for name in cost if name.endswith("_ms") and "cpu" not in name) > 0
    assert cost["bytes_ratio"] == 20
    for run in written["exactness"]:
        assert sum(run["edits"].values()) == 60
        assert (run["restores"] > 0, run["wrong"]) == (True, 0)
    assert "copy_over_checkpoint" in capsys.readouterr().out


def test_a_wrong_restore_is_counted(files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, number = files.put, itertools.count(1)

    def careless(workdirs: Any, trees: Any) -> None:
        real(workdirs, trees)
        os.utime(next(iter(trees)), ns=(1, next(number)))

    monkeypatch.setattr(files, "put", careless)
    run = files.exactness(str(tmp_path), 60, 0)
    assert run["wrong"] == run["restores"] > 0
    assert files.main(["--quick", "--place", str(tmp_path)]) == 1


def test_every_kind_of_edit_is_made_and_seen(files: Any, tmp_path: Path) -> None:
    edits = importlib.import_module("directory_edits")
    rng, done = random.Random(0), set[str]()
    for _ in range(400):
        before = edits.look(str(tmp_path))
        name = edits.edit(str(tmp_path), rng)
        if name is not None:
            done.add(name)
            assert name in ("chmod", "truncate", "same size", "move") or edits.look(str(tmp_path)) != before, name
    assert done == set(edits.EDITS)

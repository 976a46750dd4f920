"""The benchmark of the viewer runs, and its rows say what they are for."""

import json
import runpy
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "viewer.py"


def test_the_quick_run_measures_an_episode_and_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--quick", "--json", str(tmp_path / "rows.json")])
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    one, run = json.loads((tmp_path / "rows.json").read_text())
    assert one["nodes"] > 100
    assert min(one[name] for name in ("mb", "open_ms", "move_ms", "search_ms")) > 0
    assert run["nodes"] > 500
    assert "move_ms" not in run
    assert "a run of 20 episodes" in capsys.readouterr().out

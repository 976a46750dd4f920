"""Games and simulators whose state is in C, as anybody would wrap them: exact by some mechanism, or refused."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rir_gym.snapshot.fork_audit import supported

FOLDER = Path(__file__).parents[2] / "benchmarks"
NEEDS = {
    "ALE Breakout": ("ale_py", "the Atari emulator is not installed"),
    "MuJoCo Hopper": ("mujoco", "MuJoCo is not installed"),
    "NLE": ("nle", "NLE is not installed: it needs Gymnasium 1.2.0, so an environment of its own"),
    "jericho": ("jericho", "jericho is not installed"),
    "TextWorld, bare": ("textworld", "TextWorld is not installed"),
}


@pytest.fixture(scope="module")
def fidelity() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        script = importlib.import_module("fidelity")
        patch.setattr(script, "_A_TREE", 4)
        yield script


def test_every_engine_is_in_the_run_of_engines(fidelity: Any) -> None:
    assert set(NEEDS) == set(fidelity.ENGINES)
    full = sum(10 * 12 * len(fidelity.ASKED[name]) for name in fidelity.ENGINES if name != "NLE")
    assert full >= 500  # random-tree restores of ``--engines``, also without NLE


@pytest.mark.timeout(300)
@pytest.mark.skipif(supported() is not None, reason="worlds are forked on Linux only")
@pytest.mark.parametrize("name", NEEDS)
def test_an_engine_in_c_is_exact_by_fork(name: str, fidelity: Any) -> None:
    pytest.importorskip(NEEDS[name][0], reason=NEEDS[name][1])
    env_id, settings = fidelity.ENGINES[name]
    row = fidelity.check(fidelity.maker(env_id, **settings), "fork", 1)
    assert (row["mechanism"], row["restores"], row["wrong"]) == ("fork", 4, 0), row["reason"]


def test_what_is_not_installed_is_left_out_with_its_reason(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    blocked = "import sys; sys.modules['ale_py'] = None; sys.path.insert(0, sys.argv.pop(1)); import fidelity"
    command = [sys.executable, "-c", f"{blocked}; fidelity.main()", str(FOLDER), "--quick", "--json", str(out)]
    subprocess.run([*command, "--environments", "ALE Breakout"], check=True, capture_output=True)
    told = json.loads(out.read_text())
    assert (told["restores"], told["environments"]) == (0, 0)
    assert "ale_py" in told["left_out"][0]

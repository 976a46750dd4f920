"""Every example, run with --quick in another folder; what it prints is what it computed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), "--quick", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_q_learning_learns_to_undo_falls_more_than_anything_else(tmp_path: Path) -> None:
    said = run("frozenlake_qlearning", tmp_path)
    rates = dict(re.findall(r"^(with\w*) rollback +([\d.]+)%", said, re.MULTILINE))
    assert float(rates["with"]) > float(rates["without"]) + 20
    squares = re.findall(r"\b([SFHG])(\d+)\b", said)
    assert len(squares) == 16
    used = [int(count) for _, count in squares]
    assert sum(used) > 0
    assert sum(count for (kind, _), count in zip(squares, used, strict=True) if kind == "H") > 0.5 * sum(used)


def test_offline_collection_goes_on_where_it_ended(tmp_path: Path) -> None:
    first = run("offline_collection", tmp_path, "--out", "walks")
    assert first.startswith("20 episodes played, 20 in walks")
    again = run("offline_collection", tmp_path, "--out", "walks")
    assert again.startswith("0 episodes played, 20 in walks")
    assert first.splitlines()[1:] == again.splitlines()[1:]
    total, kept, left = map(int, re.findall(r"(\d+) (?:transitions|on)", first))
    assert total == kept + left
    assert left > 0


def test_finetuning_data_has_rows_and_pairs(tmp_path: Path) -> None:
    said = run("finetuning_data", tmp_path, "--out", "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"records", "sft", "dpo"}
    rows = [len((tmp_path / "out" / kind / "train.jsonl").read_text().splitlines()) for kind in ("sft", "dpo")]
    assert rows[0] > rows[1] > 0
    assert f"'train': {rows[0]}" in said
    assert f"'train': {rows[1]}" in said


def test_training_lowers_the_loss_on_held_out_tasks(tmp_path: Path) -> None:
    missing = [name for name in ("datasets", "transformers", "trl") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"the extra test: {', '.join(missing)} not installed")
    said = run("trl_sft", tmp_path, "--out", "out")
    found = re.search(r"([\d.]+) before, ([\d.]+) after", said)
    assert found is not None, said
    assert float(found[2]) < float(found[1])
    assert (tmp_path / "out" / "model" / "model.safetensors").is_file()


def test_no_example_is_left_out() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [file.stem for file in sorted(EXAMPLES.glob("*.py")) if f'run("{file.stem}"' not in source] == []

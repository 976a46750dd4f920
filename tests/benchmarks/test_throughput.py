"""The benchmark of throughput: three variants an id, over the same steps, and ids that cannot be made."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rir_gym.ids import IDS

FOLDER = Path(__file__).parents[2] / "benchmarks"
APOTHECARY = "rir_gym/Apothecary-v0"


@pytest.fixture(scope="module")
def throughput() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("throughput")


def test_rows_are_three_an_id_relative_to_the_bare_one(
    throughput: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throughput, "ROUNDS", (1, 1))
    throughput.main(["--quick", "--ids", APOTHECARY, "FrozenLake-v1", "--json", str(tmp_path / "rows.json")])
    written = json.loads((tmp_path / "rows.json").read_text())
    assert written["left_out"] == {}
    assert [(row["id"], row["variant"], row["snapshot"]) for row in written["rows"]] == [
        *((APOTHECARY, "bare", None), (APOTHECARY, "wrapped", None), (APOTHECARY, "checkpoints", "native")),
        *(
            ("FrozenLake-v1", "bare", None),
            ("FrozenLake-v1", "wrapped", None),
            ("FrozenLake-v1", "checkpoints", "heap"),
        ),
    ]
    assert all(row["steps_per_s"] > 0 and row["times_bare"] > 0 for row in written["rows"])
    assert all(row["times_bare"] == 1.0 for row in written["rows"] if row["variant"] == "bare")


@pytest.mark.parametrize("env_id", [APOTHECARY, "FrozenLake-v1"])
def test_all_variants_take_the_same_steps_and_only_the_last_saves(throughput: Any, env_id: str) -> None:
    envs, _ = throughput.variants(env_id)
    taken: dict[str, list[Any]] = {}
    for name, env in envs.items():
        throughput.play(Recorder(env, taken.setdefault(name, [])), 3, 25)
    assert taken["bare"] == taken["wrapped"] == taken["checkpoints"]
    assert len(taken["bare"]) == 25
    assert envs["wrapped"].checkpoint_bytes == 0
    assert len(envs["checkpoints"].checkpoints) == len(envs["checkpoints"].nodes) - 1


class Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Notes the actions."""

    def __init__(self, env: gym.Env[Any, Any], taken: list[Any]) -> None:
        super().__init__(env)
        self.taken = taken

    def step(self, action: Any) -> Any:
        self.taken.append(action)
        return super().step(action)


def test_every_id_is_measured_and_what_cannot_be_made_is_named(
    throughput: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {known.id for known in IDS} < set(throughput.KNOWN)
    monkeypatch.setattr(throughput, "seeded_arguments", lambda *_: {"stores": 99})
    throughput.main(["--quick", "--ids", APOTHECARY, "--json", str(tmp_path / "rows.json")])
    written = json.loads((tmp_path / "rows.json").read_text())
    assert (written["rows"], written["left_out"]) == ([], {APOTHECARY: "stores=99: an int from 1 to 12"})

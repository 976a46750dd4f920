"""The benchmark of gold plans: a slice of it, its rows, and that it notices a plan that does not succeed."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rir_gym.errors import RirError
from rir_gym.ids import IDS

FOLDER = Path(__file__).parents[2] / "benchmarks"
SLICE = {"rir_gym/Apothecary-v0": 10}


@pytest.fixture(scope="module")
def gold() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("gold")


@pytest.mark.parametrize("env_id", [known.id for known in IDS if known.oracle])
def test_plans_of_the_oracle_succeed(gold: Any, env_id: str) -> None:
    kinds = gold.GAMES.get(env_id, gold.Games()).kinds
    try:
        played = [gold.play(env_id, kinds[seed % len(kinds)], seed) for seed in range(SLICE.get(env_id, 2))]
    except (RirError, gym.error.Error) as error:
        pytest.skip(f"{env_id} cannot be made here: {error}")
    row = gold.row(env_id, played)
    assert row["solved"] == row["games"] == len(played)
    assert 0 < row["gold_min"] <= row["gold_median"] <= row["gold_max"]


def test_every_id_with_games_of_its_own_is_one_with_an_oracle(gold: Any) -> None:
    assert gold.GAMES["rir_gym/Apothecary-v0"].count == (10, 200)
    assert gold.GAMES["rir_gym/ALFWorldStyle-v0"].count[1] == 60
    known = {each.id for each in IDS}
    assert all(each.oracle for each in IDS if each.id in gold.GAMES), known


def test_rows_are_written_and_kinds_share_the_games(
    gold: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    env_id = "rir_gym/Apothecary-v0"
    monkeypatch.setitem(gold.GAMES, env_id, gold.Games((5, 9), [{"spare": 0.0}, {"stores": 2}]))
    assert gold.main(["--quick", "--ids", env_id, "--json", str(tmp_path / "rows.json")]) == 0
    written = json.loads((tmp_path / "rows.json").read_text())
    [row] = written["rows"]
    assert (row["id"], row["games"], row["solved"], written["left_out"]) == (env_id, 5, 5, {})
    assert "games=5  solved=5" in capsys.readouterr().out


def test_a_plan_that_does_not_succeed_is_noticed(gold: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from rir_envs import apothecary_plan

    right = apothecary_plan.plan
    monkeypatch.setattr(apothecary_plan, "plan", lambda *world: (right(*world) or [])[:-1])
    assert gold.main(["--quick", "--ids", "rir_gym/Apothecary-v0"]) == 1
    monkeypatch.setattr(apothecary_plan, "plan", lambda *world: None)
    assert gold.row("x", [gold.play("rir_gym/Apothecary-v0", {}, 0)]) == {
        **{"id": "x", "games": 1, "solved": 0, "gold_min": None, "gold_median": None, "gold_max": None},
    }


def test_what_cannot_be_made_is_left_out_with_its_reason(
    gold: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env_id = "rir_gym/Apothecary-v0"
    monkeypatch.setitem(gold.GAMES, env_id, gold.Games((1, 1), [{"stores": 99}]))
    assert gold.main(["--ids", env_id, "--json", str(tmp_path / "rows.json")]) == 0
    written = json.loads((tmp_path / "rows.json").read_text())
    assert written["rows"] == []
    assert "stores=99" in written["left_out"][env_id]

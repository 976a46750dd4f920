"""The check of oracles: it agrees with exact ones, and notices each way of being wrong."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rir_gym import Unicode

FOLDER = Path(__file__).parents[2] / "benchmarks"
TEXTWORLD = tuple(f"rir_gym/TextWorld-{name}-v0" for name in ("Simple", "CoinCollector", "TreasureHunter", "Cooking"))


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("oracle_check")


class Pit(gym.Env[str, str]):
    """A corridor of five places; the goal is at its end, a fall is for good and the episode goes on."""

    def __init__(self, said: Callable[[int | None, int], bool | None], plan_to: int = 4) -> None:
        self.action_space = self.observation_space = Unicode()
        self.said, self.plan_to, self.place, self.fallen = said, plan_to, 0, False
        self.oracle = self

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.fallen = 0, False
        return "", self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not self.fallen:
            self.fallen = action == "jump"
            self.place = max(0, self.place + {"on": 1, "back": -1}.get(action, 0))
        return f"{self.place} {self.fallen}", 0.0, self.place == 4, False, self._info()

    def distance(self) -> float | None:
        return float("inf") if self.fallen else float(4 - self.place)

    def best_action(self) -> str | None:
        return None if self.fallen else "on"

    def plan(self) -> Sequence[str] | None:
        return None if self.fallen else ("on",) * (self.plan_to - self.place)

    def recoverable(self, within: int) -> bool | None:
        return self.said(None if self.fallen else 4 - self.place, within)

    def progress(self) -> float | None:
        return self.place / 4

    def _info(self) -> dict[str, Any]:
        listed = ["back", "jump", "on"]
        return {"admissible": listed, "oracle": {"success": self.place == 4, "failed": False, "score": 0.0}}


def exact(distance: int | None, within: int) -> bool | None:
    return distance is not None and distance <= within


LIARS: dict[str, tuple[Callable[[int | None, int], bool | None], int, str]] = {
    "hopeful": (lambda distance, within: True, 4, "false_recoverable"),
    "too quick": (lambda distance, within: distance is not None and distance <= within + 1, 4, "false_recoverable"),
    "a plan too short": (exact, 3, "false_recoverable"),
    "gloomy": (lambda distance, within: False, 4, "false_lost"),
    "near is far": (lambda distance, within: bool(exact(distance, within) and within > 2), 4, "false_lost"),
    "silent": (lambda distance, within: None, 4, "unknown"),
}


@pytest.fixture
def row(script: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    def checked(*arguments: Any) -> dict[str, Any]:
        monkeypatch.setattr(gym, "make", lambda _: Pit(*arguments))
        return dict(script.check("pit", ({}, {}), states=40))

    return checked


def test_an_exact_oracle_agrees_everywhere(row: Callable[..., dict[str, Any]]) -> None:
    seen = row(exact)
    assert (seen["states"], seen["agreed"]) == (40, 40)
    assert 0 < seen["lost"] < 40


@pytest.mark.parametrize("name", sorted(LIARS))
def test_every_way_of_being_wrong_is_noticed(name: str, row: Callable[..., dict[str, Any]]) -> None:
    said, plan_to, verdict = LIARS[name]
    seen = row(said, plan_to)
    assert seen[verdict] > 0
    assert seen["states"] == 40 == sum(seen[each] for each in ("agreed", "false_recoverable", "false_lost", "unknown"))


def test_apothecary_is_exact_and_the_script_writes_its_rows(script: Any, tmp_path: Path) -> None:
    place = tmp_path / "rows.json"
    assert script.main(["--quick", "--json", str(place), "--only", "rir_gym/Apothecary-v0"]) == 0
    (seen,) = json.loads(place.read_text())
    assert (seen["id"], seen["states"], seen["agreed"]) == ("rir_gym/Apothecary-v0", 12, 12)


@pytest.mark.skipif(find_spec("textworld") is None, reason="needs the extra 'textworld'")
@pytest.mark.parametrize("env_id", TEXTWORLD)
def test_textworld_says_nothing_false(
    env_id: str, script: Any, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.getbasetemp() / "textworld-games"  # every test file of a run uses the same
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("RIR_GYM_CACHE", str(folder))
    seen = script.check(env_id, ({"game_seed": 0},), states=5)
    assert (seen["states"], seen["false_recoverable"], seen["false_lost"]) == (5, 0, 0)

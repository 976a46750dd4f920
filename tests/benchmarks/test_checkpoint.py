"""The benchmarks of checkpoints: their worlds, what they write, and that they notice what is wrong."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from rir_gym import NotRestorable, RollbackWrapper
from rir_gym.snapshot.fork_audit import supported
from rir_gym.testing import check_restore

FOLDER = Path(__file__).parents[2] / "benchmarks"
FIELDS = {"world", "mechanism", "save_us", "restore_us", "bytes", "episode_overhead", "faithful", "reason", "step_us"}
WORLDS = {
    "rir_bench/Small-v0": {},
    "rir_bench/Medium-v0": {},
    "rir_bench/Large-v0": {"side": 40, "beings": 60},
    "rir_bench/EzPickle-v0": {},
}


@pytest.fixture(scope="module", autouse=True)
def scripts() -> Iterator[None]:
    """The scripts find each other as they do when one of them is run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        importlib.import_module("worlds").register_worlds()
        yield


def script(name: str) -> Any:
    return importlib.import_module(name)


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def played(env: gym.Env[Any, Any], seed: int, *, steps: int = 40, **reset: Any) -> list[Any]:
    rng = random.Random(0)
    seen: list[Any] = [env.reset(seed=seed, **reset)]
    for _ in range(steps):
        seen.append(env.step(rng.randrange(int(env.action_space.n))))  # type: ignore[attr-defined]
        if seen[-1][2]:
            break
    return seen


@pytest.mark.parametrize("env_id", WORLDS)
def test_a_world_is_a_gymnasium_environment(env_id: str) -> None:
    check_env(gym.make(env_id, **WORLDS[env_id]).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("env_id", WORLDS)
def test_a_world_is_a_function_of_its_seed_and_the_actions(env_id: str) -> None:
    one, other = (gym.make(env_id, **WORLDS[env_id]) for _ in range(2))
    first = played(one, 3)
    assert played(other, 3) == first
    assert played(one, 3) == first
    assert played(one, 4) != first


@pytest.mark.parametrize("env_id", WORLDS)
def test_a_world_can_be_put_back(env_id: str) -> None:
    assert check_restore(lambda: gym.make(env_id, **WORLDS[env_id]), restores=12).restores == 12


def test_the_ezpickle_world_is_not_what_its_copies_are() -> None:
    with pytest.raises(NotRestorable):
        RollbackWrapper(gym.make("rir_bench/EzPickle-v0"), snapshot="deepcopy")


def test_the_large_world_grows_by_a_reset_and_its_digest_sees_every_cell() -> None:
    env = gym.make("rir_bench/Large-v0", side=8, beings=5)
    world: Any = env.unwrapped
    played(env, 1, options={"side": 30, "beings": 50}, steps=4)
    assert world.map.shape == world.fog.shape == (30, 30)
    assert len(world.beings) == 50
    digest = world.digest()
    played(env, 1, options={"side": 30, "beings": 50}, steps=4)
    assert world.digest() == digest
    for array in (world.map, world.fog):
        array[29, 29] ^= 1
        assert world.digest() != digest
        array[29, 29] ^= 1
    world.beings[49].bag.append(0)
    assert world.digest() != digest
    env.reset(seed=1)
    assert world.map.shape == (8, 8)


def test_a_quick_run_writes_its_rows_and_what_they_are_held_against(tmp_path: Path) -> None:
    asked = ("--quick", "--worlds", "small", "apothecary", "--json", str(tmp_path / "c.json"))
    mechanisms = ("native", "heap", "deepcopy", "pickle", "replay", *(["fork"] if supported() is None else []))
    told = run("checkpoint.py", *asked, "--mechanisms", *mechanisms)
    result = json.loads((tmp_path / "c.json").read_text())
    rows = {(row["world"], row["mechanism"]): row for row in result["rows"]}
    assert all(set(row) >= FIELDS for row in rows.values())
    assert {"deepcopy", "pickle", "replay"} <= {name for world, name in rows if world == "small"}
    for row in rows.values():
        figures = [row[name] for name in ("save_us", "restore_us", "bytes", "episode_overhead")]
        if row["faithful"]:
            assert min(figures) >= 0, row
            assert row["save_us"] > 0, row
        else:
            assert figures == [None] * 4, row
            assert row["reason"], row
    assert not rows["small", "native"]["faithful"]
    assert rows["apothecary", "native"]["faithful"]
    assert rows["small", "pickle"]["bytes"] > 1_000 > rows["small", "replay"]["bytes"]
    assert all(each["text"] in told.stdout for each in result["targets"])
    printed = run("checkpoint.py", "--markdown", str(tmp_path / "c.json")).stdout
    assert "| deepcopy |" in printed
    assert "small: native" in printed


def test_a_quick_fidelity_run_counts_its_restores(tmp_path: Path) -> None:
    asked = ("--environments", "EzPickle", "small", "--json", str(tmp_path / "f.json"))
    told = run("fidelity.py", "--quick", *asked)
    result = json.loads((tmp_path / "f.json").read_text())
    assert (result["environments"], result["wrong"]) == (2, 0)
    assert result["restores"] == sum(row["restores"] for row in result["rows"]) >= 24
    assert {row["asked"] for row in result["rows"]} >= {"auto"}
    assert f"{result['restores']} restores over 2 environments, 0 wrong" in told.stdout


class Forgetful:
    """Puts nothing back."""

    name, sized, repeats, tied = "forgetful", False, False, False

    def save(self, *_: Any) -> int:
        return 0

    def restore(self, env: gym.Env[Any, Any], _: Any) -> gym.Env[Any, Any]:
        return env

    def size(self, _: Any) -> None:
        return None

    def drop(self, _: Any) -> None: ...

    def forget(self) -> None: ...


@pytest.mark.parametrize(("env_id", "options"), [("rir_bench/Small-v0", None), ("rir_bench/Large-v0", {"side": 40})])
def test_what_is_not_put_back_is_noticed_and_gets_no_times(
    env_id: str, options: dict[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, make = script("checkpoint"), script("worlds").maker(env_id, **WORLDS[env_id])
    real = checkpoint.mechanism
    monkeypatch.setattr(checkpoint, "mechanism", lambda name, make: Forgetful() if name == "x" else real(name, make))
    timed, wrong = checkpoint.time_calls(make, ["x", "deepcopy"], options, 12)
    assert set(wrong) == {"x"}
    assert len(timed["deepcopy"].restores) == 3


def test_what_is_not_put_back_is_counted_and_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    fidelity, wrapper = script("fidelity"), RollbackWrapper
    make = script("worlds").maker("rir_bench/Small-v0")

    def wrapped(env: gym.Env[Any, Any], *, snapshot: str) -> RollbackWrapper:
        made = wrapper(env, snapshot=snapshot)
        made._world.mechanism = Forgetful()
        return made

    monkeypatch.setattr(fidelity.rir_gym, "RollbackWrapper", wrapped)
    row = fidelity.check(make, "auto", 2)
    assert (row["wrong"], row["restores"]) == (2, 0)
    assert row["reason"] in fidelity.line({"env": "small", "asked": "auto", **row})


def test_targets_say_what_was_reached_and_what_was_not() -> None:
    report = script("checkpoint_report")
    row = {"restore_us": 1.0, "bytes": 1, "step_us": 1.0, "episode_overhead": 1.0, "faithful": True, "reason": ""}
    rows = [
        {"world": "medium", "mechanism": "heap", "save_us": 100.0, **row},
        {"world": "medium", "mechanism": "deepcopy", "save_us": 1130.0, **row},
    ]
    found = {each["what"]: each for each in report.targets(rows, None)}
    assert found["medium save heap vs deepcopy"]["text"] == "medium save heap vs deepcopy: 11.3x (target 8x)"
    assert found["medium restore heap vs deepcopy"]["text"].endswith("1.00x (target 8x, NOT met)")
    assert [found[what]["met"] for what in ("medium save heap vs deepcopy", "medium restore heap vs deepcopy")] == [
        True,
        False,
    ]
    assert found["small save heap vs deepcopy"]["text"] == "small save heap vs deepcopy: not measured (target 4x)"
    long = {"steps": 10_000, "kb_a_step": 12.5, "save_last_over_first": 1.1}
    held = [each["met"] for each in report.targets([], long) if each["what"].startswith("medium, 10,000 steps")]
    assert held == [False, True]

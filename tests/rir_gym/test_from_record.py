"""A world rebuilt from a record (kinds B12, B14): it goes on from the loaded point, in this process or another one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rir_gym import Budget, Decision, Mechanism, Restore, RollbackWrapper, Verdict, VerdictKind, run
from rir_gym.base import Patch
from rir_gym.data import rebuild
from rir_gym.data.rebuild import from_record
from rir_gym.data.records import episode_record, header_of
from rir_gym.errors import RecordError, ReplayMismatch, SnapshotError, UsageError

FAULTS: dict[str, Any] = {}


class Dice(gym.Env[Any, int]):
    """Adds dice; remembers every throw. What it draws depends on where its generator stands (kind B12)."""

    action_space = gym.spaces.Discrete(6)
    observation_space = gym.spaces.MultiDiscrete([10_000, 10_000])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.sum, self.throws = 0, 0
        return self.seen(), {"objective": "throw"}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.throws += 1
        self.sum += int(self.np_random.integers(1, 7)) * (int(action) + 1)
        reward = float(self.sum % 5) + FAULTS.get("reward", 0.0) * (self.throws == 3)
        info = {"committed": True} if FAULTS.get("commits") == self.throws else {}
        return self.seen(), reward, False, False, info

    def seen(self) -> Any:
        return np.array([self.sum, self.throws])


@pytest.fixture(autouse=True)
def _no_faults() -> Any:
    yield
    FAULTS.clear()


def record_of(env: RollbackWrapper, actions: list[int], seed: int = 5, back: int | None = 2) -> dict[str, Any]:
    """A run of these actions with one rollback to ``back`` in the middle, as it stands in a file."""
    lines, reviews = list(actions), [0]

    def when(views: Any) -> list[Verdict]:
        reviews[0] += 1
        due = back is not None and reviews[0] == len(actions) // 2
        return [Verdict(VerdictKind.ROLLBACK, 0.5, "again") if due else Verdict.not_due() for _ in views]

    mechanism = Mechanism(
        "told",
        act=lambda views: [Decision.act(lines.pop(0)) for _ in views],
        when=when,
        where=lambda views, _: [Restore(view.restorable[back], "", 1.0) for view in views],
        what=lambda views, verdicts, restores: [Patch(view.memory) for view in views],
    )
    [episode] = run([env], mechanism, budget=Budget(len(actions), 2), seeds=[seed])
    told: dict[str, Any] = json.loads(json.dumps(episode_record(episode, header_of(env, mechanism, agent="told"))))
    return told


def recorded(**settings: Any) -> dict[str, Any]:
    return record_of(RollbackWrapper.from_factory(Dice, **settings), [1, 2, 3, 4, 5, 0, 1, 2, 3, 4])


def test_b14_it_goes_on_from_the_loaded_point() -> None:
    record = recorded(snapshot="heap")
    assert len({node["parent"] for node in record["nodes"]}) < len(record["nodes"])  # there are two branches
    for node in record["nodes"]:
        env = from_record(record, node["id"], make=Dice)
        assert (env.node.t, env.steps_taken, env.restorable) == (
            node["step"],
            node["step"],
            tuple(range(node["step"] + 1)),
        )
        assert env.node.step.observation.tolist() == node["observation"]["$array"]["data"]
        for child in [each for each in record["nodes"] if each["parent"] == node["id"]]:
            observation, reward, *_ = env.step(child["action"])
            assert observation.tolist() == child["observation"]["$array"]["data"]
            assert (reward, env.node.t) == (child["reward"], child["step"])
            env.rollback(node["step"])
        env.close()
    assert from_record(record, make=Dice).node.t == record["result"]["steps"]


def test_it_can_be_rolled_back_into_what_was_loaded() -> None:
    env = from_record(recorded(), make=Dice)
    last = env.node
    assert env.rollback(1)[0].tolist() == env.nodes[1].step.observation.tolist()
    for node in last.branch()[2:]:
        assert env.step(node.step.action)[0].tolist() == node.step.observation.tolist()
    assert env.rollback(last)[0].tolist() == last.step.observation.tolist()


def test_b12_the_same_future_in_another_process(tmp_path: Path) -> None:
    env = RollbackWrapper(gym.make("FrozenLake-v1", is_slippery=True, map_name="8x8"))
    record = record_of(env, [2, 1, 2, 1, 2, 1, 2, 2])
    (tmp_path / "record.json").write_text(json.dumps(record))
    here = [env.step(action)[0] for action in (1, 2, 1, 2, 1)]
    script = (
        "import json, sys; from rir_gym.data.rebuild import from_record; "
        "env = from_record(json.load(open(sys.argv[1]))); "
        "print(json.dumps([int(env.step(a)[0]) for a in (1, 2, 1, 2, 1)]), env.node.t)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "record.json")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{json.dumps([int(each) for each in here])} {env.node.t}"


def test_the_first_difference_is_reported() -> None:
    record = recorded()
    FAULTS["reward"] = 0.25
    with pytest.raises(ReplayMismatch, match=r"record: step=3: reward was \S+ and is now \S+"):
        from_record(record, make=Dice)
    assert from_record(record, 2, make=Dice).node.t == 2
    other = {**record, "header": {**record["header"], "seed": 6}}
    with pytest.raises(ReplayMismatch, match="record: step=1: observation was "):
        from_record(other, make=Dice)


def test_what_had_an_effect_outside_is_not_done_again() -> None:
    FAULTS["commits"] = 3
    record = record_of(RollbackWrapper.from_factory(Dice), [1, 2, 3, 4], back=None)
    FAULTS.clear()
    assert from_record(record, 2, make=Dice).node.t == 2
    with pytest.raises(SnapshotError, match="step 3 had an effect outside"):
        from_record(record, 3, make=Dice)


def test_new_futures_are_in_no_record() -> None:
    record = recorded(rng="resample")
    firsts = next(node["id"] for node in record["nodes"][1:] if node["parent"] != node["id"] - 1)
    assert from_record(record, firsts - 1, make=Dice).node.id == firsts - 1
    with pytest.raises(SnapshotError, match="the new futures"):
        from_record(record, firsts, make=Dice)


@pytest.mark.parametrize("node", [-1, 10_000, True, "3", 1.0])
def test_a_node_that_is_not_there(node: Any) -> None:
    with pytest.raises(UsageError, match="node="):
        from_record(recorded(), node, make=Dice)


def test_what_is_no_record_and_what_cannot_be_made() -> None:
    record = recorded()
    with pytest.raises(RecordError, match="record: "):
        from_record({"schema": 1})
    with pytest.raises(UsageError, match="Gymnasium does not know it"):
        from_record(record)
    record["nodes"][1]["action"] = {"$repr": "<a door>"}
    with pytest.raises(RecordError, match=r"nodes\[1\].action"):
        from_record(record, 1, make=Dice)


def test_settings_are_as_recorded_or_as_given() -> None:
    record = recorded(snapshot="heap", max_depth=3)
    assert from_record(record, 1, make=Dice).settings["max_depth"] == 3
    env = from_record(record, 1, make=Dice, snapshot="pickle", max_depth=2)
    assert (env.settings["max_depth"], env.snapshot_report.chosen) == (2, "pickle")


def test_the_module_names_what_it_offers() -> None:
    assert rebuild.__all__ == ["from_record"]

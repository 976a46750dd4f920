"""The public conformance check: it passes what is right and names what is wrong."""

from __future__ import annotations

import os
import random
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rir_gym import NotRestorable, RollbackWrapper, Unicode, UsageError, register_adapter
from rir_gym.snapshot import native
from rir_gym.testing import RestoreReport, check_restore


class Rooms(gym.Env[str, str]):
    """Text with admissible commands, an oracle part, ends and a state pair that can be spoilt after its proof."""

    action_space = Unicode()
    observation_space = Unicode()
    spoil = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.room = self.extra = 0
        return "room 0", self.info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.room += {"go": 1, "back": -1}.get(action, 0)
        self.extra += action == "look"
        reward = float(action == "go") + (0.5 * self.extra if self.spoil == "reward" else 0.0)
        seen = self.extra if self.spoil == "observation" else 0
        return f"room {self.room} {seen}", reward, self.room > 4, False, self.info()

    def info(self) -> dict[str, Any]:
        listed = ["go", "back", "look", *(["jump"] * self.extra if self.spoil == "admissible" else [])]
        return {"admissible": listed, "oracle": {"score": self.extra if self.spoil == "oracle" else 0}}

    def get_state(self) -> Any:
        return self.room, self.extra if not self.spoil else 0

    def set_state(self, state: Any) -> None:
        self.room, self.extra = state


@pytest.mark.parametrize("snapshot", ["native", "deepcopy", "pickle", "replay"])
@pytest.mark.parametrize("terminal", ["pass", "held"])
def test_a_right_environment_passes_with_every_mechanism(snapshot: str, terminal: str) -> None:
    report = check_restore(Rooms, snapshot=snapshot, terminal=terminal, restores=40, rollback_cost=0.25, step_cost=0.1)
    assert report.mechanism == snapshot
    assert report.restores == 40
    assert report.undone_ends > 0
    assert report.jumps > 0
    assert report.steps >= 40
    assert report.episodes >= 4


@pytest.mark.parametrize("given", ["instance", "wrapped", "factory", "spec"])
def test_every_way_to_give_an_environment(given: str) -> None:
    env: Any = {
        "instance": Rooms,
        "wrapped": lambda: RollbackWrapper(Rooms()),
        "factory": lambda: Rooms,
        "spec": lambda: gym.make("FrozenLake-v1"),
    }[given]()
    assert check_restore(env, restores=15).restores == 15


def test_it_is_a_function_of_its_seed() -> None:
    reports = [check_restore(Rooms, restores=25, seed=seed) for seed in (1, 1, 2)]
    assert reports[0] == reports[1] != reports[2]
    assert isinstance(reports[0], RestoreReport)


@pytest.mark.parametrize("spoilt", ["observation", "reward", "admissible", "oracle"])
@pytest.mark.parametrize("fresh", [True, False])
def test_a_wrong_environment_is_named_with_seed_actions_and_difference(
    monkeypatch: pytest.MonkeyPatch, spoilt: str, fresh: bool
) -> None:
    env = RollbackWrapper.from_factory(Rooms, snapshot="native") if fresh else RollbackWrapper(Rooms())
    monkeypatch.setattr(Rooms, "spoil", spoilt)
    with pytest.raises(AssertionError) as raised:
        check_restore(env, restores=60)
    message = str(raised.value)
    assert message.startswith("<RollbackWrapper<Rooms instance>>, snapshot=native, seed=")
    assert "actions=[" in message
    assert f": {spoilt} was " in message


def test_global_generators_are_seeded_for_both_runs_and_left_alone() -> None:
    class Global(Rooms):
        def step(self, action: str) -> Any:
            self.room += random.randrange(2) + int(np.random.randint(2))
            return super().step(action)

    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()
    assert check_restore(Global, restores=25).restores == 25
    assert check_restore(Global(), restores=25).restores == 25
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_masked_actions_are_not_taken() -> None:
    class Masked(gym.Env[int, int]):
        action_space = gym.spaces.Discrete(4)
        observation_space = gym.spaces.Discrete(4)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
            super().reset(seed=seed)
            return 0, {"action_mask": np.array([0, 1, 0, 1], dtype=np.int8)}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            assert not checking or action in (1, 3)
            return int(action), 0.0, False, False, {"action_mask": np.array([0, 1, 0, 1], dtype=np.int8)}

    checking: list[int] = []
    env = RollbackWrapper(Masked())
    checking.append(1)
    assert check_restore(env, restores=10).restores == 10


def test_budgets_of_the_wrapper_are_kept_to() -> None:
    assert check_restore(Rooms, restores=20, max_rollbacks=3, step_limit=12).restores == 20


def test_an_environment_where_nothing_can_be_restored_is_said_to_be_one() -> None:
    with pytest.raises(AssertionError, match="no restore was possible in 5 episodes"):
        check_restore(Rooms, restores=5, max_rollbacks=0)


def test_an_adapter_is_checked_like_any_mechanism() -> None:
    class Bare(gym.Env[int, int]):
        action_space = gym.spaces.Discrete(2)
        observation_space = gym.spaces.Discrete(10**6)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
            super().reset(seed=seed)
            self.n = 0
            return 0, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            self.n = (self.n * 2 + int(action)) % 10**6
            return self.n, 0.0, False, False, {}

    name = f"{Bare.__module__}:{Bare.__qualname__}"
    register_adapter(name, save=lambda env: env.n, restore=lambda env, n: setattr(env, "n", 0 if n > 9 else n))
    try:
        with pytest.raises((AssertionError, NotRestorable)):
            check_restore(Bare, snapshot="native", steps=12)
    finally:
        native._REGISTERED.pop(name)


class Dice(gym.Env[int, int]):
    """Throws a die that ``hidden`` keeps out of reach of every reseed."""

    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Discrete(7)

    def __init__(self, hidden: bool) -> None:
        self.hidden = hidden

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        die = int.from_bytes(os.urandom(4), "big") if self.hidden else int(self.np_random.integers(2**31))
        return die % 6 + 1, 0.0, False, False, {}


def test_with_new_futures_a_future_is_a_function_of_the_rollbacks_seed() -> None:
    report = check_restore(lambda: Dice(hidden=False), rng="resample", restores=20)
    assert report.restores >= 20


def test_a_future_that_no_seed_decides_is_found() -> None:
    with pytest.raises(NotRestorable):
        check_restore(lambda: Dice(hidden=True), rng="resample")
    env = RollbackWrapper(Dice(hidden=False), rng="resample")
    env.unwrapped.hidden = True  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="observation was"):
        check_restore(env)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"restores": 0}, "restores=0"),
        ({"steps": 0}, "steps=0"),
        ({"seed": -1}, "seed=-1"),
        ({"rng": "other"}, "rng='other'"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_restore(Rooms(), **arguments)


def test_settings_of_a_wrapped_environment_are_its_own() -> None:
    with pytest.raises(UsageError, match="wrapped already"):
        check_restore(RollbackWrapper(Rooms()), reward="zero")

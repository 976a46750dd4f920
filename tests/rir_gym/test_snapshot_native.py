"""Snapshot by the environment's own state pair, or by a registered adapter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest

from rir_gym import NotRestorable, RollbackWrapper, register_adapter
from rir_gym.base import Node, Step
from rir_gym.errors import SnapshotError
from rir_gym.snapshot import native
from rir_gym.snapshot.native import Native, adapter_for
from rir_gym.snapshot.protocol import Start
from rir_gym.testing import check_restore

ROOT = Node(0, None, 0, Step(None, 0))


class Engine(gym.Env[int, int]):
    """Holds a handle that no copy can take."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Discrete(10**6)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.n, self.cache = 0, {}
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.n = (2 * self.n + int(action)) % 10**6
        return self.n, float(action), False, False, {}


class Cached(Engine):
    """Fills a table as it goes, which is no state."""

    snapshot_static = ()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.table.rows[self.n] = action
        return super().step(action)

    def __init__(self) -> None:
        self.table = Table()

    def get_state(self) -> int:
        return self.n

    def set_state(self, state: int) -> None:
        self.n = state


class Table:
    def __init__(self) -> None:
        self.rows: dict[int, int] = {}


class Fragile(Engine):
    """Its restore fails half way on odd numbers."""

    def get_state(self) -> int:
        return self.n

    def set_state(self, state: int) -> None:
        self.n = -1
        if state % 2:
            raise OSError("the engine hung up")
        self.n = state


class Counting(gym.Wrapper[Any, Any, Any, Any]):
    def step(self, action: Any) -> Any:
        self.extra = [*getattr(self, "extra", []), action]
        return super().step(action)


@pytest.fixture
def registered() -> Iterator[str]:
    name = f"{Engine.__module__}:{Engine.__qualname__}"
    register_adapter(name, save=lambda env: env.n, restore=lambda env, n: setattr(env, "n", n))
    yield name
    native._REGISTERED.pop(name)


def test_a_registered_adapter_serves_the_class_and_its_heirs(registered: str) -> None:
    class Heir(Engine):
        pass

    assert check_restore(Engine(), restores=15).mechanism == "native"
    assert check_restore(Heir(), restores=15).mechanism == "native"


def test_without_a_pair_or_an_adapter_there_is_none() -> None:
    assert adapter_for(Engine()) is None
    with pytest.raises(NotRestorable, match="native: no layer has a state pair or a registered adapter"):
        RollbackWrapper(Engine(), snapshot="native")


def test_fields_of_the_wrappers_above_come_and_go_with_the_state(registered: str) -> None:
    env = Counting(Engine())
    env.reset(seed=0)
    mechanism = Native()
    empty = mechanism.save(env, ROOT, Start())
    env.step(1)
    full = mechanism.save(env, ROOT, Start())
    env.step(2)
    assert mechanism.restore(env, full) is env
    assert (env.unwrapped.n, env.extra) == (1, [1])
    mechanism.restore(env, empty)
    assert not hasattr(env, "extra")
    mechanism.restore(env, full)
    env.extra.append(7)
    mechanism.restore(env, full)
    assert env.extra == [1]


def test_a_failing_native_restore_leaves_the_world_as_it_was() -> None:
    env = Fragile()
    env.reset(seed=0)
    env.step(1)
    odd = Native().save(env, ROOT, Start())
    env.step(2)
    with pytest.raises(SnapshotError, match="native restore of Fragile: OSError"):
        Native().restore(env, odd)
    assert env.n == 4


def test_a_static_part_is_left_out_of_the_proof() -> None:
    with pytest.raises(NotRestorable, match=r"env\.table\.rows"):
        RollbackWrapper(Cached(), snapshot="native")
    Cached.snapshot_static = (f"{__name__}:Table",)
    try:
        assert check_restore(Cached(), restores=15).mechanism == "native"
    finally:
        Cached.snapshot_static = ()

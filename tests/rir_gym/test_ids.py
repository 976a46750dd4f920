"""The ids: every one is registered, bare and ready-wrapped, and its spec goes through JSON."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

from rir_gym.ids import IDS, EnvId, register_ids
from rir_gym.rollback import RollbackWrapper

HERE = [known for known in IDS if not known.extra]


def test_names_are_unique_and_follow_the_rule() -> None:
    names = [name for known in IDS for name in (known.id, known.rollback_id)]
    assert len(set(names)) == len(names) == 2 * len(IDS)
    for known in IDS:
        assert known.id.startswith("rir_gym/")
        assert known.rollback_id == known.id.replace("-v0", "Rollback-v0")


def test_every_id_and_its_variant_are_registered() -> None:
    for known in IDS:
        bare, wrapped = gym.spec(known.id), gym.spec(known.rollback_id)
        assert (bare.entry_point, bare.kwargs) == (wrapped.entry_point, wrapped.kwargs)
        assert bare.additional_wrappers == ()
        assert [wrapper.name for wrapper in wrapped.additional_wrappers] == ["RollbackWrapper"]
        assert EnvSpec.from_json(wrapped.to_json()) == wrapped


def test_registering_again_keeps_what_somebody_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymnasium.envs.registration.registry", dict(gym.registry))
    monkeypatch.setattr(gym, "registry", gym.envs.registration.registry)
    own = EnvSpec(HERE[0].rollback_id, entry_point="somewhere:Else")
    gym.registry[own.id] = own
    register_ids()
    assert gym.registry[own.id] is own


@pytest.mark.parametrize("known", HERE, ids=lambda known: known.id)
def test_a_variant_is_the_environment_in_a_wrapper(known: EnvId) -> None:
    env: Any = gym.make(known.rollback_id)
    bare = gym.make(known.id)
    assert isinstance(env, RollbackWrapper)
    assert env.snapshot_report.chosen == known.snapshot
    again = [gym.make(env.spec), gym.make(EnvSpec.from_json(env.spec.to_json()))]
    first = env.reset(seed=5)
    assert first == bare.reset(seed=5)
    for other in again:
        assert isinstance(other, RollbackWrapper)
        assert other.settings == env.settings
        assert other.spec == env.spec
        assert other.reset(seed=5) == first
    env.step(first[1]["admissible"][0] if first[1].get("admissible") else env.action_space.sample())
    assert env.rollback(0)[0] == first[0]


def test_importing_the_package_makes_and_loads_no_environment() -> None:
    script = "import sys, rir_gym; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"rir_envs", "rir_policies", "textworld", "jericho", "textarena", "torch", "alfworld"} & set(said)

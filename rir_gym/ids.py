"""The environment ids of this distribution, registered from strings: nothing heavy is imported until one is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from rir_gym.snapshot.native import register_adapter_at

__all__ = ["ADAPTERS", "IDS", "EnvId", "register_ids"]


@dataclass(frozen=True, slots=True)
class EnvId:
    """One id.

    Args:
        entry_point: where its class or function is, as "module:name".
        kwargs: default arguments.
        extra: the extra of this distribution that it needs, "" for none.
        agent_calls: B_agent where a run names none (ours: about 1.8 times a usual gold path).
        seed_argument: the argument that chooses the task, where the reset seed does not; "" for none.
        policies: the module with its knowledge-limited ``Expert`` and the evidence-only roles; "" for none.
        gold_steps: fewest and most actions of the gold paths seen with the default arguments; None unmeasured.
        snapshot: the mechanism that "auto" chooses.
        oracle: whether it knows what is still recoverable.
        irreversible: whether an action can put success out of reach for good.
    """

    id: str
    entry_point: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    extra: str = ""
    agent_calls: int = 30
    seed_argument: str = ""
    policies: str = ""
    gold_steps: tuple[int, int] | None = None
    snapshot: str = "native"
    oracle: bool = False
    irreversible: bool = False


IDS = (
    EnvId(
        "rir_gym/Apothecary-v0",
        "rir_envs.apothecary:ApothecaryEnv",
        agent_calls=28,
        policies="rir_envs.apothecary_policies",
        oracle=True,
        irreversible=True,
    ),
    EnvId("rir_gym/TextArena-v0", "rir_envs.textarena:TextArenaEnv", extra="textarena", snapshot="heap"),
    EnvId(
        "rir_gym/TextWorld-Cooking-v0",
        "rir_envs.textworld:cooking",
        extra="textworld",
        seed_argument="game_seed",
        oracle=True,
        irreversible=True,
    ),
    EnvId(
        "rir_gym/TextWorld-Simple-v0",
        "rir_envs.textworld:simple",
        extra="textworld",
        seed_argument="game_seed",
        oracle=True,
    ),
)


ADAPTERS = {"jericho.jericho:FrotzEnv": "rir_envs.jericho_state:ADAPTER"}
"""Snapshot adapters of this distribution: the type, and where its adapter stands."""


def register_ids() -> None:
    """Register every id that Gymnasium does not know yet, and the snapshot adapters."""
    for type_name, place in ADAPTERS.items():
        register_adapter_at(type_name, place)
    for env_id in IDS:
        if env_id.id not in gym.registry:
            gym.register(env_id.id, entry_point=env_id.entry_point, kwargs=dict(env_id.kwargs))

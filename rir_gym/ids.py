"""The environment ids of this distribution, registered from strings: nothing heavy is imported until one is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

__all__ = ["IDS", "EnvId", "register_ids"]


@dataclass(frozen=True, slots=True)
class EnvId:
    """One id: where its class is, its default arguments, and the extra it needs ("" for none)."""

    id: str
    entry_point: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    extra: str = ""


IDS = (
    EnvId("rir_gym/Apothecary-v0", "rir_envs.apothecary:ApothecaryEnv"),
    EnvId("rir_gym/TextWorld-Cooking-v0", "rir_envs.textworld:cooking", extra="textworld"),
    EnvId("rir_gym/TextWorld-Simple-v0", "rir_envs.textworld:simple", extra="textworld"),
)


def register_ids() -> None:
    """Register every id that Gymnasium does not know yet."""
    for env_id in IDS:
        if env_id.id not in gym.registry:
            gym.register(env_id.id, entry_point=env_id.entry_point, kwargs=dict(env_id.kwargs))

"""The environment ids of this distribution, registered from strings: nothing heavy is imported until one is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from rir_gym.rollback import RollbackWrapper
from rir_gym.snapshot.native import register_adapter_at

__all__ = ["ADAPTERS", "IDS", "EnvId", "register_ids"]


@dataclass(frozen=True, slots=True)
class EnvId:
    """One id.

    Args:
        entry_point: where its class or function is, as "module:name".
        kwargs: default arguments.
        extra: the extra of this distribution that it needs, "" for none.
        needs: what it needs besides, in words ("Java", or data that are the user's), "" for nothing.
        agent_calls: B_agent where a run names none (ours: about 1.8 times a usual gold path).
        seed_argument: the argument that chooses the task, where the reset seed does not; "" for none.
        policies: the module with its knowledge-limited ``Expert`` and the evidence-only roles; "" for none.
        gold_steps: fewest and most actions of the gold paths that ``benchmarks/gold.py`` sees; None unmeasured.
        snapshot: the mechanism that "auto" chooses.
        oracle: whether it knows what is still recoverable.
        irreversible: whether an action can put success out of reach for good.
        reusable: whether an instance may play one episode after another: tested to give what fresh instances give.
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
    reusable: bool = False
    needs: str = ""

    @property
    def rollback_id(self) -> str:
        """The id of the ready-wrapped variant: ``rir_gym/<Name>Rollback-v0`` for ``rir_gym/<Name>-v0``."""
        name, _, version = self.id.rpartition("-")
        return f"{name}Rollback-{version}"


IDS = (
    EnvId(
        "rir_gym/ALFWorld-v0",
        "rir_envs.alfworld:alfworld",
        extra="alfworld",
        needs="ALFWORLD_DATA, which alfworld-download fills",
        agent_calls=90,
        seed_argument="game_seed",
        policies="rir_envs.alfworld_policies",
        oracle=True,
        reusable=True,
    ),
    EnvId(
        "rir_gym/ALFWorldStyle-v0",
        "rir_envs.alfworld:alfworld_style",
        extra="alfworld",
        agent_calls=90,
        seed_argument="game_seed",
        policies="rir_envs.alfworld_policies",
        gold_steps=(6, 15),
        oracle=True,
        reusable=True,
    ),
    EnvId(
        "rir_gym/Apothecary-v0",
        "rir_envs.apothecary:ApothecaryEnv",
        agent_calls=28,
        policies="rir_envs.apothecary_policies",
        gold_steps=(11, 13),
        oracle=True,
        irreversible=True,
        reusable=True,
    ),
    EnvId(
        "rir_gym/BabyAI-v0",
        "rir_envs.babyai:BabyAIEnv",
        extra="minigrid",
        agent_calls=9,
        gold_steps=(1, 210),
        snapshot="heap",
        oracle=True,
        irreversible=True,
        reusable=True,
    ),
    EnvId(
        "rir_gym/Jericho-v0",
        "rir_envs.jericho:JerichoEnv",
        extra="jericho",
        needs="a story file, game=PATH",
        snapshot="heap",
        irreversible=True,
    ),
    EnvId(
        "rir_gym/ScienceWorld-v0",
        "rir_envs.scienceworld:ScienceWorldEnv",
        extra="scienceworld",
        needs="Java",
        agent_calls=72,
        policies="rir_envs.scienceworld_policies",
        oracle=True,
        irreversible=True,
        reusable=True,
    ),
    EnvId("rir_gym/TextArena-v0", "rir_envs.textarena:TextArenaEnv", extra="textarena", snapshot="heap"),
    EnvId(
        "rir_gym/TextWorld-Cooking-v0",
        "rir_envs.textworld:cooking",
        extra="textworld",
        agent_calls=9,
        seed_argument="game_seed",
        policies="rir_envs.textworld_policies",
        reusable=True,
        gold_steps=(4, 5),
        oracle=True,
        irreversible=True,
    ),
    EnvId(
        "rir_gym/TextWorld-Simple-v0",
        "rir_envs.textworld:simple",
        extra="textworld",
        agent_calls=22,
        seed_argument="game_seed",
        gold_steps=(8, 12),
        policies="rir_envs.textworld_policies",
        reusable=True,
        oracle=True,
        irreversible=True,
    ),
    EnvId(
        "rir_gym/TextWorld-CoinCollector-v0",
        "rir_envs.textworld:coin_collector",
        extra="textworld",
        agent_calls=18,
        seed_argument="game_seed",
        policies="rir_envs.textworld_policies",
        reusable=True,
        gold_steps=(10, 10),
        oracle=True,
    ),
    EnvId(
        "rir_gym/TextWorld-TreasureHunter-v0",
        "rir_envs.textworld:treasure_hunter",
        extra="textworld",
        agent_calls=11,
        seed_argument="game_seed",
        policies="rir_envs.textworld_policies",
        reusable=True,
        gold_steps=(1, 6),
        oracle=True,
        irreversible=True,
    ),
    EnvId(
        "rir_gym/TextWorldExpress-v0",
        "rir_envs.textworldexpress:TextWorldExpressEnv",
        extra="textworld_express",
        needs="Java",
        agent_calls=80,
        gold_steps=(2, 62),
        oracle=True,
        irreversible=True,
        reusable=True,
    ),
    EnvId(
        "rir_gym/Workspace-v0",
        "rir_envs.workspace:WorkspaceEnv",
        agent_calls=23,
        policies="rir_envs.workspace_policies",
        gold_steps=(11, 16),
        oracle=True,
        irreversible=True,
        reusable=True,
    ),
)


ADAPTERS = {"jericho.jericho:FrotzEnv": "rir_envs.jericho_state:ADAPTER"}
"""Snapshot adapters of this distribution: the type, and where its adapter stands."""


def register_ids() -> None:
    """Register every id that Gymnasium does not know yet, its ready-wrapped variant, and the snapshot adapters.

    A variant is the same environment with the same arguments inside a ``RollbackWrapper`` with its defaults.
    """
    for type_name, place in ADAPTERS.items():
        register_adapter_at(type_name, place)
    wrapped = (RollbackWrapper.wrapper_spec(),)
    for env_id in IDS:
        for name, wrappers in ((env_id.id, ()), (env_id.rollback_id, wrapped)):
            if name not in gym.registry:
                kwargs = dict(env_id.kwargs)
                gym.register(name, entry_point=env_id.entry_point, kwargs=kwargs, additional_wrappers=wrappers)

"""Which environments, agents and models go together: makes wrapped environments and mechanisms from names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from rir_gym.base import Mechanism, MemoryPosition
from rir_gym.errors import UnknownName, UsageError
from rir_gym.ids import IDS
from rir_gym.rollback import RollbackWrapper

__all__ = ["MEMORY_POSITIONS", "default_calls", "make", "model_mechanism", "scripted_mechanism", "seeded_arguments"]

MEMORY_POSITIONS: tuple[MemoryPosition, ...] = ("system", "tail")
_OTHER_CALLS = 30


def default_calls(env_id: str) -> int:
    """B_agent where the caller names none (ours, fixed per environment in ``rir_gym.ids``)."""
    return next((known.agent_calls for known in IDS if known.id == env_id), _OTHER_CALLS)


def seeded_arguments(env_id: str, arguments: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The arguments of one episode: where an id draws its task from an argument, the seed is that argument."""
    name = next((known.seed_argument for known in IDS if known.id == env_id), "")
    return {name: seed, **arguments} if name else dict(arguments)


def make(env_id: str, arguments: Mapping[str, Any], **wrapper: Any) -> RollbackWrapper:
    """``gym.make`` inside a ``RollbackWrapper``.

    Raises:
        UnknownName: Gymnasium does not know the id.
        UsageError: the environment does not take the arguments.
    """
    try:
        env = gym.make(env_id, **arguments)
    except (gym.error.UnregisteredEnv, gym.error.Error) as error:
        if isinstance(error, gym.error.UnregisteredEnv) or env_id not in gym.registry:
            raise UnknownName("env", env_id, [known.id for known in IDS]) from error
        raise UsageError(f"env={env_id!r}: {error}") from error
    except TypeError as error:
        raise UsageError(f"env-arg={dict(arguments)!r}: {error}") from error
    return RollbackWrapper(env, **wrapper)


def scripted_mechanism(
    env_id: str,
    mechanism: str,
    *,
    reviewer: str = "evidence",
    trust: float = 0.5,
    slip: float = 0.1,
    review_terminal: bool = True,
    memory_position: MemoryPosition = "system",
) -> Mechanism:
    """The environment's knowledge-limited expert with scripted recovery roles.

    ``reviewer`` is "evidence" (sees what the agent sees) or "exact" (reads the oracle, and says so).

    Raises:
        UsageError: the environment has no expert.
        UnknownName: no such mechanism or reviewer.
    """
    from rir_policies.mechanisms import MECHANISMS
    from rir_policies.scripted import ExactLocalizer, ExactReviewer, ScriptedPatch

    if env_id != "rir_gym/Apothecary-v0":
        raise UsageError(f"agent='scripted', env={env_id!r}: only rir_gym/Apothecary-v0 has an expert; give a model")
    from rir_envs import apothecary_policies as apothecary

    roles: dict[str, dict[str, Any]] = {
        "evidence": {"reviewer": apothecary.evidence_reviewer, "where": apothecary.evidence_localizer},
        "exact": {
            "reviewer": ExactReviewer(learn=apothecary.observed_facts),
            "where": ExactLocalizer(),
            "uses_oracle": True,
        },
    }
    if reviewer not in roles:
        raise UnknownName("reviewer", reviewer, roles)
    return _mechanism(MECHANISMS, mechanism)(
        act=apothecary.Expert(trust=trust, slip=slip),
        what=ScriptedPatch(),
        review_terminal=review_terminal,
        memory_position=memory_position,
        **roles[reviewer],
    )


def model_mechanism(
    mechanism: str,
    *,
    model: str,
    prompts: Path | None = None,
    thought_tokens: int = 0,
    temperature: float = 0.0,
    review_terminal: bool = True,
    memory_position: MemoryPosition = "system",
) -> tuple[Mechanism, dict[str, Any]]:
    """Every role played by one local model; and what to record of model and prompts.

    Raises:
        UnknownName: no such mechanism.
        ModelError, MissingDependency: the model cannot be loaded.
    """
    from rir_policies.mechanisms import MECHANISMS, model_roles
    from rir_policies.prompts import load_prompts

    build, texts = _mechanism(MECHANISMS, mechanism), load_prompts(prompts)
    from rir_policies.hf import load

    loaded = load(model)
    roles = model_roles(loaded, prompts=texts, thought_tokens=thought_tokens, temperature=temperature)
    built = build(**roles, review_terminal=review_terminal, memory_position=memory_position)
    return built, {"agent": "model", "model": loaded.name, "prompts": f"{texts.version} sha256:{texts.digest}"}


def _mechanism(known: Mapping[str, Callable[..., Mechanism]], name: str) -> Callable[..., Mechanism]:
    if name not in known:
        raise UnknownName("mechanism", name, known)
    return known[name]

"""Which environments, agents and models go together: makes wrapped environments and mechanisms from names."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym

from rir_gym.base import Mechanism, MemoryPosition
from rir_gym.errors import RirError, UnknownName, UsageError
from rir_gym.ids import IDS, EnvId
from rir_gym.rollback import RollbackWrapper

__all__ = ["MEMORY_POSITIONS", "default_calls", "make", "model_mechanism", "scripted_mechanism", "seeded_arguments"]

MEMORY_POSITIONS: tuple[MemoryPosition, ...] = ("system", "tail")
_OTHER_CALLS = 30


def default_calls(env_id: str) -> int:
    """B_agent where the caller names none (ours, fixed per environment in ``rir_gym.ids``)."""
    known = _known(env_id)
    return known.agent_calls if known is not None else _OTHER_CALLS


def seeded_arguments(env_id: str, arguments: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The arguments of one episode: where an id draws its task from an argument, the seed is that argument.

    A task that is given by a file (``path``) is drawn from nothing.
    """
    known = _known(env_id)
    name = known.seed_argument if known is not None else ""
    return {name: seed, **arguments} if name and "path" not in arguments else dict(arguments)


def make(env_id: str, arguments: Mapping[str, Any], **wrapper: Any) -> RollbackWrapper:
    """``gym.make`` inside a ``RollbackWrapper``; of a ready-wrapped id, what is inside its own.

    Raises:
        UnknownName: Gymnasium does not know the id.
        UsageError: the environment does not take the arguments, or cannot be made.
        RirError: what an environment of this distribution says itself.
    """
    known = _known(env_id)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            env = gym.make(known.id if known is not None else env_id, **arguments)
        except RirError:
            raise
        except gym.error.Error as error:
            if isinstance(error, gym.error.UnregisteredEnv) or (env_id not in gym.registry and ":" not in env_id):
                raise UnknownName("env", env_id, [each.id for each in IDS]) from error
            raise UsageError(f"env={env_id!r}: {error}") from error
        except TypeError as error:
            raise UsageError(f"env-arg={dict(arguments)!r}: {error}{_takes(env_id)}") from error
        except Exception as error:  # the environment's own code, or what "module:id" names
            raise UsageError(f"env={env_id!r}: cannot be made ({type(error).__name__}: {error})") from error
    for each in said:  # beside an error they would only hide it
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno, source=each.source)
    return RollbackWrapper(env, **wrapper)


def _takes(env_id: str) -> str:
    """The arguments of an environment in words, "" where they cannot be seen."""
    with suppress(Exception):
        known = _known(env_id)
        place = known.entry_point if known is not None else gym.spec(env_id).entry_point
        creator: Any = gym.envs.registration.load_env_creator(place) if isinstance(place, str) else place
        names = [name for name in inspect.signature(creator).parameters if name not in ("args", "kwargs")]
        return f"; it takes {', '.join(names)}"
    return ""


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

    policies = _policies(env_id)
    roles: dict[str, dict[str, Any]] = {
        "evidence": {"reviewer": policies.evidence_reviewer, "where": policies.evidence_localizer},
        "exact": {
            "reviewer": ExactReviewer(learn=policies.observed_facts),
            "where": ExactLocalizer(),
            "uses_oracle": True,
        },
    }
    if reviewer not in roles:
        raise UnknownName("reviewer", reviewer, roles)
    return _mechanism(MECHANISMS, mechanism)(
        act=policies.Expert(trust=trust, slip=slip),
        what=ScriptedPatch(),
        review_terminal=review_terminal,
        memory_position=memory_position,
        **roles[reviewer],
    )


def _policies(env_id: str) -> Any:
    """The module beside it: ``Expert``, ``evidence_reviewer``, ``evidence_localizer`` and ``observed_facts``."""
    known = _known(env_id)
    if known is None or not known.policies:
        experts = ", ".join(sorted(each.id for each in IDS if each.policies))
        raise UsageError(f"agent='scripted', env={env_id!r}: experts are those of {experts}; or give a model")
    return importlib.import_module(known.policies)


def _known(env_id: str) -> EnvId | None:
    """The entry of an id of this distribution, or of its ready-wrapped variant."""
    return next((known for known in IDS if env_id in (known.id, known.rollback_id)), None)


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
    """Every role played by one model, loaded here or on a server; and what to record of model and prompts.

    Raises:
        UnknownName: no such mechanism.
        UsageError: the URL of a server without a model's name, or with unknown arguments.
        ModelError, MissingDependency: the model cannot be loaded.
    """
    from rir_policies.mechanisms import MECHANISMS, model_roles
    from rir_policies.prompts import load_prompts

    build, texts = _mechanism(MECHANISMS, mechanism), load_prompts(prompts)
    from rir_policies.opening import open_model

    loaded = open_model(model)
    roles = model_roles(loaded, prompts=texts, thought_tokens=thought_tokens, temperature=temperature)
    built = build(**roles, review_terminal=review_terminal, memory_position=memory_position)
    return built, {"agent": "model", "model": loaded.name, "prompts": f"{texts.version} sha256:{texts.digest}"}


def _mechanism(known: Mapping[str, Callable[..., Mechanism]], name: str) -> Callable[..., Mechanism]:
    if name not in known:
        raise UnknownName("mechanism", name, known)
    return known[name]

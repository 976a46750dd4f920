"""What a mechanism is made of: the same keywords for all, and what the families share. Knows no environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple, Required, TypedDict

from rir_gym.base import Act, Mechanism, MemoryPosition, Restriction, What, Where
from rir_policies.act import ModelActor
from rir_policies.expel import RuleBook
from rir_policies.model import Model
from rir_policies.notes import Told
from rir_policies.prompts import Prompts, load_prompts
from rir_policies.what import Reflect
from rir_policies.when import ModelReviewer, Reviewer
from rir_policies.where import CoarseToFine

__all__ = ["Pieces", "Player", "Roles", "model_roles", "named", "player", "reading"]


class Roles(TypedDict):
    """The four roles that full RIR needs."""

    act: Act
    reviewer: Reviewer
    where: Where
    what: What


class Pieces(TypedDict, total=False):
    """What a mechanism is made of; ``rir`` documents each. Only ``act`` is needed by all."""

    act: Required[Act]
    reviewer: Reviewer
    where: Where
    what: What
    l_min: float
    l_max: float
    l_0: float | None
    uses_oracle: bool
    review_terminal: bool
    memory_position: MemoryPosition
    settings: Mapping[str, Any]
    rules: RuleBook | None


class Player(NamedTuple):
    """The model that plays a role, and its texts."""

    model: Model
    prompts: Prompts


def player(*roles: Any) -> Player | None:
    """The model of the first of these roles that is played by one; None where all are scripted."""
    played = (ModelActor, ModelReviewer, CoarseToFine, Reflect)
    return next((Player(role.model, role.prompts) for role in roles if isinstance(role, played)), None)


def reading(role: Any) -> Any:
    """A role on a memory of notes: one that is played by a model reads them as they are, a scripted one as facts."""
    return role if player(role) is not None else Told(role)


def model_roles(
    model: Model,
    *,
    prompts: Prompts | None = None,
    thought_tokens: int = 0,
    temperature: float = 0.0,
    constrained: bool = False,
) -> Roles:
    """All four roles played by one model: ``rir(**model_roles(model))``. The recovery roles are greedy.

    A mechanism with a card of its own replaces them by its card's, played by the same model.

    Args:
        model: any ``Model``.
        prompts: None is the packaged texts.
        thought_tokens, temperature: the agent's; see ``ModelActor``.
        constrained: written commands and new knowledge are held to their form; see ``ModelActor``, ``ModelReviewer``.
    """
    texts = load_prompts() if prompts is None else prompts
    return Roles(
        act=ModelActor(model, texts, thought_tokens=thought_tokens, temperature=temperature, constrained=constrained),
        reviewer=ModelReviewer(model, texts, constrained=constrained),
        where=CoarseToFine(model, texts),
        what=Reflect(model, texts),
    )


def named(mechanism: Mechanism, name: str, restriction: Restriction, **settings: Any) -> Mechanism:
    """The mechanism under its name, with what it declares and its roles in the settings."""
    roles = {role: _describe(getattr(mechanism, role)) for role in ("act", "when", "where", "what", "memory")}
    return replace(mechanism, name=name, restriction=restriction, settings={**mechanism.settings, **settings, **roles})


def _describe(value: Any) -> str:
    """A repr without addresses: settings of roles, names of functions, and nothing of a model."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = [f"{part.name}={_describe(getattr(value, part.name))}" for part in fields(value) if part.repr]
        return f"{type(value).__name__}({', '.join(shown)})"
    inner = getattr(value, "func", None)
    if inner is not None:
        given = [_describe(each) for each in getattr(value, "args", ())]
        given += [f"{name}={_describe(each)}" for name, each in getattr(value, "keywords", {}).items()]
        return f"{_describe(inner)}({', '.join(given)})"
    return str(getattr(value, "__qualname__", type(value).__name__)) if callable(value) else repr(value)

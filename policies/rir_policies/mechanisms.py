"""Mechanisms: each is RIR with its choice of (k, M+) restricted, on the same loop and ledger.

Every function here takes the same keywords (``Pieces``), so a table is one loop over ``MECHANISMS``; a role that a
restriction fixes is replaced. Ledger law (auxiliary calls, without abandoned rollbacks): RIR reviews
+ 3 (rollbacks + corrections); reflection only reviews + corrections; restart reviews + rollbacks + corrections;
rollback only reviews + 2 (rollbacks + corrections), where the paper's own column suggests that it also counts the
patch that it discards. This module knows no environment and no model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, Required, TypedDict, Unpack

from rir_gym.base import Act, Mechanism, MemoryPosition, What, Where
from rir_policies.act import ModelActor
from rir_policies.model import Model
from rir_policies.prompts import Prompts, load_prompts
from rir_policies.what import Reflect, keep
from rir_policies.when import Hybrid, ModelReviewer, Reviewer, Silent, never
from rir_policies.where import CoarseToFine, Here, Start

__all__ = [
    "MECHANISMS",
    "Pieces",
    "Roles",
    "model_roles",
    "react",
    "reflection_only",
    "restart",
    "rir",
    "rollback_only",
]


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


def rir(
    *,
    act: Act,
    reviewer: Reviewer,
    where: Where,
    what: What,
    l_min: float = 4,
    l_max: float = 8,
    l_0: float | None = None,
    uses_oracle: bool = False,
    review_terminal: bool = True,
    memory_position: MemoryPosition = "system",
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> Mechanism:
    """Rollback-Induced Reflection: agent request or adaptive schedule, coarse to fine, M+ = G, E+, H+, F_new.

    Args:
        act: the base agent.
        reviewer: judges the views whose review is due.
        where: names the restore point.
        what: makes M+.
        l_min, l_max: bounds of the review horizon in steps; the paper's default is (4, 8), its sweep's best (2, 8).
        l_0: the first horizon; None is l_max (ours).
        uses_oracle: True where one of the roles reads ``View.oracle``; shown in every table.
        review_terminal: review once when the environment has ended (ours); equal for all rows of a table.
        memory_position: M in the system prompt (the paper) or after h_t.
        settings: more plain JSON values for the record, beside the schedule and the roles.

    Source: Yu et al., "Rollback the World, Keep the Reflection", arXiv 2609.18304, Algorithm 1.

    Raises:
        UsageError: a schedule that is none.
    """
    return _named(
        Mechanism(
            name="rir",
            act=act,
            when=Hybrid(reviewer, l_min=l_min, l_max=l_max, l_0=l_0),
            where=where,
            what=what,
            uses_oracle=uses_oracle,
            review_terminal=review_terminal,
            memory_position=memory_position,
            settings={"l_min": l_min, "l_max": l_max, "l_0": l_max if l_0 is None else l_0, **settings},
        ),
        "rir",
        "k any restorable depth, coarse to fine; M+ = G, E+, H+, F_new",
    )


def react(**pieces: Unpack[Pieces]) -> Mechanism:
    """ReAct: one agent call a step, never a review. A ``ModelActor`` is not told of rollbacks.

    The recovery roles, the schedule and ``uses_oracle`` are accepted and not used.
    """
    stand_in: Pieces = {"reviewer": never, **pieces}
    full = _all(stand_in)
    act = replace(full.act, requests="none") if isinstance(full.act, ModelActor) else full.act
    bare = replace(full, act=act, when=never, where=Here(), what=keep, uses_oracle=False)
    return _named(
        replace(bare, settings=dict(pieces.get("settings", {}))), "react", "no review, no rollback; M unchanged"
    )


def reflection_only(**pieces: Unpack[Pieces]) -> Mechanism:
    """The paper's ablation without rollback: k = 0, the context is corrected. ``where`` is replaced."""
    return _named(replace(_all(pieces), where=Here()), "reflection_only", "k = 0; M+ as in RIR")


def rollback_only(**pieces: Unpack[Pieces]) -> Mechanism:
    """The paper's ablation without memory: M stays, ΔE is dropped, no patcher is asked. ``what`` is replaced."""
    full = _all(pieces)
    return _named(replace(full, when=Silent(full.when), what=keep), "rollback_only", "k as in RIR; M unchanged")


def restart(**pieces: Unpack[Pieces]) -> Mechanism:
    """The paper's ablation that always resumes at the start. ``where`` is replaced."""
    return _named(replace(_all(pieces), where=Start()), "restart", "k = t (the start); M+ as in RIR")


def model_roles(
    model: Model, *, prompts: Prompts | None = None, thought_tokens: int = 0, temperature: float = 0.0
) -> Roles:
    """All four roles played by one model: ``rir(**model_roles(model))``. The recovery roles are greedy.

    Args:
        model: any ``Model``.
        prompts: None is the packaged texts.
        thought_tokens, temperature: the agent's; see ``ModelActor``.
    """
    texts = load_prompts() if prompts is None else prompts
    return Roles(
        act=ModelActor(model, texts, thought_tokens=thought_tokens, temperature=temperature),
        reviewer=ModelReviewer(model, texts),
        where=CoarseToFine(model, texts),
        what=Reflect(model, texts),
    )


MECHANISMS: Mapping[str, Callable[..., Mechanism]] = MappingProxyType(
    {
        "react": react,
        "reflection_only": reflection_only,
        "rollback_only": rollback_only,
        "restart": restart,
        "rir": rir,
    }
)


def _all(pieces: Pieces) -> Mechanism:
    """Full RIR of the pieces, with a stand-in for a role that the restriction replaces anyway."""
    given: Pieces = {"where": Here(), "what": keep, **pieces}
    return rir(**given)


def _named(mechanism: Mechanism, name: str, restriction: str) -> Mechanism:
    roles = {role: _describe(getattr(mechanism, role)) for role in ("act", "when", "where", "what")}
    return replace(mechanism, name=name, restriction=restriction, settings={**mechanism.settings, **roles})


def _describe(value: Any) -> str:
    """A repr without addresses: settings of roles, names of functions, and nothing of a model."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = [f"{part.name}={_describe(getattr(value, part.name))}" for part in fields(value) if part.repr]
        return f"{type(value).__name__}({', '.join(shown)})"
    return str(getattr(value, "__qualname__", type(value).__name__)) if callable(value) else repr(value)

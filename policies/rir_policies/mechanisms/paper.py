"""Full RIR, its ablations and its triggers: the rows of the paper's ablation table.

Ledger law (auxiliary calls, without abandoned rollbacks): RIR reviews + 3 (rollbacks + corrections); reflection only
reviews + corrections; restart reviews + rollbacks + corrections; direct selection reviews + 2 (rollbacks +
corrections); rollback only the same, where the paper's own column suggests that it also counts the patch that it
discards. Source: Yu et al., "Rollback the World, Keep the Reflection", arXiv 2609.18304. This module knows no
environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Unpack

from rir_gym.base import Act, Mechanism, MemoryPosition, Restriction, What, When, Where
from rir_gym.operator import WHOLE, Depths, Memories
from rir_policies.act import ModelActor
from rir_policies.actors import Asking
from rir_policies.expel import RuleBook
from rir_policies.mechanisms.pieces import Pieces, named
from rir_policies.targets import Direct, OneStage
from rir_policies.triggers import OnRequest, Scheduled
from rir_policies.what import keep
from rir_policies.when import Hybrid, Reviewer, Silent
from rir_policies.where import CoarseToFine, Here, Start

__all__ = [
    "agent_only",
    "direct_selection",
    "full",
    "hybrid_fixed",
    "reflection_only",
    "restart",
    "rir",
    "rollback_only",
    "scheduled_adaptive",
    "scheduled_fixed",
    "that_asks",
    "that_is_not_told",
]


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
    rules: RuleBook | None = None,
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
        rules: for ExpeL alone; all others do not use it.

    Source: Yu et al., "Rollback the World, Keep the Reflection", arXiv 2609.18304, Algorithm 1.

    Raises:
        UsageError: a schedule that is none.
    """
    return named(
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
        WHOLE,
    )


def reflection_only(**pieces: Unpack[Pieces]) -> Mechanism:
    """The paper's ablation without rollback: k = 0, the context is corrected. ``where`` is replaced."""
    return named(replace(full(pieces), where=Here()), "reflection_only", Restriction(Depths.zero()))


def rollback_only(**pieces: Unpack[Pieces]) -> Mechanism:
    """The paper's ablation without memory: M stays, ΔE is dropped, no patcher is asked. ``what`` is replaced."""
    whole = full(pieces)
    bare = replace(whole, when=Silent(whole.when), what=keep)
    return named(bare, "rollback_only", Restriction(memories=Memories.unchanged()))


def restart(**pieces: Unpack[Pieces]) -> Mechanism:
    """The paper's ablation that always resumes at the start. ``where`` is replaced."""
    return named(replace(full(pieces), where=Start()), "restart", Restriction(Depths.start()))


def direct_selection(**pieces: Unpack[Pieces]) -> Mechanism:
    """The paper's ablation that selects in one stage. A model is asked once; of an instrument one stage is dropped."""
    whole = full(pieces)
    where = whole.where
    one = Direct(where.model, where.prompts) if isinstance(where, CoarseToFine) else OneStage(where)
    return named(replace(whole, where=one), "direct_selection", WHOLE)


def agent_only(**pieces: Unpack[Pieces]) -> Mechanism:
    """Reviews on the agent's request alone. A scripted agent asks where the reviewer would (``Asking``)."""
    whole = full(pieces)
    asking = replace(whole, act=that_asks(pieces), when=OnRequest(pieces["reviewer"]))
    return named(asking, "agent_only", WHOLE)


def scheduled_fixed(**pieces: Unpack[Pieces]) -> Mechanism:
    """Reviews every L steps, L = (l_min + l_max) / 2 (ours); the agent cannot ask."""
    return _scheduled("scheduled_fixed", pieces, *_fixed(full(pieces)))


def scheduled_adaptive(**pieces: Unpack[Pieces]) -> Mechanism:
    """Reviews on the adaptive schedule alone; the agent cannot ask."""
    given = full(pieces).settings
    return _scheduled("scheduled_adaptive", pieces, given["l_min"], given["l_max"], given["l_0"])


def hybrid_fixed(**pieces: Unpack[Pieces]) -> Mechanism:
    """Reviews on request and every L steps, L = (l_min + l_max) / 2 (ours)."""
    whole = full(pieces)
    l_min, l_max, l_0 = _fixed(whole)
    when: When = Hybrid(pieces["reviewer"], l_min=l_min, l_max=l_max, l_0=l_0)
    return named(replace(whole, when=when), "hybrid_fixed", WHOLE, l_min=l_min, l_max=l_max, l_0=l_0)


def full(pieces: Pieces) -> Mechanism:
    """Full RIR of the pieces, with a stand-in for a role that the restriction replaces anyway."""
    given: Pieces = {"where": Here(), "what": keep, **pieces}
    return rir(**given)


def that_asks(pieces: Pieces) -> Act:
    """An agent that can ask for a rollback: a model can, a scripted agent is given the reviewer's judgement."""
    act = pieces["act"]
    return act if isinstance(act, ModelActor | Asking) else Asking(act, pieces["reviewer"])


def that_is_not_told(act: Act) -> Act:
    """An agent that cannot ask for a rollback: a model is not told of it."""
    if isinstance(act, Asking):
        return act.act
    return replace(act, requests="none") if isinstance(act, ModelActor) else act


def _scheduled(name: str, pieces: Pieces, l_min: float, l_max: float, l_0: float) -> Mechanism:
    whole = full(pieces)
    when: When = Scheduled(pieces["reviewer"], l_min=l_min, l_max=l_max, l_0=l_0)
    bare = replace(whole, act=that_is_not_told(whole.act), when=when)
    return named(bare, name, WHOLE, l_min=l_min, l_max=l_max, l_0=l_0)


def _fixed(whole: Mechanism) -> tuple[float, float, float]:
    middle = (whole.settings["l_min"] + whole.settings["l_max"]) / 2
    return middle, middle, middle

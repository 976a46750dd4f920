"""Mechanisms: RIR, its restrictions and its rivals, on the same loop and ledger; one family a file.

Every function of ``MECHANISMS`` takes the same keywords (``Pieces``), so a table is one loop over it. What a card fixes
is replaced; whatever of the given roles a model plays is played in the card's own words, and an instrument
stays the instrument, so that a comparison on instruments restricts (k, M+), memory and trigger and nothing else. The
cards, with sources and with what is ours, are in docs/mechanisms.md. This package knows no environment.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rir_gym.base import Mechanism
from rir_policies.mechanisms.attempts import reflexion, restart_with_attribution
from rir_policies.mechanisms.paper import (
    agent_only,
    direct_selection,
    hybrid_fixed,
    reflection_only,
    restart,
    rir,
    rollback_only,
    scheduled_adaptive,
    scheduled_fixed,
)
from rir_policies.mechanisms.pieces import Pieces, Roles, model_roles
from rir_policies.mechanisms.rollbacks import agentrewind, ga_rollback, src, webrollback
from rir_policies.mechanisms.stepwise import expel, react, reflact, self_refine
from rir_policies.mechanisms.tree import lats

__all__ = [
    "MECHANISMS",
    "NEEDS_MODEL",
    "Pieces",
    "Roles",
    "agent_only",
    "agentrewind",
    "direct_selection",
    "expel",
    "ga_rollback",
    "hybrid_fixed",
    "lats",
    "model_roles",
    "react",
    "reflact",
    "reflection_only",
    "reflexion",
    "restart",
    "restart_with_attribution",
    "rir",
    "rollback_only",
    "scheduled_adaptive",
    "scheduled_fixed",
    "self_refine",
    "src",
    "webrollback",
]

MECHANISMS: Mapping[str, Callable[..., Mechanism]] = MappingProxyType(
    {
        "react": react,
        "reflact": reflact,
        "self_refine": self_refine,
        "reflexion": reflexion,
        "lats": lats,
        "ga_rollback": ga_rollback,
        "src": src,
        "webrollback": webrollback,
        "agentrewind": agentrewind,
        "restart_with_attribution": restart_with_attribution,
        "expel": expel,
        "reflection_only": reflection_only,
        "rollback_only": rollback_only,
        "restart": restart,
        "direct_selection": direct_selection,
        "agent_only": agent_only,
        "scheduled_fixed": scheduled_fixed,
        "scheduled_adaptive": scheduled_adaptive,
        "hybrid_fixed": hybrid_fixed,
        "rir": rir,
    }
)

NEEDS_MODEL = frozenset({"reflact", "expel"})
"""Mechanisms without a meaning for a scripted agent: a table of instruments says n/a."""

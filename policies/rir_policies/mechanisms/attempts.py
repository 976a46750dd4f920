"""Mechanisms that begin a failed attempt anew: Reflexion, and a restart that attributes the failure.

Cards and sources stand in docs/mechanisms.md. This module knows no environment.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from rir_gym.base import Mechanism, Restriction
from rir_gym.operator import Depths, Memories
from rir_policies.mechanisms.paper import full, that_is_not_told
from rir_policies.mechanisms.pieces import Pieces, named, player, reading
from rir_policies.notes import Notes
from rir_policies.notetaking import Decisive, NoteDown, WriteNote
from rir_policies.targets import Direct
from rir_policies.triggers import AttemptFailed
from rir_policies.where import Start

__all__ = ["reflexion", "restart_with_attribution"]

_PLANS = 3


def reflexion(**pieces: Unpack[Pieces]) -> Mechanism:
    """Reflexion: a failed attempt begins anew with the last three plans. That it failed is an oracle's word.

    A scripted reviewer says what the attempt showed; a model writes the plan by itself. Source: Shinn et al., arXiv
    2303.11366.
    """
    whole = full(pieces)
    played = player(whole.what)
    plan = WriteNote(*played, "reflexion.plan", says="cause and facts") if played else NoteDown("cause and facts")
    again = replace(_again(whole, pieces), what=plan, memory=partial(Notes, most=_PLANS, title="Plans after failures"))
    return named(again, "reflexion", Restriction(Depths.start(), Memories.notes(_PLANS)))


def restart_with_attribution(**pieces: Unpack[Pieces]) -> Mechanism:
    """A restart with who, when and why of the decisive step: the earliest one whose correction flips the outcome.

    The decisive step is found by ``where``: an instrument's latest rescue point is the step before the loss. A model is
    asked for it in one stage. Source: Zhang et al., "AgenTracer", arXiv 2509.03312, of which this is the attribution.
    """
    whole = full(pieces)
    where, what = player(whole.where), player(whole.what)
    located: Any = Direct(*where, "agentracer.decisive") if where else reading(whole.where)
    why = WriteNote(*what, "agentracer.why") if what else NoteDown()
    memory = partial(Notes, most=1, title="The decisive mistake of the last attempt")
    again = replace(_again(whole, pieces), what=Decisive(located, why), memory=memory)
    return named(again, "restart_with_attribution", Restriction(Depths.start(), Memories.notes(1)))


def _again(whole: Mechanism, pieces: Pieces) -> Mechanism:
    """Begin anew when the attempt has failed. A model reviewer is not asked: the signal says it, ``what`` says why."""
    reviewer = pieces["reviewer"]
    when = AttemptFailed(None if player(reviewer) else reading(reviewer))
    act = reading(that_is_not_told(whole.act))
    return replace(whole, act=act, when=when, where=Start(), uses_oracle=True)

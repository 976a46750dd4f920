"""Mechanisms that restore an earlier state of the branch: GA-Rollback, SRC, WebRollback and AgentRewind.

Cards and sources stand in docs/mechanisms.md. This module knows no environment.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from rir_gym.base import Mechanism, Restriction
from rir_gym.operator import Depths, Memories
from rir_policies.actors import Asking, GivesUp
from rir_policies.critics import ModelCritic, NamesStep
from rir_policies.mechanisms.paper import full, that_asks, that_is_not_told
from rir_policies.mechanisms.pieces import Pieces, named, player, reading
from rir_policies.notes import Fresh, Notes
from rir_policies.notetaking import NoteDown, WriteNote
from rir_policies.targets import AskedFor, Direct, Named, OneStage
from rir_policies.triggers import Asked, EveryStep, Scheduled, Window
from rir_policies.what import keep
from rir_policies.when import Silent

__all__ = ["agentrewind", "ga_rollback", "src", "webrollback"]

_GA_ROLLBACKS, _GA_DEPTH, _GA_NOTES, _GA_AFTER = 6, 4, 3, 6
_SRC_ROLLBACKS, _SRC_DEPTH, _SRC_EVERY = 6, 3, 3


def ga_rollback(**pieces: Unpack[Pieces]) -> Mechanism:
    """GA-Rollback: after step 6 an assistant examines every step and may take the last one to four back, six times.

    Its explanations, one line each, are the memory, the last three of them. A model assistant names the step itself
    (``NamesStep``), and is ignored below a mean token probability of 0.93. Source: Li et al., arXiv 2503.02519.
    """
    whole = full(pieces)
    played = player(pieces["reviewer"])
    assistant: Any = NamesStep(*played) if played else reading(pieces["reviewer"])
    where: Any = Named() if played else OneStage(reading(_one_stage(whole)))
    rolling = replace(
        whole,
        act=reading(that_is_not_told(whole.act)),
        when=EveryStep(Window(assistant, least=1, most=_GA_DEPTH), after=_GA_AFTER),
        where=Window(where, least=1, most=_GA_DEPTH),
        what=NoteDown(),
        memory=partial(Notes, most=_GA_NOTES, title="Why earlier commands were taken back"),
        max_rollbacks=_GA_ROLLBACKS,
    )
    depths = Depths("between", 1, _GA_DEPTH)
    return named(rolling, "ga_rollback", Restriction(depths, Memories.notes(_GA_NOTES)))


def src(**pieces: Unpack[Pieces]) -> Mechanism:
    """SRC: the last three steps are accepted or rejected every three steps, in doubt accepted; six rejections at most.

    The reason of a rejection is shown for one step. A target that was hit more than twice ends the run: the agent gives
    up. A verdict that cannot be read accepts. Source: its card alone; no public page of it was at hand.
    """
    whole = full(pieces)
    played = player(pieces["reviewer"])
    checker: Any = ModelCritic(*played, "src") if played else reading(pieces["reviewer"])
    every = {"l_min": _SRC_EVERY, "l_max": _SRC_EVERY, "l_0": _SRC_EVERY}
    rolling = replace(
        whole,
        act=GivesUp(Fresh(reading(that_is_not_told(whole.act)))),
        when=Scheduled(Fresh(Window(checker, least=1, most=_SRC_DEPTH)), **every),
        where=Fresh(Window(reading(_one_stage(whole)), least=1, most=_SRC_DEPTH)),
        what=NoteDown(),
        memory=partial(Notes, most=1, title="Why the steps from here were rejected"),
        max_rollbacks=_SRC_ROLLBACKS,
    )
    restriction = Restriction(Depths("between", 1, _SRC_DEPTH), Memories.notes(1))
    return named(rolling, "src", restriction, **every)


def webrollback(**pieces: Unpack[Pieces]) -> Mechanism:
    """WebRollback: a critic at every step, a selector of any earlier state, and no memory.

    Source: Zhang et al., arXiv 2504.11788.
    """
    whole = full(pieces)
    played = player(pieces["reviewer"])
    critic: Any = ModelCritic(*played, "webrollback") if played else pieces["reviewer"]
    rolling = replace(
        whole,
        act=that_is_not_told(whole.act),
        when=Silent(EveryStep(Window(critic, least=1))),
        where=Window(_one_stage(whole, "webrollback.select"), least=1),
        what=keep,
    )
    return named(rolling, "webrollback", Restriction(Depths("between", 1), Memories.unchanged()))


def agentrewind(**pieces: Unpack[Pieces]) -> Mechanism:
    """AgentRewind: the agent decides when and where, and appends a free note that it keeps.

    A request is carried out without a review. Where the agent names no step, a model is asked for one; of a scripted
    agent the localizer stands for it, as the reviewer does for its own judgement (``Asking``). Source: its card alone;
    no public page of it was at hand.
    """
    whole = full(pieces)
    played = player(whole.what)
    act = that_asks({**pieces, "reviewer": reading(pieces["reviewer"])})
    note = WriteNote(*played, "agentrewind.note", says="cause and facts") if played else NoteDown("cause and facts")
    rewinding = replace(
        whole,
        act=replace(act, act=reading(act.act)) if isinstance(act, Asking) else act,
        when=Asked(),
        where=AskedFor(reading(_one_stage(whole, "agentrewind.select"))),
        what=note,
        memory=partial(Notes, most=None, title="Your notes from steps that you took back"),
    )
    return named(rewinding, "agentrewind", Restriction(memories=Memories.notes()))


def _one_stage(whole: Mechanism, section: str = "direct.point") -> Any:
    """The given ``where`` in one stage; a model is asked in the words of ``section``."""
    played = player(whole.where)
    return Direct(*played, section) if played else OneStage(whole.where)

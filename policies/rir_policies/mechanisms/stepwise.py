"""Mechanisms that never restore a state: ReAct, ReflAct, Self-Refine and ExpeL.

Cards and sources stand in docs/mechanisms.md. This module knows no environment.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Unpack

from rir_gym.base import Mechanism, Restriction
from rir_gym.errors import UsageError
from rir_gym.operator import Depths, Memories
from rir_policies.act import ModelActor
from rir_policies.critics import ModelCritic
from rir_policies.expel import Recall
from rir_policies.mechanisms.paper import full, that_is_not_told
from rir_policies.mechanisms.pieces import Pieces, named, player, reading
from rir_policies.notes import Fresh, Notes
from rir_policies.notetaking import NoteDown
from rir_policies.triggers import Refining
from rir_policies.what import keep
from rir_policies.when import never
from rir_policies.where import Here

__all__ = ["expel", "react", "reflact", "self_refine"]

_NOTHING = Restriction(Depths.none(), Memories.unchanged())
_REFINEMENTS = 2
_THOUGHT_TOKENS = 48


def react(**pieces: Unpack[Pieces]) -> Mechanism:
    """ReAct: one agent call a step, never a review. The agent is not told of rollbacks.

    The recovery roles, the schedule and ``uses_oracle`` are accepted and not used. Source: Yao et al., arXiv
    2210.03629.
    """
    return named(_bare(pieces), "react", _NOTHING)


def reflact(**pieces: Unpack[Pieces]) -> Mechanism:
    """ReflAct: as ReAct, with a thought that sets the state in relation to the goal instead of a plan.

    Source: Kim et al., arXiv 2505.15182.

    Raises:
        UsageError: an agent that is no language model; it has no thoughts to word.
    """
    bare = _bare(pieces)
    act = bare.act
    if not isinstance(act, ModelActor):
        raise UsageError(f"act={type(act).__name__}: reflact needs an agent that is played by a language model")
    texts = {**act.prompts.texts, "act.thought": act.prompts.texts["reflact.thought"]}
    prompts = replace(act.prompts, texts=MappingProxyType(texts))
    thinking = replace(act, prompts=prompts, thought_tokens=act.thought_tokens or _THOUGHT_TOKENS)
    return named(replace(bare, act=thinking), "reflact", _NOTHING, thought="reflact.thought")


def self_refine(**pieces: Unpack[Pieces]) -> Mechanism:
    """Self-Refine: each drafted action is criticized; on a critique it is dropped and drafted anew, at most twice.

    Every draft is an agent call, every critique a review, every refinement a correction (k = 0) whose note holds for
    that step only. The critic is the reviewer; a model reviewer is asked in Self-Refine's words. Source: Madaan et al.,
    arXiv 2303.17651.
    """
    whole = full(pieces)
    played = player(pieces["reviewer"])
    critic = ModelCritic(*played, "selfrefine") if played else reading(pieces["reviewer"])
    refining = replace(
        whole,
        act=Fresh(reading(that_is_not_told(whole.act))),
        when=Refining(Fresh(critic), most=_REFINEMENTS),
        where=Here(),
        what=NoteDown(),
        memory=partial(Notes, most=_REFINEMENTS, title="Criticism of your last drafts of this command"),
    )
    return named(refining, "self_refine", Restriction(Depths.zero(), Memories.notes(_REFINEMENTS)))


def expel(**pieces: Unpack[Pieces]) -> Mechanism:
    """ExpeL: as ReAct, with a memory of rules and one success that were made from a training split (``expel``).

    Source: Zhao et al., arXiv 2308.10144.

    Raises:
        UsageError: without ``rules``, or an agent that is no language model.
    """
    bare, rules = _bare(pieces), pieces.get("rules")
    if not isinstance(bare.act, ModelActor):
        raise UsageError(f"act={type(bare.act).__name__}: expel needs an agent that is played by a language model")
    if rules is None:
        raise UsageError("rules=None: expel needs a RuleBook; rir_policies.expel.learn_rules makes one")
    return named(replace(bare, memory=Recall(rules)), "expel", _NOTHING, rules=len(rules.rules), most=rules.most)


def _bare(pieces: Pieces) -> Mechanism:
    given: Pieces = {"reviewer": never, **pieces}
    whole = full(given)
    settings = dict(pieces.get("settings", {}))
    act = that_is_not_told(whole.act)
    return replace(whole, act=act, when=never, where=Here(), what=keep, uses_oracle=False, settings=settings)

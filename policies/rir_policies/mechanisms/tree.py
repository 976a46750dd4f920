"""LATS: a tree search over the kept nodes of an episode, outside the operator's class.

Card and source stand in docs/mechanisms.md, the search itself in ``search``. This module knows no environment.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from rir_gym.base import Mechanism, Restriction
from rir_gym.operator import Memories
from rir_policies.critics import ModelValue
from rir_policies.mechanisms.paper import full, that_is_not_told
from rir_policies.mechanisms.pieces import Pieces, named, player, reading
from rir_policies.notetaking import NoteDown, WriteNote
from rir_policies.search import Backup, SearchActor, SearchMemory, SearchReview, Select

__all__ = ["lats"]

_ITERATIONS, _REFLECTIONS = 30, 3


def lats(**pieces: Unpack[Pieces]) -> Mechanism:
    """LATS: UCT over any kept node, five samples an expansion (ten at the root), 30 iterations, three reflections.

    Every sample is an agent call. Values come from the reviewer: a model is asked for 1 to 10; an instrument's ROLLBACK
    is 1 and CONTINUE 10. The true reward stops the search: an oracle. A model agent needs a temperature above 0, or its
    samples are all alike. Source: Zhou et al., arXiv 2310.04406.
    """
    whole = full(pieces)
    critic, writer = player(pieces["reviewer"]), player(whole.what)
    valued: Any = ModelValue(*critic) if critic else reading(pieces["reviewer"])
    note = WriteNote(*writer, "lats.reflection", says="cause and facts") if writer else NoteDown("cause and facts")
    searching = replace(
        whole,
        act=SearchActor(reading(that_is_not_told(whole.act))),
        when=SearchReview(valued, iterations=_ITERATIONS),
        where=Select(),
        what=Backup(note),
        memory=partial(SearchMemory, most=_REFLECTIONS),
        uses_oracle=True,
        max_rollbacks=_ITERATIONS,
    )
    return named(searching, "lats", Restriction(memories=Memories.notes(_REFLECTIONS), nodes="tree"))

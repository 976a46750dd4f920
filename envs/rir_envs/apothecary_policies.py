"""Policies that know Apothecary's rules and words, and of an episode no more than their view shows.

``Expert`` acts, ``evidence_reviewer`` decides when to roll back and ``evidence_localizer`` where to. They read only
``View.history``, ``View.memory``, ``View.restorable``, the seed and the number of agent calls, never ``View.oracle`` or
an environment. They keep no state: every draw is a function of the seed and the number of calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from rir_envs.apothecary_evidence import evidence_localizer, evidence_reviewer
from rir_envs.apothecary_knowledge import Knowledge, knowledge, observed_facts
from rir_envs.apothecary_plan import fits, missing, plan
from rir_envs.apothecary_world import LAB, Recipe, things_in
from rir_gym.base import Decision, View
from rir_gym.errors import UsageError

__all__ = ["Expert", "Knowledge", "evidence_localizer", "evidence_reviewer", "knowledge", "observed_facts"]


# --- act ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expert:
    """A knowledge-limited, noisy demonstrator (role Act).

    It knows the rules of the game, the text of its branch and the facts in its memory; not the oracle, not the
    difficulty and not its own errors. Knowing the recipe it follows a shortest plan through the rooms that it knows and
    explores for what it does not know. Not knowing it, a careful expert looks for the book and picks rumoured
    ingredients up on the way; a hasty one believes the rumour until it holds evidence against it: the book, a dark
    offer on this branch, a refutation or a failure in its memory. A room that its memory blames for the last failure is
    explored last; a blamed pour or seal is not repeated unless the book asks for it, since after a failure it no longer
    acts on the rumour.

    Args:
        trust: probability, drawn once an episode, of being hasty.
        slip: probability, drawn at every call, of a uniformly random admissible action instead of the intended one.
        seed_salt: another salt gives other draws for the same seeds.

    Raises:
        UsageError: a probability outside [0, 1].
    """

    trust: float = 0.5
    slip: float = 0.1
    seed_salt: str = ""

    def __post_init__(self) -> None:
        for name, value in (("trust", self.trust), ("slip", self.slip)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise UsageError(f"{name}={value!r}: a probability from 0 to 1")

    def __call__(self, views: Sequence[View]) -> list[Decision]:
        """n views to n task actions."""
        return [Decision.act(self._act(view)) for view in views]

    def hasty(self, seed: int) -> bool:
        """Whether the expert of this episode trusts the rumour."""
        return _uniform(self.seed_salt, seed, "trust") < self.trust

    def intent(self, view: View) -> str:
        """What it would do without slips."""
        known = knowledge(view)
        recipe = known.recipe
        credulous = not (known.refuted or known.dark or known.failed_action is not None)
        if recipe is None and credulous and self.hasty(view.seed):
            recipe = known.rumour
        if recipe is None:
            return _seek_book(known)
        commands = plan(recipe, known.state)
        return commands[0] if commands else _seek_ingredients(known, recipe)

    def _act(self, view: View) -> str:
        admissible = view.admissible
        if admissible and _uniform(self.seed_salt, view.seed, view.agent_calls, "slip") < self.slip:
            return admissible[int(_uniform(self.seed_salt, view.seed, view.agent_calls, "which") * len(admissible))]
        return self.intent(view)


def _seek_book(known: Knowledge) -> str:
    room = known.state.room
    if known.book == room:
        return "read"
    for thing in things_in(known.state, room):
        if known.rumour and thing in known.rumour.ingredients and thing not in known.state.held:
            return f"take {thing}"
    return f"go {known.book}" if known.book else _explore(known)


def _seek_ingredients(known: Knowledge, recipe: Recipe) -> str:
    """Some ingredient has no known place: take what is here, then look where nobody has looked yet."""
    state = known.state
    if state.room == LAB and not fits(recipe, state):
        return "empty"
    here = things_in(state, state.room)
    return next((f"take {x}" for x in missing(recipe, state) if x in here), None) or _explore(known)


def _explore(known: Knowledge) -> str:
    """The next unexplored store room, a blamed one last; wander from store to store where all are explored."""
    unexplored = [room for room in known.stores if room not in known.explored]
    if unexplored:
        return f"go {min(unexplored, key=lambda room: (known.failed_action == f'go {room}', room))}"
    others = [room for room in known.stores if room != known.state.room]
    later = [room for room in others if room > known.state.room]
    return f"go {(later or others or [LAB])[0]}"


def _uniform(*key: object) -> float:
    """A number in [0, 1) that depends on the key alone, on every machine."""
    digest = hashlib.blake2b("/".join(map(str, key)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53

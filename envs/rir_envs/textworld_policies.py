"""Policies that know the rules and words of TextWorld's games, and of an episode no more than their view shows.

``Expert`` acts, ``evidence_reviewer`` decides when to roll back and ``evidence_localizer`` where to. They read only
``View.history``, ``View.objective``, ``View.memory``, ``View.restorable``, the seed and the number of agent calls,
never ``View.oracle`` or an environment. They keep no state: every draw is a function of the seed and the number of
calls. They serve the cooking game, the simple game, the coin collector and the treasure hunter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rir_envs.textworld_errands import HEAT, Beliefs, next_errand, route
from rir_envs.textworld_evidence import evidence_localizer, evidence_reviewer
from rir_envs.textworld_knowledge import Knowledge, knowledge, observed_facts
from rir_envs.textworld_reading import COOK, CUT, DIRECTIONS, Direction
from rir_gym.base import Decision, View
from rir_gym.errors import UsageError

__all__ = ["Expert", "Knowledge", "evidence_localizer", "evidence_reviewer", "knowledge", "observed_facts"]


@dataclass(frozen=True, slots=True)
class Expert:
    """A knowledge-limited, noisy demonstrator (role Act).

    It knows the rules of the four kinds of games, the text and the listed commands of its branch, and the facts in its
    memory; not the oracle, not the level, not what lies where it has not looked, and not its own errors. It keeps a map
    of rooms, exits, doors, containers and things, does the nearest useful errand, and explores the nearest unknown exit
    or closed container where it knows none. Where the objective spells out a way, it goes that way.

    It has misbeliefs, each fixed by the seed for one fact and held with probability ``trust`` (a verb of
    the cookbook, a thing, an exit):

    - *cooking*: it takes one verb of the cookbook for another (for roast, fry; for slice, dice). Acting on that loses
      the game. It reads rightly once the contrary is known: its memory says what the cookbook says, or its branch or
      memory says that this command loses the game, or its memory blames the command for the last failure; and where
      the misreading leaves it nothing to do (no BBQ is to be found, and it believes that something is to be grilled).
    - *something to be found*: it takes a thing that the objective does not name for the one that is sought and picks it
      up (in a treasure hunt the wrong thing loses the game), until branch or memory says that this loses the game.
    - *the simple game*: it takes another thing for the food that is named and puts it on the stove, which only costs
      calls, until branch or memory says that this did not win.
    - a direction of the way that the objective spells out is taken for another one, and an exit is taken for one that
      leads nowhere and is tried late, until branch or memory says where it leads. This only costs calls.

    Args:
        trust: probability of each misbelief, drawn once an episode for each fact.
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

    def intent(self, view: View) -> str:
        """What it would do without slips; "look" where it knows nothing useful to do."""
        known = knowledge(view)
        errand = next_errand(known, self.beliefs(known, view.seed)) or next_errand(known, Beliefs(known.recipe))
        return errand.command if errand else "look"

    def beliefs(self, known: Knowledge, seed: int) -> Beliefs:
        """What the expert of this episode believes, knowing ``known``."""
        recipe = known.recipe
        if recipe is not None and not known.recalled:
            recipe = tuple(self._misread(one, known, seed) for one in recipe)
        ways = route(known.objective)
        turns = tuple(self._other(way, tuple(DIRECTIONS), seed, "turn", number) for number, way in enumerate(ways))

        def taken_for(thing: str) -> bool:
            commands = {f"take {thing}", f"put {thing} on stove"}
            refuted = any(c.startswith(f"take {thing} from ") or c in commands for c in _refuted(known))
            return not refuted and self._holds(seed, "thing", thing)

        def dead_end(room: str, way: str) -> bool:
            return self._holds(seed, "exit", room, way)

        return Beliefs(recipe, turns, taken_for, dead_end)

    def _misread(self, one: Direction, known: Knowledge, seed: int) -> Direction:
        cook = self._other(one.cook, tuple(COOK), seed, "cook", one.food) if one.cook else ""
        cut = self._other(one.cut, tuple(CUT), seed, "cut", one.food) if one.cut else ""
        refuted = _refuted(known)
        if cook and f"cook {one.food} with {HEAT[cook]}" in refuted:
            cook = one.cook
        if cut and f"{cut} {one.food} with knife" in refuted:
            cut = one.cut
        return replace(one, cook=cook, cut=cut)

    def _holds(self, seed: int, *fact: object) -> bool:
        return _uniform(self.seed_salt, seed, "misbelief", *fact) < self.trust

    def _other(self, right: str, words: tuple[str, ...], seed: int, *fact: object) -> str:
        """``right``, or where it is misread another of ``words``."""
        if not self._holds(seed, *fact):
            return right
        others = [word for word in words if word != right]
        return others[int(_uniform(self.seed_salt, seed, "instead", *fact) * len(others))]

    def _act(self, view: View) -> str:
        admissible = view.admissible
        if admissible and _uniform(self.seed_salt, view.seed, view.agent_calls, "slip") < self.slip:
            return admissible[int(_uniform(self.seed_salt, view.seed, view.agent_calls, "which") * len(admissible))]
        return self.intent(view)


def _refuted(known: Knowledge) -> frozenset[str]:
    """The commands that branch or memory speak against."""
    blamed = {known.failed_action} if known.failed_action else set()
    return known.lethal | known.idle | blamed


def _uniform(*key: object) -> float:
    """A number in [0, 1) that depends on the key alone, on every machine."""
    digest = hashlib.blake2b("/".join(map(str, key)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53

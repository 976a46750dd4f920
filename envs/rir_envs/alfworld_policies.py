"""Policies that know ALFWorld's rules and words, and of an episode no more than their view shows.

``Expert`` acts, ``evidence_reviewer`` decides when to roll back and ``evidence_localizer`` where to. They read only
``View.history``, ``View.objective``, ``View.memory``, ``View.restorable``, the seed and the agent calls, never
``View.oracle`` or an environment. They keep no state: every draw is a function of the seed and the number of calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rir_envs.alfworld_errands import next_errand
from rir_envs.alfworld_evidence import evidence_localizer, evidence_reviewer
from rir_envs.alfworld_knowledge import Knowledge, knowledge, observed_facts
from rir_envs.alfworld_reading import Task
from rir_gym.base import Decision, View
from rir_gym.errors import UsageError

__all__ = ["ALIKE", "Expert", "Knowledge", "evidence_localizer", "evidence_reviewer", "knowledge", "observed_facts"]

ALIKE = {
    "mug": "cup", "cup": "mug", "plate": "bowl", "bowl": "plate", "fork": "spoon", "spoon": "fork", "ladle": "spatula",
    "spatula": "ladle", "pot": "pan", "pan": "pot", "pen": "pencil", "pencil": "pen", "apple": "tomato",
    "tomato": "apple", "saltshaker": "peppershaker", "peppershaker": "saltshaker", "soapbar": "soapbottle",
    "soapbottle": "soapbar", "knife": "butterknife", "butterknife": "knife", "book": "newspaper", "newspaper": "book",
    "cloth": "handtowel", "handtowel": "cloth",
}  # fmt: skip
"""Kinds that are taken for each other (ours)."""


@dataclass(frozen=True, slots=True)
class Expert:
    """A knowledge-limited, noisy demonstrator (role Act).

    It knows ALFWorld's commands and what they do, the words of objectives made from ALFRED's templates, the text and
    the listed commands of its branch, and the facts in its memory; not the oracle, not where things lie that it has not
    seen, not what fits where before it stood there with it, and not its own errors. Knowing where everything needed
    lies, it follows a shortest plan in the household that it knows; else it looks into one receptacle after the other.
    An objective in other words it does not understand: then it only looks around.

    It has misbeliefs, each fixed by the seed for one fact and held with probability ``trust``:

    - that a receptacle does not hold the thing sought: it looks there last. This costs steps, of which ALFWorld has
      50; it ends once branch or memory say what lies there.
    - that another kind of thing is the one asked for (a cup for a mug, see ``ALIKE``), where it has seen such a thing
      and none of the right kind: it does all of the task with that one. It ends once the branch or the memory say
      that this did not reach the goal, or where a thing of the right kind lies.

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
        task = self.believed(known, view.seed)
        errand = next_errand(known, task, late=lambda receptacle: self._late(view.seed, task.thing, receptacle))
        return errand.command if errand else "look"

    def believed(self, known: Knowledge, seed: int) -> Task:
        """What the expert of this episode takes the task to be, knowing ``known``."""
        task = known.task or Task("")
        other = ALIKE.get(task.thing, "")
        mistaken = other and other not in known.useless and self._holds(seed, "kind", task.thing)
        if mistaken and known.where(other) and not known.where(task.thing):
            return replace(task, thing=other)
        return task

    def _late(self, seed: int, thing: str, receptacle: str) -> tuple[bool, float]:
        order = _uniform(self.seed_salt, seed, "order", thing, receptacle)
        return self._holds(seed, "empty", thing, receptacle), order

    def _holds(self, seed: int, *fact: object) -> bool:
        return _uniform(self.seed_salt, seed, "misbelief", *fact) < self.trust

    def _act(self, view: View) -> str:
        admissible = view.admissible
        if admissible and _uniform(self.seed_salt, view.seed, view.agent_calls, "slip") < self.slip:
            return admissible[int(_uniform(self.seed_salt, view.seed, view.agent_calls, "which") * len(admissible))]
        return self.intent(view)


def _uniform(*key: object) -> float:
    """A number in [0, 1) that depends on the key alone, on every machine."""
    digest = hashlib.blake2b("/".join(map(str, key)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53

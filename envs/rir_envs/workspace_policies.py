"""Policies that know the rules and families of the workspace, and of an episode no more than their view shows.

``Expert`` acts, ``evidence_reviewer`` decides when to roll back and ``evidence_localizer`` where to. They read only
``View.history``, ``View.objective``, ``View.memory``, ``View.restorable``, the seed and the number of agent calls,
never ``View.oracle`` or an environment. They keep no state: every draw is a function of the seed and the number of
calls. They serve the families; of a question of GAIA they know nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from rir_envs.workspace_commands import submission
from rir_envs.workspace_evidence import evidence_localizer, evidence_reviewer
from rir_envs.workspace_knowledge import Belief, Knowledge, Unknown, belief, knowledge, observed_facts
from rir_envs.workspace_plan import way
from rir_gym.base import Decision, View
from rir_gym.errors import UsageError

__all__ = ["Expert", "Knowledge", "evidence_localizer", "evidence_reviewer", "knowledge", "observed_facts"]


@dataclass(frozen=True, slots=True)
class Expert:
    """A knowledge-limited, noisy demonstrator (role Act).

    It knows the rules of the families, the text of its branch and the facts in its memory; not the oracle and not its
    own errors. It reads what it needs to know what is asked for, then does it by a shortest plan on the files as it
    believes them to be. Before it sends or submits anything it reads the notes that it has not read. Where what is
    asked for is out of reach, it submits its answer all the same.

    It has misbeliefs, each fixed by the seed for one fact and held with probability ``trust``:

    - *the notes say nothing new*: of notes that overrule other files, it acts before reading them;
    - *nothing that is needed lies there*: it moves and copies to places without looking at what lies there;
    - *write adds*: it writes to a log where it should append.

    The first ends when branch or memory hold the notes, the others when branch or memory show that writing, moving or
    copying destroyed what lay at a path. Slips are lists, searches, sums, and the reading, moving away or deleting of
    any file; nothing is sent or submitted by a slip.

    Args:
        trust: probability of each misbelief, drawn once an episode for each fact.
        slip: probability, drawn at every call, of a slip instead of the intended command.
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

    def holds(self, seed: int, *fact: object) -> bool:
        """Whether the expert of this episode has the misbelief about a fact, as long as nothing speaks against it."""
        return _uniform(self.seed_salt, seed, "misbelief", *fact) < self.trust

    def intent(self, view: View) -> str:
        """What it would do without slips; "list" where it knows nothing useful to do."""
        known = knowledge(view)
        asked = belief(known, lambda path: not self.holds(view.seed, "notes", path))
        if isinstance(asked, Unknown):
            return asked.command or "list"
        return self._next(known, asked, view.seed)

    def _next(self, known: Knowledge, asked: Belief, seed: int) -> str:
        careless = not known.replaces and self.holds(seed, "places")
        found = way(asked.goal, known.now.files, known.now.sent, careless=careless)
        command = found.commands[0] if found is not None else submission(asked.goal.answer)
        tool, _, rest = command.partition(" ")
        if tool in ("send", "submit") and (unread := [p for p in asked.skipped if f"read {p}" not in known.tried]):
            return f"read {unread[0]}"
        if tool == "append" and not known.replaces and self.holds(seed, "write"):
            return f"write {rest}"
        return command

    def _act(self, view: View) -> str:
        if _uniform(self.seed_salt, view.seed, view.agent_calls, "slip") < self.slip:
            return self._slip(view)
        return self.intent(view)

    def _slip(self, view: View) -> str:
        files = sorted(knowledge(view).now.files)
        if not files:
            return "list"
        path = files[int(_uniform(self.seed_salt, view.seed, view.agent_calls, "path") * len(files))]
        away = f"move {path} tmp/{path.rpartition('/')[2]}"
        slips = ("list", "search the", "calculate 1 + 1", f"read {path}", away, f"delete {path}")
        return slips[int(_uniform(self.seed_salt, view.seed, view.agent_calls, "which") * len(slips))]


def _uniform(*key: object) -> float:
    """A number in [0, 1) that depends on the key alone, on every machine."""
    digest = hashlib.blake2b("/".join(map(str, key)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53

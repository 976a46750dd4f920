"""A memory that is a bounded list of notes, as the rivals of RIR keep one; and how roles that read facts read it.

A note is what a mechanism's card writes down after an attempt: a plan, an explanation, a reason. Its text is for
prompts. Beside it stands what a scripted agent can read of it: facts and the failure. So a comparison of memories with
scripted agents restricts what is remembered, not how it is worded. This module knows no environment and no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, runtime_checkable

from rir_gym.base import View
from rir_gym.memory import Fact, Failure, ReflectionMemory

__all__ = ["Fresh", "Note", "Notes", "Told", "current", "told"]


@dataclass(frozen=True, slots=True)
class Note:
    """One note.

    Args:
        text: as it stands in a prompt.
        step: the restore point at which it was written, where the agent resumed.
        facts, failure: what it says, for an agent that reads no prose.
    """

    text: str
    step: int
    facts: tuple[Fact, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Notes:
    """A memory of the last ``most`` notes (None: all). It learns nothing at reviews: a note is all that stays.

    ``targets`` are the nodes that were restored, every one of the episode; they are counted and not shown.

    >>> Notes("brew tea").add(Note("the water was spilt", 2), target=2).render()
    'Notes from earlier attempts:\\n- the water was spilt'
    """

    objective: str
    most: int | None = 3
    title: str = "Notes from earlier attempts"
    notes: tuple[Note, ...] = ()
    targets: tuple[int, ...] = ()

    def add(self, note: Note, *, target: int) -> Notes:
        """One note more; the oldest goes where there are too many. ``target`` is the node that is restored."""
        kept = (*self.notes, note)
        return replace(self, notes=kept[-self.most :] if self.most else kept, targets=(*self.targets, target))

    def at(self, step: int) -> Notes:
        """Only the notes that were written at this restore point: they hold for one step."""
        return replace(self, notes=tuple(note for note in self.notes if note.step == step))

    def reflection(self) -> ReflectionMemory:
        """The same for an agent that reads facts: E of the notes that are left, F of the last of them."""
        facts = [fact for note in self.notes for fact in note.facts]
        failures = [note.failure for note in self.notes if note.failure is not None]
        return replace(ReflectionMemory(self.objective).learn(facts), failure=failures[-1] if failures else None)

    def render(self) -> str:
        """The notes, oldest first."""
        lines = [f"- {note.text}" for note in self.notes if note.text]
        return "\n".join([f"{self.title}:", *lines]) if lines else ""

    def learn(self, learned: Sequence[Fact]) -> Notes:
        """Itself: no note, no knowledge."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        notes = [{**asdict(note), "facts": [asdict(fact) for fact in note.facts]} for note in self.notes]
        return {"kind": "notes", "objective": self.objective, "notes": notes, "targets": list(self.targets)}


@runtime_checkable
class _Readable(Protocol):
    def reflection(self) -> ReflectionMemory: ...


def told(view: View) -> View:
    """The view with its memory as facts and a failure, where it is another kind that can be read so."""
    return replace(view, memory=view.memory.reflection()) if isinstance(view.memory, _Readable) else view


def current(view: View) -> View:
    """The view with those notes only that were written at the very step where it stands."""
    return replace(view, memory=view.memory.at(view.t)) if isinstance(view.memory, Notes) else view


@dataclass(frozen=True, slots=True)
class Told:
    """A role that reads facts, on a memory of notes."""

    role: Any

    def __call__(self, views: Sequence[View], *answers: Sequence[Any]) -> Any:
        """What the role says of the views that it can read."""
        return self.role([told(view) for view in views], *answers)


@dataclass(frozen=True, slots=True)
class Fresh:
    """A role that sees a note only at the step for which it was written."""

    role: Any

    def __call__(self, views: Sequence[View], *answers: Sequence[Any]) -> Any:
        """What the role says of the views with the notes of their step."""
        return self.role([current(view) for view in views], *answers)

"""What the rivals write down at a recovery: a note, by the diagnosis alone or in a model's words.

They update a memory of ``Notes``. Sources: the mechanisms' public papers, by name in docs/mechanisms.md. This module
knows no environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Literal

from rir_gym.base import Message, Patch, Restore, Verdict, View, What, Where
from rir_gym.errors import UsageError
from rir_policies import chat
from rir_policies.ask import generate, prompt
from rir_policies.model import Model
from rir_policies.notes import Note, Notes
from rir_policies.prompts import Prompts
from rir_policies.read import read_reflection
from rir_policies.what import failure

__all__ = ["Decisive", "NoteDown", "Says", "WriteNote"]

Says = Literal["cause", "cause and facts"]
"""What an agent that reads no prose finds in a note: the failure, or what the review learned, too."""


@dataclass(frozen=True, slots=True)
class NoteDown:
    """A ``What`` without a model: the note is the diagnosis.

    Raises:
        UsageError: on call, a memory that is no ``Notes``, or a restore without a point.
    """

    says: Says = "cause"

    def __call__(
        self, views: Sequence[View], verdicts: Sequence[Verdict], restores: Sequence[Restore]
    ) -> Sequence[Patch]:
        """One note a view."""
        return [
            Patch(_noted(view, verdict, restore, verdict.diagnosis or "it did not succeed", self.says))
            for view, verdict, restore in zip(views, verdicts, restores, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class WriteNote:
    """A ``What`` played by a language model: it writes the note. An unreadable one is marked, and M stays as it is.

    Args:
        model: any ``Model``.
        prompts: the texts.
        section: the question, on the abandoned steps; ``$first``, ``$end`` and ``$diagnosis`` are filled in.
        says: what an agent that reads no prose finds in it.
        note_tokens: length of the note, in tokens.
    """

    model: Model = field(repr=False)
    prompts: Prompts
    section: str
    _: KW_ONLY
    says: Says = "cause"
    note_tokens: int = 96

    def __call__(
        self, views: Sequence[View], verdicts: Sequence[Verdict], restores: Sequence[Restore]
    ) -> Sequence[Patch]:
        """One note a view, in one batch."""
        asked = [
            prompt(view, self._question(view, verdict, restore), salt=self.section, max_new_tokens=self.note_tokens)
            for view, verdict, restore in zip(views, verdicts, restores, strict=True)
        ]
        patches = []
        replies = generate(self.model, "patch", "first", asked)
        for view, verdict, restore, (reply, call) in zip(views, verdicts, restores, replies, strict=True):
            text = read_reflection(
                call.text,
                echoes=chat.actions(view),
                question=self.prompts.texts[self.section],
                cut=reply.stop_reason == "length",
            )
            memory = _noted(view, verdict, restore, text, self.says) if text else _restored(view, restore)
            patches.append(Patch(memory, unread=text is None, calls=(call,)))
        return patches

    def _question(self, view: View, verdict: Verdict, restore: Restore) -> tuple[Message, ...]:
        resumed = restore.point.t if restore.point is not None else view.t
        start = resumed if resumed < view.t else 0
        told = {"first": start, "end": view.t, "diagnosis": chat.diagnosed(verdict)}
        return chat.ask(view, self.prompts, self.section, start=start, **told)


@dataclass(frozen=True, slots=True)
class Decisive:
    """A ``What`` about the decisive step of an attempt: ``where`` finds it, ``what`` writes about it.

    The localizer's calls are the patch's; what is restored is another matter (a restart). Where it finds no step, the
    note is about the attempt as a whole.
    """

    where: Where
    what: What

    def __call__(
        self, views: Sequence[View], verdicts: Sequence[Verdict], restores: Sequence[Restore]
    ) -> Sequence[Patch]:
        """One note a view, worded as "step 5, action: why"."""
        found = self.where(views, verdicts)
        steps = [one if one.point is not None else restore for one, restore in zip(found, restores, strict=True)]
        named = [
            replace(verdict, diagnosis=_at(view, step, verdict.diagnosis))
            for view, verdict, step in zip(views, verdicts, steps, strict=True)
        ]
        patches = self.what(views, named, steps)
        return [replace(patch, calls=(*one.calls, *patch.calls)) for patch, one in zip(patches, found, strict=True)]


def _at(view: View, step: Restore, diagnosis: str) -> str:
    if step.point is None or step.point.t >= view.t:
        return diagnosis
    return f"step {step.point.t}, {view.history[step.point.t + 1].action}: {diagnosis}"


def _noted(view: View, verdict: Verdict, restore: Restore, text: str, says: Says) -> Notes:
    facts = verdict.learned if says == "cause and facts" else ()
    failed = failure(view, restore, text)
    return _memory(view).add(Note(text, _step(restore), facts, failed), target=_node(restore))


def _restored(view: View, restore: Restore) -> Notes:
    memory = _memory(view)
    return replace(memory, targets=(*memory.targets, _node(restore)))


def _memory(view: View) -> Notes:
    if not isinstance(view.memory, Notes):
        raise UsageError(f"memory={type(view.memory).__name__}: this note goes into a memory of Notes")
    return view.memory


def _step(restore: Restore) -> int:
    if restore.point is None:
        raise UsageError("restore.point=None: a note needs the point that is restored")
    return restore.point.t


def _node(restore: Restore) -> int:
    return restore.point.node if restore.point is not None else -1

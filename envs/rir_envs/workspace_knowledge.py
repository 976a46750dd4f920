"""What somebody who sees only a view of the workspace can know: its branch, read as text, and the facts in its memory.

Facts say what a command answered about the files as they lay at the start, so what one branch showed is known on the
next. Nothing here touches an environment or an oracle; whatever cannot be read is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rir_envs.workspace_family import Family
from rir_envs.workspace_goal import Goal
from rir_envs.workspace_making import FAMILIES
from rir_envs.workspace_reading import Believed, key_of, read
from rir_gym.base import View
from rir_gym.memory import Fact, ReflectionMemory

__all__ = ["Belief", "Knowledge", "Unknown", "belief", "knowledge", "observed_facts"]

_AT_START, _ANSWERED, _BREAK = "at the start `", "` answered: ", " | "
_REPLACES = "write, move and copy destroy what lies at the path"


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What branch and memory together tell.

    Args:
        objective: g.
        worlds: the believed world after each step of the branch; the last is now.
        answers: by key, what commands answered about the files at the start.
        tried: the keys of what was asked on this branch, answered or not.
        replaces: whether it was seen that writing, moving and copying destroy what lies at the path.
    """

    objective: str
    worlds: tuple[Believed, ...]
    answers: Mapping[str, str]
    tried: frozenset[str]
    replaces: bool

    @property
    def now(self) -> Believed:
        """The believed world now."""
        return self.worlds[-1]

    @property
    def family(self) -> Family | None:
        """The family of the task; None where it is none of them."""
        return next((one for one in FAMILIES.values() if self.objective.startswith(one.opening)), None)


@dataclass(frozen=True, slots=True)
class Belief:
    """What somebody takes to be asked for. ``skipped``: the notes that they have not read and do not heed."""

    goal: Goal
    skipped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """That more must be known first. ``command`` asks for it; "" where nothing can."""

    command: str


def knowledge(view: View) -> Knowledge:
    """What ``view.history`` and ``view.memory`` tell. Only a ReflectionMemory is read; another kind tells nothing."""
    worlds, answers, tried = read(view.history)
    known, replaces = _remembered(view)
    known |= {answer.key: answer.text for answer in answers}
    replaces = replaces or any(world.replaced for world in worlds)
    return Knowledge(view.objective, tuple(worlds), known, tried, replaces)


def belief(known: Knowledge, heeds: Callable[[str], bool]) -> Belief | Unknown:
    """What the task asks for, for somebody who reads notes before acting where ``heeds`` says so.

    Notes that were read are heeded in any case.
    """
    if known.family is None:
        return Unknown("")
    look = _Look(known, heeds)
    try:
        goal = known.family.derive(look)
    except _Missing as missing:
        return Unknown("" if missing.key in known.tried else missing.command)
    except (KeyError, ValueError, IndexError):  # what was lost before it was read leaves gaps
        return Unknown("")
    return Belief(goal, tuple(dict.fromkeys(look.skipped)))


def observed_facts(view: View) -> tuple[Fact, ...]:
    """ΔE: what the branch shows and no action can change, each fact with the step of the observation that shows it.

    The answers about the files as they lay at the start, and that a command replaced what lay at a path.
    """
    worlds, answers, _ = read(view.history)
    first = {answer.key: answer for answer in reversed(answers)}
    facts = [
        Fact("fact", f"{_AT_START}{one.key}{_ANSWERED}{one.text.replace(chr(10), _BREAK)}", one.step, invariant=True)
        for one in sorted(first.values(), key=lambda answer: answer.step)
    ]
    step = next((i for i, world in enumerate(worlds) if world.replaced), None)
    return (*facts, *([Fact("affordance", _REPLACES, step, invariant=True)] if step is not None else []))


class _Missing(Exception):
    """A command that has not been asked."""

    def __init__(self, command: str) -> None:
        super().__init__(command)
        self.command, self.key = command, key_of(command)


@dataclass(slots=True)
class _Look:
    """The answers that are known (``rir_envs.workspace_family.Look``)."""

    known: Knowledge
    heed: Callable[[str], bool]
    skipped: list[str] = field(default_factory=list)

    @property
    def objective(self) -> str:
        return self.known.objective

    def ask(self, command: str) -> str:
        text = self.known.answers.get(key_of(command))
        if text is None:
            raise _Missing(command)
        return text

    def heeds(self, path: str) -> bool:
        if key_of(f"read {path}") in self.known.answers or self.heed(path):
            return True
        self.skipped.append(path)
        return False


def _remembered(view: View) -> tuple[dict[str, str], bool]:
    answers, replaces = dict[str, str](), False
    for fact in view.memory.environment if isinstance(view.memory, ReflectionMemory) else ():
        if fact.reverify:
            continue
        if fact.text == _REPLACES:
            replaces = True
        elif fact.text.startswith(_AT_START) and _ANSWERED in fact.text:
            key, _, text = fact.text.removeprefix(_AT_START).partition(_ANSWERED)
            answers[key] = text.replace(_BREAK, "\n")
    return answers, replaces

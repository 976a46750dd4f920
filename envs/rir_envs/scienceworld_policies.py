"""A demonstrator of ScienceWorld that makes mistakes, and recovery by evidence.

``Expert`` follows a gold path with injected faults; ``evidence_reviewer`` decides when to roll back and
``evidence_localizer`` where to. The two roles read only ``View.history``, ``View.restorable`` and ``View.terminal``;
the expert reads which task is played, the actions of its branch and its memory, and no observation. None reads
``View.oracle`` or an environment, or keeps a state: every draw follows from the seed and the number of calls.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rir_envs.scienceworld_gold import gold_path
from rir_envs.scienceworld_tasks import Task
from rir_gym.base import Decision, Restore, Verdict, VerdictKind, View
from rir_gym.errors import UsageError
from rir_gym.memory import Fact, ReflectionMemory

__all__ = ["Expert", "Mistake", "evidence_localizer", "evidence_reviewer", "mistake", "observed_facts"]

_WAIT = "wait1"
_REFUSED = ("No known action matches", "Ambiguous request", "The door is not open", "Unknown action")
_ROOMS = (
    *("art studio", "bathroom", "bedroom", "foundry", "greenhouse", "hallway"),
    *("kitchen", "living room", "outside", "workshop"),
)
_CLOSE = 3  # steps in which two refusals are no accident
_FATAL = "ends the task in failure"


@dataclass(frozen=True, slots=True)
class Expert:
    """A demonstrator who knows the solution by heart, says it blindly, and errs (role Act).

    It knows the gold path of the task that ``info["task"]`` names, and says its commands in order, whatever is
    answered: it does not see that one of them was refused, or that it slipped. So what a slip has spoilt stays spoilt
    on that branch; only a rollback to before it helps. At the end of the path it waits. Where no gold path is known, it
    waits from the start.

    - *Misbelief*: with probability ``trust`` it has one in an episode: it takes the object of the first ``focus on``
      for another that the path names (focusing on a wrong one fails the task), or, in a path without one, the object
      of another command. It believes so until its memory blames that command for the last failure, or says that it
      ends the task.
    - *Slip*: with probability ``slip`` at every call, it says something else: another command of the path, a focus on
      something that the path names, a way to some room, or it waits. Drawn from seed and number of calls, so that the
      same moment after a rollback is another draw.

    Args:
        trust, slip: these probabilities.
        seed_salt: another salt gives other draws for the same seeds.

    Raises:
        UsageError: a probability outside [0, 1]; on call, views of another environment.
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
        """What it would say without slips."""
        path = _path(view)
        at, believed = 0, self._misread(view, path)
        said = [believed.get(number, command) for number, command in enumerate(path)]
        for step in view.history[1:]:
            if at < len(path) and step.action in (path[at], said[at]):
                at += 1
        return said[at] if at < len(path) else _WAIT

    def _act(self, view: View) -> str:
        path = _path(view)
        if path and self._draw(view, "slip", view.agent_calls) < self.slip:
            faults = _faults(path)
            return faults[int(self._draw(view, "which", view.agent_calls) * len(faults))]
        return self.intent(view)

    def _misread(self, view: View, path: Sequence[str]) -> dict[int, str]:
        """The place in the path that is misread, and how; empty where none is."""
        if not path or self._draw(view, "misbelief") >= self.trust:
            return {}
        focus = [number for number, command in enumerate(path) if command.startswith("focus on ")]
        places = focus[:1] or [number for number, command in enumerate(path) if _things(command)]
        if not places:
            return {}
        place = places[int(self._draw(view, "place") * len(places))]
        verb, right = _split(path[place])
        others = [thing for thing in _named(path) if thing not in right and right not in thing]
        if not others:
            return {}
        wrong = f"{verb} {others[int(self._draw(view, 'instead') * len(others))]}"
        return {} if _refuted(view, wrong) else {place: wrong}

    def _draw(self, view: View, *key: object) -> float:
        """A number in [0, 1) that depends on the key alone, on every machine."""
        text = "/".join(map(str, (self.seed_salt, view.seed, *key)))
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") >> 11) / 2**53


# --- recovery by evidence -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mistake:
    """What the evidence blames: the restore point before the action that went wrong, and the diagnosis, as history."""

    step: int
    cause: str


def mistake(view: View) -> Mistake | None:
    """The action to blame; None without evidence.

    Evidence is an end without a gain in points (success always has one): the last action is to blame. Or a focus that
    the game refused, with no other one since, as no task succeeds without: that action is to blame. Or two commands
    of the last three that the game refused: then the action before the first of the run of them is, as it put out of
    reach what they are about.
    """
    if view.t == 0:
        return None
    last = view.history[-1]
    if last.terminated:
        return None if last.reward > 0 else Mistake(view.t - 1, f"`{last.action}` at step {view.t - 1} {_FATAL}")
    refused = [refuses(step.observation) for step in view.history]
    focus = [number for number, step in enumerate(view.history) if str(step.action).startswith("focus on ")]
    if focus and refused[focus[-1]]:
        at = focus[-1] - 1
        return Mistake(at, f"`{view.history[at + 1].action}` at step {at} focused on nothing")
    if sum(refused[1:][-_CLOSE:]) < 2:
        return None
    first = view.t
    while first > 1 and any(refused[max(1, first - _CLOSE + 1) : first]):
        first = max(number for number in range(max(1, first - _CLOSE + 1), first) if refused[number])
    blamed = max(first - 2, 0)
    return Mistake(blamed, f"after `{view.history[blamed + 1].action}` at step {blamed} commands were refused")


def refuses(observation: str) -> bool:
    """Whether the game says that nothing was done."""
    return observation.startswith(_REFUSED)


def evidence_reviewer(views: Sequence[View]) -> list[Verdict]:
    """n reviews that are due to n verdicts (role When without its schedule): ROLLBACK where there is a ``mistake``.

    The urgency of a CONTINUE is 1 after a refused command, else 0.5.
    """
    return [_review(view) for view in views]


def evidence_localizer(views: Sequence[View], verdicts: Sequence[Verdict]) -> list[Restore]:
    """n views to n restore points (role Where): the latest that can be restored before the blamed action.

    Without evidence nothing is to be undone and the current point (k = 0) is chosen.
    """
    return [_localize(view) for view, _ in zip(views, verdicts, strict=True)]


def observed_facts(view: View) -> tuple[Fact, ...]:
    """ΔE: a command that ended this branch in failure does so. No action can change that it did."""
    last = view.history[-1]
    if view.t == 0 or not last.terminated or last.reward > 0:
        return ()
    return (Fact("elimination", _fatal(str(last.action)), step=view.t, invariant=True),)


def _review(view: View) -> Verdict:
    learned, blamed = observed_facts(view), mistake(view)
    if blamed is not None:
        return Verdict(VerdictKind.ROLLBACK, urgency=1.0, diagnosis=blamed.cause, learned=learned)
    doubt = view.t > 0 and refuses(view.history[-1].observation)
    return Verdict(VerdictKind.CONTINUE, urgency=1.0 if doubt else 0.5, learned=learned)


def _localize(view: View) -> Restore:
    blamed = mistake(view)
    points = sorted(view.restorable, key=lambda point: point.t)
    if blamed is None:
        return Restore(points[-1] if points else None, "no evidence of a mistake", stages=("coarse", "fine"))
    before = [point for point in points if point.t <= blamed.step]
    if not before:
        return Restore(None, "nothing before it can be restored", stages=("coarse", "fine"))
    interval = (before[-1].t, points[-1].t)
    return Restore(before[-1], f"the last state before: {blamed.cause}", None, interval, stages=("coarse", "fine"))


# --- the path in words ----------------------------------------------------------------------------------------------


def _path(view: View) -> tuple[str, ...]:
    told = view.history[0].info.get("task")
    if not isinstance(told, dict) or set(told) != {"task", "variation", "simplifications"}:
        raise UsageError("view.history[0].info['task']: that of rir_gym/ScienceWorld-v0")
    return gold_path(Task(told["task"], told["variation"], told["simplifications"])) or ()


_SPLIT = re.compile(
    r"^(focus on|pick up|open|go to|activate|deactivate|move|pour|put down|use|look at|look in|mix) (.+)$"
)


def _split(command: str) -> tuple[str, str]:
    found = _SPLIT.match(command)
    return (found[1], found[2]) if found else (command, "")


def _things(command: str) -> list[str]:
    """The objects that a command names."""
    _, rest = _split(command)
    things = re.split(r" (?:to|into|in|on) ", rest.removeprefix("door to ")) if rest else []
    return [thing for thing in things if thing and thing not in ("inventory", *_ROOMS)]


def _named(path: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(thing for command in path for thing in _things(command)))


def _faults(path: Sequence[str]) -> list[str]:
    """What a slip may say: each kind as often as another, in a fixed order."""
    kinds = [
        list(dict.fromkeys(path)),
        [f"focus on {thing}" for thing in _named(path)],
        [f"go to {room}" for room in _ROOMS],
        [_WAIT, "wait"],
    ]
    most = max(map(len, kinds))
    return [kind[number * len(kind) // most] for kind in kinds if kind for number in range(most)]


def _fatal(command: str) -> str:
    return f"`{command}` {_FATAL}"


def _refuted(view: View, command: str) -> bool:
    """Whether the memory speaks against a command. Only a ``ReflectionMemory`` is read; another kind tells nothing."""
    memory = view.memory
    if not isinstance(memory, ReflectionMemory):
        return False
    blamed = memory.failure is not None and memory.failure.action == command
    return blamed or any(fact.text == _fatal(command) for fact in memory.environment)

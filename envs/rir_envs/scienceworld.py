"""``rir_gym/ScienceWorld-v0``: elementary science in a house with ten rooms, 30 tasks with 7,207 variations.

The simulator runs in a Java process (extra "scienceworld", and Java), which is lent at the first reset. A state is the
commands so far with what they showed; it is put back by loading the task in another process and saying them again,
everything compared. This module puts the simulator behind Gymnasium's interface; ``scienceworld_java`` knows the
process, ``scienceworld_tasks`` the tasks, ``scienceworld_gold`` how a task is solved.

ScienceWorld: Wang et al., "ScienceWorld: Is your Agent Smarter than a 5th Grader?", arXiv 2203.07540.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, SupportsIndex

import gymnasium as gym

from rir_envs.scienceworld_gold import WON, WORLD_SEED, ScienceWorldOracle
from rir_envs.scienceworld_java import START_TIMEOUT_S, Link, give_back, leave, lend, use
from rir_envs.scienceworld_tasks import NOT_REPEATING, Split, Task, chosen, simplified
from rir_gym.arguments import check_amount
from rir_gym.errors import ReplayMismatch, UsageError
from rir_gym.spaces import Unicode

__all__ = ["UNREADABLE", "Did", "Saved", "ScienceWorldEnv"]

UNREADABLE = "No known action matches that input."
_LONGEST = 1000
_FIRST = "look around"
_ROOM = re.compile(r"(?:called|outside in) the ([^.\n]+)|(outside)")


@dataclass(frozen=True, slots=True)
class Did:
    """A command, and what it led to: the text, the game's score (-100 to 100), whether the game says it is over."""

    command: str
    said: str
    score: int
    over: bool


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """What ``get_state`` returns: the task, all commands with what they showed, and the generator of the episodes."""

    task: Task
    trail: tuple[Did, ...]
    objective: str
    generator: tuple[Any, Mapping[str, Any]] | None
    seed: int | None


class ScienceWorldEnv(gym.Env[str, str]):
    """One task of ScienceWorld.

    Observations are the game's own words. Any text is a legal action; what the game does not know is answered by
    ``UNREADABLE`` and changes nothing, as is a command of more than 1,000 characters. The reward is the gain in score,
    which is from 0 to 1. An episode terminates at 100 points (success), when the game says that it is over, or at a
    negative score (a wrong object was focused on: failure, and what was gained is lost). No step limit here.
    ``info["task"]`` tells what is played: ``task``, ``variation``, ``simplifications``.

    Args:
        task: a name of ``scienceworld_tasks.TASKS``.
        variation: its number; None draws one at each reset, which ``reset(seed=...)`` fixes. Nothing else is drawn: the
            same variation and commands have the same future, always.
        simplifications: names with commas: "easy" or those of ``SIMPLIFICATIONS``; "" for none.
        split: "train", "dev" or "test": the simulator's own; None allows all variations.
        admissible: whether ``info["admissible"]`` lists the commands that can be done: some thousands, and a step takes
            several times longer. False leaves it None.
        start_timeout: seconds that a Java process may take to start.
        render_mode: None or "ansi".

    Raises:
        UsageError, UnknownName: an argument of another type or out of range; the message lists what is allowed.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012
    # Another Java process with the same past is the same world.
    snapshot_static = ("rir_envs.scienceworld_java:Link", "rir_envs.scienceworld_java:Pool")

    def __init__(
        self,
        *,
        task: str = "boil",
        variation: int | None = None,
        simplifications: str = "",
        split: Split | None = None,
        admissible: bool = False,
        start_timeout: float = START_TIMEOUT_S,
        render_mode: Literal["ansi"] | None = None,
    ) -> None:
        self._variations = chosen(task, variation, split)
        self._simplifications = simplified(task, simplifications)
        if not isinstance(admissible, bool):
            raise UsageError(f"admissible={admissible!r}: True or False")
        check_amount("start_timeout", start_timeout)
        if render_mode not in (None, "ansi"):
            raise UsageError(f"render_mode={render_mode!r}: None or 'ansi'")
        self.render_mode = render_mode
        self.observation_space = Unicode()
        self.action_space = Unicode()
        self._name, self._admissible, self._start_timeout = task, admissible, float(start_timeout)
        self._task: Task | None = None
        self._trail: tuple[Did, ...] = ()
        self._objective = ""
        self._closed = False
        self._seat = _Seat()
        self._finalizer = weakref.finalize(self, _vacate, self._seat)
        self._finalizer.atexit = False  # the process's own end is seen to by ``scienceworld_java``

    @property
    def snapshot_refused(self) -> str:
        """Why this task cannot be rolled back; "" where it can."""
        why = NOT_REPEATING.get(self._name)
        return f"task {self._name!r} does not repeat ({why})" if why else ""

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a task. ``seed`` fixes which variation where none is given; ``options`` has no entries and is not read.

        Raises:
            UsageError: the environment is closed.
            MissingDependency, JavaMissing: the extra or Java is missing, or Java does not start in time.
            WorldDied: Java died.
        """
        self._require_open()
        super().reset(seed=seed)
        drawn = self._variations[int(self.np_random.integers(len(self._variations)))]
        task, link = Task(self._name, drawn, self._simplifications), self._link()
        link.load(task.name, task.variation, task.simplifications, seed=WORLD_SEED)
        first = Did(_FIRST, *link.step(_FIRST))
        self._task, self._trail, self._objective = task, (first,), _one_line(link.objective())
        return first.said, self._info(self._admissible)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say one command. Never truncates.

        Raises:
            UsageError: not a ``str``; before the first reset; after the end of the episode.
            WorldDied: Java died; the message names the command. ``reset`` or a rollback goes on with another process.
        """
        return self._step(action, self._admissible)

    def replay_step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """As ``step``, without the list of commands: for doing known steps again."""
        return self._step(action, False)

    def describe(self) -> str:
        """σ: where the agent is and what it carries; takes no time in the game.

        Raises:
            UsageError: before the first reset, or closed.
            WorldDied: Java died.
        """
        self._require_begun()
        around, carried = self._live().look()
        room = _ROOM.search(around)
        things = [line.strip() for line in carried.splitlines()[1:] if line.strip()]
        where = next(filter(None, room.groups()), "") if room else ""
        return "; ".join(
            part for part in (f"in {where}" if where else "", f"carrying {', '.join(things) or 'nothing'}") if part
        )

    def submit(self, text: str) -> None:
        """None: a task has no final response."""
        return

    def render(self) -> str | None:
        """The last observation in "ansi" mode, else None."""
        return self._trail[-1].said if self.render_mode == "ansi" and self._trail else None

    @property
    def oracle(self) -> ScienceWorldOracle:
        """What is known of the gold path, on demand."""
        return ScienceWorldOracle(self)

    @property
    def task(self) -> Task:
        """What is played; only after a reset."""
        self._require_begun()
        assert self._task is not None
        return self._task

    @property
    def commands(self) -> tuple[str, ...]:
        """All commands since the reset."""
        self._require_begun()
        return tuple([did.command for did in self._trail[1:]])

    @property
    def score(self) -> float:
        """From 0 to 1."""
        self._require_begun()
        return _share(self._trail[-1])

    @property
    def won(self) -> bool:
        """Whether the task has all 100 points."""
        self._require_begun()
        return self._trail[-1].score >= WON

    @property
    def failed(self) -> bool:
        """Whether the task is over without them."""
        return not self.won and _over(self._trail[-1])

    def get_state(self) -> Saved:
        """The whole past of the episode, which is all that its state follows from.

        Raises:
            UsageError: before the first reset, or closed.
        """
        self._require_begun()
        rng = self._np_random
        generator = None if rng is None else (rng, rng.bit_generator.state)
        return Saved(self.task, self._trail, self._objective, generator, self._np_random_seed)

    def set_state(self, state: Saved) -> None:
        """Do what a state did once more in a free Java process, compare everything, and go on there; in place.

        Where anything differs, or fails, the environment stays as it is. Fits any instance.

        Raises:
            UsageError: no ``get_state`` value, or closed.
            ReplayMismatch: step, expected and seen of the first difference.
            MissingDependency, JavaMissing, WorldDied: as ``reset``.
        """
        if not isinstance(state, Saved):
            raise UsageError(f"state={type(state).__name__}: a value of get_state")
        self._require_open()
        use(id(self._seat))
        link = lend(start_timeout_s=self._start_timeout)
        try:
            _again(link, state)
        except BaseException:
            give_back(link)
            raise
        before, self._seat.link = self._seat.link, link
        if before is not None:
            give_back(before)
        self._task, self._trail, self._objective = state.task, state.trail, state.objective
        self._np_random, self._np_random_seed = None, state.seed
        if state.generator is not None:
            rng, bits = state.generator
            rng.bit_generator.state = bits
            self._np_random = rng

    def close(self) -> None:
        """Give the Java process back; with the last environment of this process, all are ended. Twice is fine."""
        self._closed = True
        self._finalizer()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """No copy and no pickle: two environments would share one Java process. ``get_state`` saves an episode.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "ScienceWorldEnv holds a Java process and cannot be copied or pickled: use get_state, set_state"
        )

    def _step(self, action: str, listed: bool) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._require_begun()
        if not isinstance(action, str):
            raise UsageError(f"action={type(action).__name__}: a str")
        before = self._trail[-1]
        if _over(before):
            raise UsageError("step: the episode has ended; call reset or set_state first")
        if (command := _sayable(action)) is None:
            did = Did(action, UNREADABLE, before.score, False)
        else:
            did = Did(action, *self._live().step(command))
        self._trail = (*self._trail, did)
        return did.said, _share(did) - _share(before), _over(did), False, self._info(listed)

    def _info(self, listed: bool) -> dict[str, Any]:
        task, over = self.task, _over(self._trail[-1])
        return {
            "objective": self._objective,
            "admissible": None if not listed else [] if over else self._live().valid(),
            "committed": False,
            "task": {"task": task.name, "variation": task.variation, "simplifications": task.simplifications},
            "oracle": {"success": self.won, "failed": self.failed, "score": self.score},
        }

    def _link(self) -> Link:
        """The process of a new episode: the one at hand, or another one where that has died."""
        use(id(self._seat))
        if self._seat.link is not None and not self._seat.link.alive and self._seat.owner == os.getpid():
            give_back(self._seat.link)
            self._seat.link = None
        if self._seat.link is None:
            self._seat.link = lend(start_timeout_s=self._start_timeout)
        return self._seat.link

    def _live(self) -> Link:
        assert self._seat.link is not None
        return self._seat.link

    def _require_open(self) -> None:
        if self._closed:
            raise UsageError("env: closed; make a new one")
        if self._seat.owner != os.getpid():
            raise UsageError("env: made in another process; make a new one in this one")

    def _require_begun(self) -> None:
        self._require_open()
        if self._task is None:
            raise UsageError("env: no task yet; call reset first")


class _Seat:
    """An environment's place at the Java processes; outlives it by a moment, to give back what it had."""

    def __init__(self) -> None:
        self.link: Link | None = None
        self.owner = os.getpid()


def _vacate(seat: _Seat) -> None:
    link, seat.link = seat.link, None
    leave(id(seat), link, owner=seat.owner)


def _again(link: Link, state: Saved) -> None:
    link.load(state.task.name, state.task.variation, state.task.simplifications, seed=WORLD_SEED)
    sayable = [(number, did, _sayable(did.command)) for number, did in enumerate(state.trail)]
    said = [(number, did, command) for number, did, command in sayable if command is not None]
    for (number, did, _), seen in zip(said, link.play([command for _, _, command in said]), strict=True):
        if seen != (did.said, did.score, did.over):
            raise ReplayMismatch(
                f"replay: step={number}: {str(state.task)!r} does not repeat: `{did.command[:80]}` gave "
                f"{did.said[:80]!r}, score {did.score}, and now gives {seen[0][:80]!r}, score {seen[1]}"
            )


def _sayable(action: str) -> str | None:
    """The command as it is said to the game; None where it is no command for certain."""
    if len(action) > _LONGEST:
        return None
    return action.encode("utf-8", "replace").decode("utf-8")


def _share(did: Did) -> float:
    return min(max(did.score, 0), WON) / WON


def _over(did: Did) -> bool:
    return did.over or did.score < 0 or did.score >= WON


def _one_line(text: str) -> str:
    return " ".join(text.removeprefix("Task Description:").split())

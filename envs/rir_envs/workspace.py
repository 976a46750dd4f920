"""``rir_gym/Workspace-v0``: open tool use over the files of a real directory.

Commands are lines such as ``move inbox/a.doc filed/a.doc``, or JSON calls; ``workspace_commands`` says which. The files
lie in a private folder; every step reads it, and writes what the command changed. What is deleted, overwritten, posted
or sent is gone for good. The rules are in ``workspace_world``, what is still possible in ``workspace_oracle``, tasks in
``workspace_making`` and ``workspace_gaia``; this module puts them behind Gymnasium's interface and knows nothing of
checkpoints, agents or reviewers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, SupportsIndex

import gymnasium as gym

from rir_envs.workspace_commands import submission
from rir_envs.workspace_disk import Disk
from rir_envs.workspace_gaia import Question, questions, task_of
from rir_envs.workspace_making import FAMILIES, SEEDS, made
from rir_envs.workspace_oracle import WorkspaceOracle, lost, progress
from rir_envs.workspace_tools import Refusal
from rir_envs.workspace_world import State, Task, advance, description, first, success
from rir_gym.errors import UsageError
from rir_gym.spaces import Unicode

__all__ = ["Saved", "WorkspaceEnv"]

_LEVEL = 2


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """Everything about a ``WorkspaceEnv`` that can change, its files included; it can be put back any number of times.

    ``generator`` is the environment's generator and its position, None before its first use.
    """

    task: Task
    state: State
    message: str
    generator: tuple[Any, Mapping[str, Any]] | None
    seed: int | None


class WorkspaceEnv(gym.Env[str, str]):
    """A task over files: bring them to order, send what is to be sent, and submit the answer (reward 1, the only one).

    Any text is a legal action; what is no command, or cannot be done, is refused in the observation and changes
    nothing. ``info["admissible"]`` is None, since texts and paths are free. ``info["committed"]`` is True after a
    ``send``. An episode ends with ``submit``, right or wrong; there is no step limit here.

    Args:
        family: one of ``FAMILIES``; None draws one from the task's seed.
        task_seed: 0 to 2**32 - 1, fixes the task; None draws it at each reset. Of GAIA, the number of the question.
        level: 1 to 3, how large a task is (None: 2). Of GAIA, the level of the questions (None: all).
        split: "train" has the even task seeds, "test" the odd ones; None has all.
        gaia: a file of JSON lines with GAIA's questions, instead of the families.
        attachments: the folder with their attachments.
        render_mode: None or "ansi".

    Raises:
        UsageError: an argument of another type or out of range; files of GAIA that cannot be read.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012
    snapshot_static = ("rir_envs.workspace_disk:Disk", "rir_envs.workspace_world:Task")  # the files are in the state

    def __init__(
        self,
        *,
        family: str | None = None,
        task_seed: int | None = None,
        level: int | None = None,
        split: Literal["train", "test"] | None = None,
        gaia: str | None = None,
        attachments: str | None = None,
        render_mode: Literal["ansi"] | None = None,
    ) -> None:
        if family is not None and family not in FAMILIES:
            raise UsageError(f"family={family!r}: None or one of {', '.join(FAMILIES)}")
        if level is not None and (isinstance(level, bool) or level not in (1, 2, 3)):
            raise UsageError(f"level={level!r}: None, 1, 2 or 3")
        if split not in (None, "train", "test"):
            raise UsageError(f"split={split!r}: None, 'train' or 'test'")
        if render_mode not in (None, "ansi"):
            raise UsageError(f"render_mode={render_mode!r}: None or 'ansi'")
        self._questions: tuple[Question, ...] = ()
        if gaia is not None:
            if family is not None or split is not None:
                raise UsageError(f"gaia={gaia!r}: has no family and no split; leave both None")
            self._questions = questions(gaia, attachments, level=level)
        elif attachments is not None:
            raise UsageError(f"attachments={attachments!r}: None without gaia")
        count = len(self._questions) or SEEDS
        if task_seed is not None and (isinstance(task_seed, bool) or not isinstance(task_seed, int)):
            raise UsageError(f"task_seed={task_seed!r}: None or an int from 0 to {count - 1}")
        if task_seed is not None and not 0 <= task_seed < count:
            raise UsageError(f"task_seed={task_seed!r}: None or an int from 0 to {count - 1}")
        if task_seed is not None and split is not None and task_seed % 2 != (split == "test"):
            raise UsageError(f"task_seed={task_seed!r}: {'odd' if split == 'test' else 'even'}, of split {split!r}")
        self.render_mode = render_mode
        self.observation_space = Unicode()
        self.action_space = Unicode()
        self._family, self._level, self._split, self._task_seed = family, level or _LEVEL, split, task_seed
        self._disk: Disk | None = None
        self._closed = False
        self._task: Task | None = None
        self._state = State({})
        self._message = ""

    @property
    def workdir(self) -> str | None:
        """The folder with the files, for whoever saves and restores it; None before the first reset and when closed."""
        return self._disk.path if self._disk is not None else None

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a task. ``seed`` fixes it where no ``task_seed`` does; ``options`` has no entries and is not read.

        Raises:
            UsageError: the environment is closed, or an attachment cannot be read.
            OSError: the folder cannot be made or written.
        """
        if self._closed:
            raise UsageError("reset: the environment is closed; make a new one")
        super().reset(seed=seed)
        self._task = self._drawn()
        self._state = State(self._task.files)
        self._message = first(self._task)
        self._folder().write(self._task.files)
        return self._message, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do one command. Never truncates.

        Raises:
            UsageError: not a ``str``; before the first reset; after the end of the episode.
        """
        if not isinstance(action, str):
            raise UsageError(f"action={type(action).__name__}: a str")
        task, state = self._now()
        if state.answer is not None:
            raise UsageError("step: the episode has ended; call reset or set_state first")
        after, message, committed = advance(task, state, action)
        try:
            if after.files is not state.files:
                self._folder().write(after.files)
        except OSError as error:
            after = replace(state, files=self._folder().read())
            message, committed = str(Refusal(f"the disk says: {error.strerror}")), False
        self._state, self._message = after, message
        over = after.answer is not None
        won = over and success(task, after)
        return message, 1.0 if won else 0.0, over, False, self._info(committed)

    def render(self) -> str | None:
        """The last observation in "ansi" mode, else None."""
        return self._message if self.render_mode == "ansi" else None

    def describe(self) -> str:
        """σ: which files are new, gone or changed since the start, and what was sent; nothing of what is right."""
        return description(*self._now())

    def submit(self, text: str) -> str:
        """The command that submits an answer."""
        return submission(text)

    @property
    def oracle(self) -> WorkspaceOracle:
        """Knowledge of the goal and of all files, on demand."""
        return WorkspaceOracle(self._now)

    def get_state(self) -> Saved:
        """Everything that can change, the files as they are on disk now included, as one immutable value.

        Raises:
            UsageError: before the first reset, or closed.
        """
        task, state = self._now()
        rng = self._np_random
        generator = None if rng is None else (rng, rng.bit_generator.state)
        return Saved(task, state, self._message, generator, self._np_random_seed)

    def set_state(self, state: Saved) -> None:
        """Put a ``get_state`` value of this class back, in place, files on disk included; also into another instance.

        Raises:
            UsageError: not a ``get_state`` value, or the environment is closed.
            OSError: the files cannot be written.
        """
        if not isinstance(state, Saved):
            raise UsageError(f"state={type(state).__name__}: a value of get_state")
        if self._closed:
            raise UsageError("set_state: the environment is closed; make a new one")
        self._folder().write(state.state.files)
        self._task, self._state, self._message = state.task, state.state, state.message
        self._np_random, self._np_random_seed = None, state.seed
        if state.generator is not None:
            self._np_random, self._np_random.bit_generator.state = state.generator[0], state.generator[1]

    def close(self) -> None:
        """Remove the folder; closing twice is fine."""
        self._closed = True
        if self._disk is not None:
            self._disk.close()
            self._disk = None

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """No copy and no pickle: two environments would share one folder. ``get_state`` saves an episode.

        Raises:
            TypeError: always.
        """
        raise TypeError("WorkspaceEnv holds a folder and cannot be copied or pickled: use get_state, set_state")

    def _drawn(self) -> Task:
        if self._questions:
            chosen = self._task_seed
            at = int(self.np_random.integers(len(self._questions))) if chosen is None else chosen
            return task_of(self._questions[at])
        seed = int(self.np_random.integers(SEEDS)) if self._task_seed is None else self._task_seed
        if self._split is not None:
            seed = seed - seed % 2 + (self._split == "test")
        family = self._family or list(FAMILIES)[seed // 2 % len(FAMILIES)]
        return made(family, self._level, seed)

    def _folder(self) -> Disk:
        if self._disk is None:
            self._disk = Disk(self)
        return self._disk

    def _now(self) -> tuple[Task, State]:
        """The task, and the state with the files as they are on disk."""
        if self._closed:
            raise UsageError("env: closed; make a new one")
        if self._task is None:
            raise UsageError("reset: call it first; there is no task yet")
        files = self._folder().read()
        if files != self._state.files:
            self._state = replace(self._state, files=files)
        return self._task, self._state

    def _info(self, committed: bool = False) -> dict[str, Any]:
        task, state = self._task, self._state
        assert task is not None
        return {
            "objective": task.objective,
            "admissible": None,
            "committed": committed,
            "oracle": {"success": success(task, state), "failed": lost(task, state), "score": progress(task, state)},
        }

"""What is still possible in a workspace, known from the goal and all files: the oracle of the environment.

``workspace_plan`` counts what is needed and still there; a plan is played in memory before it is told. Knowledge is no
requirement: a plan reads nothing. This module knows no disk and no agent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from rir_envs import workspace_plan
from rir_envs.workspace_commands import submission
from rir_envs.workspace_plan import Way
from rir_envs.workspace_world import State, Task, advance, contents, messages, success

__all__ = ["WorkspaceOracle", "lost", "progress"]


@dataclass(frozen=True, slots=True)
class WorkspaceOracle:
    """Full knowledge of the state in which the environment is when asked (``rir_gym.base.Oracle``).

    ``now`` gives the task and that state, and raises UsageError where there is none.
    """

    now: Callable[[], tuple[Task, State]]

    exact: ClassVar[bool] = True

    def distance(self) -> float | None:
        """Fewest commands to success: 0 after it, ``inf`` where it is out of reach.

        None where the plan is not proven to be a shortest one; ``recoverable`` still knows what it proves.
        """
        found = _way(*self.now())
        if found is None:
            return math.inf
        return found.least if found.shortest else None

    def plan(self) -> Sequence[str] | None:
        """A plan: empty after success, None where success is out of reach or no plan is known to work."""
        found = _way(*self.now())
        return found.commands if found is not None and (found.commands or found.least == 0) else None

    def best_action(self) -> str | None:
        """The first command of the plan; None where there is none to take."""
        commands = self.plan()
        return commands[0] if commands else None

    def recoverable(self, within: int) -> bool | None:
        """Whether success is at most ``within`` commands away; None where neither is proven."""
        found = _way(*self.now())
        if found is None or within < found.least:
            return False
        known = found.commands or found.least == 0
        return True if known and len(found.commands) <= within else None

    def progress(self) -> float:
        """Share of the requirements that stand, in [0, 1]; 1 exactly at success."""
        return progress(*self.now())

    def candidates(self) -> Sequence[str]:
        """A few commands worth trying, for searches and walks, since there is no list of all; none of them sends.

        The next ones of the plan, or where there is none the answer; and some that move, copy and delete files.
        """
        task, state = self.now()
        planned = [command for command in self.plan() or () if not command.startswith("send ")]
        paths = sorted(state.files)[len(state.sent) :: max(1, len(state.files) // 3)]
        other = [f"{verb} {path} tmp/other.doc" for verb, path in zip(("move", "copy", "copy"), paths, strict=False)]
        other += [f"delete {path}" for path in paths[-1:]] + [f"move {one} {two}" for one, two in pairwise(paths[:2])]
        return tuple(dict.fromkeys([*(planned[:4] or [submission(task.goal.answer)]), *other]))


def lost(task: Task, state: State) -> bool:
    """Whether success is out of reach."""
    if state.answer is not None:
        return not success(task, state)
    return workspace_plan.way(task.goal, contents(task, state.files), messages(task, state)) is None


def progress(task: Task, state: State) -> float:
    """Share of the requirements that stand, in [0, 1]; 1 exactly at success."""
    if success(task, state):
        return 1.0
    return workspace_plan.progress(task.goal, task.start, contents(task, state.files), messages(task, state))


def _way(task: Task, state: State) -> Way | None:
    """A plan that works when played, without commands where none is known; None where success is out of reach."""
    if state.answer is not None:
        return Way((), 0) if success(task, state) else None
    held = contents(task, state.files)
    found = workspace_plan.way(task.goal, held, messages(task, state))
    if found is None or _works(task, state, found.commands):
        return found
    # Too little room for copies: what nobody needs goes first.
    needed = {content.origin for content in task.goal.places.values()} | {c.origin for _, c in task.goal.messages}
    spare = sorted((path for path in held if held[path].origin not in needed), key=lambda at: -len(state.files[at]))
    commands = (*(f"delete {path}" for path in spare if path not in task.goal.absent), *found.commands)
    return Way(commands if _works(task, state, commands) else (), found.least)


def _works(task: Task, state: State, commands: Sequence[str]) -> bool:
    for command in commands:
        state = advance(task, state, command)[0]
    return success(task, state)

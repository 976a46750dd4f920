"""Shortest plans by the planner of the ``alfworld`` package (Fast Downward), from any state of a game.

The planner searches breadth first, so its plan is a shortest one; ``alfworld_problem.reduced`` keeps the search small.
This module knows how the planner is called and what its operators mean, and nothing of games or files.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rir_envs.alfworld_problem import Fact, problem, reduced
from rir_envs.alfworld_route import Goal, Step

__all__ = ["COMMANDS", "shortest_plan"]

COMMANDS: Mapping[str, str] = {
    "go": "go to {1}",
    "open": "open {1}",
    "close": "close {1}",
    "take": "take {0} from {1}",
    "move": "move {0} to {1}",
    "clean": "clean {0} with {1}",
    "heat": "heat {0} with {1}",
    "cool": "cool {0} with {1}",
    "use": "use {0}",
    "slice": "slice {0} with {1}",
}
"""For each verb of a step the command, of the names of the thing and of the receptacle (or knife)."""

_OPERATORS = {
    "gotolocation": ("go", None, 4),
    "openobject": ("open", None, 3),
    "closeobject": ("close", None, 3),
    "pickupobject": ("take", 3, 4),
    "putobject": ("move", 3, 4),
    "cleanobject": ("clean", 4, 3),
    "heatobject": ("heat", 4, 3),
    "coolobject": ("cool", 4, 3),
    "toggleobject": ("use", 3, 4),
    "sliceobject": ("slice", 3, 4),
}
"""The verb of each operator, and where its name holds the thing and the receptacle (or knife)."""


def shortest_plan(goal: Goal, facts: Collection[Fact]) -> list[Step] | None:
    """A shortest plan from the state in which these are all the facts, or None where there is no plan.

    Ids in the steps are in lower case, as in the facts. The plan is empty where the goal holds already. Imports
    ``alfworld`` (which makes the folder ``ALFWORLD_DATA``, or one in the home) and the planner's library.
    """
    info: Any = importlib.import_module("alfworld.info")
    downward: Any = importlib.import_module("fast_downward")
    domain = Path(info.ALFRED_PDDL_PATH).read_text("utf-8")
    argv = list(sys.argv)
    try:
        _, task = downward.pddl2sas(domain, problem(goal, reduced(goal, facts)), optimize=True)
    finally:
        sys.argv = argv  # the translator sets it for its own option parser
    library = _library()
    if not library.solve_sas(task.encode("utf-8"), False):
        return None
    operators = (downward.Operator * library.get_last_plan_length())()
    library.get_last_plan(operators)
    return [_step(operator.name) for operator in operators]


@cache
def _library() -> Any:
    """One copy of the planner's library, apart from those of running games; it does not survive being closed twice."""
    downward: Any = importlib.import_module("fast_downward")
    return downward.load_lib()


def _step(operator: str) -> Step:
    words = operator.split()
    verb, thing, place = _OPERATORS[words[0]]
    return verb, words[thing] if thing is not None else "", words[place]

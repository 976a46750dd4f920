"""ScienceWorld's tasks, their variations and splits, and simplifications: which episode is asked for.

The numbers are those of scienceworld 1.2.3; a test compares them with the simulator. Nothing is started here, so a
wrong argument is refused at once. This module knows no Java and no environment.

ScienceWorld: Wang et al., "ScienceWorld: Is your Agent Smarter than a 5th Grader?", arXiv 2203.07540.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rir_gym.errors import UnknownName, UsageError

__all__ = ["NOT_REPEATING", "SIMPLIFICATIONS", "SPLITS", "TASKS", "Split", "Task", "chosen", "simplified", "variations"]

Split = Literal["train", "dev", "test"]
SPLITS = ("train", "dev", "test")

TASKS: Mapping[str, tuple[int, int, int]] = {
    "boil": (14, 7, 9),
    "change-the-state-of-matter-of": (14, 7, 9),
    "chemistry-mix": (16, 8, 8),
    "chemistry-mix-paint-secondary-color": (18, 9, 9),
    "chemistry-mix-paint-tertiary-color": (18, 9, 9),
    "find-animal": (150, 75, 75),
    "find-living-thing": (150, 75, 75),
    "find-non-living-thing": (150, 75, 75),
    "find-plant": (150, 75, 75),
    "freeze": (14, 7, 9),
    "grow-fruit": (62, 31, 33),
    "grow-plant": (62, 31, 33),
    "identify-life-stages-1": (6, 3, 5),
    "identify-life-stages-2": (4, 2, 4),
    "inclined-plane-determine-angle": (84, 42, 42),
    "inclined-plane-friction-named-surfaces": (692, 346, 348),
    "inclined-plane-friction-unnamed-surfaces": (80, 40, 42),
    "lifespan-longest-lived": (62, 31, 32),
    "lifespan-longest-lived-then-shortest-lived": (62, 31, 32),
    "lifespan-shortest-lived": (62, 31, 32),
    "measure-melting-point-known-substance": (218, 109, 109),
    "measure-melting-point-unknown-substance": (150, 75, 75),
    "melt": (14, 7, 9),
    "mendelian-genetics-known-plant": (60, 30, 30),
    "mendelian-genetics-unknown-plant": (240, 120, 120),
    "power-component": (10, 5, 5),
    "power-component-renewable-vs-nonrenewable-energy": (10, 5, 5),
    "test-conductivity": (450, 225, 225),
    "test-conductivity-of-unknown-substances": (300, 150, 150),
    "use-thermometer": (270, 135, 135),
}
"""Every task, and how many of its variations are for training, development and testing, in this order of numbers."""

SIMPLIFICATIONS = (
    "easy",
    "noElectricalAction",
    "openContainers",
    "openDoors",
    "selfWateringFlowerPots",
    "teleportAction",
)

NOT_REPEATING: Mapping[str, str] = {}
"""Tasks that do not repeat, and how they differ: refused as not restorable. ``benchmarks/science.py`` finds them."""

_ELECTRICAL = ("power-component", "conductivity")


@dataclass(frozen=True, slots=True)
class Task:
    """One variation of one task. ``simplifications`` is the simulator's own form: names with commas, or ""."""

    name: str
    variation: int
    simplifications: str = ""

    def __str__(self) -> str:
        """The name and the number, as messages tell it."""
        return f"{self.name} {self.variation}" + (f" ({self.simplifications})" if self.simplifications else "")


def variations(task: str, split: Split | None = None) -> range:
    """The variations of a task, or those of one split.

    Raises:
        UnknownName: no such task or split.
    """
    if not isinstance(task, str) or task not in TASKS:
        raise UnknownName("task", task, TASKS)
    if split is None:
        return range(sum(TASKS[task]))
    if split not in SPLITS:
        raise UnknownName("split", split, SPLITS)
    at = SPLITS.index(split)
    first = sum(TASKS[task][:at])
    return range(first, first + TASKS[task][at])


def chosen(task: str, variation: int | None, split: Split | None) -> range:
    """The variations that may be played.

    Raises:
        UnknownName: no such task or split.
        UsageError: no such variation of the task, or of the split.
    """
    allowed = variations(task, split)
    if variation is None:
        return allowed
    if isinstance(variation, bool) or not isinstance(variation, int) or variation not in allowed:
        of = f"task {task!r}" + (f", split {split!r}" if split else "")
        raise UsageError(f"variation={variation!r}: None or an int from {allowed[0]} to {allowed[-1]} ({of})")
    return range(variation, variation + 1)


def simplified(task: str, simplifications: str) -> str:
    """The simulator's form of simplifications, in one order.

    Raises:
        UsageError: no text of known names with commas; or electricity is left out of a task that needs it.
    """
    if not isinstance(simplifications, str):
        raise UsageError(f"simplifications={simplifications!r}: names with commas, of {', '.join(SIMPLIFICATIONS)}")
    names = sorted({name.strip() for name in simplifications.split(",")} - {""})
    for name in names:
        if name not in SIMPLIFICATIONS:
            raise UnknownName("simplifications", name, SIMPLIFICATIONS)
    if "noElectricalAction" in names and any(each in task for each in _ELECTRICAL):
        raise UsageError(f"simplifications={simplifications!r}: without noElectricalAction, which {task!r} needs")
    return ",".join(names)

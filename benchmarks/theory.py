"""How much is each restriction of (k, M+) worth? Exact V* by dynamic programming on small tasks.

    python benchmarks/theory.py [--quick] [--json PATH] [--svg PATH]

The base agent is given; the recovery policy is the best one that a restriction allows. A state of the recursion is the
branch, M, the calls left and the rollbacks left, so the values are exact, and V*(a) <= V*(b) is checked for every pair
with ``a <= b`` (exit code 1 where it fails). docs/theory.md tells the model. Knows no environment.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rir_gym.base import Restriction
from rir_gym.memory import Fact
from rir_gym.operator import Operator, Space
from rir_policies.mechanisms import MECHANISMS, NEEDS_MODEL
from rir_policies.when import never

Moves = tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class Kept:
    """M of the small tasks: at most one note, the fact."""

    notes: tuple[str, ...] = ()

    def render(self) -> str:
        return "\n".join(self.notes)

    def learn(self, learned: Sequence[Fact]) -> Kept:
        return self

    def to_json(self) -> dict[str, Any]:
        return {"kind": "kept", "notes": [*self.notes]}


EMPTY, FULL = Kept(), Kept(("the fact",))


@dataclass(frozen=True)
class Task:
    """A finite task with the base agent in it: where one call leads from a state, by what the agent knows.

    Args:
        name: of the family.
        moves: by state, (ignorant, knowing): pairs of probability and next state. State 0 is the start.
        goal: the state of success; it is absorbing.
        teaches: the states whose observation shows the fact.
        notices: whether the agent itself draws the conclusion from its branch; else it heeds M alone.
    """

    name: str
    moves: Mapping[int, tuple[Moves, Moves]]
    goal: int
    teaches: frozenset[int] = frozenset()
    notices: bool = True

    @property
    def states(self) -> int:
        return len(self.moves) + 1

    def shown(self, path: Sequence[int]) -> bool:
        return any(state in self.teaches for state in path)

    def step(self, path: Sequence[int], memory: Kept) -> Moves:
        knows = memory == FULL or (self.notices and self.shown(path))
        return self.moves[path[-1]][knows]


@dataclass
class Value:
    """V* of a task under a restriction, with what was computed so far."""

    task: Task
    restriction: Restriction
    known: dict[tuple[Any, ...], float] = field(default_factory=dict)

    def __call__(self, calls: int, rollbacks: int) -> float:
        """The best probability of success from the start with so many agent calls and rollbacks."""
        return self._best((0,), EMPTY, calls, rollbacks)

    def _best(self, path: tuple[int, ...], memory: Kept, calls: int, rollbacks: int) -> float:
        if path[-1] == self.task.goal:
            return 1.0
        if calls == 0:
            return 0.0
        key = (path, memory, calls, rollbacks)
        if key not in self.known:
            going_on = sum(
                chance * self._best((*path, state), memory, calls - 1, rollbacks)
                for chance, state in self.task.step(path, memory)
            )
            recovered = (
                self._best(*operator(path), calls - 1, rollbacks - (operator.depth > 0))
                for operator in self._operators(path, memory, rollbacks)
            )
            self.known[key] = max(going_on, *recovered, 0.0)
        return self.known[key]

    def _operators(self, path: tuple[int, ...], memory: Kept, rollbacks: int) -> Iterator[Operator]:
        """What the restriction allows: M+ is M, or holds the fact if the branch has shown it.

        One that changes nothing but the calls left is left out.
        """
        space = Space(len(path) - 1, frozenset(range(len(path))), memory)
        after = {memory, FULL} if self.task.shown(path) else {memory}
        for depth in space.depths if rollbacks else {0}:
            for kept in after:
                operator = Operator(depth, kept)
                if (depth or kept != memory) and self.restriction.allows(operator, space):
                    yield operator


# --- tasks ----------------------------------------------------------------------------------------------------------


def undo(error: float, *, length: int = 4) -> Task:
    """Nothing to learn: at every step of a chain the agent errs with probability ``error``, for good."""
    dead = length + 1
    chain = {s: (((1 - error, s + 1), (error, dead)),) * 2 for s in range(length)}
    return Task("undo", {**chain, dead: (((1.0, dead),),) * 2}, goal=length)


def lesson(error: float, *, length: int = 4) -> Task:
    """Nothing to undo: half-way the agent takes a wrong door, sees a sign with the fact behind it and walks back.

    It draws no conclusion by itself. Errors cost a call.
    """
    door, sign = length // 2, length + 1
    moves = {s: (((1 - error, s + 1), (error, s)),) * 2 for s in range(length)}
    moves[door] = (((1.0, sign),), ((1 - error, door + 1), (error, door)))
    moves[sign] = (((1.0, door),),) * 2
    return Task("lesson", moves, goal=length, teaches=frozenset({sign}), notices=False)


def both(error: float, *, length: int = 4) -> Task:
    """Half-way the agent takes a wrong door; it falls shut, and a sign behind it shows the fact.

    Errors elsewhere are for good, too.
    """
    door, trap, dead = length // 2, length + 1, length + 2
    moves = {s: (((1 - error, s + 1), (error, dead)),) * 2 for s in range(length)}
    moves[door] = (((1.0, trap),), ((1 - error, door + 1), (error, dead)))
    moves[trap] = moves[dead] = (((1.0, dead),),) * 2
    return Task("both", moves, goal=length, teaches=frozenset({trap}))


def late(error: float, *, length: int = 2, silent: int = 5) -> Task:
    """The wrong door is the first one, and the sign stands five steps behind it: nothing shows before."""
    first, dead = length + 1, length + 1 + silent
    moves = {s: (((1 - error, s + 1), (error, s)),) * 2 for s in range(length)}
    moves[0] = (((1.0, first),), ((1 - error, 1), (error, 0)))
    moves |= {first + i: (((1.0, first + i + 1),),) * 2 for i in range(silent)}
    moves[dead] = (((1.0, dead),),) * 2
    return Task("late", moves, goal=length, teaches=frozenset({first + silent - 1}))


FAMILIES = {"undo": undo, "lesson": lesson, "both": both, "late": late}


def restrictions() -> dict[str, Restriction]:
    """What each mechanism declares, where it keeps to the branch (a tree search is outside the operator's class)."""
    stub: Any = never
    made = {
        name: make(act=stub, reviewer=stub, where=stub, what=stub).restriction
        for name, make in MECHANISMS.items()
        if name not in NEEDS_MODEL
    }
    return {name: each for name, each in made.items() if each.nodes == "branch"}


# --- rows -----------------------------------------------------------------------------------------------------------


def rows(families: Sequence[str], errors: Sequence[float], calls: Sequence[int], rollbacks: Sequence[int]) -> list[Any]:
    """One row a task, error, horizon and budget: V* by mechanism."""
    declared = restrictions()
    found = []
    for family in families:
        for error in errors:
            task = FAMILIES[family](error)
            values = {rule: Value(task, rule) for rule in set(declared.values())}
            for horizon in calls:
                for budget in rollbacks:
                    exact = {name: values[rule](horizon, budget) for name, rule in declared.items()}
                    told = {"task": family, "states": task.states, "error": error, "calls": horizon}
                    found.append({**told, "rollbacks": budget, "values": exact})
    return found


def broken(found: Sequence[Any]) -> list[str]:
    """Where a wider class is worse than a narrower one: never, or the recursion is wrong."""
    declared = restrictions()
    return [
        f"{row['task']} error={row['error']} calls={row['calls']} rollbacks={row['rollbacks']}: V*({a}) > V*({b})"
        for row in found
        for a, narrow in declared.items()
        for b, wide in declared.items()
        if narrow <= wide and row["values"][a] > row["values"][b] + 1e-12
    ]


SHOWN = (
    "react",
    "reflection_only",
    "rollback_only",
    "restart",
    "reflexion",
    "ga_rollback",
    "src",
    "webrollback",
    "rir",
)


def table(found: Sequence[Any]) -> str:
    """V* in %, one line a row."""
    lines = [
        "V* in %",
        f"{'task':7} {'error':>5} {'calls':>5} {'B_rb':>4}  " + " ".join(f"{name:>15}" for name in SHOWN),
    ]
    for row in found:
        values = " ".join(f"{100 * row['values'][name]:15.1f}" for name in SHOWN)
        lines.append(f"{row['task']:7} {row['error']:5.2f} {row['calls']:5} {row['rollbacks']:4}  {values}")
    return "\n".join(lines)


def svg(panels: Sequence[tuple[str, str, Sequence[Any]]]) -> str:
    """Three small plots of the gap V*(RIR) − V*(restricted), one line a mechanism."""
    colours = ("#444", "#c33", "#37c", "#393", "#a6a", "#c80", "#088", "#964")
    width, height, parts = 260, 200, []
    for at, (title, axis, panel) in enumerate(panels):
        left, xs = 40 + at * (width + 40), [row[axis] for row in panel]
        low, span = min(xs), max(xs) - min(xs) or 1
        parts.append(f'<text x="{left}" y="20" font-size="12">{title}</text>')
        parts.append(f'<path d="M{left} 30V{30 + height}H{left + width}" fill="none" stroke="#000"/>')
        parts += [
            f'<text x="{left - 26}" y="{34 + height * (1 - y)}" font-size="10">{y:.1f}</text>' for y in (0, 0.5, 1)
        ]
        parts += [
            f'<text x="{left + width * (x - low) / span - 6:.0f}" y="{44 + height}" font-size="10">{x}</text>'
            for x in xs
        ]
        for name, colour in zip(SHOWN[:-1], colours, strict=True):
            points = " ".join(
                f"{left + width * (row[axis] - low) / span:.1f},"
                f"{30 + height * (1 - row['values']['rir'] + row['values'][name]):.1f}"
                for row in panel
            )
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    parts += [
        f'<text x="{40 + (i % 4) * 210}" y="{70 + height + 18 * (i // 4)}" font-size="12" fill="{colour}">{name}</text>'
        for i, (name, colour) in enumerate(zip(SHOWN[:-1], colours, strict=True))
    ]
    size = f'width="{60 + 3 * (width + 40)}" height="{110 + height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">{"".join(parts)}</svg>\n'


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rows, check the inclusions, write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three horizons, one error rate")
    parser.add_argument("--json", type=Path, help="write the rows there")
    parser.add_argument("--svg", type=Path, help="write three plots of the gap on the task 'both' there")
    asked = parser.parse_args(arguments)
    errors = (0.1,) if asked.quick else (0.05, 0.1, 0.2, 0.3)
    calls = (4, 6, 8) if asked.quick else tuple(range(4, 9))
    found = rows(tuple(FAMILIES), errors, calls, (1, 3) if asked.quick else (1, 2, 3))
    print(table(found))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if asked.svg:
        some = rows(("both",), (0.05, 0.1, 0.2, 0.3), (4, 5, 6, 7, 8), (1, 2, 3))
        at = {"error": 0.1, "calls": 8, "rollbacks": 3}
        panels = [
            (f"gap by {title}", axis, [row for row in some if all(row[x] == at[x] for x in at if x != axis)])
            for axis, title in (("calls", "horizon"), ("error", "error rate"), ("rollbacks", "B_rb"))
        ]
        asked.svg.write_text(svg(panels), encoding="utf-8")
    faults = broken(found)
    print(f"\n{len(found)} rows; V* of a wider class is never below a narrower one's: {'no' if faults else 'yes'}")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

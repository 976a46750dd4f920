"""Where the nodes of a recorded tree stand in a picture: the step to the right, a lane for each branch.

The surviving branch is lane 0, straight. Each abandoned branch hangs below the one from which it left, those that left
further right nearer, so that no line crosses a branch. Lanes are shared by branches that do not meet. This module knows
the tree of a record only, no events, pixels or colours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rir_gym.view.story import Return

__all__ = ["Branch", "Layout", "layout_of"]

_ROOM = 3  # steps after the end of a branch that stay free for its marks


@dataclass(frozen=True, slots=True)
class Branch:
    """A run of nodes without a fork of its own: ids in order, the node it left from, its lane.

    ``number`` counts the abandoned branches from 1 in the order of their first real step; the surviving one is 0.
    """

    number: int
    nodes: tuple[int, ...]
    fork: int | None
    lane: int

    @property
    def surviving(self) -> bool:
        return self.number == 0


@dataclass(frozen=True, slots=True)
class Layout:
    """All branches by number, the branch of each node, and the size in steps and lanes."""

    branches: tuple[Branch, ...]
    branch_of: tuple[int, ...]
    steps: int
    lanes: int

    def lane(self, node: int) -> int:
        return self.branches[self.branch_of[node]].lane


def layout_of(nodes: Sequence[Mapping[str, Any]], *, last: int, returns: Iterable[Return] = ()) -> Layout:
    """Lanes for the nodes of a checked record.

    Args:
        last: id of the node where the surviving branch ends.
        returns: rollbacks; a branch also keeps the place free that the arc back from its end needs.
    """
    children: dict[int, list[int]] = defaultdict(list)
    for node in nodes[1:]:
        children[node["parent"]].append(node["id"])
    chains = _chains(nodes, children, last)
    branch_of = [0] * len(nodes)
    for number, chain in enumerate(chains):
        for at in chain:
            branch_of[at] = number
    leftmost: dict[int, int] = {}
    for back in returns:
        left, number = nodes[back.target]["step"], branch_of[back.source]
        leftmost[number] = min(left, leftmost.get(number, left))
    lanes = _lanes(nodes, chains, branch_of, leftmost)
    branches = tuple(
        Branch(number, tuple(chain), nodes[chain[0]]["parent"], lane)
        for number, (chain, lane) in enumerate(zip(chains, lanes, strict=True))
    )
    return Layout(branches, tuple(branch_of), max(node["step"] for node in nodes), max(lanes) + 1)


def _chains(nodes: Sequence[Mapping[str, Any]], children: Mapping[int, list[int]], last: int) -> list[list[int]]:
    """The surviving chain, then the abandoned ones as they began; each goes on with its first child."""
    surviving = [last]
    while (parent := nodes[surviving[-1]]["parent"]) is not None:
        surviving.append(parent)
    chains, taken = [surviving[::-1]], set(surviving)
    for node in nodes:
        if node["id"] in taken:
            continue
        chain = [node["id"]]
        while following := children.get(chain[-1], ()):
            chain.append(following[0])
        taken.update(chain)
        chains.append(chain)
    return chains


def _lanes(
    nodes: Sequence[Mapping[str, Any]],
    chains: Sequence[Sequence[int]],
    branch_of: Sequence[int],
    leftmost: Mapping[int, int],
) -> list[int]:
    """What hangs on a branch is placed as a whole, below all that hangs there already and shares a step with it."""
    forks = [0, *(nodes[chain[0]]["step"] - 1 for chain in chains[1:])]
    parents = [0, *(branch_of[nodes[chain[0]]["parent"]] for chain in chains[1:])]
    under: dict[int, list[int]] = defaultdict(list)
    for number in range(1, len(chains)):
        under[parents[number]].append(number)
    below = [0] * len(chains)  # lanes under the parent's
    outlines: list[dict[int, tuple[int, int]]] = [{} for _ in chains]  # by step: first and last lane, from the own one
    for number in reversed(range(len(chains))):  # a branch has a greater number than the one it left
        chain = chains[number]
        low = min(forks[number], leftmost.get(number, forks[number]))
        outline = dict.fromkeys(range(low, nodes[chain[-1]]["step"] + _ROOM), (0, 0))
        # what left furthest to the right comes first and stays nearest; of one place, what came first
        for child in sorted(under[number], key=lambda child: (-forks[child], child)):
            inner = outlines[child]
            gaps = (outline[step][1] + 1 - top for step, (top, _) in inner.items() if step in outline)
            below[child] = max(1, max(gaps, default=1))
            for step, (top, bottom) in inner.items():
                first, last = outline.get(step, (top + below[child], 0))
                outline[step] = first, max(last, bottom + below[child])
            inner.clear()
        outlines[number] = outline
    lanes = [0] * len(chains)
    for number in range(1, len(chains)):
        lanes[number] = lanes[parents[number]] + below[number]
    return lanes

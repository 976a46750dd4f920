"""What an episode is made of: real steps, the tree of nodes that they reach, and what is kept of a node.

This module knows no environment, no role and no way of saving a world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Checkpoint", "Node", "RestorePoint", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """What one real step returned: the action a_{i-1} that was taken and the observation o_i that came back.

    The first step of a history holds o_0 and the action None. ``info`` is without its ``oracle`` entry, which stands
    apart in ``oracle`` and is None wherever a role may not see it.
    """

    action: Any
    observation: Any
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)
    oracle: Mapping[str, Any] | None = None

    @property
    def over(self) -> bool:
        """True where the environment said that the episode has ended."""
        return self.terminated or self.truncated

    @property
    def admissible(self) -> Sequence[str] | None:
        """The admissible commands after this step; None where the environment does not list them."""
        return self.info.get("admissible")


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One node of an episode's history tree: the world after ``step``, reached from ``parent``.

    Args:
        id: serial number in the episode, 0 at the root, in the order of real steps.
        parent: None at the root.
        t: number of actions on the way from the root: the restore point "before action t".
        step: what the environment returned here.
        ret: undiscounted return from the root to here, without step and rollback costs.
        summary: σ, a short description of the world derived from it when it was reached.
    """

    id: int
    parent: Node | None
    t: int
    step: Step
    ret: float = 0.0
    summary: str = ""

    def branch(self) -> tuple[Node, ...]:
        """The nodes from the root to this one."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None:
            nodes.append(node)
            node = node.parent
        return tuple(reversed(nodes))

    def __repr__(self) -> str:
        return f"Node(id={self.id}, t={self.t}, action={self.step.action!r})"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """C_t = (s_t, h_t): a saved world (the mechanism's ``token``, ``size`` bytes) and the node with its history."""

    node: Node
    token: Any
    size: int | None = None


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """A kept node that can be restored now: node id, its index t on its branch, and σ."""

    node: int
    t: int
    summary: str = ""

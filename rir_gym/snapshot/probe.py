"""The proof of one mechanism on one instance: save, act, restore, act differently, restore, act again, and compare.

This module knows worlds and what ``audit`` can see of them; it knows no ladder and no maker of instances.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal

import numpy as np

from rir_gym.base import Node
from rir_gym.snapshot.audit import difference, finalizers, fingerprint
from rir_gym.snapshot.fork_env import inside
from rir_gym.snapshot.world import World
from rir_gym.values import same_value

__all__ = ["EPISODES", "Deaths", "probe", "repeat_more"]

Deaths = Literal["as they are", "repeated", "prevented"]
"""What a mechanism does to objects that act when they die: its copies die too, or its checkpoints keep them alive."""

EPISODES = 2
_PREFIX, _ACTIONS, _USED, _MORE = 5, 6, 20, 4


def probe(
    world: World, seed: int, share: Sequence[str], static: Sequence[str], deaths: Deaths = "as they are"
) -> str | None:
    """One episode, from its start and from further on: save → A → restore → B → restore → A; why not, if so."""
    rng = np.random.default_rng(seed)
    world.reset(seed, None)
    for prefix in (0, _PREFIX):
        _walk(world, prefix, rng)
        if world.node.step.over or (world.repeats and _committed(world.node)):
            return None
        here, before = world.node, _structure(world, share, static)
        mortal = finalizers(world.env, share=share) if deaths != "as they are" else {}
        if mortal and deaths == "repeated":
            path, kind = next(iter(mortal.values()))
            return f"{path} ({kind}) has a __del__, which would run for every copy"
        first = _walk(world, _ACTIONS, rng)
        if mortal and (gone := mortal.keys() - finalizers(world.env, share=share).keys()):
            path, kind = mortal[next(iter(gone))]
            return f"{path} ({kind}) acts when it dies, which a checkpoint that holds it prevents"
        after = _structure(world, share, static)
        for again in (False, True, False):
            world.restore(here)
            if (found := difference(before, _structure(world, share, static))) is not None:
                return f"after a restore {found}"
            if again and (found := _repeat(world, first)) is not None:
                return found
            if not again:  # an odd number of steps: what changes to and fro is elsewhere after it
                _walk(world, _ACTIONS - 1, rng)
            elif not world.node.step.over:  # at the end of an episode wrappers note the time
                found = difference(after, _structure(world, share, static))
                if found is not None:
                    return f"after the same actions {found}"
        world.restore(here)
    _walk(world, _USED, rng)  # the next episode begins on an instance that was played with, as episodes do
    return None


def repeat_more(world: World) -> None:
    """Whole episodes done again on fresh instances: a used one may differ where a walk cannot see how.

    Raises:
        SnapshotError: the first difference.
    """
    for seed in range(EPISODES, EPISODES + _MORE):
        rng = np.random.default_rng(seed)
        world.reset(seed, None)
        _walk(world, 2 * _ACTIONS, rng)
        if _committed(world.node):
            return
        world.keep()
        world.restore(world.node)
        _walk(world, _USED, rng)


def _structure(world: World, share: Sequence[str], static: Sequence[str]) -> list[tuple[str, str]]:
    return inside(world.env, fingerprint, share=tuple(share), static=tuple(static))


def _walk(world: World, length: int, rng: np.random.Generator) -> list[Node]:
    """Random actions, admissible ones where they are listed."""
    nodes: list[Node] = []
    space = copy.deepcopy(world.env.action_space)
    space.seed(int(rng.integers(2**31)))
    while len(nodes) < length and not world.node.step.over:
        listed = world.node.step.admissible
        action = listed[int(rng.integers(len(listed)))] if listed else space.sample()
        nodes.append(world.step(action))
    return nodes


def _committed(node: Node) -> bool:
    return any(each.step.info.get("committed") for each in node.branch())


def _repeat(world: World, nodes: Sequence[Node]) -> str | None:
    for node in nodes:
        seen, step = world.step(node.step.action).step, node.step
        for what in ("observation", "reward", "terminated", "truncated"):
            if not same_value(getattr(step, what), getattr(seen, what)):
                return f"step {node.t} after a restore: {what} was {getattr(step, what)!r}, is {getattr(seen, what)!r}"[
                    :300
                ]
    return None

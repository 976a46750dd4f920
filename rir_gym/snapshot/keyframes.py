"""Snapshot by another mechanism now and then, and by doing the steps since then again.

A node that has no keyframe of its own is restored from the nearest one on its branch; every step that is done again is
compared with what was recorded. How far apart keyframes stand follows from measured costs (``costs``). A step that had
an effect outside is never done again: a keyframe is made right after it. This module knows no concrete mechanism.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from rir_gym.base import Node
from rir_gym.errors import SnapshotError
from rir_gym.snapshot.again import committed_in, do_again
from rir_gym.snapshot.costs import Costs
from rir_gym.snapshot.protocol import Adopting, Bounded, Losing, Snapshotter, Start

__all__ = ["Keyframes"]

_LATENCY_S = 0.5


@dataclass(slots=True, eq=False)
class _Key:
    """A keyframe: the base's token, and the kept marks that are restored from it. ``fixed``: none before it will do."""

    node: Node
    token: Any
    fixed: bool
    marks: dict[int, _Mark] = field(default_factory=dict, repr=False)


@dataclass(slots=True, eq=False)
class _Mark:
    """The token of a node: from which keyframe it is restored."""

    node: Node
    start: Start
    key: _Key


@dataclass(slots=True, eq=False)
class Keyframes:
    """Sparse tokens of ``base``, and replay in between.

    Args:
        base: any mechanism that does not itself repeat resets.
        spacing: steps between keyframes; None follows the measured costs.
        latency_s: the longest that a restore with its replay should take, in seconds, where a keyframe can prevent it.
        price_s: what a kept byte is worth, in seconds.
        clock_fn: seconds, from anywhere.
    """

    base: Snapshotter
    spacing: int | None = None
    latency_s: float = _LATENCY_S
    price_s: float = 0.0
    clock_fn: Callable[[], float] = time.perf_counter
    costs: Costs = field(default_factory=Costs, init=False)
    _keys: dict[int, _Key] = field(default_factory=dict, init=False, repr=False)
    _in_place: bool = field(default=True, init=False, repr=False)

    @property
    def name(self) -> str:
        """With the base's."""
        return f"keyframes:{self.base.name}"

    @property
    def sized(self) -> bool:
        """As the base."""
        return self.base.sized

    @property
    def repeats(self) -> bool:
        """No reset is done again, and no step that had an effect outside."""
        return False

    @property
    def tied(self) -> bool:
        """As the base."""
        return self.base.tied

    @property
    def keyframes(self) -> tuple[int, ...]:
        """The ids of the nodes that have one now."""
        return tuple(self._keys)

    def adopt(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """As the base."""
        return self.base.adopt(env) if isinstance(self.base, Adopting) else env

    def stepped(self, seconds: float) -> None:
        """The environment has made a step in so much time."""
        self.costs.steps += 1
        self.costs.step.add(seconds)

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> _Mark:
        """A keyframe where one is due, else only a note of where it is restored from.

        Raises:
            SnapshotError: it is due, there is none before that would do, and the base cannot save.
        """
        before = self._before(node)
        never_again = bool(node.step.info.get("committed") or node.step.info.get("timeout"))
        fixed = before is None or never_again
        if before is None or fixed or node.t - before.node.t >= self._due():
            try:
                before = self._keyframe(env, node, start, fixed=fixed)
            except SnapshotError:
                if before is None or fixed:
                    raise
        mark = _Mark(node, start, before)
        before.marks[node.id] = mark
        return mark

    def restore(self, env: gym.Env[Any, Any], token: _Mark) -> gym.Env[Any, Any]:
        """From the keyframe, over the steps since then.

        Raises:
            ReplayMismatch: step, expected and seen of the first difference; the world is as it was before the call.
            SnapshotError: the base cannot put the keyframe back; likewise.
        """
        self.costs.rollbacks += 1
        key, steps = token.key, token.node.branch()[token.key.node.t + 1 :]
        if not steps:
            return self._put(env, key)
        held: Any = None
        if self._in_place:  # else what lives is not touched, and can be gone back to as it is
            with suppress(SnapshotError):  # a world that cannot be saved is one that has died, or cannot be taken back
                held = self.base.save(env, token.node, token.start)
        try:
            live = self._put(env, key)
            self._in_place = live is env
            try:
                do_again(live, steps, token.start)
            except BaseException:
                if live is env and held is not None:
                    self.base.restore(env, held)
                raise
        finally:
            if held is not None:
                self.base.drop(held)
        return live

    def begins_at(self, token: _Mark) -> int:
        """The id of the node of its keyframe."""
        return token.key.node.id

    def lost(self, env: gym.Env[Any, Any], token: _Mark) -> str | None:
        """As the base says of its keyframe."""
        return self.base.lost(env, token.key.token) if isinstance(self.base, Losing) else None

    def size(self, token: _Mark) -> int | None:
        """The size of the keyframe at the first mark that needs it, 0 at the others."""
        if next(iter(token.key.marks)) != token.node.id:
            return 0 if self.sized else None
        return self.base.size(token.key.token)

    def drop(self, token: _Mark) -> None:
        """A keyframe goes when no mark needs it any more."""
        del token.key.marks[token.node.id]
        if not token.key.marks:
            self._remove(token.key)

    def forget(self) -> None:
        """All of them go; what was measured stays."""
        self._keys.clear()
        self.base.forget()

    def _due(self) -> int:
        if self.spacing is not None:
            return self.spacing
        return self.costs.spacing(price_s=self.price_s, latency_s=self.latency_s)

    def _before(self, node: Node) -> _Key | None:
        """The nearest keyframe on the branch."""
        at: Node | None = node
        while at is not None and at.id not in self._keys:
            at = at.parent
        return self._keys[at.id] if at is not None else None

    def _keyframe(self, env: gym.Env[Any, Any], node: Node, start: Start, *, fixed: bool) -> _Key:
        most = self.base.most if isinstance(self.base, Bounded) else None
        if most is not None and len(self._keys) >= max(most - 1, 1):  # one is needed while a restore is under way
            self._merge()
        began = self.clock_fn()
        token = self.base.save(env, node, start)
        if self._keys or self.costs.save.count:  # the very first one may have to look at everything
            self.costs.save.add(self.clock_fn() - began)
            self.costs.size.add((self.base.size(token) or 0) if self.base.sized else 0)
        key = self._keys[node.id] = _Key(node, token, fixed)
        return key

    def _put(self, env: gym.Env[Any, Any], key: _Key) -> gym.Env[Any, Any]:
        began = self.clock_fn()
        live = self.base.restore(env, key.token)
        self.costs.restore.add(self.clock_fn() - began)
        return live

    def _merge(self) -> None:
        """Remove the keyframe that is nearest to the one before it; its marks are restored from there."""
        gaps: list[tuple[int, int, _Key, _Key]] = []
        for key in self._keys.values():
            if not key.fixed and key.node.parent is not None:
                before = self._before(key.node.parent)
                assert before is not None
                between = key.node.branch()[before.node.t + 1 :]
                if committed_in(between) is None:
                    gaps.append((len(between), key.node.id, key, before))
        if not gaps:
            raise SnapshotError(f"{self.base.name}: no more than {len(self._keys) + 1} checkpoints at once")
        _, _, key, before = min(gaps, key=lambda gap: gap[:2])
        for mark in key.marks.values():
            mark.key = before
        before.marks |= key.marks
        self._remove(key)

    def _remove(self, key: _Key) -> None:
        self._keys.pop(key.node.id, None)
        self.base.drop(key.token)

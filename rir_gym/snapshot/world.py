"""An environment, the tree of its past, and the one mechanism that puts it back.

``World`` is what ``RollbackWrapper`` and the probe share: it records every node, saves before every step, drops what
its lifetime does not keep, restores any kept node, and keeps the global generators right. It knows no actions, rewards
rules or budgets of a wrapper.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from rir_gym.base import Checkpoint, Node, Step
from rir_gym.errors import RirError, SnapshotError, UsageError
from rir_gym.snapshot.files import Files
from rir_gym.snapshot.layers import layers
from rir_gym.snapshot.lifetime import KEEP_ALL, Kept, Lifetime, thinned
from rir_gym.snapshot.protocol import Bounded, Losing, Snapshotter, Start, Timed
from rir_gym.snapshot.reseed import reseed
from rir_gym.snapshot.streams import GlobalStreams, untouched
from rir_gym.values import fresh

__all__ = ["World", "descends"]


class World:
    """One live environment and its history. ``node`` is where it stands; ``nodes[i].id == i``.

    Working directories that the environment declares (``workdir``) are saved and put back with it.

    ``checkpoints`` are those that are kept, by node id, in the order in which the world last left (or stands at) them.
    ``unsaved`` says of a node that could not be saved why; the episode goes on, and that node cannot be restored.

    Raises:
        UsageError: a byte budget with a mechanism that cannot tell sizes.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        mechanism: Snapshotter,
        *,
        share: Sequence[str] = (),
        lifetime: Lifetime = KEEP_ALL,
    ) -> None:
        if (limit := lifetime.max_bytes) is not None and not mechanism.sized:
            raise UsageError(f"keep_bytes={limit!r}: {mechanism.name!r} cannot tell sizes; 'heap' and 'pickle' can")
        self.env = env
        self._files = Files(mechanism)
        self.mechanism: Snapshotter = self._files
        self._losing = mechanism if isinstance(mechanism, Losing) else None
        self._timed = mechanism if isinstance(mechanism, Timed) else None
        self._most = mechanism.most if isinstance(mechanism, Bounded) else None
        self.share = tuple(share)
        self.lifetime = lifetime
        self.streams = GlobalStreams()
        self.start = Start()
        self.nodes: list[Node] = []
        self.checkpoints: OrderedDict[int, Checkpoint] = OrderedDict()
        self.unsaved: dict[int, str] = {}
        self._node: Node | None = None
        self._branch: list[int] = []
        self._bytes_at_most = 0
        self._episodes = 0
        self._root_seed: int | None = None
        self._reseeded: tuple[int, ...] | None = None

    @property
    def node(self) -> Node:
        """Where the world stands; only between reset and close."""
        assert self._node is not None
        return self._node

    @property
    def begun(self) -> bool:
        """Whether there is an episode."""
        return self._node is not None

    @property
    def repeats(self) -> bool:
        """Whether a restore does the actions again, effects outside included."""
        return self.mechanism.repeats

    @property
    def entropy(self) -> tuple[int, ...]:
        """What the wrapper's own draws follow from: the last seed, and the episodes begun since without one."""
        assert self._root_seed is not None
        return (self._root_seed, self._episodes) if self._episodes > 1 else (self._root_seed,)

    def reset(self, seed: int | None, options: Mapping[str, Any] | None) -> Node:
        """Begin an episode: a new tree, no checkpoints.

        A mechanism that repeats resets needs a seed: an unseeded reset gets one derived from the last seed and the
        number of the episode. With every other mechanism the environment's own generator goes on, as without a wrapper.
        """
        if seed is not None:
            self._root_seed, self._episodes = seed, 0
        if self._root_seed is None:
            self._root_seed = int(np.random.SeedSequence().generate_state(1)[0])
        self._episodes += 1
        if seed is None and self.repeats:
            seed = int(np.random.SeedSequence(self.entropy).generate_state(1)[0] >> 1)
        self._files.begin(self.env)
        self.forget()
        self.start = Start(seed, fresh(options) if self.repeats else options)
        given = None if options is None else dict(options)
        observation, info = self.streams.begin(lambda: self.env.reset(seed=seed, options=given))
        self._node = self._grown(None, _step(None, observation, 0.0, False, False, info))
        self._branch = [self.node.id]
        return self.node

    def step(self, action: Any) -> Node:
        """Save the world where it stands, act, and stand at the new node.

        Where the environment raises, it may have done half of the step: it is put back, and its error is passed on.
        """
        self.keep()
        self._thin()
        source, recorded = self.node, fresh(action)
        began = time.perf_counter()
        try:
            observation, reward, terminated, truncated, info = self.streams.step(source, lambda: self.env.step(action))
            if self._timed is not None:
                self._timed.stepped(time.perf_counter() - began)
            step = _step(recorded, observation, float(reward), bool(terminated), bool(truncated), info)
        except Exception:
            with suppress(SnapshotError):
                self.restore(source)
            raise
        self._node = self._grown(source, step)
        self._branch.append(self.node.id)
        if self._reseeded is not None:
            self.start.reseeds[self.node.id], self._reseeded = self._reseeded, None
        self.streams.arrived(self.node)
        return self.node

    def keep(self) -> None:
        """Save the world where it stands, once a node; ``unsaved`` says why not, if so. Nothing is dropped yet."""
        at = self.node.id
        if at in self.checkpoints or at in self.unsaved:
            return
        try:
            with untouched():
                token = self.mechanism.save(self.env, self.node, self.start)
        except RirError as error:
            self.unsaved[at] = str(error)
            return
        self.checkpoints[at] = Checkpoint(self.node, token)
        if self.lifetime.max_bytes is not None:
            self._bytes_at_most += self.mechanism.size(token) or 0

    def missing(self, node: Node) -> str | None:
        """Why a node cannot be restored; None where it can."""
        if node.id not in self.checkpoints:
            return self.unsaved.get(node.id, "its checkpoint is not kept")
        if self._losing is not None:
            return self._losing.lost(self.env, self._files.inner_token(self.checkpoints[node.id].token))
        return None

    def restore(self, node: Node) -> None:
        """Stand at a kept node again. Where the mechanism fails, the world is as it was.

        Raises:
            SnapshotError: the mechanism could not put the world back.
        """
        if (reason := self.missing(node)) is not None:
            raise SnapshotError(reason)
        try:
            with untouched():
                self.env = self.mechanism.restore(self.env, self.checkpoints[node.id].token)
        except SnapshotError:
            raise
        except Exception as error:  # the environment's own code
            raise SnapshotError(f"{self.mechanism.name}: {type(error).__name__}: {error}") from error
        self.streams.rewind(node)
        self._node, self._reseeded = node, None
        if self._passes(node):
            del self._branch[node.t + 1 :]
        else:
            self._branch = [each.id for each in node.branch()]
        self.checkpoints.move_to_end(node.id)
        self._thin()

    def kept(self) -> tuple[Checkpoint, ...]:
        """Every kept checkpoint with its size now, in the order of their nodes."""
        held = [self.checkpoints[at] for at in sorted(self.checkpoints)]
        return tuple([replace(one, size=self.mechanism.size(one.token)) for one in held])

    def reseed(self, entropy: Sequence[int]) -> None:
        """Give every generator of the environment a new stream (``rng="resample"``)."""
        reseed(self.env, entropy, share=self.share)
        self.streams.reseed(np.random.SeedSequence([*entropy, 1]))
        self._reseeded = tuple(entropy)

    def __getstate__(self) -> dict[str, Any]:
        """A copied world keeps its tree; tokens that are tied to the objects of the original stay with the original."""
        state = self.__dict__.copy()
        if self.mechanism.tied:
            reason = "its checkpoint stayed with the world that this one was copied from"
            state["checkpoints"] = type(self.checkpoints)()
            state["unsaved"] = {**self.unsaved, **dict.fromkeys(self.checkpoints, reason)}
            state["unsaved"].pop(self._node.id if self._node is not None else None, None)
        return state

    def forget(self) -> None:
        """Drop the tree and its checkpoints."""
        self._node = self._reseeded = None
        self.nodes, self.checkpoints, self.unsaved = [], OrderedDict(), {}
        self._branch, self._bytes_at_most = [], 0
        self.mechanism.forget()

    def _thin(self) -> None:
        """Drop what the lifetime does not keep; where the world stands, or stood last, is the newest and stays."""
        for at in self.lifetime.surplus(self.checkpoints):
            self._drop(at)
        if self._most is not None and len(self.checkpoints) > self._most:
            for at in thinned([replace(self._as_kept(one), size=1) for one in self.checkpoints.values()], self._most):
                self._drop(at)
        limit = self.lifetime.max_bytes
        while limit is not None and self._bytes_at_most > limit:  # sizes are asked anew: a drop may move bytes
            kept = [self._as_kept(one) for one in self.checkpoints.values()]
            self._bytes_at_most = sum(one.size for one in kept)
            gone = thinned(kept, limit) if self._bytes_at_most > limit else []
            for at in gone:
                self._drop(at)
            if not gone:
                return

    def _drop(self, at: int) -> None:
        self.mechanism.drop(self.checkpoints.pop(at).token)
        self.streams.drop(at)

    def _as_kept(self, one: Checkpoint) -> Kept:
        node = one.node
        age = self.node.t - node.t if self._passes(node) else self.nodes[-1].id - node.id
        return Kept(node.id, node.t, self.mechanism.size(one.token) or 0, age)

    def _passes(self, node: Node) -> bool:
        """Whether the current branch goes through a node of this episode."""
        return node.t < len(self._branch) and self._branch[node.t] == node.id

    def _grown(self, parent: Node | None, step: Step) -> Node:
        ret = step.reward + (parent.ret if parent is not None else 0.0)
        t = parent.t + 1 if parent is not None else 0
        node = Node(len(self.nodes), parent, t, step, ret, self._summary(step.observation))
        self.nodes.append(node)
        return node

    def _summary(self, observation: Any) -> str:
        """σ: what the environment says of itself, else the beginning of its observation."""
        for layer in layers(self.env):
            if (describe := getattr(layer, "describe", None)) is not None:
                return str(describe())
        text = observation if isinstance(observation, str) else repr(observation)
        return " ".join(text[:200].split())[:120]


def descends(node: Node, ancestor: Node) -> bool:
    """Whether ``ancestor`` is on the branch of ``node``, or is the node itself."""
    at: Node | None = node
    while at is not None and at.t >= ancestor.t:
        if at is ancestor:
            return True
        at = at.parent
    return False


def _step(
    action: Any, observation: Any, reward: float, terminated: bool, truncated: bool, info: Mapping[str, Any]
) -> Step:
    """The record of a step: copies, with the oracle's part of info apart."""
    kept = {key: fresh(value) for key, value in info.items() if key != "oracle"}
    oracle = fresh(info["oracle"]) if "oracle" in info else None
    return Step(action, fresh(observation), reward, terminated, truncated, kept, oracle)

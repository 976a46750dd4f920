"""An environment, the tree of its past, and the one mechanism that puts it back.

``World`` is what ``RollbackWrapper`` and the probe share: it records every node, saves before every step, restores any
kept node, and keeps the global generators right. It knows no actions, rewards rules or budgets of a wrapper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np

from rir_gym.base import Checkpoint, Node, Step
from rir_gym.errors import RirError, SnapshotError
from rir_gym.snapshot.layers import layers
from rir_gym.snapshot.protocol import Snapshotter, Start
from rir_gym.snapshot.reseed import reseed
from rir_gym.snapshot.streams import GlobalStreams, untouched
from rir_gym.values import fresh

__all__ = ["World", "descends"]


class World:
    """One live environment and its history. ``node`` is where it stands; ``nodes[i].id == i``.

    ``unsaved`` says of a node that could not be saved why; the episode goes on, and that node cannot be restored.
    """

    def __init__(self, env: gym.Env[Any, Any], mechanism: Snapshotter, *, share: Sequence[str] = ()) -> None:
        self.env = env
        self.mechanism = mechanism
        self.share = tuple(share)
        self.streams = GlobalStreams()
        self.start = Start()
        self.nodes: list[Node] = []
        self.checkpoints: dict[int, Checkpoint] = {}
        self.unsaved: dict[int, str] = {}
        self._node: Node | None = None
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
        return self.mechanism.name == "replay"

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
        self.forget()
        self.start = Start(seed, fresh(options) if self.repeats else options)
        given = None if options is None else dict(options)
        observation, info = self.streams.begin(lambda: self.env.reset(seed=seed, options=given))
        self._node = self._grown(None, _step(None, observation, 0.0, False, False, info))
        return self.node

    def step(self, action: Any) -> Node:
        """Save the world where it stands, act, and stand at the new node.

        Where the environment raises, it may have done half of the step: it is put back, and its error is passed on.
        """
        self.keep()
        source, recorded = self.node, fresh(action)
        try:
            observation, reward, terminated, truncated, info = self.streams.step(source, lambda: self.env.step(action))
            step = _step(recorded, observation, float(reward), bool(terminated), bool(truncated), info)
        except Exception:
            with suppress(SnapshotError):
                self.restore(source)
            raise
        self._node = self._grown(source, step)
        if self._reseeded is not None:
            self.start.reseeds[self.node.id], self._reseeded = self._reseeded, None
        self.streams.arrived(self.node)
        return self.node

    def keep(self) -> None:
        """Save the world where it stands, once a node; ``unsaved`` says why not, if so."""
        at = self.node.id
        if at in self.checkpoints or at in self.unsaved:
            return
        try:
            with untouched():
                self.checkpoints[at] = Checkpoint(self.node, self.mechanism.save(self.env, self.node, self.start))
        except RirError as error:
            self.unsaved[at] = str(error)

    def restore(self, node: Node) -> None:
        """Stand at a kept node again. Where the mechanism fails, the world is as it was.

        Raises:
            SnapshotError: the mechanism could not put the world back.
        """
        if node.id not in self.checkpoints:
            raise SnapshotError(self.unsaved.get(node.id, f"{node!r} is not kept"))
        try:
            with untouched():
                self.env = self.mechanism.restore(self.env, self.checkpoints[node.id].token)
        except SnapshotError:
            raise
        except Exception as error:  # the environment's own code
            raise SnapshotError(f"{self.mechanism.name}: {type(error).__name__}: {error}") from error
        self.streams.rewind(node)
        self._node, self._reseeded = node, None

    def reseed(self, entropy: Sequence[int]) -> None:
        """Give every generator of the environment a new stream (``rng="resample"``)."""
        reseed(self.env, entropy, share=self.share)
        self.streams.reseed(np.random.SeedSequence([*entropy, 1]))
        self._reseeded = tuple(entropy)

    def forget(self) -> None:
        """Drop the tree and its checkpoints."""
        self._node = self._reseeded = None
        self.nodes, self.checkpoints, self.unsaved = [], {}, {}

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

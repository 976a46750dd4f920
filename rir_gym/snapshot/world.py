"""An environment, the tree of its past, and the one mechanism that puts it back.

``World`` is what ``RollbackWrapper`` and the probe share: it records every node, saves before every step, restores any
kept node, and keeps the global generators right. It knows no actions, rewards rules or budgets of a wrapper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from rir_gym.base import Checkpoint, Node, Step
from rir_gym.snapshot.audit import generators
from rir_gym.snapshot.layers import layers
from rir_gym.snapshot.protocol import Snapshotter, Start
from rir_gym.snapshot.streams import GlobalStreams
from rir_gym.values import fresh

__all__ = ["World"]


class World:
    """One live environment and its history. ``node`` is where it stands; ``nodes[i].id == i``."""

    def __init__(self, env: gym.Env[Any, Any], mechanism: Snapshotter) -> None:
        self.env = env
        self.mechanism = mechanism
        self.streams = GlobalStreams()
        self.start = Start()
        self.nodes: list[Node] = []
        self.checkpoints: dict[int, Checkpoint] = {}
        self._node: Node | None = None
        self._episodes = 0
        self._root_seed: int | None = None

    @property
    def node(self) -> Node:
        """Where the world stands; only between reset and close."""
        assert self._node is not None
        return self._node

    @property
    def begun(self) -> bool:
        """Whether there is an episode."""
        return self._node is not None

    def reset(self, seed: int | None, options: Mapping[str, Any] | None) -> Node:
        """Begin an episode: a new tree, no checkpoints.

        A mechanism that repeats resets needs a seed: an unseeded reset gets one derived from the last seed and the
        number of the episode. With every other mechanism the environment's own generator goes on, as without a wrapper.
        """
        if seed is not None:
            self._root_seed, self._episodes = seed, 0
        self._episodes += 1
        if seed is None and self.mechanism.name == "replay":
            if self._root_seed is None:
                self._root_seed = int(np.random.SeedSequence().generate_state(1)[0])
            seed = int(np.random.SeedSequence([self._root_seed, self._episodes]).generate_state(1)[0] >> 1)
        self.forget()
        self.start = Start(seed, dict(options) if options is not None else None)
        observation, info = self.streams.begin(
            lambda: self.env.reset(seed=seed, options=dict(options) if options is not None else None)
        )
        self._node = self._grown(None, _step(None, observation, 0.0, False, False, info))
        return self.node

    def step(self, action: Any) -> Node:
        """Save the world where it stands, act, and stand at the new node."""
        self.keep()
        source, recorded = self.node, fresh(action)
        observation, reward, terminated, truncated, info = self.streams.step(source, lambda: self.env.step(action))
        step = _step(recorded, observation, float(reward), bool(terminated), bool(truncated), info)
        self._node = self._grown(source, step)
        self.streams.arrived(self.node)
        return self.node

    def keep(self) -> None:
        """Save the world where it stands, once a node."""
        if self.node.id not in self.checkpoints:
            token = self.mechanism.save(self.env, self.node, self.start)
            self.checkpoints[self.node.id] = Checkpoint(self.node, token)

    def restore(self, node: Node) -> None:
        """Stand at a kept node again. Where the mechanism fails, the world is as it was.

        Raises:
            SnapshotError: the mechanism could not put the world back.
        """
        with self.streams.untouched():
            self.env = self.mechanism.restore(self.env, self.checkpoints[node.id].token)
        self.streams.rewind(node)
        self._node = node

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Give every generator of the environment a new stream (``rng="resample"``)."""
        for (_, generator), child in zip(found := generators(self.env), seed.spawn(len(found)), strict=True):
            if isinstance(generator, np.random.Generator):
                bits = type(generator.bit_generator)(child)
                generator.bit_generator.state = bits.state
            else:
                generator.seed(int(child.generate_state(1)[0]))
        self.streams.reseed(seed.spawn(1)[0])

    def forget(self) -> None:
        """Drop the tree and its checkpoints."""
        self._node = None
        self.nodes, self.checkpoints = [], {}

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


def _step(
    action: Any, observation: Any, reward: float, terminated: bool, truncated: bool, info: Mapping[str, Any]
) -> Step:
    """The record of a step: copies, with the oracle's part of info apart."""
    kept = {key: fresh(value) for key, value in info.items() if key != "oracle"}
    oracle = fresh(info["oracle"]) if "oracle" in info else None
    return Step(action, fresh(observation), reward, terminated, truncated, kept, oracle)

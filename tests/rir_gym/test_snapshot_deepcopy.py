"""Snapshot by deep copy: reusable tokens, errors that name the environment, shared attributes kept."""

from __future__ import annotations

import threading
from typing import Any

import gymnasium as gym
import pytest

from rir_gym.base import Node, Step
from rir_gym.errors import SnapshotError
from rir_gym.snapshot.deepcopy import DeepCopy
from rir_gym.snapshot.protocol import Start

ROOT = Node(0, None, 0, Step(None, 0))


class Box(gym.Env[Any, Any]):
    def __init__(self, **held: Any) -> None:
        self.items = [1]
        vars(self).update(held)


def test_a_token_is_independent_and_reusable() -> None:
    mechanism, env = DeepCopy(), Box()
    token = mechanism.save(env, ROOT, Start())
    env.items.append(2)
    for _ in range(3):
        restored = mechanism.restore(env, token)
        assert restored.unwrapped.items == [1]
        restored.unwrapped.items.append(9)
    assert env.items == [1, 2]
    assert mechanism.size(token) is None


def test_what_cannot_be_copied_is_a_snapshot_error_that_names_the_environment() -> None:
    env = Box(lock=threading.Lock())
    with pytest.raises(SnapshotError, match=r"deepcopy of Box: cannot pickle '_thread\.lock'"):
        DeepCopy().save(env, ROOT, Start())
    shared = DeepCopy(share=("lock",))
    assert shared.restore(env, shared.save(env, ROOT, Start())).unwrapped.lock is env.lock

"""Snapshot by pickling in memory: what plain pickle cannot take goes to cloudpickle; shared attributes stay."""

from __future__ import annotations

import threading
from typing import Any

import gymnasium as gym
import pytest

from rir_gym.base import Node, Step
from rir_gym.errors import SnapshotError
from rir_gym.snapshot.pickled import Pickle
from rir_gym.snapshot.protocol import Start

ROOT = Node(0, None, 0, Step(None, 0))


class Holder(gym.Env[Any, Any]):
    def __init__(self, **held: Any) -> None:
        self.items = [1]
        vars(self).update(held)


def test_a_token_is_bytes_and_reusable() -> None:
    mechanism, env = Pickle(), Holder()
    token = mechanism.save(env, ROOT, Start())
    env.items.append(2)
    for _ in range(3):
        restored = mechanism.restore(env, token).unwrapped
        assert restored.items == [1]
        restored.items.append(9)
    size = mechanism.size(token)
    assert size is not None
    assert 20 < size < 2000


def test_a_lambda_goes_to_cloudpickle() -> None:
    n = 3
    env = Holder(call=lambda: n + 1)
    mechanism = Pickle()
    assert mechanism.restore(env, mechanism.save(env, ROOT, Start())).unwrapped.call() == 4


def test_what_cannot_be_pickled_is_a_snapshot_error_unless_it_is_shared() -> None:
    env = Holder(lock=threading.Lock())
    with pytest.raises(SnapshotError, match="pickle of Holder"):
        Pickle().save(env, ROOT, Start())
    for extra in ({}, {"call": lambda: 1}):
        env = Holder(lock=threading.Lock(), **extra)
        mechanism = Pickle(share=("lock",))
        assert mechanism.restore(env, mechanism.save(env, ROOT, Start())).unwrapped.lock is env.lock


class Sour(gym.Env[Any, Any]):
    def __setstate__(self, state: Any) -> None:
        raise KeyError("no way back")


def test_a_failing_way_back_is_a_snapshot_error() -> None:
    env = Sour()
    env.items = [1]
    with pytest.raises(SnapshotError, match="unpickling Sour: 'no way back'"):
        Pickle().restore(env, Pickle().save(env, ROOT, Start()))

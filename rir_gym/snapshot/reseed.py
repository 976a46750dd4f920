"""New streams for every generator of an environment (``rng="resample"``), as a function of the entropy alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from rir_gym.snapshot.audit import generators
from rir_gym.snapshot.fork_env import inside

__all__ = ["reseed"]


def reseed(env: gym.Env[Any, Any], entropy: Sequence[int], *, share: Sequence[str] = ()) -> None:
    """Reseed in place every generator that a walk from the environment finds, shared ones left out."""
    inside(env, _reseed, tuple(entropy), tuple(share))


def _reseed(env: gym.Env[Any, Any], entropy: Sequence[int], share: Sequence[str]) -> None:
    found = generators(env, share=share)
    for (_, generator), child in zip(found, np.random.SeedSequence(entropy).spawn(len(found)), strict=True):
        if isinstance(generator, np.random.Generator):
            _renew(generator.bit_generator, type(generator.bit_generator)(child))
        else:
            generator.seed(int(child.generate_state(1)[0]))


def _renew(bits: Any, new: Any) -> None:
    try:
        bits.__setstate__((new.state, new.seed_seq))  # what it spawns from now on is new, too
    except (TypeError, ValueError):  # numpy before 2 cannot replace the seed sequence
        bits.state = new.state

"""Which split an episode belongs to: by its task, never by the seed it was sampled with.

A task is the environment's id, its settings, and the game's seed. All attempts at it, by whatever mechanism or model,
land in one split, on every machine, whatever else is in the set. This module reads no file.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from rir_gym.data.keys import canonical
from rir_gym.errors import UsageError
from rir_gym.ids import IDS

__all__ = ["Split", "task_text"]

_PLAIN_ID = {known.rollback_id: known.id for known in IDS}


@dataclass(frozen=True, slots=True)
class Split:
    """Shares of tasks: "train", and "test" for about ``test_share`` of them; 0 puts all into "train".

    Raises:
        UsageError: a share outside [0, 1).
    """

    test_share: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        if not 0 <= self.test_share < 1:
            raise UsageError(f"test_share={self.test_share!r}: at least 0 and below 1")

    def __call__(self, task: str) -> str:
        """The split of a task, given as the ``task`` of its key.

        >>> [Split(0.5)(f'{{"env":"Cave-v0","seed":{seed}}}') for seed in range(4)]
        ['train', 'test', 'test', 'test']
        """
        digest = hashlib.sha256(task_text(task).encode("ascii")).digest()
        return "test" if int.from_bytes(digest[:8], "big") < self.test_share * 2**64 else "train"


def task_text(task: str) -> str:
    """The task as one text; a ready-wrapped id counts as the environment that it wraps."""
    told = json.loads(task)
    if isinstance(told, dict) and told.get("env") in _PLAIN_ID:
        told = {**told, "env": _PLAIN_ID[told["env"]]}
    return canonical(told)

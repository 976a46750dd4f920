"""Which episode a record is: (config, task, seed, attempt); and digests of plain JSON values.

- ``config``: a digest of the configuration that made it (``header.config``). A record without one gets a digest of
  what its header says of the environment, the mechanism, the actor, the model, the prompts and the budget.
- ``task``: the canonical JSON of ``header.task``: the environment's id, its arguments (a game seed is one), and the
  reset seed where that chooses the task. A split by task is a split by this text, never by ``seed`` alone.
- ``seed``: ``header.seed``. ``attempt``: ``header.attempt``, 0 where there is none.

This module knows no file and no environment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["Key", "canonical", "digest_of", "key_of"]

_MADE_BY = ("mechanism", "agent", "model", "prompts", "budget")


class Key(NamedTuple):
    """Which episode; two records with one key are the same episode."""

    config: str
    task: str
    seed: int
    attempt: int = 0

    def __str__(self) -> str:
        return f"task={self.task} seed={self.seed} attempt={self.attempt}"


def canonical(value: Any) -> str:
    """One text for equal plain JSON values: keys sorted, no blanks, ASCII.

    >>> canonical({"b": [1, None], "a": "é"})
    '{"a":"\\\\u00e9","b":[1,null]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest_of(value: Any) -> str:
    """The first 16 hex digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()[:16]


def key_of(record: Mapping[str, Any]) -> Key:
    """The key of a record that ``check_record`` has passed."""
    header = record["header"]
    env, seed = header["env"], header["seed"]
    task = header.get("task", {"env": env["id"], "arguments": env["kwargs"], "seed": seed})
    config = header.get("config") or digest_of({"env": env["id"], **{name: header[name] for name in _MADE_BY}})
    return Key(config, canonical(task), seed, header.get("attempt", 0))

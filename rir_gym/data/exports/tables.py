"""The format ``parquet``: records as three tables of which each can be put together again, the oracle's part apart.

``episodes``, ``nodes`` and ``events`` are joined by ``episode``. What has one type has a column of its own; what may be
anything (actions, observations, infos) stands as JSON text, exactly as in the record, so types may mix, text stays
text and None stays None. For reading, ``action_text``, ``observation_text`` and ``reward_value`` say the same in plain
form. This module writes no file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from rir_gym.data.exports.rows import player_of
from rir_gym.data.exports.sieve import plain_text
from rir_gym.data.keys import canonical, digest_of, key_of
from rir_gym.jsonable import decode

__all__ = ["record_of_rows", "table_rows"]

_RECORD = ("header", "objective", "ledger", "memory", "result")
_NODE = ("id", "parent", "step", "surviving", "terminated", "truncated")
_VALUES = ("action", "observation", "reward", "info", "summary", "oracle")
_EVENT = ("node", "step", "kind", "outcome")


def table_rows(record: Mapping[str, Any], *, with_oracle: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of a record with the name of its table."""
    header, result, key = record["header"], record["result"], key_of(record)
    episode = digest_of(list(key))
    yield (
        "episodes",
        {
            "episode": episode,
            "task": key.task,
            "seed": key.seed,
            "attempt": key.attempt,
            "env": plain_text(header["env"]["id"]),
            "mechanism": header["mechanism"]["name"],
            "uses_oracle": header["mechanism"]["uses_oracle"],
            "player": plain_text(player_of(header)),
            "success": result["success"],
            "steps": result["steps"],
            "rollbacks": record["ledger"]["rollbacks"],
            **{name: _json(record[name]) for name in _RECORD},
            "more": _more(record, (*_RECORD, "nodes", "events")),
        },
    )
    for node in record["nodes"]:
        oracle = node["oracle"] if with_oracle else None
        yield (
            "nodes",
            {
                "episode": episode,
                "node": node["id"],
                **{name: node[name] for name in _NODE[1:]},
                "action_text": _text(node["action"]),
                "observation_text": _text(node["observation"]),
                "reward_value": _number(node["reward"]),
                **{name: _json(node[name]) for name in _VALUES[:-1]},
                "oracle": None if oracle is None else _json(oracle),
                "more": _more(node, (*_NODE, *_VALUES)),
            },
        )
    for number, event in enumerate(record["events"]):
        said = {name: value for name, value in event.items() if name not in _EVENT}
        yield (
            "events",
            {
                "episode": episode,
                "event": number,
                **{name: event[name] for name in _EVENT},
                "said": _json(said),
            },
        )


def record_of_rows(
    episode: Mapping[str, Any], nodes: Iterator[Mapping[str, Any]], events: Iterator[Mapping[str, Any]]
) -> dict[str, Any]:
    """The record of the rows of one episode, in the order in which they were written."""
    record = {name: json.loads(episode[name]) for name in _RECORD}
    record["nodes"] = [
        {
            "id": row["node"],
            **{name: row[name] for name in _NODE[1:]},
            **{name: json.loads(row[name]) for name in _VALUES[:-1]},
            "oracle": None if row["oracle"] is None else json.loads(row["oracle"]),
            **json.loads(row["more"]),
        }
        for row in nodes
    ]
    record["events"] = [{**{name: row[name] for name in _EVENT}, **json.loads(row["said"])} for row in events]
    return {**json.loads(episode["more"]), **record}


def _json(value: Any) -> str:
    return canonical(value)


def _more(value: Mapping[str, Any], known: tuple[str, ...]) -> str:
    return canonical({name: item for name, item in value.items() if name not in known})


def _text(value: Any) -> str | None:
    return None if value is None else plain_text(str(decode(value)))


def _number(value: Any) -> float:
    number = decode(value)
    try:
        return float(number) if isinstance(number, int | float) else math.nan
    except OverflowError:
        return math.nan

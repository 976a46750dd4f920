"""The columns of every format, once: for the writers, for the dataset card, for the documentation and its tests.

A type is "string", "int64", "bool", "messages" (a list of {``role``, ``content``}), "weighted" (the same with
``weight``), "ints" (a list of int64) or "float64". This module knows no record.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["COLUMNS", "PARQUET", "PROVENANCE", "arrow_features", "card", "text_columns"]

PROVENANCE: Mapping[str, str] = MappingProxyType(
    {
        "episode": "string",
        "task": "string",
        "seed": "int64",
        "attempt": "int64",
        "mechanism": "string",
        "uses_oracle": "bool",
        "player": "string",
        "success": "bool",
        "event": "int64",
        "node": "int64",
        "step": "int64",
        "source": "string",
        "cut_tokens": "int64",
    }
)

COLUMNS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "sft": {"prompt": "messages", "completion": "messages", "part": "string", **PROVENANCE},
        "messages": {"messages": "weighted", "decisions": "int64", **PROVENANCE},
        "roles": {
            "prompt": "messages",
            "completion": "messages",
            "role": "string",
            "part": "string",
            "outcome": "string",
            "label": "bool",
            **PROVENANCE,
        },
        "dpo": {
            "prompt": "messages",
            "chosen": "messages",
            "rejected": "messages",
            "depth": "int64",
            "rejected_event": "int64",
            **PROVENANCE,
        },
        "kto": {"prompt": "messages", "completion": "messages", "label": "bool", "part": "string", **PROVENANCE},
        "tokens": {"input_ids": "ints", "labels": "ints", "completion_mask": "ints", "part": "string", **PROVENANCE},
    }
)

PARQUET: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "episodes": {
            "episode": "string",
            "task": "string",
            "seed": "int64",
            "attempt": "int64",
            "env": "string",
            "mechanism": "string",
            "uses_oracle": "bool",
            "player": "string",
            "success": "bool",
            "steps": "int64",
            "rollbacks": "int64",
            "header": "string",
            "objective": "string",
            "ledger": "string",
            "memory": "string",
            "result": "string",
            "more": "string",
        },
        "nodes": {
            "episode": "string",
            "node": "int64",
            "parent": "int64",
            "step": "int64",
            "surviving": "bool",
            "action_text": "string",
            "observation_text": "string",
            "reward_value": "float64",
            "terminated": "bool",
            "truncated": "bool",
            "action": "string",
            "observation": "string",
            "reward": "string",
            "info": "string",
            "summary": "string",
            "oracle": "string",
            "more": "string",
        },
        "events": {
            "episode": "string",
            "event": "int64",
            "node": "int64",
            "step": "int64",
            "kind": "string",
            "outcome": "string",
            "said": "string",
        },
    }
)

_TURNS = {"role": "string", "content": "string"}


def text_columns(columns: Mapping[str, str]) -> list[str]:
    """The columns that hold text of models or environments, alone or in messages."""
    return [name for name, kind in columns.items() if kind in ("messages", "weighted") or name in _TEXT]


_TEXT = ("prompt", "completion", "chosen", "rejected")


def arrow_features(columns: Mapping[str, str]) -> Any:
    """The same as ``datasets.Features``; strings are large ones, so that no column has a limit of 2 GB."""
    from datasets import Features, Value

    turns = {name: Value("large_string") for name in _TURNS}
    lists: dict[str, Any] = {
        "messages": [turns],
        "weighted": [{**turns, "weight": Value("int64")}],
        "ints": [Value("int64")],
        "string": Value("large_string"),
    }
    return Features({name: lists.get(kind) or Value(kind) for name, kind in columns.items()})


def card(tables: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]], title: str, text: str) -> str:
    """A dataset card: files and types of every table, so that ``datasets.load_dataset(folder)`` guesses nothing.

    Args:
        tables: by name of the configuration its columns, and its file by name of the split.
    """
    lines = ["---", "configs:"]
    for name, (_, files) in tables.items():
        lines += [f"- config_name: {name}", "  data_files:"]
        for split, path in files.items():
            lines += [f"  - split: {split}", f"    path: {path}"]
        lines += ["  default: true"] if name == next(iter(tables)) else []
    lines.append("dataset_info:")
    for name, (columns, _) in tables.items():
        lines += [f"- config_name: {name}", "  features:"]
        for column, kind in columns.items():
            lines += [f"  - name: {column}", *_told(kind)]
    return "\n".join([*lines, "---", "", f"# {title}", "", text, ""])


def _told(kind: str) -> list[str]:
    if kind == "ints":
        return ["    list: int64"]
    if kind in ("messages", "weighted"):
        members = {**_TURNS, **({"weight": "int64"} if kind == "weighted" else {})}
        inner = [
            line for name, dtype in members.items() for line in (f"    - name: {name}", f"      dtype: {_large(dtype)}")
        ]
        return ["    list:", *inner]
    return [f"    dtype: {_large(kind)}"]


def _large(kind: str) -> str:
    return "large_string" if kind == "string" else kind

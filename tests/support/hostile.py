"""Texts that would be markup, run or steer a page if they were not kept as text, and records full of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

__all__ = ["EVIL", "HOSTILE", "hostile"]

HOSTILE = (
    "<script>window.hurt = 1</script>",
    "</script><img src=x onerror='window.hurt = 1'>",
    "<!-- <script> -->",
    "]]>&amp;&#60;b&#62;\u2028\u2029",
    "\ud83d lone \udc00 \x00 \x1b[31m \u202e",
)
EVIL = "".join(HOSTILE)


def hostile(record: dict[str, Any], say: Callable[[str], str]) -> dict[str, Any]:
    """The record with ``say(text)`` for every text in it but the fixed words of the schema."""
    fixed = {"kind", "outcome", "decision", "verdict", "role", "stopped", "name", "channel"}

    def walk(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: walk(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [walk(item, key) for item in value]
        return say(value) if isinstance(value, str) and key not in fixed and key != "stages" else value

    record = copy.deepcopy(record)
    for part in ("nodes", "events", "memory", "objective", "header"):
        record[part] = walk(record[part])
    return record

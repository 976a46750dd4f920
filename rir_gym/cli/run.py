"""``rir-gym run``: ``collect`` in this process, one episode after another."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from rir_gym.cli import collect
from rir_gym.cli.request import Request
from rir_gym.errors import UsageError

__all__ = ["Request", "main", "parse_arguments"]


def parse_arguments(pairs: Iterable[str]) -> dict[str, Any]:
    """``["level=2", "name=text"]`` → ``{"level": 2, "name": "text"}``: values are JSON, anything else is text.

    Raises:
        UsageError: no "=" in a pair.
    """
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name.isidentifier():
            raise UsageError(f"env-arg={pair!r}: name=value")
        try:
            arguments[name] = json.loads(value)
        except json.JSONDecodeError:
            arguments[name] = value
    return arguments


def main(request: Request, *, out: Path, existing: Literal["resume", "overwrite"], as_json: bool) -> None:
    """Run the episodes that ``out`` does not hold yet, keep each at once, print the summary."""
    collect.main(request, out=out, existing=existing, workers=0, lockstep=1, compression="none", as_json=as_json)

"""``rir-gym run``: ``collect`` in this process, one episode after another."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rir_gym.cli import collect
from rir_gym.cli.request import Request
from rir_gym.cli.settings import parse_arguments

__all__ = ["Request", "main", "parse_arguments"]


def main(request: Request, *, out: Path, existing: Literal["resume", "overwrite"], as_json: bool) -> None:
    """Run the episodes that ``out`` does not hold yet, keep each at once, print the summary."""
    alone = {"workers": 0, "lockstep": 1}
    collect.main(request, out=out, existing=existing, compression="none", as_json=as_json, command="run", **alone)

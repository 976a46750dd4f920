"""Tasks of the workspace, made from a family, a level and a seed. Knows no environment.

The same three give the same task in every process and under every hash seed.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from rir_envs.workspace_books import LEDGER, LOGS, ORDERS, REMINDERS
from rir_envs.workspace_commands import TOOLS, Command, parsed
from rir_envs.workspace_family import Family
from rir_envs.workspace_names import FILE, OUTPUT
from rir_envs.workspace_papers import BACKUPS, CHAPTERS, INVOICES, LABELS
from rir_envs.workspace_tools import Files, asked
from rir_envs.workspace_world import Task

__all__ = ["FAMILIES", "RULES", "SEEDS", "made"]

FAMILIES: Mapping[str, Family] = {
    each.name: each for each in (BACKUPS, CHAPTERS, INVOICES, LABELS, LEDGER, LOGS, ORDERS, REMINDERS)
}
"""By name. Those with ``send`` are orders and reminders."""

SEEDS = 2**32
"""Task seeds are 0 to this, exclusive."""

RULES = (
    f"One command at a time: {'; '.join(' '.join([tool, *map(str.upper, names)]) for tool, names in TOOLS.items())}. "
    "Paths are like notes/a.txt. write, move and copy replace what lies at the path, append adds one line, read takes "
    "an optional line to begin with, query takes one SELECT (a CSV or JSON file is the table t). Documents with a "
    "stamp cannot be typed, only moved and copied. What is deleted, replaced, posted or sent cannot be brought back. "
    f"A file holds {FILE} bytes, an answer of a tool {OUTPUT} characters. submit ends the task."
)
"""What the objective of every task says of the tools."""


@lru_cache(maxsize=32)
def made(family: str, level: int, seed: int) -> Task:
    """The task; ``family`` is a name of ``FAMILIES``, ``level`` 1 to 3, ``seed`` from 0 to ``SEEDS``."""
    kind = FAMILIES[family]
    digest = hashlib.blake2b(f"{family}/{level}/{seed}".encode(), digest_size=16).digest()
    draft = kind.draw(random.Random(int.from_bytes(digest, "big")), kind.sizes[level - 1])
    objective = f"{draft.words} {RULES}"
    goal = kind.derive(_Truth(objective, draft.files))
    return Task(f"{family}/{level}/{seed}", objective, dict(draft.files), draft.recipients, goal)


@dataclass(frozen=True, slots=True)
class _Truth:
    """Answers about the files themselves."""

    objective: str
    files: Files

    def ask(self, command: str) -> str:
        read = parsed(command)
        answer = asked(self.files, read) if isinstance(read, Command) else read
        if not isinstance(answer, str) or "\n(cut: " in answer:
            raise ValueError(f"{command!r} has no whole answer: {answer}")
        return answer

    def heeds(self, path: str) -> bool:
        return True

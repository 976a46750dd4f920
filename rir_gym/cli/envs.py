"""``rir-gym envs``: every id of this distribution, what it needs, and what is known of it. Makes and imports none."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rir_gym.ids import IDS, EnvId

__all__ = ["main", "rows"]


def main(*, as_json: bool) -> None:
    """Print the table, or the rows as JSON."""
    listed = rows()
    if as_json:
        print(json.dumps(listed))
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False)
    table.add_column("id", no_wrap=True)
    for name in ("gold steps", "snapshot", "oracle", "irreversible", "expert", "installed"):
        table.add_column(name, no_wrap=True)
    for row in listed:
        gold = "" if row["gold_steps"] is None else "–".join(map(str, dict.fromkeys(row["gold_steps"])))
        needs = "yes" if row["installed"] else row["install"]
        flags = ("yes" if row[name] else "no" for name in ("oracle", "irreversible", "expert"))
        table.add_row(row["id"], gold or "?", row["snapshot"], *flags, escape(needs))
    console = Console()
    whole = console.measure(table, options=console.options.update(max_width=1000)).maximum
    Console(width=max(console.width, whole)).print(table)  # a row cut short says less than one that is too long


def rows() -> list[dict[str, Any]]:
    """One an id, in the order of their names: the fields of ``EnvId`` that matter to a user, and what is installed.

    ``rollback_id`` is its ready-wrapped variant. ``extra`` is "" where the core is enough; ``install`` says what to do
    where its package is missing, else None. ``needs`` is what no extra brings (Java, data).
    """
    return [_row(known) for known in sorted(IDS, key=lambda known: known.id)]


def _row(known: EnvId) -> dict[str, Any]:
    installed = not known.extra or _found(known.extra)
    return {
        "id": known.id,
        "rollback_id": known.rollback_id,
        "installed": installed,
        "extra": known.extra,
        "needs": known.needs,
        "install": None if installed else f"pip install 'rir-gym[{known.extra}]'",
        "arguments": dict(known.kwargs),
        "seed_argument": known.seed_argument,
        "agent_calls": known.agent_calls,
        "gold_steps": None if known.gold_steps is None else list(known.gold_steps),
        "snapshot": known.snapshot,
        "oracle": known.oracle,
        "irreversible": known.irreversible,
        "expert": bool(known.policies),
    }


def _found(extra: str) -> bool:
    """Whether the package is here; an extra of this distribution has the name of the package that it brings."""
    try:
        return importlib.util.find_spec(extra) is not None
    except ValueError:  # loaded by hand, without a spec
        return True

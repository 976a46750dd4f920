"""The rows of ``checkpoint.py`` as lines, as Markdown, and held against what they should reach. Measures nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["lines", "markdown", "targets"]

Row = Mapping[str, Any]

_TIMES = (  # world, what, against, factor that heap should reach
    ("medium", "save_us", "deepcopy", 8.0),
    ("medium", "restore_us", "deepcopy", 8.0),
    ("medium", "bytes", "deepcopy", 50.0),
    ("small", "save_us", "deepcopy", 4.0),
    ("large", "save_us", "deepcopy", 4.0),
    ("large", "bytes", "deepcopy", 20.0),
    ("taxi", "save_us", "deepcopy", 50.0),
    *((world, what, "copium", None) for world in ("small", "medium", "large") for what in ("save_us", "restore_us")),
)
_SHARES = (  # native is what auto takes there
    ("textworld cooking", "native", 50.0),
    ("textworld cooking", "heap", None),
    ("textworld simple", "native", 50.0),
    ("textworld coins", "native", 50.0),
    ("textworld treasure", "native", 50.0),
    ("alfworld style", "native", 5.0),
)
_KB_A_STEP, _DRIFT = 12.0, 1.3
_PREAMBLE = "cannot be put back faithfully. "
_COLUMNS = ("save_us", "restore_us", "bytes", "episode_overhead")


def targets(rows: Sequence[Row], long: Row | None) -> list[dict[str, Any]]:
    """What the heap mechanism should reach and what it did: text, value, target, met (None: no target, or no value)."""
    at = {(row["world"], row["mechanism"]): row for row in rows}
    found = []
    for world, what, other, target in _TIMES:
        ours, theirs = (at.get((world, name), {}).get(what) for name in ("heap", other))
        value = None if ours is None or theirs is None else theirs / max(ours, 1)
        label = f"{world} {what.removesuffix('_us')} heap vs {other}"
        found.append(_held(label, value, target, "x", value is not None and target is not None and value >= target))
    for world, name, limit in _SHARES:
        row = at.get((world, name), {})
        share = None
        if row.get("save_us") is not None and row["step_us"]:
            share = 100 * (row["save_us"] + row["restore_us"]) / row["step_us"]
        label = f"{world} save + restore {name}, of its step"
        found.append(_held(label, share, limit, " %", share is not None and limit is not None and share <= limit))
    growth, drift = (long[key] if long else None for key in ("kb_a_step", "save_last_over_first"))
    steps = f"medium, {long['steps'] if long else 10_000:,} steps heap"
    found.append(
        _held(f"{steps}, memory a step", growth, _KB_A_STEP, " KB", growth is not None and growth <= _KB_A_STEP)
    )
    found.append(_held(f"{steps}, save time last / first", drift, _DRIFT, "x", drift is not None and drift <= _DRIFT))
    return found


def lines(rows: Sequence[Row]) -> list[str]:
    """One line a row."""
    head = f"{'world':18} {'mechanism':10} {'step':>10} {'save':>10} {'restore':>10} {'bytes':>12} {'overhead':>9}"
    return [head, *(_line(row) for row in rows)]


def markdown(result: Row) -> str:
    """The rows and the targets of a ``--json`` file as two Markdown tables."""
    machine = result["machine"]
    head = "| world (bare step) | mechanism | save µs | restore µs | bytes | episode |"
    told = [head, "|---|---|---:|---:|---:|---:|"]
    for row in result["rows"]:
        if row["faithful"]:
            world = f"{row['world']} ({_number(row['step_us'])} µs)"
            told.append(f"| {world} | {row['mechanism']} | {' | '.join(_cells(row))} |")
    refused = {row["world"]: list[str]() for row in result["rows"] if not row["faithful"]}
    for row in result["rows"]:
        if not row["faithful"]:
            refused[row["world"]].append(row["mechanism"])
    told += ["", "Refused: " + "; ".join(f"{world}: {', '.join(names)}" for world, names in refused.items()) + "."]
    told += ["", "| what | measured | target |", "|---|---:|---:|"]
    for each in result["targets"]:
        value = "not measured" if each["value"] is None else f"{_number(each['value'])}{each['unit']}"
        told.append(f"| {each['what']} | {value} | {_goal(each)} |")
    told += ["", f"Python {machine['python']}, {machine['cores']} cores, {'quick' if result['quick'] else 'full'} run."]
    return "\n".join(told)


def _held(what: str, value: float | None, target: float | None, unit: str, met: bool) -> dict[str, Any]:
    shown = "not measured" if value is None else f"{_number(value)}{unit}"
    goal = "" if target is None else f" (target {target:g}{unit}{'' if met or value is None else ', NOT met'})"
    decided = met if target is not None and value is not None else None
    return {
        "what": what,
        "value": value,
        "target": target,
        "unit": unit,
        "met": decided,
        "text": f"{what}: {shown}{goal}",
    }


def _goal(each: Row) -> str:
    if each["target"] is None:
        return ""
    return f"{each['target']:g}{each['unit']}{', not met' if each['met'] is False else ''}"


def _line(row: Row) -> str:
    start = f"{row['world']:18} {row['mechanism']:10} {_number(row['step_us']):>10} "
    if not row["faithful"]:
        return f"{start}{row['reason'].partition(_PREAMBLE)[2][:120] or row['reason'][:120]}"
    save, restore, size, overhead = _cells(row)
    return f"{start}{save:>10} {restore:>10} {size:>12} {overhead:>9}"


def _cells(row: Row) -> list[str]:
    return [_number(row[name]) + ("x" if name == "episode_overhead" else "") for name in _COLUMNS]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"

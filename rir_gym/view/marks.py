"""The marks of a picture: what was said at a node stands below it, how a branch ended beside its end. As SVG text.

The shapes are those of ``page_files/draw.js``: a picture and a page say the same thing the same way. This module knows
records (schema 1) and places in pixels, nothing of lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rir_gym.jsonable import decode
from rir_gym.view.layout import Layout
from rir_gym.view.svg import safe

__all__ = ["CHARACTER", "WORDS", "Places", "ends", "legend", "marks", "shape"]

CHARACTER = 6.1  # pixels of a character at 11.5 px, on average
Places = Mapping[int, tuple[float, float]]
"""Node id to (x, y)."""

WORDS = {
    "continue": "review: continue",
    "rollback": "review: rollback",
    "refused": "review: rollback, not done",
    "correction": "corrected in place (k=0)",
    "unread": "unreadable reply",
    "ask": "asks to go back",
    "final": "final response",
    "committed": "committed",
    "success": "success",
    "failed": "no success",
    "stopped": "stopped here",
}


def shape(kind: str, x: float, y: float) -> str:
    """The same shapes as ``page_files/draw.js``."""
    paths = {
        "continue": [("continue", _diamond(4))],
        "rollback": [("rollback", _diamond(4.5))],
        "refused": [("refused", _diamond(4.5) + "M-2.2 2.2L2.2 -2.2")],
        "correction": [("correction", "M-3.6 -3.6h7.2v7.2h-7.2ZM-1.6 0h3.2M0 -1.6v3.2")],
        "unread": [("unread", "M-3.5 -3.5l7 7M3.5 -3.5l-7 7")],
        "ask": [("ask", "M-2.6 -2.2a2.7 2.5 0 1 1 4.4 2q-1.7 1 -1.8 2.4M0 4.6v.4")],
        "final": [("ask", "M0 -5v6.4M0 4.6v.4")],
        "committed": [("committed", "M-2.2 -9v18M2.2 -9v18")],
        "success": [("success", _RING), ("tick", "M-3.6 .2l2.6 2.8l4.8 -5.6")],
        "failed": [("failed", _RING), ("tick", "M-3 -3l6 6M3 -3l-6 6")],
        "stopped": [("stopped", "M-6 -6h12v12h-12Z")],
    }[kind]
    drawn = "".join(f"<path class='mark {name}' d='{way}'/>" for name, way in paths)
    return f"<g transform='translate({x:.1f} {y:.1f})'>{drawn}</g>"


def _diamond(r: float) -> str:
    return f"M0 {-r:g}L{r:g} 0L0 {r:g}L{-r:g} 0Z"


_RING = "M-8 0a8 8 0 1 0 16 0a8 8 0 1 0 -16 0Z"
_REVIEWS = {"continue": "continue", "rollback": "rollback", "correction": "correction", "unparsed": "unread"}
_ACTS = {"request": "ask", "unparsed": "unread", "final": "final"}


def marks(record: Mapping[str, Any], place: Places, across: float) -> Iterator[tuple[str, str]]:
    said: dict[int, list[tuple[str, float | None]]] = {}
    for event in record["events"]:
        if event["kind"] == "review":
            mark = _REVIEWS.get(event["outcome"], "refused"), _urgency(event["urgency"])
        elif event["kind"] == "act" and event["decision"] in _ACTS:
            mark = _ACTS[event["decision"]], None
        else:
            continue
        said.setdefault(event["node"], []).append(mark)
    for node, marks in said.items():
        (x, y), pitch = place[node], min(11.0, across * 1.6 / len(marks))
        for number, (kind, urgency) in enumerate(marks):
            at, far = x + (number - (len(marks) - 1) / 2) * pitch, 12 + 12 * (urgency or 0.0)
            stem = f"<path class='mark' d='M{at:.1f} {y + 4.4:.1f}V{y + far:.1f}'/>" if urgency is not None else ""
            yield kind, stem + shape(kind, at, y + far + 3)
    for node in record["nodes"]:
        if node["info"].get("committed"):
            yield "committed", shape("committed", *place[node["id"]])


def ends(record: Mapping[str, Any], tree: Layout, place: Places) -> Iterator[tuple[str, str]]:
    last = record["result"]["last"]
    for node in {branch.nodes[-1] for branch in tree.branches} | {last}:
        it = record["nodes"][node]
        oracle, over = it["oracle"] or {}, it["terminated"] or it["truncated"]
        if oracle.get("success") is True or (node == last and record["result"]["success"]):
            kind = "success"
        elif oracle.get("failed") is True or over:
            kind = "failed"
        elif node == last:
            kind = "stopped"
        else:
            continue
        x, y = place[node]
        yield kind, shape(kind, x + 18, y)


def _urgency(value: Any) -> float | None:
    value = decode(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return min(1.0, max(0.0, float(value)))


def legend(kinds: Iterable[str], width: int, top: float) -> tuple[list[str], int]:
    x, y, parts = 22.0, top, []
    for kind in kinds:
        wide = 34 + len(WORDS[kind]) * CHARACTER
        if x + wide > width - 12 and x > 22:
            x, y = 22.0, y + 22
        parts.append(shape(kind, x + 6, y))
        parts.append(f"<text x='{x + 20:.1f}' y='{y + 4:.1f}'>{safe(WORDS[kind])}</text>")
        x += wide
    return parts, math.ceil(y + 24)

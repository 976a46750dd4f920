"""A recorded episode as one static SVG: the picture of the page without the page, for papers and README files.

It stands on a card of its own, light or dark as the reader's system asks, so that it is readable on any ground. What
the agent did is written above a line, what the recovery did below it. Text is escaped; nothing is loaded from
elsewhere; equal records give equal bytes. This module knows records (schema 1) and the layout, no page and no file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any

from rir_gym.view.layout import Branch, layout_of
from rir_gym.view.marks import CHARACTER, WORDS, Places, ends, legend, marks
from rir_gym.view.story import Return, returns, shown
from rir_gym.view.svg import safe

__all__ = ["tree_svg"]

_LEFT, _RIGHT, _TITLE, _BELOW = 40, 62, 44, 70
_WIDTH = 960  # aimed at; a long episode gets a wider picture
_LONGEST, _CAUSE = 20, 56  # characters of an action, and of the reason of a rollback
_COLOURS = """
card #ffffff #161a1d
edge #d8d5cf #343a40
ink #1c2024 #e6e4df
soft #5c646c #a2abb3
live #0072b2 #56b4e9
gone #8f959c #7d868e
back #c24e00 #f0813a
good #007a57 #3ecf9f
bad #b03a00 #f0813a
commit #a3457f #dd9cc0
ask #8a5a00 #e6ac3c
"""  # name, on a light card, on a dark one


def tree_svg(record: Mapping[str, Any]) -> str:
    """The tree of one checked record as SVG text."""
    nodes = record["nodes"]
    backs = list(returns(record))
    tree = layout_of(nodes, last=record["result"]["last"], returns=backs)
    across = max(17.0, min(58.0, (_WIDTH - _LEFT - _RIGHT) / max(1, tree.steps)))
    top, lane = _TITLE + _tallest(nodes, surviving=True), _BELOW + _tallest(nodes, surviving=False)
    place = {node["id"]: (_LEFT + across * node["step"], top + lane * tree.lane(node["id"])) for node in nodes}
    width = max(560, math.ceil(_LEFT + across * tree.steps + _RIGHT))
    parts, kinds = [_line(branch, place) for branch in reversed(tree.branches)], dict.fromkeys(WORDS, False)
    for number, back in enumerate(backs):
        parts.extend(_arc(back, place, across, _cause(record["events"], back), number, lane))
    for node in nodes:
        parts.extend(_node(node, place[node["id"]], surviving=node["surviving"]))
    for kind, part in (*marks(record, place, across), *ends(record, tree, place)):
        kinds[kind] = True
        parts.append(part)
    low = top + lane * (tree.lanes - 1) + 84
    below, height = legend([kind for kind, there in kinds.items() if there], width, low)
    title = _title(record)
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}'"
    ground = f"<rect class='card' x='.5' y='.5' width='{width - 1}' height='{height - 1}' rx='10'/>"
    body = "\n".join((ground, f"<text class='title' x='18' y='28'>{safe(title)}</text>", *parts, *below))
    return f"{head} role='img'>\n<title>{safe(title)}</title>\n<style>\n{_style()}</style>\n{body}\n</svg>\n"


def _style() -> str:
    """Colours are written out, light ones first: not every reader of SVG knows variables or media queries."""
    rules = Template(files("rir_gym.view").joinpath("page_files", "picture.css").read_text("ascii"))
    light, dark = {}, {}
    for line in _COLOURS.strip().splitlines():
        name, light[name], dark[name] = line.split()
    return f"{rules.substitute(light)}@media (prefers-color-scheme: dark) {{\n{rules.substitute(dark)}}}\n"


def _title(record: Mapping[str, Any]) -> str:
    header, ledger = record["header"], record["ledger"]
    count = ledger["rollbacks"]
    result = "success" if record["result"]["success"] else "no success"
    back = f"{count} rollback{'' if count == 1 else 's'}"
    named = f"{shown(header['env']['id'])} · {shown(header['mechanism']['name'])} · seed {header['seed']}"
    return f"{named} · {result}, {back}, {ledger['agent_calls']} agent calls"


def _tallest(nodes: Sequence[Mapping[str, Any]], *, surviving: bool) -> float:
    """Pixels that the turned actions above a line need."""
    lengths = [len(_short(node["action"], _LONGEST)) for node in nodes[1:] if node["surviving"] is surviving]
    return 16 + 4.5 * max(lengths, default=4)


# --- lines, nodes, arcs ---------------------------------------------------------------------------------------------


def _line(branch: Branch, place: Places) -> str:
    (ax, ay), (bx, _) = place[branch.nodes[0]], place[branch.nodes[-1]]
    start = f"M{ax:.1f} {ay:.1f}"
    if branch.fork is not None:
        fx, fy = place[branch.fork]
        middle, turn = (fx + ax) / 2, min(10.0, (ax - fx) / 2)
        start = (
            f"M{fx:.1f} {fy:.1f}Q{middle:.1f} {fy:.1f} {middle:.1f} {fy + turn:.1f}V{ay - turn:.1f}"
            f"Q{middle:.1f} {ay:.1f} {ax:.1f} {ay:.1f}"
        )
    return f"<path class='line{' live' * branch.surviving}' d='{start}H{bx:.1f}'/>"


def _node(node: Mapping[str, Any], at: tuple[float, float], *, surviving: bool) -> Iterator[str]:
    x, y = at
    said = f"step {node['step']}: {_short(node['action'], 80)}" if node["parent"] is not None else "step 0"
    yield (
        f"<circle class='dot{' on' * surviving}' cx='{x:.1f}' cy='{y:.1f}' r='4.4'><title>{safe(said)}</title></circle>"
    )
    if node["parent"] is not None:
        turned = f"transform='translate({x + 1:.1f} {y - 9:.1f}) rotate(-42)'"
        shade = "class='ink' " if surviving else ""
        yield f"<text {shade}{turned}>{safe(_short(node['action'], _LONGEST))}</text>"


def _arc(back: Return, place: Places, across: float, cause: str, number: int, lane: float) -> Iterator[str]:
    (fx, fy), (tx, ty) = place[back.source], place[back.target]
    low, turn, middle, wide = fy + 40, min(9.0, across * 0.8), (fx + tx) / 2, fx - tx > 70
    if back.depth is None:
        deep = max(fy, ty) + lane / 2
        label = (fy + ty + 6 * deep) / 8
        way = f"M{fx:.1f} {fy + 4:.1f}C{fx:.1f} {deep:.1f} {tx:.1f} {deep:.1f} {tx:.1f} {ty + 11:.1f}"
        words = f"rollback {number + 1}"
    else:
        words, label = f"↩ k={back.depth}", low
        room = len(words) * 3.7
        gap = f"H{middle - room:.1f}M{middle + room:.1f} {low:.1f}" if wide else ""
        way = (  # from its head, so that the dashes of two that come back to one place fall together
            f"M{tx:.1f} {ty + 11:.1f}V{low - turn:.1f}Q{tx:.1f} {low:.1f} {tx + turn:.1f} {low:.1f}{gap}"
            f"H{fx - turn:.1f}Q{fx:.1f} {low:.1f} {fx:.1f} {low - turn:.1f}V{fy + 4:.1f}"
        )
    yield f"<path class='arc' d='{way}'/>"
    yield f"<path class='tip' d='M{tx:.1f} {ty + 7:.1f}l3.8 7.5h-7.6Z'/>"
    if wide or back.depth is None:
        yield f"<text class='k' x='{middle:.1f}' y='{label + 4:.1f}' text-anchor='middle'>{safe(words)}</text>"
    else:
        yield f"<text class='k' x='{fx + 10:.1f}' y='{low - 2:.1f}'>{safe(words)}</text>"
    if cause:
        told = _short(cause, _CAUSE)
        at = max(middle, 14 + len(told) * CHARACTER / 2)
        yield f"<text class='why' x='{at:.1f}' y='{low + 18:.1f}' text-anchor='middle'>{safe(told)}</text>"


def _cause(events: Sequence[Mapping[str, Any]], back: Return) -> str:
    """Why: the failure that the memory keeps of it, else what the review said."""
    patch = next((event for event in events[back.index + 1 : back.index + 2] if event["kind"] == "patch"), None)
    failure = patch["memory"].get("failure") if patch is not None else None
    if isinstance(failure, Mapping) and failure.get("cause"):
        return shown(failure["cause"])
    return shown(events[back.index - 1]["diagnosis"])


def _short(value: Any, most: int) -> str:
    text = " ".join(shown(value).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"

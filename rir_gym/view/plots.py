"""Plots as SVG text: a scatter with intervals, lines with intervals, rows of bars, a heat map. One style for all.

Colours are Okabe and Ito's, chosen to be told apart by colour-blind readers; marker and dash repeat what the colour
says, so that no plot is read by colour alone. Words are in ink, never in a colour. The heat map's one scale runs from
light to dark. All text is escaped and free of control characters. Nothing is loaded from elsewhere, and equal input
gives equal text. This module knows numbers and labels only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rir_gym.errors import UsageError
from rir_gym.view import svg

__all__ = ["Mark", "Series", "bar_rows", "heat_map", "line_plot", "scatter_plot"]

_LIGHT, _DARK = (0xF2, 0xF7, 0xFB), (0x08, 0x40, 0x81)
_LINE = 15  # pixels between the baselines of two lines of text
_CHARACTER = 6.2  # pixels that a character of 11 px takes, on average

Interval = tuple[float, float, float]
"""(value, low, high)."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One point of a scatter; ``style`` chooses colour and marker, ``flag`` adds a ring."""

    label: str
    x: float
    y: Interval
    style: int = 0
    flag: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """One line: points (x, (y, low, high)) in any order; a ``strong`` one is thicker and above the others."""

    label: str
    points: Sequence[tuple[float, Interval]]
    style: int = 0
    strong: bool = False


def scatter_plot(
    marks: Sequence[Mark],
    *,
    title: str,
    x_label: str,
    y_label: str,
    y_range: tuple[float, float] | None = None,
    flagged: str = "",
) -> str:
    """Points with vertical intervals, each with its label beside it.

    Raises:
        UsageError: no marks, or a number that is not finite.
    """
    frame = svg.Frame.around(
        [mark.x for mark in marks], [y for mark in marks for y in mark.y], y_range=y_range, height=420, right=110
    )
    parts = frame.axes(x_label, y_label)
    taken = [(frame.x(mark.x) - 6, frame.y(mark.y[0]) - 6, 12.0, 12.0) for mark in marks]
    for mark in marks:
        x, y = frame.x(mark.x), frame.y(mark.y[0])
        colour = svg.colour_of(mark.style)
        parts.append(svg.line(x, frame.y(mark.y[1]), x, frame.y(mark.y[2]), colour, width=1.2, opacity=0.7))
        parts.append(svg.marker(x, y, mark.style))
        if mark.flag:
            parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='8' fill='none' stroke='{svg.INK}' stroke-width='1'/>")
        at_x, at_y = _free(x, y, len(mark.label) * _CHARACTER, taken, least=frame.left + 2)
        parts.append(svg.text(at_x, at_y + 4, mark.label, size=11))
    if flagged:
        parts.append(svg.text(frame.left, frame.height - 6, f"ring: {flagged}", size=11, colour=svg.SOFT))
    return svg.svg_of(title, frame.height, parts)


def line_plot(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    y_range: tuple[float, float] | None = None,
) -> str:
    """Lines through their points, a bar for each interval, and a legend on the right.

    Raises:
        UsageError: no points, or a number that is not finite.
    """
    xs = [x for one in series for x, _ in one.points]
    ys = [y for one in series for _, interval in one.points for y in interval]
    longest = max((len(one.label) for one in series), default=0)
    height = max(380, 70 + _LINE * len(series))
    frame = svg.Frame.around(xs, ys, y_range=y_range, height=height, right=int(longest * _CHARACTER) + 55)
    parts = frame.axes(x_label, y_label)
    for number, one in sorted(enumerate(series), key=lambda pair: pair[1].strong):
        points, thick = sorted(one.points), 3.5 if one.strong else 1.6
        path = " ".join(f"{frame.x(x):.1f},{frame.y(y[0]):.1f}" for x, y in points)
        dash = svg.DASHES[one.style // len(svg.COLOURS) % len(svg.DASHES)]
        dashed = f" stroke-dasharray='{dash}'" if dash else ""
        colour = svg.colour_of(one.style)
        parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='{thick}'{dashed}/>")
        for x, (y, low, high) in points:
            at = frame.x(x) + 2.0 * (number - (len(series) - 1) / 2)  # beside each other, so that no bar hides another
            parts.append(svg.line(at, frame.y(low), at, frame.y(high), colour, width=1, opacity=0.6))
            parts.append(svg.marker(frame.x(x), frame.y(y), one.style))
        legend_y, legend_x = 40 + _LINE * number, svg.WIDTH - frame.right + 12
        parts.append(svg.line(legend_x, legend_y, legend_x + 22, legend_y, colour, width=thick, dash=dash))
        parts.append(svg.marker(legend_x + 11, legend_y, one.style))
        parts.append(svg.text(legend_x + 28, legend_y + 4, one.label, size=11))
    return svg.svg_of(title, frame.height, parts)


def bar_rows(
    rows: Sequence[tuple[str, Mapping[int, int]]], *, title: str, x_label: str, styles: Sequence[int] = ()
) -> str:
    """One row of bars a label: the share of each whole number among its counts, with n on the right.

    Raises:
        UsageError: no rows, or a count below 0.
    """
    if not rows or any(count < 0 for _, counts in rows for count in counts.values()):
        raise UsageError("rows: at least one, with counts of at least 0")
    least = min((key for _, counts in rows for key in counts), default=0)
    most = max((key for _, counts in rows for key in counts), default=0)
    each, top, right = 46, 34, 80
    left = 20 + int(max(len(label) for label, _ in rows) * _CHARACTER)
    wide = (svg.WIDTH - left - right) / (most - least + 1)
    parts: list[str] = []
    for number, (label, counts) in enumerate(rows):
        base, total = top + each * (number + 1) - 8, sum(counts.values())
        colour = svg.colour_of(styles[number] if number < len(styles) else number)
        parts.append(svg.line(left, base, svg.WIDTH - right, base, svg.GRID))
        parts.append(svg.text(left - 8, base - 4, label, size=11, anchor="end"))
        parts.append(svg.text(svg.WIDTH - right + 8, base - 4, f"n = {total}", size=11, colour=svg.SOFT))
        for key, count in sorted(counts.items()):
            tall = (each - 12) * count / max(counts.values()) if count else 0.0
            x = left + wide * (key - least) + wide * 0.1
            share = f"{label}, {key}: {count} of {total}"
            parts.append(
                f"<rect x='{x:.1f}' y='{base - tall:.1f}' width='{wide * 0.8:.1f}' height='{tall:.1f}' "
                f"fill='{colour}'><title>{svg.safe(share)}</title></rect>"
            )
    bottom = top + each * len(rows)
    step = max(1, math.ceil((most - least + 1) / 20))
    for key in range(least, most + 1, step):
        parts.append(
            svg.text(left + wide * (key - least + 0.5), bottom + 8, str(key), size=11, anchor="middle", colour=svg.SOFT)
        )
    parts.append(svg.text(left, bottom + 26, x_label, size=12))
    return svg.svg_of(title, bottom + 36, parts)


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[int, int], tuple[float, str]],
    *,
    title: str,
    row_label: str,
    column_label: str,
) -> str:
    """Values by (row, column), each with its own text in its field; a field without a value stays empty.

    Raises:
        UsageError: no values, or one that is not finite.
    """
    if not cells or not all(math.isfinite(value) for value, _ in cells.values()):
        raise UsageError("cells: at least one, and finite numbers")
    low, high = min(value for value, _ in cells.values()), max(value for value, _ in cells.values())
    left, top, tall = 90, 62, 48
    wide = min(150.0, (svg.WIDTH - left - 20) / max(1, len(columns)))
    parts = [
        svg.text(left, 44, column_label, size=12),
        svg.text(14, top + tall * len(rows) / 2, row_label, size=12, turned=True),
    ]
    for at, name in enumerate(columns):
        parts.append(svg.text(left + wide * (at + 0.5), top - 6, name, size=11, anchor="middle"))
    for at, name in enumerate(rows):
        parts.append(svg.text(left - 8, top + tall * (at + 0.5) + 4, name, size=11, anchor="end"))
    for (row, column), (value, text) in sorted(cells.items()):
        share = (value - low) / (high - low) if high > low else 0.5
        shade = [round(a + (b - a) * share) for a, b in zip(_LIGHT, _DARK, strict=True)]
        fill = "#" + "".join(f"{part:02x}" for part in shade)
        x, y = left + wide * column, top + tall * row
        parts.append(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{wide - 2:.1f}' height='{tall - 2}' fill='{fill}' "
            f"stroke='{svg.GRID}'/>"
        )
        ink = "#ffffff" if _luminance(shade) < 0.179 else "#000000"  # whichever is the clearer
        for number, line in enumerate(text.split("\n")):
            baseline = y + tall / 2 + 4 + 14 * (number - text.count("\n") / 2)
            parts.append(svg.text(x + wide / 2, baseline, line, size=11, anchor="middle", colour=ink))
    return svg.svg_of(title, int(top + tall * len(rows) + 14), parts)


def _luminance(shade: Sequence[int]) -> float:
    """Relative luminance of an sRGB colour (WCAG 2), 0 to 1."""
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (part / 255 for part in shade)]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _free(
    x: float, y: float, wide: float, taken: list[tuple[float, float, float, float]], *, least: float
) -> tuple[float, float]:
    """Where a label of that width hides nothing that stands there already, as near as can be; notes it as taken."""
    places = [(x + 10, y), (x - 10 - wide, y)]
    places += [(x + dx, y + sign * far) for far in range(12, 120, 6) for sign in (-1, 1) for dx in (10, -10 - wide)]
    inside = [place for place in places if place[0] >= least and place[0] + wide <= svg.WIDTH - 2 and place[1] > 24]
    for left, middle in inside:
        box = (left, middle - 6, wide, 12.0)
        if not any(_overlap(box, other) for other in taken):
            taken.append(box)
            return left, middle
    return places[0]


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]

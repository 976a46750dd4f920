"""The pieces of an SVG: a frame with axes, lines, markers, text; escaped, and equal for equal input.

Colours are Okabe and Ito's. This module knows numbers and labels only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from rir_gym.errors import UsageError

__all__ = [
    "COLOURS",
    "DASHES",
    "GRID",
    "INK",
    "SOFT",
    "WIDTH",
    "Frame",
    "colour_of",
    "line",
    "marker",
    "safe",
    "svg_of",
    "text",
    "ticks",
]

WIDTH = 720
INK, SOFT, GRID = "#1c2024", "#5c646c", "#e3e0da"
_FONT = "font-family='system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, DejaVu Sans, sans-serif'"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
DASHES = ("", "7 3", "2 3")


@dataclass(frozen=True, slots=True)
class Frame:
    """The field of a plot with axes, and where a number lies in it."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    height: int
    right: int
    left: int = 62
    top: int = 30
    bottom: int = 62

    @classmethod
    def around(
        cls,
        xs: Iterable[float],
        ys: Iterable[float],
        *,
        y_range: tuple[float, float] | None,
        height: int,
        right: int,
    ) -> Frame:
        xs, ys = list(xs), list(ys)
        if not xs or not all(math.isfinite(value) for value in (*xs, *ys)):
            raise UsageError("points: at least one, and finite numbers")
        low, high = y_range or (min(ys), max(ys))
        return cls(*_wide(min(xs), max(xs), 0.05), *_wide(low, high, 0.0 if y_range else 0.05), height, min(right, 260))

    def x(self, value: float) -> float:
        return self.left + (value - self.x_low) / (self.x_high - self.x_low) * (WIDTH - self.left - self.right)

    def y(self, value: float) -> float:
        high = self.height - self.bottom
        return high - (value - self.y_low) / (self.y_high - self.y_low) * (high - self.top)

    def axes(self, x_label: str, y_label: str) -> list[str]:
        low, right = self.height - self.bottom, WIDTH - self.right
        parts = []
        for value in ticks(self.y_low, self.y_high):
            parts.append(line(self.left, self.y(value), right, self.y(value), GRID))
            parts.append(text(self.left - 8, self.y(value) + 4, f"{value:g}", size=11, anchor="end", colour=SOFT))
        for value in ticks(self.x_low, self.x_high):
            parts.append(line(self.x(value), low, self.x(value), low + 4, INK))
            parts.append(text(self.x(value), low + 18, f"{value:g}", size=11, anchor="middle", colour=SOFT))
        parts.append(line(self.left, low, right, low, INK))
        parts.append(text((self.left + right) / 2, low + 36, x_label, size=12, anchor="middle"))
        parts.append(text(14, (self.top + low) / 2, y_label, size=12, turned=True))
        return parts


def _wide(low: float, high: float, margin: float) -> tuple[float, float]:
    if low == high:
        return low - 0.5, high + 0.5
    return low - (high - low) * margin, high + (high - low) * margin


def ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Round numbers in [low, high], at most ``most`` of them and at least one.

    >>> ticks(0, 1), ticks(18, 41)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [20.0, 25.0, 30.0, 35.0, 40.0])
    """
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise UsageError(f"low={low!r}, high={high!r}: finite, low <= high")
    if high - low < 1e-300 or high - low <= 1e-12 * max(abs(low), abs(high)):
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for factor in (1, 2, 5, 10, 20, 50):
        step = power * factor
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            return [float(f"{number * step:.12g}") for number in range(first, last + 1)] or [low]
    return [low, high]


def colour_of(style: int) -> str:
    return COLOURS[style % len(COLOURS)]


def marker(x: float, y: float, style: int) -> str:
    """A circle, square, triangle or diamond; colours and markers have coprime cycles, so 28 styles differ."""
    colour, kind = colour_of(style), style % 4
    if kind == 0:
        return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='4.5' fill='{colour}'/>"
    if kind == 1:
        return f"<rect x='{x - 4:.1f}' y='{y - 4:.1f}' width='8' height='8' fill='{colour}'/>"
    shape = [(0, -5), (5, 4), (-5, 4)] if kind == 2 else [(0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in shape)
    return f"<polygon points='{points}' fill='{colour}'/>"


def line(
    x1: float, y1: float, x2: float, y2: float, colour: str, *, width: float = 1, opacity: float = 1, dash: str = ""
) -> str:
    more = f" stroke-dasharray='{dash}'" if dash else ""
    more += f" opacity='{opacity:g}'" if opacity != 1 else ""
    ends = f"x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}'"
    return f"<line {ends} stroke='{colour}' stroke-width='{width:g}'{more}/>"


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: int,
    anchor: str = "start",
    colour: str = INK,
    turned: bool = False,
    strong: bool = False,
) -> str:
    turn = f" transform='rotate(-90 {x:.1f} {y:.1f})'" if turned else ""
    anchor = "middle" if turned else anchor
    weight = " font-weight='600'" if strong else ""
    place = f"x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' fill='{colour}'"
    return f"<text {place}{weight}{turn}>{safe(words)}</text>"


def safe(words: str) -> str:
    """Escaped, and without what XML does not allow."""
    kept = "".join(c for c in words if c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff\x7f")
    return escape(kept, quote=True)


def svg_of(title: str, height: int, parts: Sequence[str]) -> str:
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}'"
    ground = f"<rect width='{WIDTH}' height='{height}' fill='#ffffff'/>"
    body = "\n".join((ground, text(14, 18, title, size=13, strong=True), *parts))
    return f"{head} role='img' {_FONT}>\n<title>{safe(title)}</title>\n{body}\n</svg>\n"

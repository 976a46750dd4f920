"""Sums on paper: ``1.5 * (2 + 3)`` as exact fractions, parsed here and bounded in size. Knows nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

__all__ = ["calculated"]

_LONGEST = 400
_DEEPEST = 30
_BITS = 512
_TOKEN = re.compile(r"\s*(?:(\d{1,30}(?:\.\d{1,30})?|\.\d{1,30})|([-+*/%()]))", re.ASCII)
_DIGITS = 12


class _Cannot(Exception):
    """Why a sum cannot be worked out."""


def calculated(expression: str) -> tuple[str | None, str]:
    """The value as text and "", or None and the reason.

    Numbers, + - * / % and parentheses. The result is exact where it has an end, else rounded to 12 digits after the
    point.

    >>> calculated("1.10 * 3"), calculated("2 / 3")
    (('3.3', ''), ('0.666666666667', ''))
    >>> calculated("1 / (2 - 2)")
    (None, 'division by zero')
    """
    if len(expression) > _LONGEST:
        return None, f"an expression has at most {_LONGEST} characters"
    try:
        tokens = [*_tokens(expression), ""]
        value, at = _sum(tokens, 0, 0)
        if tokens[at]:
            raise _Cannot(f"{tokens[at]!r} is not expected there")
    except _Cannot as why:
        return None, str(why)
    return _shown(value), ""


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while text[at:].strip():
        met = _TOKEN.match(text, at)
        if met is None:
            raise _Cannot("numbers (of at most 30 digits), + - * / % and parentheses only")
        yield met[1] or met[2]
        at = met.end()


def _sum(tokens: list[str], at: int, depth: int) -> tuple[Fraction, int]:
    value, at = _product(tokens, at, depth)
    while tokens[at] in ("+", "-") and tokens[at]:
        sign = tokens[at]
        other, at = _product(tokens, at + 1, depth)
        value = _bounded(value + other if sign == "+" else value - other)
    return value, at


def _product(tokens: list[str], at: int, depth: int) -> tuple[Fraction, int]:
    value, at = _atom(tokens, at, depth)
    while tokens[at] in ("*", "/", "%") and tokens[at]:
        sign = tokens[at]
        other, at = _atom(tokens, at + 1, depth)
        if sign != "*" and other == 0:
            raise _Cannot("division by zero")
        value = _bounded(value * other if sign == "*" else value / other if sign == "/" else value % other)
    return value, at


def _atom(tokens: list[str], at: int, depth: int) -> tuple[Fraction, int]:
    if depth > _DEEPEST:
        raise _Cannot(f"parentheses and signs go {_DEEPEST} deep")
    token = tokens[at]
    if token in ("+", "-") and token:
        value, at = _atom(tokens, at + 1, depth + 1)
        return (value if token == "+" else -value), at
    if token == "(":
        value, at = _sum(tokens, at + 1, depth + 1)
        if tokens[at] != ")":
            raise _Cannot("a parenthesis is not closed")
        return value, at + 1
    if not token or not (token[0].isdigit() or token[0] == "."):
        raise _Cannot("a number is missing")
    return Fraction(token), at + 1


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _BITS:
        raise _Cannot("the numbers get too long")
    return value


def _shown(value: Fraction) -> str:
    scaled = round(value * 10**_DIGITS)
    sign, digits = "-" if scaled < 0 else "", str(abs(scaled)).rjust(_DIGITS + 1, "0")
    whole, rest = digits[:-_DIGITS], digits[-_DIGITS:].rstrip("0")
    return f"{sign}{whole}.{rest}" if rest else f"{sign}{whole}"

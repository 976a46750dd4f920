"""Checks of plain arguments, each with one clear error. Knows nothing of what they are for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rir_gym.errors import UsageError

__all__ = ["check_amount", "check_choice", "check_count", "check_limit", "check_names"]


def check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """One of a few strings.

    Raises:
        UsageError: it is none of them.
    """
    if not isinstance(value, str) or value not in allowed:
        raise UsageError(f"{name}={value!r}: one of {', '.join(allowed)}")


def check_count(name: str, value: object, least: int) -> None:
    """An int of at least ``least``; a bool is none.

    Raises:
        UsageError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name}={value!r}: an int of at least {least}")


def check_limit(name: str, value: object, least: int) -> None:
    """An int of at least ``least``, or None for no limit.

    Raises:
        UsageError: it is neither.
    """
    if value is not None:
        check_count(name, value, least)


def check_amount(name: str, value: object) -> None:
    """A finite number of at least 0; a bool is none.

    Raises:
        UsageError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise UsageError(f"{name}={value!r}: a finite number of at least 0")


def check_names(name: str, value: object) -> None:
    """A list or tuple of strings; one string is none.

    Raises:
        UsageError: it is not.
    """
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{name}={value!r}: a list of strings")

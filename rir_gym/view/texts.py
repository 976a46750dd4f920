"""Texts for a page, each stored once: a repeated one is a number, one that resembles an earlier one only what differs.

A prompt that grows with the history costs what was added, not its length. Lengths count UTF-16 units, as JavaScript
does. The reader is ``page_files/data.js``. This module knows text only.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Texts", "restored"]

_LEAST = 48  # units that must be shared before a difference is worth writing
_SHARED = 32  # shorter texts are not looked up in other tables


class Texts:
    """A table of texts. An entry is the text, [prefix, suffix, base, middle], or [table, index] of another table."""

    def __init__(self, number: int = 0, seen: dict[str, tuple[int, int]] | None = None) -> None:
        self.number, self.entries = number, list[Any]()
        self._elsewhere = {} if seen is None else seen
        self._known: dict[str, int] = {}
        self._last: dict[str, tuple[int, bytes]] = {}

    def add(self, text: str, channel: str = "") -> int:
        """The index of a text; one of a channel is compared with the one before it in that channel."""
        if (known := self._known.get(text)) is not None:
            if channel:
                self._last[channel] = known, _units(text)
            return known
        index = self._known[text] = len(self.entries)
        if len(text) >= _SHARED and (place := self._elsewhere.setdefault(text, (self.number, index)))[0] != self.number:
            self.entries.append(list(place))
            return index
        entry: Any = text
        if channel:
            units = _units(text)
            if channel in self._last:
                base, other = self._last[channel]
                prefix = _common(units, other)
                suffix = _common_end(units, other, min(len(units), len(other)) - prefix)
                if prefix + suffix >= 2 * _LEAST:
                    middle = units[prefix : len(units) - suffix].decode("utf-16-le", "surrogatepass")
                    entry = [prefix // 2, suffix // 2, base, middle]
            self._last[channel] = index, units
        self.entries.append(entry)
        return index


def restored(tables: list[list[Any]], table: int, index: int) -> str:
    """The text of an entry, as the page restores it (for readers in Python)."""
    chain: list[list[Any]] = []
    while not isinstance(entry := tables[table][index], str):
        if len(entry) == 2:
            table, index = entry
        else:
            chain.append(entry)
            index = entry[2]
    units = _units(entry)
    for prefix, suffix, _, middle in reversed(chain):
        units = units[: 2 * prefix] + _units(middle) + (units[-2 * suffix :] if suffix else b"")
    return units.decode("utf-16-le", "surrogatepass")


def _units(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _common(a: bytes, b: bytes) -> int:
    """Length of the common beginning, even."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low - low % 2


def _common_end(a: bytes, b: bytes, most: int) -> int:
    """Length of the common end, even and at most ``most``."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if a[len(a) - middle : len(a) - low] == b[len(b) - middle : len(b) - low]:
            low = middle
        else:
            high = middle - 1
    return low - low % 2

"""Every row on its way out: clean text, not twice, not too long, with counts of what was left out and why.

Duplicates are known by a digest of what a model would be trained on, over all splits, so memory is some hundred bytes a
row. This module knows no format beyond which columns hold text, and no tokenizer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rir_gym.data.exports.schema import text_columns
from rir_gym.errors import UsageError

__all__ = ["Sieve", "looks_like_date", "plain_text"]

_DATE = re.compile(r"\s*\d{4}-\d{2}-\d{2}([T ]\d{2}(:?\d{2}(:?\d{2}([.,]\d+)?)?)?\s*(Z|[+-]\d{2}:?\d{2})?)?\s*")


def plain_text(text: str) -> str:
    """The text with "?" for every lone surrogate, which no tokenizer and no column of text can hold."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def looks_like_date(text: str) -> bool:
    """Whether a reader of JSON that guesses types would take the text for a date."""
    return _DATE.fullmatch(text) is not None


@dataclass(slots=True)
class Sieve:
    """Lets a row through, or counts why not.

    Args:
        columns: the format's.
        escape: rewrites texts so that they hold no control token; None leaves them.
        length: how many tokens a row has; None with ``max_tokens`` None.
        duplicates: "drop" lets a row through once.
        dates: "refuse" raises where a whole column of a row looks like a date.

    Raises:
        UsageError: on call, text that a reader would take for a date.
    """

    columns: Mapping[str, str]
    escape: Callable[[str], str] | None = None
    length: Callable[[Mapping[str, Any]], int] | None = None
    max_tokens: int | None = None
    duplicates: str = "drop"
    dates: str = "refuse"
    left_out: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    _seen: set[bytes] = field(default_factory=set)

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """The row as it is to be written; None where it is left out."""
        texts = text_columns(self.columns)
        made = {name: self._clean(value) if name in texts else value for name, value in row.items()}
        if self.duplicates == "drop" and not self._new(made):
            self.left_out["duplicate"] += 1
            return None
        if self.length is not None:
            tokens = self.length(made)
            if self.max_tokens is not None and tokens > self.max_tokens:
                self.left_out["too long"] += 1
                return None
            self.tokens += tokens
        if self.dates == "refuse":
            for name in texts:
                contents = [turn["content"] for turn in made[name]]
                if contents and all(looks_like_date(text) for text in contents):
                    raise UsageError(
                        f"{name}={contents[0]!r}: readers of JSON take it for a date; use --file parquet for this set"
                    )
        return made

    def _clean(self, value: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{**turn, "content": self._text(turn["content"])} for turn in value]

    def _text(self, text: str) -> str:
        told = plain_text(text)
        self.changed["lone surrogates"] += told != text
        if self.escape is None:
            return told
        escaped = self.escape(told)
        self.changed["control tokens escaped"] += escaped != told
        return escaped

    def _new(self, row: Mapping[str, Any]) -> bool:
        """Whether nothing that is trained the same was let through before."""
        trained = {
            name: row[name]
            for name, kind in self.columns.items()
            if kind != "string" and name in _TRAINED and name in row
        }
        digest = hashlib.sha256(json.dumps(trained, sort_keys=True).encode("ascii")).digest()[:16]
        if digest in self._seen:
            return False
        self._seen.add(digest)
        return True


_TRAINED = ("prompt", "completion", "chosen", "rejected", "label", "messages", "input_ids", "labels")

"""Which of several options a free reply names, for backends that write their choices instead of scoring them.

Never guessed: a reply that names none, several, one that it denies, or a number that may go on where the reply was cut
off, names nothing. This module knows no view, model or environment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rir_policies.tidy import bare, clean, from_json, key, loop_end, unfinished

__all__ = ["read_choice"]

_LABEL = re.compile(
    r"(?:(?:my|the|next|final|first|last|restore)\s+)*(?:answer|response|reply|choice|decision|action|command|verdict|"
    r"urgency|step|point|number|option|result|interval)\s*(?:is\s*[:：]?|[:：=])\s*(.*)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.,])[-+−]?\d+(?:[.,]\d+)?%?(?!\w|[.,]\d)")
_COUNTED = re.compile(r"(?:(?:step|point|option|number|no\.?)\s*[:：]?\s*|#\s*)?(\S+)", re.IGNORECASE)
_WORDS = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
]
_WORD = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)
_DENIED = re.compile(
    r"(?:\b(?:not|no|never|without|avoid|cannot|instead\s+of|rather\s+than|nicht|kein\w*|pas|nunca|не)|n['’]t)"
    r"(?:\W+\w+){0,2}\W+$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"\W{0,2}\s+(?:is|are|was|would\s+be|seems)(?:n['’]t|\s+(?:not|no|wrong|incorrect|false|needless|unnecessary))\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?。！？\n]\s")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")
_MAX_CHARS = 4_000


def read_choice(reply: str, options: Sequence[str], *, cut: bool = False) -> int | None:
    """The index of the option that the reply names; None where it names none, or cannot be said to name one.

    Looked at in this order: the whole reply, the values of a JSON object (those with a label such as "verdict" before
    others), labelled lines ("Answer: ..."), lines that are nothing but an option, and at last the one option that the
    reply mentions and does not deny. Of several labelled lines, or several lines that are an option, the first counts;
    several options within one sentence or object are none. Where all options are numbers, numbers are compared by
    value, also written as words. Where they are a scale (decimals, "0.0" to "1.0"), a number on it, or a percentage, is
    its nearest option.

    Args:
        reply: what the model wrote.
        options: at least one.
        cut: the reply ended at the limit of its tokens. A number at the cut is not trusted, nor an option that another
            one begins with.

    >>> read_choice("**Restore step:** two", ["1", "2", "3"])
    1
    >>> read_choice("Step 1 or 2.", ["1", "2", "3"]) is None
    True
    """
    text = clean(reply)[:_MAX_CHARS]
    if not text or loop_end(text) is not None:
        return None
    named = _Options(options)
    if text in options:
        whole = options.index(text)
        return None if unfinished(reply, cut=cut) and named.goes_on(whole) else whole
    pairs = from_json(text)
    if pairs is not None:
        labelled_pairs = [pair for pair in pairs if _LABEL.fullmatch(f"{pair[0]}: {pair[1]}".replace("\n", " "))]
        found = {index for _, value in labelled_pairs or pairs if (index := named.exactly(value)) is not None}
        if found or text.startswith(("{", "[")):
            return found.pop() if len(found) == 1 else None
    lines = [line for line in map(bare, text.splitlines()) if line]
    open_end = unfinished(reply, cut=cut)
    labelled = [
        (bare(match[1]) or (lines[i + 1] if i + 1 < len(lines) else ""), i + (not match[1]))
        for i, line in enumerate(lines)
        if (match := _LABEL.fullmatch(line))
    ]
    for piece, at in [*labelled, *((line, i) for i, line in enumerate(lines))]:
        index = named.exactly(piece)
        if index is not None:
            return None if open_end and at == len(lines) - 1 and named.goes_on(index) else index
    return named.mentioned(" \n".join(lines), open_end=open_end)


class _Options:
    def __init__(self, options: Sequence[str]) -> None:
        self.options = options
        self.keys = [key(option) or option for option in options]
        values = [_value(option) for option in options]
        self.values = [value for value in values if value is not None] if None not in values else []
        self.is_scale = bool(self.values) and any("." in option for option in options)

    def exactly(self, piece: str) -> int | None:
        """The option that the piece is, and nothing else."""
        if piece in self.options:
            return self.options.index(piece)
        if self.values:
            counted = _COUNTED.fullmatch(key(piece))
            return self._of_value(_value(counted[1])) if counted else None
        same = [i for i, known in enumerate(self.keys) if known == key(piece)]
        return same[0] if len(same) == 1 else None

    def goes_on(self, index: int) -> bool:
        """Whether more text could make another option, or another number, of this one."""
        longer = (i for i, known in enumerate(self.keys) if i != index and known.startswith(self.keys[index]))
        return bool(self.values) or any(True for _ in longer)

    def mentioned(self, text: str, *, open_end: bool) -> int | None:
        """The only option that the text mentions."""
        spans = self._numbers(text) if self.values else self._texts(text.casefold())
        denied = {index for index, start, end in spans if _denied(text, start, end)}
        found = {index for index, start, end in spans if not _denied(text, start, end)}
        if len(found) != 1 or found & denied:
            return None
        (index,) = found
        at_end = any(not text[end:].strip() for each, _, end in spans if each == index)
        return None if index is None or (open_end and at_end and self.goes_on(index)) else index

    def _of_value(self, value: float | None) -> int | None:
        if value is None:
            return None
        if self.is_scale and min(self.values) <= value <= max(self.values):
            return min(range(len(self.values)), key=lambda i: (abs(self.values[i] - value), i))
        return self.values.index(value) if value in self.values else None

    def _numbers(self, text: str) -> list[tuple[int | None, int, int]]:
        matches = [*_NUMBER.finditer(text), *_WORD.finditer(text)]
        return [(self._of_value(_value(match[0])), match.start(), match.end()) for match in matches]

    def _texts(self, text: str) -> list[tuple[int | None, int, int]]:
        spans: list[tuple[int | None, int, int]] = []
        for index, known in enumerate(self.keys):
            if known in text:
                spans += [(index, match.start(), match.end()) for match in re.finditer(_edges(known), text)]
        return [
            span
            for span in spans
            if not any(o[1] <= span[1] and span[2] <= o[2] and o[2] - o[1] > span[2] - span[1] for o in spans)
        ]


def _edges(text: str) -> str:
    """A pattern for the text as words of their own; scripts without spaces have no edges."""
    before = "" if _UNSPACED.match(text[0]) else r"(?<![\w.,−-])" if text[0].isdigit() else r"(?<!\w)"
    after = "" if _UNSPACED.match(text[-1]) else r"(?!\w|[.,]\d)" if text[-1].isdigit() else r"(?!\w)"
    return before + re.escape(text) + after


def _value(text: str) -> float | None:
    word = text.strip().casefold()
    if word in _WORDS:
        return float(_WORDS.index(word))
    if not _NUMBER.fullmatch(word):
        return None
    number = float(word.rstrip("%").replace(",", ".").replace("−", "-"))
    return number / 100 if word.endswith("%") else number


def _denied(text: str, start: int, end: int) -> bool:
    sentence = _SENTENCE_END.split(text[:start])[-1]
    return _DENIED.search(sentence) is not None or _DENIED_AFTER.match(text, end) is not None

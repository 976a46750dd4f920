"""Messages -> token ids, such that no text of a message can become a control token.

The chat template is rendered with a placeholder in place of each content. The rendered text is split there: the
pieces of the template are tokenized with its control tokens, each content as plain text. So roles cannot be forged,
a template that trims or rewrites contents cannot lose any, and a longer chat has the tokens of the shorter one as its
prefix wherever the template's text has. This module takes any Hugging Face tokenizer and imports none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rir_gym.base import Message
from rir_gym.errors import ModelError

__all__ = ["ChatEncoder", "Encoded"]

_SLOT = re.compile(r"rirslot(\d+)tolsrir")
_TEXT_MARK = re.compile(r"<\|?/?[A-Za-z_]+\|?>|\[/?[A-Z_]+\]|<</?[A-Z]+>>")
_HEADER_IN_TEXT = re.compile(r"(^|[\n\r\v\f\x85\u2028\u2029])(?=###)")
_HEADERS = {"system": "### Instructions\n", "user": "### Input\n", "assistant": "### Response\n"}
_ZERO_WIDTH = "\u200c"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A prompt as pieces of token ids; ``is_content[i]`` says whether piece i is the text of a message."""

    pieces: tuple[tuple[int, ...], ...]
    is_content: tuple[bool, ...]
    cut_tokens: int = 0

    @property
    def ids(self) -> list[int]:
        """All token ids, in order."""
        return [token for piece in self.pieces for token in piece]

    @property
    def marks(self) -> list[int]:
        """Where the last message's content begins: the tokens before it are shared by all roles at this step."""
        last = max((i for i, content in enumerate(self.is_content) if content), default=0)
        return [sum(map(len, self.pieces[:last]))]

    def fit(self, limit: int) -> Encoded | None:
        """At most ``limit`` tokens: the longest contents lose tokens from their middle; None where that is not enough.

        Every content keeps min(its length, cap) tokens, half of them from its start and half from its end, with the
        largest cap that fits. What the template says is never cut.
        """
        lengths = [len(piece) for piece, content in zip(self.pieces, self.is_content, strict=True) if content]
        spare = limit - (sum(map(len, self.pieces)) - sum(lengths))
        if sum(lengths) <= spare:
            return self
        cap = _largest_cap(lengths, spare)
        if cap < 1:
            return None
        pieces = tuple(
            _without_middle(piece, cap) if content else piece
            for piece, content in zip(self.pieces, self.is_content, strict=True)
        )
        return Encoded(pieces, self.is_content, sum(map(len, self.pieces)) - sum(map(len, pieces)))


class ChatEncoder:
    """Encodes chats for one tokenizer; never changes it.

    Attributes:
        control_ids: ids that contents never produce: special tokens, and added tokens that the template uses.
        end_ids: ids that end a turn: the tokenizer's end token and what the template puts after a reply.
        stop: strings that end a turn where there is no template.
    """

    def __init__(self, tokenizer: Any, *, end_ids: Iterable[int] = ()) -> None:
        self.tokenizer = tokenizer
        template = tokenizer.chat_template
        self._template = template if isinstance(template, str) else "".join(map(str, (template or {}).values()))
        self._control = _control_tokens(tokenizer, self._template)
        unknown = tokenizer.unk_token_id
        eos = tokenizer.eos_token_id
        special = {*self._control.values(), *tokenizer.all_special_ids, *end_ids}
        self.control_ids = frozenset(special - ({unknown} if _is_only_unknown(tokenizer) else set()))
        control = "|".join(re.escape(text) for text in sorted(self._control, key=len, reverse=True))
        self._control_text = re.compile(control) if control else None
        self._marks = frozenset(_TEXT_MARK.findall(self._template)) - self._control.keys()
        probe = tokenizer("a")["input_ids"]
        bos = tokenizer.bos_token_id
        self._bos = bos if bos is not None and probe and probe[0] == bos else None
        self._newline: list[int] = []
        first = tokenizer.convert_ids_to_tokens(self._text("a")[:1])
        if first and str(first[0]).startswith(("▁", "Ġ")):
            self._newline = self._text("\n")
        self.end_ids = frozenset({*end_ids, *({eos} if eos is not None else ()), *self._turn_end()})
        self.stop: tuple[str, ...] = () if self._template else ("\n\n###", "\n###")

    def encode(self, messages: Sequence[Message]) -> Encoded:
        """The prompt up to where the reply begins; a last message of the assistant is left open, to be continued.

        A chat that the template refuses (no system role, strict alternation), or whose contents it drops, is
        rearranged until the template takes it, losing nothing: neighbours of one role are merged, the system text goes
        before the first user turn, and at last the whole chat becomes the transcript of one user turn. Without a
        template the prompt is that transcript itself::

            ### Instructions          (system)
            ...

            ### Input                 (user)
            ...

            ### Response              (assistant)

        Raises:
            ModelError: the template cannot even render one user turn.
        """
        parts = self._parts(messages) if self._template else _transcript(messages)
        pieces = [(self.plain(text) if content else self._markup(text)) for text, content in parts]
        flags = [content for _, content in parts]
        return _with_bos(pieces, flags, self._bos)

    def plain(self, text: str) -> list[int]:
        """``text`` as data: whatever it says, none of its ids is a control id.

        A control token's text is tokenized in two parts, or by characters where that does not do. Words that the
        template uses as markers without having a token for them get a zero-width non-joiner inside. Lone surrogates
        become "?". An id that is still a control id (a tokenizer that knows no other way) is left out. A template that
        marks its turns with bare words ("USER:") has no mark that could be told from text: such words stay as they are.
        """
        text = text.encode("utf-8", "replace").decode()
        for mark in self._marks:
            text = text.replace(mark, mark[0] + _ZERO_WIDTH + mark[1:])
        ids = self._text(text)
        if self.control_ids.isdisjoint(ids):
            return ids
        return [token for part in self._parted(text) for token in self._broken(part)]

    def _parted(self, text: str) -> list[str]:
        inside = [m.start() + 1 for m in self._control_text.finditer(text)] if self._control_text else []
        return [text[start:end] for start, end in pairwise([0, *inside, len(text)])]

    def _broken(self, part: str) -> list[int]:
        ids = self._text(part)
        if not self.control_ids.isdisjoint(ids):
            ids = [token for character in part for token in self._text(character) if token not in self.control_ids]
        return ids

    def _markup(self, text: str) -> list[int]:
        return self._tokens(text, split_special_tokens=False)

    def _text(self, text: str) -> list[int]:
        return self._tokens(text, split_special_tokens=True)

    def _tokens(self, text: str, **how: bool) -> list[int]:
        def tokenize(piece: str) -> list[int]:
            return list(self.tokenizer(piece, add_special_tokens=False, verbose=False, **how)["input_ids"])

        if not text:
            return []
        if self._newline:
            # Such a tokenizer puts a space before every text it is given; a newline before ours takes it instead.
            ids, head = tokenize("\n" + text), len(self._newline)
            if ids[:head] == self._newline:
                return ids[head:]
        return tokenize(text)

    def _parts(self, messages: Sequence[Message]) -> list[tuple[str, bool]]:
        reason = ""
        for arranged in _arrangements(messages):
            parts, reason = self._render(arranged)
            if parts is not None:
                return parts
        name = getattr(self.tokenizer, "name_or_path", "")
        raise ModelError(f"model={name!r}: its chat template cannot render one user turn: {reason}")

    def _render(self, messages: Sequence[Message]) -> tuple[list[tuple[str, bool]] | None, str]:
        slots = [{"role": m.role, "content": f"rirslot{i}tolsrir"} for i, m in enumerate(messages)]
        open_reply = messages[-1].role == "assistant"
        try:
            text: str = self.tokenizer.apply_chat_template(slots, tokenize=False, add_generation_prompt=not open_reply)
        except Exception as error:  # a template raises what it likes: refusing is what it says, whatever the type
            return None, " ".join(str(error).split())[:200]
        split = _SLOT.split(text)
        if sorted(map(int, split[1::2])) != list(range(len(messages))):
            return None, "it drops or repeats a message"
        if open_reply:
            if int(split[-2]) != len(messages) - 1:
                return None, "its last message is not the last one"
            split[-1] = ""
        parts = [(messages[int(s)].content if i % 2 else s, bool(i % 2)) for i, s in enumerate(split)]
        return [part for part in parts if part[0]], ""

    def _turn_end(self) -> set[int]:
        if not self._template:
            return set()
        try:
            slots = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "rirslot0tolsrir"}]
            tail = _SLOT.split(self.tokenizer.apply_chat_template(slots, tokenize=False))[-1]
        except Exception:  # as above; the tokenizer's own end token is left
            return set()
        return set([token for token in self._markup(tail) if token in self.control_ids][:1])


def _control_tokens(tokenizer: Any, template: str) -> dict[str, int]:
    added = {str(token): (index, token.special) for index, token in tokenizer.added_tokens_decoder.items()}
    control = {
        text: index for text, (index, special) in added.items() if special or (text in template and not text.isspace())
    }
    for text in tokenizer.all_special_tokens:
        control.setdefault(str(text), tokenizer.convert_tokens_to_ids(text))
    return {text: index for text, index in control.items() if text}


def _is_only_unknown(tokenizer: Any) -> bool:
    others = [tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id]
    token = str(tokenizer.unk_token).strip("<>[]|").casefold()
    return tokenizer.unk_token_id is not None and tokenizer.unk_token_id not in others and token in ("unk", "unknown")


def _arrangements(messages: Sequence[Message]) -> Iterable[Sequence[Message]]:
    yield messages
    merged = _merge(messages)
    yield merged
    yield _fold_system(merged)
    *rest, last = messages
    if last.role == "assistant":
        yield [Message("user", _transcript_text(rest)), last]
    else:
        yield [Message("user", _transcript_text(messages))]


def _merge(messages: Sequence[Message]) -> list[Message]:
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1].role == message.role:
            merged[-1] = Message(message.role, f"{merged[-1].content}\n\n{message.content}")
        else:
            merged.append(message)
    return merged


def _fold_system(messages: Sequence[Message]) -> list[Message]:
    system = "\n\n".join(m.content for m in messages if m.role == "system")
    rest = [m for m in messages if m.role != "system"]
    if not system:
        return _merge(rest)
    if rest and rest[0].role == "user":
        return _merge([Message("user", f"{system}\n\n{rest[0].content}"), *rest[1:]])
    return _merge([Message("user", system), *rest])


def _transcript(messages: Sequence[Message]) -> list[tuple[str, bool]]:
    parts: list[tuple[str, bool]] = []
    for message in messages:
        parts.append((("\n\n" if parts else "") + _HEADERS[message.role], False))
        # A line of a content that looks like a header gets a space before it.
        parts.append((_HEADER_IN_TEXT.sub(r"\1 ", message.content), True))
    if messages[-1].role != "assistant":
        parts.append(("\n\n" + _HEADERS["assistant"], False))
    return [part for part in parts if part[0]]


def _transcript_text(messages: Sequence[Message]) -> str:
    blocks = (_HEADERS[m.role] + _HEADER_IN_TEXT.sub(r"\1 ", m.content) for m in messages)
    return "\n\n".join(blocks)


def _with_bos(pieces: list[list[int]], flags: list[bool], bos: int | None) -> Encoded:
    if bos is not None:
        if flags and not flags[0]:
            while pieces[0][:1] == [bos]:
                pieces[0] = pieces[0][1:]
        pieces, flags = [[bos], *pieces], [False, *flags]
    return Encoded(tuple(map(tuple, pieces)), tuple(flags))


def _largest_cap(lengths: Sequence[int], spare: int) -> int:
    low, high = 0, max(lengths, default=0)
    while low < high:
        cap = (low + high + 1) // 2
        if sum(min(length, cap) for length in lengths) <= spare:
            low = cap
        else:
            high = cap - 1
    return low


def _without_middle(piece: tuple[int, ...], cap: int) -> tuple[int, ...]:
    if len(piece) <= cap:
        return piece
    tail = cap // 2
    return piece[: cap - tail] + piece[len(piece) - tail :]

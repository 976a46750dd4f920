"""Prompts and replies as a trainer needs them: token ids with labels, lengths, escaped text, transcripts.

Contents are encoded as the models of this package are asked (``encoding``): as plain text, with exactly one token of
beginning, so nothing that an environment says becomes a control token. A reply is trained with the one token that ends
its turn: what the chat template puts there, or the tokenizer's end token where it puts none. This module takes any
Hugging Face tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rir_gym.base import Message
from rir_gym.errors import MissingDependency, ModelError
from rir_policies.context import fitted
from rir_policies.encoding import ChatEncoder
from rir_policies.weights import find_weights, why_not

__all__ = ["NO_LOSS", "Samples", "load_tokenizer", "transcript"]

NO_LOSS = -100
_ZERO_WIDTH = "\u200c"
_HEADERS = {"system": "### Instructions\n", "user": "### Input\n", "assistant": "### Response\n"}


@dataclass(frozen=True, slots=True)
class Samples:
    """Makes training samples for one tokenizer.

    Raises:
        ModelError: the tokenizer has no token that could end a reply, so no model could learn to stop.
    """

    encoder: ChatEncoder
    end_id: int = field(init=False)
    _control: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Find the end token and the texts of control tokens."""
        tokenizer = self.encoder.tokenizer
        eos = tokenizer.eos_token_id
        ends = self.encoder.end_ids - {eos}
        if not ends and eos is None:
            raise ModelError(f"tokenizer={tokenizer.name_or_path!r}: has no token that ends a reply")
        object.__setattr__(self, "end_id", min(ends) if ends else eos)
        texts = {str(tokenizer.convert_ids_to_tokens(token)) for token in self.encoder.control_ids}
        ordered = sorted(filter(None, texts), key=len, reverse=True)
        object.__setattr__(self, "_control", re.compile("|".join(map(re.escape, ordered)) or r"(?!)"))

    def sample(
        self, messages: Sequence[Mapping[str, str]], reply: str, *, limit: int | None = None, cut: bool = False
    ) -> tuple[list[int], list[int]] | None:
        """Token ids, and labels of the same length: the ids of the reply and of its end, ``NO_LOSS`` elsewhere.

        Args:
            limit: the most tokens; None is none.
            cut: where they are more, leave out steps of the prompt's middle; else, and where that cannot do, the answer
                is None. The reply is never cut.
        """
        target = [*self.encoder.plain(reply), self.end_id]
        chat = _messages(messages)
        prompt = self.encoder.encode(chat)
        if limit is not None and len(prompt.ids) + len(target) > limit:
            shorter = fitted(self.encoder.encode, chat, limit - len(target)) if cut and limit > len(target) else None
            if shorter is None:
                return None
            prompt = shorter
        ids = prompt.ids
        return ids + target, [NO_LOSS] * len(ids) + target

    def length(self, row: Mapping[str, Any]) -> int:
        """How many tokens a row of conversations has: its prompt and its longest reply, or its messages."""
        if "messages" in row:
            *before, last = row["messages"]
            return self._length(before, last["content"])
        replies = [row[name][0]["content"] for name in ("completion", "chosen", "rejected") if name in row]
        return max(self._length(row["prompt"], reply) for reply in replies)

    def _length(self, messages: Sequence[Mapping[str, str]], reply: str) -> int:
        return len(self.encoder.encode(_messages(messages)).ids) + len(self.encoder.plain(reply)) + 1

    def escape(self, text: str) -> str:
        """The text with a zero-width non-joiner inside whatever a tokenizer would read as a control token."""
        return self._control.sub(lambda found: found[0][0] + _ZERO_WIDTH + found[0][1:], text)


def transcript(messages: Sequence[Mapping[str, str]]) -> str:
    """A prompt as one text for a base model, in the layout that ``ChatEncoder`` gives models without a template."""
    encoder_text = "\n\n".join(
        _HEADERS[said["role"]] + re.sub(r"(^|[\n\r\v\f\x85\u2028\u2029])(?=###)", r"\1 ", said["content"])
        for said in messages
    )
    return f"{encoder_text}\n\n{_HEADERS['assistant']}"


def load_tokenizer(name_or_path: str) -> Any:
    """A tokenizer: a folder, a ``.gguf`` file or a folder with one, else a name on the hub. No code of it is run.

    Raises:
        MissingDependency: without the extra ``hf``.
        ModelError: there is no tokenizer.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise MissingDependency("a tokenizer", "hf") from error
    path = Path(name_or_path).expanduser()
    source, options = str(path), dict[str, Any]()
    if not path.is_dir() or not list(path.glob("tokenizer*")):
        source, options = find_weights(name_or_path)
    try:
        return AutoTokenizer.from_pretrained(source, trust_remote_code=False, **options)
    except Exception as error:  # the libraries raise what they like
        raise ModelError(f"tokenizer={name_or_path!r}: {why_not(source, error)}") from error


def _messages(messages: Sequence[Mapping[str, str]]) -> list[Message]:
    return [Message(said["role"], said["content"]) for said in messages]

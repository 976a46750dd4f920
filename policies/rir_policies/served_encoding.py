"""Prompts for a server as token ids: a ``ChatEncoder`` that several threads may use, with the server's context limit.

A fast tokenizer keeps its settings in itself, so two threads that encode at once change each other's token ids; here
one encodes at a time. This module knows no server.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rir_gym.base import Message
from rir_gym.errors import MissingDependency, ModelError
from rir_policies.context import fitted
from rir_policies.encoding import ChatEncoder, Encoded

__all__ = ["SharedEncoder"]


class SharedEncoder:
    """Encodes chats and texts for one served model.

    Args:
        tokenizer: a folder, a hub name, or a loaded Hugging Face tokenizer, which nobody else uses meanwhile.
        name: the model's, for errors.
        context_tokens: limit of a prompt and its reply; None is no limit.

    Attributes:
        stop: strings that end a turn where there is no chat template.

    Raises:
        MissingDependency: a tokenizer to load, without ``transformers``.
        ModelError: a tokenizer that cannot be loaded.
    """

    def __init__(self, tokenizer: Any, *, name: str, context_tokens: int | None) -> None:
        self._encoder = ChatEncoder(_loaded(tokenizer))
        self._name, self._limit = name, context_tokens
        self._lock = threading.Lock()
        self.stop = self._encoder.stop

    def plain(self, text: str) -> list[int]:
        """``text`` as data; see ``ChatEncoder.plain``."""
        with self._lock:
            return self._encoder.plain(text)

    def fit(self, messages: Sequence[Message], new_tokens: int) -> Encoded:
        """The prompt, cut as for a local model where it leaves no room for ``new_tokens``.

        Raises:
            ModelError: a prompt that no cut can mend.
        """
        with self._lock:
            if self._limit is None:
                return self._encoder.encode(messages)
            found = fitted(self._encoder.encode, messages, self._limit - new_tokens)
        if found is None:
            raise ModelError(
                f"model={self._name!r}: {len(messages)} messages and {new_tokens} new tokens cannot be cut to "
                f"its context of {self._limit} tokens; give fewer messages or new tokens"
            )
        return found


def _loaded(tokenizer: Any) -> Any:
    if not isinstance(tokenizer, str | Path):
        return tokenizer
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise MissingDependency("encoding for a served model", "hf") from error
    try:
        return AutoTokenizer.from_pretrained(str(tokenizer), trust_remote_code=False)
    except Exception as error:  # the library raises what it likes
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"tokenizer={str(tokenizer)!r}: cannot be loaded ({reason})") from error

"""Replies held to a form: which forms the roles use, and the matcher that says which token may come next.

A form is a regular expression that the whole reply has to match (``Prompt.pattern``). ``Matchers`` makes one matcher a
reply for one tokenizer, with the extra "grammar" (llguidance, imported when the first is made). This module knows token
ids and numpy; it knows no network, prompt or role.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rir_gym.errors import MissingDependency, ModelError

__all__ = ["FACTS_PATTERN", "Matcher", "Matchers", "command_pattern"]

# A line starts with a letter or digit and holds no mark that begins a label, a fence, a tag or JSON. 59 characters are
# too few for a repetition loop as ``read`` counts it, so every such line is readable.
_NEVER = r"\x00-\x1f\x7f-\x9f\u2028\u2029<`"
_LINE = rf"[^\W_][^{_NEVER}:：{{*]{{0,58}}"
_ANSWER = rf"final: [^\W_][^{_NEVER}]{{0,58}}"
_WORD = rf"[^\W\d_][^{_NEVER} .!?。！？]{{0,15}}"
_STATEMENT = rf"(fact|elimination|affordance): {_WORD}( {_WORD}){{1,15}}\."

FACTS_PATTERN = rf"none|{_STATEMENT}(\n{_STATEMENT}){{0,3}}"
"""New knowledge ΔE: "none", or one to four typed lines of 2 to 16 words."""


def command_pattern(*, can_submit: bool) -> str:
    """One line that holds a command, ``rollback`` with a step, or, where it can be given, a final response."""
    return rf"{_LINE}|{_ANSWER}" if can_submit else _LINE


class Matchers:
    """Makes matchers for one tokenizer.

    Args:
        tokenizer: a fast Hugging Face tokenizer.
        vocabulary: number of ids that the network scores; at least the tokenizer's.
        end_ids: ids that end a reply. One of them, the tokenizer's own where it is there, is allowed exactly where the
            pattern is complete.

    Raises:
        MissingDependency: llguidance is not installed.
        ModelError: a tokenizer that llguidance cannot read.
    """

    def __init__(self, tokenizer: Any, *, vocabulary: int, end_ids: Iterable[int]) -> None:
        try:
            import llguidance
            import llguidance.hf
        except ImportError as error:
            raise MissingDependency("a reply that is held to a pattern", "grammar") from error
        self._kind: Any = llguidance.LLMatcher
        self._vocabulary = vocabulary
        ends = sorted(end_ids, key=lambda index: (index != tokenizer.eos_token_id, index))
        try:
            self._tokenizer = llguidance.hf.from_tokenizer(
                tokenizer, n_vocab=max(vocabulary, len(tokenizer)), eos_token=ends[0] if ends else None
            )
        except Exception as error:  # a Rust library: it raises what it likes on a tokenizer that it does not know
            name = getattr(tokenizer, "name_or_path", "")
            raise ModelError(f"tokenizer={name!r}: no reply can be held to a pattern with it ({error})") from error

    def matcher(self, pattern: str) -> Matcher:
        """A matcher for one reply.

        Raises:
            ModelError: a pattern that llguidance cannot follow.
        """
        made = self._kind(self._tokenizer, self._kind.grammar_from_regex(pattern), log_level=0)
        return Matcher(made, pattern, self._vocabulary)


class Matcher:
    """Follows one reply, token by token."""

    def __init__(self, matcher: Any, pattern: str, vocabulary: int) -> None:
        self._matcher, self._pattern, self._vocabulary = matcher, pattern, vocabulary
        self._check()

    def allowed(self) -> NDArray[np.bool_]:
        """[vocabulary], True for the ids that may come next. At least one is."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        self._check()
        allowed = np.unpackbits(bits, bitorder="little")[: self._vocabulary].astype(bool)
        if not allowed.any():
            raise ModelError(f"pattern={self._pattern!r}: the model's tokenizer has no token that goes on from here")
        return allowed

    def take(self, token: int) -> None:
        """The token that came next."""
        self._matcher.consume_token(token)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            reason = " ".join(self._matcher.get_error().split())[:200]
            raise ModelError(f"pattern={self._pattern!r}: cannot be followed ({reason})")

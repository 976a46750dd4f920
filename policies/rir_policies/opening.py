"""A model from one word: a folder, a GGUF file or a hub name is loaded, a URL with a name is a model on a server.

A server's word is its URL, then "#" and the model's name. What ``ServedModel`` takes beside them may stand between, as
a query::

    http://127.0.0.1:8000/v1#Qwen/Qwen3-4B
    http://127.0.0.1:8000/v1?choose=text&api_key_env=MY_KEY&timeout_s=120#Qwen/Qwen3-4B

Nothing heavy is imported before it is needed. This module knows no role and no mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from rir_gym.errors import UsageError
from rir_policies.model import Model

__all__ = ["is_served", "model_identity", "open_model"]

_TAKES: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "api_key_env": str,
        "choice_tokens": int,
        "choose": str,
        "concurrency": int,
        "context_tokens": int,
        "retries": int,
        "timeout_s": float,
        "tokenizer": str,
    }
)
_CHANGES_REPLIES = ("choice_tokens", "choose", "context_tokens", "tokenizer")


def is_served(word: str) -> bool:
    """Whether the word is the URL of a server."""
    return word.startswith(("http://", "https://"))


def open_model(word: str) -> Model:
    """The model that a word names.

    Raises:
        UsageError: a URL without a name, or with an argument that is unknown or no value of its kind.
        ModelError, MissingDependency: a model that cannot be loaded. A server is not asked before the first request.
    """
    if not is_served(word):
        from rir_policies.hf import load

        return load(word)
    from rir_policies.served import ServedModel

    url, name, arguments = _parted(word)
    return ServedModel(url, name, **arguments)


def model_identity(word: str) -> str:
    """The word without what changes no reply: of a server, how it is reached in time and with which key.

    >>> model_identity("http://host/v1?timeout_s=9&choose=text#tiny")
    'http://host/v1?choose=text#tiny'
    """
    if not is_served(word):
        return word
    url, name, arguments = _parted(word)
    query = urlencode({key: arguments[key] for key in _CHANGES_REPLIES if key in arguments})
    return f"{url.rstrip('/')}{'?' * bool(query)}{query}#{name}"


def _parted(word: str) -> tuple[str, str, dict[str, Any]]:
    try:
        parts = urlsplit(word)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        arguments = {key: _TAKES[key](value) for key, value in pairs}
    except (ValueError, KeyError) as error:
        raise UsageError(f"model={word!r}: URL?argument=value#NAME, with {', '.join(sorted(_TAKES))}") from error
    if not parts.fragment:
        raise UsageError(f"model={word!r}: the model's name after a #, such as {word.rstrip('/')}#NAME")
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")), parts.fragment, arguments

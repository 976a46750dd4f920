"""Models behind an OpenAI-compatible server: vLLM, SGLang, ``transformers serve``, a llama.cpp server, or a remote one.

Requests of one batch go out at once, up to a limit, and come back in order. Choices are scored where the server gives
log-probabilities of a given text (``served_scores``), or written and read where the user asks for that. ``wire``
carries requests and bounds every wait. This module knows nothing of roles and mechanisms.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Literal, TypeVar

from rir_gym.base import Message
from rir_gym.errors import ModelError, UsageError
from rir_policies.marks import broken_up
from rir_policies.model import Choice, Completion, Prompt, check_options, cut_at_stop, pick
from rir_policies.pointed import read_choice
from rir_policies.served_encoding import SharedEncoder
from rir_policies.served_scores import ChatScores, EchoScores, Scorer, chat_messages
from rir_policies.wire import Wire

__all__ = ["ServedModel"]

_NAMED = 200
_OPTIONS = "Reply with exactly one of these, and nothing else: "

T = TypeVar("T")
R = TypeVar("R")


class ServedModel:
    """A model on a server; a ``rir_policies.model.Model``.

    Seeds, temperatures, stop strings and limits of tokens are passed on; whether the same request gives the same reply
    is the server's matter. ``Completion.token_ids`` and ``log_probs`` are empty; counts are the server's ``usage``.

    Args:
        url: the API's root, such as "http://127.0.0.1:8000/v1".
        name: of the model, as the server knows it and as it stands in records.
        api_key_env: name of the environment variable that holds the key; "" sends none.
        concurrency: requests at once, at least 1.
        timeout_s: for one try of one request, connecting apart.
        retries: how often what may pass is tried again; see ``wire.Wire``.
        choose: "scores" has every option scored by the server, at one request an option. "text" asks for the reply
            itself and reads it (``read_choice``): one request a choice, no scores, and an unreadable reply is no option
            (``Choice.index`` None). Options that the prompt does not name are appended to it, where they are at most
            200.
        choice_tokens: limit of a written choice, in tokens.
        tokenizer: the served model's, as a folder, a hub name or a loaded one (needs the extra "hf"). With it prompts
            are encoded here, exactly as for a local model, and go to the completions endpoint as token ids, which vLLM
            and SGLang take. Without it the server encodes; marks in the texts are broken up first (``marks``).
        context_tokens: the server's context, with ``tokenizer``: longer prompts are cut as for a local model. None
            leaves long prompts to the server, which refuses them.
        sleep: waits between tries, in seconds.

    Raises:
        UsageError: a bad argument.
        ModelError, MissingDependency: a tokenizer that cannot be loaded.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        api_key_env: str = "",
        concurrency: int = 8,
        timeout_s: float = 60.0,
        retries: int = 3,
        choose: Literal["scores", "text"] = "scores",
        choice_tokens: int = 64,
        tokenizer: Any = None,
        context_tokens: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not name:
            raise UsageError(f"name={name!r}: the model's, as the server knows it")
        if choose not in ("scores", "text"):
            raise UsageError(f"choose={choose!r}: scores or text")
        for label, value in (("concurrency", concurrency), ("choice_tokens", choice_tokens)):
            if value < 1:
                raise UsageError(f"{label}={value!r}: at least 1")
        if context_tokens is not None and tokenizer is None:
            raise UsageError(f"context_tokens={context_tokens!r}: counts need tokenizer=... too")
        self.name = name
        self.wire = Wire(
            url.rstrip("/"), name, api_key_env=api_key_env, timeout_s=timeout_s, retries=retries, sleep=sleep
        )
        self.concurrency, self.choice_tokens = concurrency, choice_tokens
        self._encoder: SharedEncoder | None = None
        if tokenizer is not None:
            self._encoder = SharedEncoder(tokenizer, name=name, context_tokens=context_tokens)
        self._written = choose == "text"
        self._scorer: Scorer | None = None
        self._trying = threading.Lock()

    def generate(self, prompts: Sequence[Prompt]) -> Sequence[Completion]:
        """One completion per prompt.

        Raises:
            ModelError: no reply after every try, a refused request, a reply of another form, or a prompt with a pattern
                that the server does not see to.
        """
        return self._each(self._complete, prompts)

    def choose(self, prompts: Sequence[Prompt], options: Sequence[Sequence[str]]) -> Sequence[Choice]:
        """One option per prompt.

        Raises:
            UsageError: see ``check_options``.
            ModelError: as ``generate``; or the server cannot score options and ``choose`` is "scores".
        """
        check_options(prompts, options)
        if self._written:
            return self._each(lambda asked: self._write(*asked), list(zip(prompts, options, strict=True)))
        if not prompts:
            return []
        scorer = self._scores()
        jobs = [(prompt, option) for prompt, row in zip(prompts, options, strict=True) for option in row]
        found, choices = iter(self._each(lambda job: scorer.score(job[0].messages, job[1]), jobs)), []
        for prompt, row in zip(prompts, options, strict=True):
            scored = [next(found) for _ in row]
            means = tuple(each.mean for each in scored)
            index = pick(means, prompt.temperature, prompt.seed)
            choices.append(
                Choice(
                    index, means, prompt_tokens=scored[0].prompt_tokens, cut_tokens=max(s.cut_tokens for s in scored)
                )
            )
        return choices

    def _complete(self, prompt: Prompt) -> Completion:
        body: dict[str, Any] = {
            "model": self.name,
            "max_tokens": prompt.max_new_tokens,
            "temperature": prompt.temperature,
            "seed": prompt.seed % 2**31,
            "stream": False,
        }
        if prompt.pattern:
            body["structured_outputs"] = {"regex": prompt.pattern}
        stop, cut = prompt.stop, 0
        if self._encoder is None:
            body["messages"] = chat_messages(prompt.messages, broken_up)
            if prompt.messages[-1].role == "assistant":
                body |= {"add_generation_prompt": False, "continue_final_message": True}
            path = "/chat/completions"
        else:
            encoded = self._encoder.fit(prompt.messages, prompt.max_new_tokens)
            stop, cut = (*stop, *self._encoder.stop), encoded.cut_tokens
            body["prompt"], path = encoded.ids, "/completions"
        if stop:
            body["stop"] = list(stop)
        done = self._completion(self.wire.post(path, body), prompt, stop)
        if prompt.pattern and done.stop_reason != "length" and not re.fullmatch(prompt.pattern, done.text):
            raise ModelError(
                f"model={self.name!r}: {self.wire.url} does not hold replies to a pattern (structured_outputs); serve "
                "it with vLLM 0.12 or later, load it locally, or leave constrained off"
            )
        return replace(done, cut_tokens=cut)

    def _completion(self, reply: Mapping[str, Any], prompt: Prompt, stop: Sequence[str]) -> Completion:
        try:
            choice = reply["choices"][0]
            said = choice["message"]["content"] if "message" in choice else choice["text"]
            if isinstance(said, list):
                said = "".join(part.get("text", "") for part in said)
            reason, usage = choice.get("finish_reason"), reply.get("usage") or {}
            details = usage.get("prompt_tokens_details") or {}
            counts = [usage.get("prompt_tokens"), details.get("cached_tokens"), usage.get("completion_tokens")]
            prompted, reused, generated = (int(count or 0) for count in counts)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(
                f"model={self.name!r}: {self.wire.url} gave a reply without choices; it must be the root of an "
                "OpenAI-compatible API, which mostly ends in /v1"
            ) from error
        if not isinstance(said, str | None):
            raise ModelError(f"model={self.name!r}: {self.wire.url} gave a reply that is no text")
        text, stopped = cut_at_stop(said or "", stop)
        stopped = stopped or isinstance(choice.get("stop_reason"), str)
        return Completion(
            text=text,
            stop_reason="stop" if stopped else "length" if reason == "length" else "end",
            prompt_tokens=prompted,
            reused_tokens=reused,
            generated_tokens=generated,
        )

    def _write(self, prompt: Prompt, options: Sequence[str]) -> Choice:
        *before, last = prompt.messages
        if len(options) <= _NAMED and any(option not in last.content for option in options):
            last = Message(last.role, f"{last.content}\n\n{_OPTIONS}{' | '.join(options)}")
        asked = replace(prompt, messages=(*before, last), max_new_tokens=self.choice_tokens, pattern="")
        reply = self._complete(asked)
        return Choice(
            read_choice(reply.text, options, cut=reply.stop_reason == "length"),
            prompt_tokens=reply.prompt_tokens,
            reused_tokens=reply.reused_tokens,
            cut_tokens=reply.cut_tokens,
            generated_tokens=reply.generated_tokens,
            text=reply.text,
        )

    def _scores(self) -> Scorer:
        """How this server scores; tried out on the first use."""
        with self._trying:
            if self._scorer is None:
                scorer: Scorer = ChatScores(self.wire, broken_up)
                if self._encoder is not None:
                    scorer = EchoScores(self.wire, self._encoder.plain, self._encoder.fit)
                scorer.check()
                self._scorer = scorer
            return self._scorer

    def _each(self, ask: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """One result per item, in order; after an error no further item is begun."""
        pool = ThreadPoolExecutor(self.concurrency, thread_name_prefix="served")
        try:
            return list(pool.map(ask, items))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

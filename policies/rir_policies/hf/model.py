"""``HFModel``: requests in, replies out. It fits prompts into the context, forms batches, and keeps the stores.

Prompts are encoded by ``rir_policies.encoding``; ``decoding`` generates and ``scoring`` chooses. This module knows
nothing of roles and mechanisms.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from rir_gym.base import Message
from rir_gym.errors import ModelError, UsageError
from rir_policies.context import fitted
from rir_policies.encoding import ChatEncoder, Encoded
from rir_policies.grammar import Matcher, Matchers
from rir_policies.hf.adapters import Adapters
from rir_policies.hf.decoding import Ending, Row, decode
from rir_policies.hf.network import Network
from rir_policies.hf.scoring import score
from rir_policies.hf.stores import NoStore, Store, store_for
from rir_policies.model import Choice, Completion, Prompt, check_options, pick

__all__ = ["HFModel"]

_CPU_BYTES = 2 * 2**30
_BATCH_TOKENS = 2**16
_OUT_OF_MEMORY: type[Exception] = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)

R = TypeVar("R")


class HFModel:
    """A causal language model with its tokenizer; a ``rir_policies.model.Model``.

    What it computed for the beginning of a prompt is reused by every later prompt that begins with the same tokens, so
    after a rollback nothing of the history is computed again. How depends on the family and is found out on the model
    itself (``rir_policies.hf.network``); where nothing exact is possible, nothing is reused.

    Args:
        model: a transformers model with a language-modelling head; set to evaluation, its weights are not changed.
        tokenizer: the model's; never changed.
        name: as it stands in records.
        deterministic: True runs every request alone and shares nothing between episodes, so that a batch of n decides
            exactly as n single runs do. False runs up to ``batch_size`` requests at once, padded on the left, and lets
            episodes share beginnings: faster, equal up to rounding (a near tie may fall the other way).
        batch_size: requests per batch where not deterministic, at least 1.
        prefix_bytes: memory for what is reused; 0 reuses nothing, None is 2 GiB on the CPU and a quarter of the free
            memory elsewhere. In deterministic mode an episode that outgrows it may differ by rounding.

    Raises:
        UsageError: a bad argument.
        ModelError: a model whose forward takes no cache.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        deterministic: bool = True,
        batch_size: int = 8,
        prefix_bytes: int | None = None,
    ) -> None:
        if batch_size < 1:
            raise UsageError(f"batch_size={batch_size!r}: at least 1")
        if prefix_bytes is not None and prefix_bytes < 0:
            raise UsageError(f"prefix_bytes={prefix_bytes!r}: at least 0, or None")
        self.name = name
        self.deterministic = deterministic
        self.batch_size = 1 if deterministic else batch_size
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.encoder = ChatEncoder(tokenizer, end_ids=_end_ids(model))
        self.network = Network(model, name=name)
        self.context_tokens = self.network.context_tokens
        self.prefix_bytes = _free_bytes(self.network.device) if prefix_bytes is None else prefix_bytes
        self._ending = Ending(self.encoder.end_ids, self.encoder.stop, self._read)
        self._stores: OrderedDict[int, Store] = OrderedDict()
        self._batch_tokens = _BATCH_TOKENS
        self._matchers: Matchers | None = None

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the prompt, exactly one BOS where the tokenizer has one; see ``ChatEncoder.encode``."""
        return self.encoder.encode(messages).ids

    def generate(self, prompts: Sequence[Prompt]) -> Sequence[Completion]:
        """One completion per prompt.

        Raises:
            ModelError: a prompt that does not fit the context however it is cut, logits that are not numbers, or a
                pattern that cannot be followed.
            MissingDependency: a prompt has a pattern, and the extra "grammar" is not installed.
        """
        encoded = [self._fitted(prompt.messages, prompt.max_new_tokens) for prompt in prompts]

        def run(members: Sequence[int]) -> list[Completion]:
            rows = [Row.of(prompts[i], encoded[i], self._matcher(prompts[i].pattern)) for i in members]
            decode(self.network, self._store(prompts[members[0]]), rows, self._ending)
            return [row.completion() for row in rows]

        lengths = [len(each.ids) + prompt.max_new_tokens for each, prompt in zip(encoded, prompts, strict=True)]
        return self._in_batches(lengths, run)

    def choose(self, prompts: Sequence[Prompt], options: Sequence[Sequence[str]]) -> Sequence[Choice]:
        """One option per prompt, by the mean log-probability of its tokens where the reply would begin.

        Raises:
            UsageError: see ``check_options``; or an option without a single token.
            ModelError: as ``generate``.
        """
        check_options(prompts, options)
        tails = [[self.encoder.plain(option) for option in row] for row in options]
        for row, ids in zip(options, tails, strict=True):
            if not all(ids):
                raise UsageError(f"option={row[ids.index([])]!r}: the model's tokenizer has no token for it")
        encoded = [self._fitted(p.messages, max(map(len, ids))) for p, ids in zip(prompts, tails, strict=True)]

        def run(members: Sequence[int]) -> list[Choice]:
            heads = [encoded[i].ids for i in members]
            totals, reused = score(
                self.network,
                self._store(prompts[members[0]]),
                heads,
                [tails[i] for i in members],
                marks=[encoded[i].marks for i in members],
            )
            return [
                _choice(prompts[i], encoded[i], tails[i], sums, known)
                for i, sums, known in zip(members, totals, reused, strict=True)
            ]

        lengths = [len(each.ids) + sum(map(len, ids)) for each, ids in zip(encoded, tails, strict=True)]
        return self._in_batches(lengths, run)

    def with_adapter(self, folder: str | Path, *, name: str | None = None) -> HFModel:
        """Another model of the same weights with a LoRA adapter on top; this one stays as it is.

        Args:
            folder: what ``peft`` saved, as safetensors.
            name: as it stands in records; None is this name, "+" and the folder's.

        Raises:
            ModelError: no adapter there, a pickled one, or one that does not fit.
            MissingDependency: ``peft`` is not installed (extra "lora").
        """
        path = Path(folder)
        adapters = self.network.adapters or Adapters(self.model)
        adapter = adapters.add(path)
        self.network.adapters = adapters
        other = HFModel(
            self.model,
            self.tokenizer,
            name=name or f"{self.name}+{path.absolute().name}",
            deterministic=self.deterministic,
            batch_size=max(1, self.batch_size),
            prefix_bytes=self.prefix_bytes,
        )
        other.network.adapters, other.network.adapter = adapters, adapter
        return other

    # --- what is kept -----------------------------------------------------------------------------------------------

    @property
    def kept_bytes(self) -> int:
        """Bytes of what is kept of prompts now."""
        return sum(store.bytes for store in self._stores.values())

    def forget(self) -> None:
        """Drop everything that was kept of prompts."""
        self._stores.clear()

    def _store(self, prompt: Prompt) -> Store:
        """The store of the prompt's episode where deterministic (none without an episode), else the one of all."""
        if self.deterministic and not prompt.episode:
            return NoStore(self.network)
        key = prompt.episode if self.deterministic else 0
        if key not in self._stores:
            self._stores[key] = store_for(self.network, self.prefix_bytes)
        self._stores.move_to_end(key)
        while len(self._stores) > 1 and self.kept_bytes > self.prefix_bytes:
            self._stores.popitem(last=False)
        return self._stores[key]

    # --- batches ----------------------------------------------------------------------------------------------------

    def _in_batches(self, lengths: Sequence[int], run: Callable[[Sequence[int]], list[R]]) -> list[R]:
        """``run`` on groups of similar length; where memory runs out, on halves, and with smaller groups from then on.

        Raises:
            ModelError: one request alone has no room.
        """
        results: dict[int, R] = {}
        waiting = self._groups(lengths)
        with torch.inference_mode():
            while waiting:
                members = waiting.pop(0)
                try:
                    results.update(zip(members, run(members), strict=True))
                except _OUT_OF_MEMORY as error:
                    if self.kept_bytes:
                        self.forget()
                        waiting.insert(0, members)
                        continue
                    if len(members) == 1:
                        raise ModelError(
                            f"model={self.name!r}: out of memory on one request of {lengths[members[0]]} tokens; "
                            "give a shorter history, a smaller model or dtype='bfloat16'"
                        ) from error
                    self._batch_tokens = max(1, len(members) * max(lengths[i] for i in members) // 2)
                    half = len(members) // 2
                    waiting[:0] = [members[:half], members[half:]]
        return [results[i] for i in range(len(lengths))]

    def _groups(self, lengths: Sequence[int]) -> list[list[int]]:
        size = self.batch_size if self.network.family == "sliced" or self.prefix_bytes == 0 else 1
        order = sorted(range(len(lengths)), key=lambda i: lengths[i]) if size > 1 else list(range(len(lengths)))
        groups: list[list[int]] = []
        for i in order:
            last = groups[-1] if groups else []
            if last and len(last) < size and (len(last) + 1) * lengths[i] <= self._batch_tokens:
                last.append(i)
            else:
                groups.append([i])
        return groups

    # --- prompts ----------------------------------------------------------------------------------------------------

    def _fitted(self, messages: Sequence[Message], new_tokens: int) -> Encoded:
        if self.context_tokens is None:
            return self.encoder.encode(messages)
        found = fitted(self.encoder.encode, messages, self.context_tokens - new_tokens)
        if found is None:
            raise ModelError(
                f"model={self.name!r}: {len(messages)} messages and {new_tokens} new tokens cannot be cut to "
                f"its context of {self.context_tokens} tokens; give fewer messages or new tokens"
            )
        return found

    def _matcher(self, pattern: str) -> Matcher | None:
        if not pattern:
            return None
        if self._matchers is None:
            self._matchers = Matchers(self.tokenizer, vocabulary=self.network.vocabulary, end_ids=self.encoder.end_ids)
        return self._matchers.matcher(pattern)

    def _read(self, token_ids: Sequence[int]) -> str:
        text = self.tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text)


def _choice(
    prompt: Prompt, encoded: Encoded, tails: Sequence[Sequence[int]], totals: Sequence[float], reused: int
) -> Choice:
    scores = tuple(total / len(tail) for total, tail in zip(totals, tails, strict=True))
    return Choice(
        index=pick(scores, prompt.temperature, prompt.seed),
        scores=scores,
        prompt_tokens=len(encoded.ids),
        reused_tokens=reused,
        cut_tokens=encoded.cut_tokens,
    )


def _end_ids(model: Any) -> set[int]:
    ids: set[int] = set()
    for config in (getattr(model, "generation_config", None), model.config.get_text_config()):
        eos = getattr(config, "eos_token_id", None)
        ids.update([eos] if isinstance(eos, int) else eos or ())
    return ids


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free // 4)
    return _CPU_BYTES

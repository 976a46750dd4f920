"""Local Hugging Face models: safetensors, a GGUF file, or a name on the hub. The only file that imports torch.

Plain and correct: every request prefills its whole prompt (``reused_tokens`` is 0). The decoding loop is ours, so that
each request has its own generator, its own stop strings and its log-probabilities, and nothing in a generation config
can change what is decoded. Prompts are encoded by ``rir_policies.encoding``. Knows nothing of roles and mechanisms.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rir_gym.base import Message
from rir_gym.errors import MissingDependency, ModelError, UsageError
from rir_policies.encoding import ChatEncoder, Encoded
from rir_policies.model import Choice, Completion, Prompt, check_options, cut_at_stop, pick
from rir_policies.weights import find_weights, why_not

try:
    import torch
    import transformers
except ImportError as error:
    raise MissingDependency("a local model", "hf") from error

__all__ = ["HFModel", "load"]

_ROWS = 32
_ROW_TOKENS = 8_192
_DTYPES = ("auto", "float32", "bfloat16", "float16")


def load(
    name_or_path: str | Path,
    *,
    device: str = "auto",
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
    deterministic: bool = True,
    batch_size: int = 8,
) -> HFModel:
    """Load a model: a folder with safetensors, a ``.gguf`` file or a folder with exactly one, else a name on the hub.

    A GGUF file is dequantized on each load. Code that comes with a model is never run, pickled weights are never read.

    Args:
        name_or_path: also the ``name`` of the model in records (the name of the GGUF file, or of the folder).
        device: "auto" is the first CUDA device, or the CPU; else a torch device.
        dtype: "auto" is float32 on the CPU and bfloat16 elsewhere.
        deterministic: see ``HFModel``.
        batch_size: see ``HFModel``.

    Raises:
        ModelError: nothing there, no weights, pickled weights only, weights missing or damaged, not on the hub.
        MissingDependency: a GGUF file without the ``gguf`` package.
        UsageError: a bad argument.
    """
    if dtype not in _DTYPES:
        raise UsageError(f"dtype={dtype!r}: one of {', '.join(_DTYPES)}")
    place = _device(device)
    source, options = find_weights(str(name_or_path))
    number = (torch.float32 if place.type == "cpu" else torch.bfloat16) if dtype == "auto" else getattr(torch, dtype)
    try:
        with _quiet():
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False, **options)
            model, report = transformers.AutoModelForCausalLM.from_pretrained(
                source,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=number,
                output_loading_info=True,
                **options,
            )
            model = model.to(place)
    except Exception as error:  # the libraries raise what they like on a bad checkpoint
        raise ModelError(f"model={str(name_or_path)!r}: {why_not(source, error)}") from error
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise ModelError(
            f"model={str(name_or_path)!r}: {len(missing)} weights are not in the file, such as {missing[0]}"
        )
    path = Path(name_or_path).expanduser()
    name = options.get("gguf_file") or (path.absolute().name if path.exists() else str(name_or_path))
    return HFModel(model, tokenizer, name=name, deterministic=deterministic, batch_size=batch_size)


class HFModel:
    """A causal language model with its tokenizer; a ``rir_policies.model.Model``.

    Args:
        model: a transformers model with a language-modelling head; set to evaluation, its weights are not changed.
        tokenizer: the model's; never changed.
        name: as it stands in records.
        deterministic: True runs every request alone, so that a batch of n decides exactly as n single runs do. False
            runs ``batch_size`` requests at once, padded on the left: faster, equal up to rounding (a near tie may fall
            the other way).
        batch_size: requests per batch where not deterministic, at least 1.
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, name: str, deterministic: bool = True, batch_size: int = 8
    ) -> None:
        if batch_size < 1:
            raise UsageError(f"batch_size={batch_size!r}: at least 1")
        self.name = name
        self.batch_size = 1 if deterministic else batch_size
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.encoder = ChatEncoder(tokenizer, end_ids=_end_ids(model))
        self.context_tokens: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        takes = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in takes else "past_key_values"
        if self._cache_name not in takes:
            raise ModelError(f"model={name!r}: its forward takes no cache; use a decoder-only model with one")
        self._takes = frozenset(takes)

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the prompt, exactly one BOS where the tokenizer has one; see ``ChatEncoder.encode``."""
        return self.encoder.encode(messages).ids

    def generate(self, prompts: Sequence[Prompt]) -> Sequence[Completion]:
        """One completion per prompt.

        Raises:
            ModelError: a prompt that does not fit the context however it is cut, or logits that are not numbers.
        """
        rows = [_Row(p, self._fitted(p.messages, p.max_new_tokens), torch.Generator()) for p in prompts]
        for row in rows:
            row.generator.manual_seed(row.prompt.seed % 2**63)
        with torch.inference_mode():
            for start in range(0, len(rows), self.batch_size):
                self._decode(rows[start : start + self.batch_size])
        return [self._completion(row) for row in rows]

    def choose(self, prompts: Sequence[Prompt], options: Sequence[Sequence[str]]) -> Sequence[Choice]:
        """One option per prompt, by the mean log-probability of its tokens where the reply would begin.

        The prompt is prefilled once; its options share that prefix.

        Raises:
            UsageError: see ``check_options``; or an option without a single token.
            ModelError: as ``generate``.
        """
        check_options(prompts, options)
        with torch.inference_mode():
            return [self._choose(prompt, row) for prompt, row in zip(prompts, options, strict=True)]

    # --- one request ------------------------------------------------------------------------------------------------

    def _fitted(self, messages: Sequence[Message], new_tokens: int) -> Encoded:
        encoded = self.encoder.encode(messages)
        if self.context_tokens is None:
            return encoded
        fitted = encoded.fit(self.context_tokens - new_tokens)
        if fitted is None:
            raise ModelError(
                f"model={self.name!r}: {len(messages)} messages and {new_tokens} new tokens cannot be cut to "
                f"its context of {self.context_tokens} tokens; give fewer messages or new tokens"
            )
        return fitted

    def _decode(self, rows: Sequence[_Row]) -> None:
        ids, mask = _pad_left([row.encoded.ids for row in rows], self.model.device)
        position = mask.cumsum(-1).sub(1).clamp(min=0)
        cache = None
        for _ in range(max(row.prompt.max_new_tokens for row in rows)):
            logits, cache = self._forward(ids, mask, position, cache)
            log_probs = self._log_probs(logits[:, -1]).cpu()
            tokens = [self._next(row, scores) for row, scores in zip(rows, log_probs, strict=True)]
            if all(row.stop_reason for row in rows):
                return
            ids = torch.tensor(tokens, device=ids.device).unsqueeze(1)
            mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
            position = position[:, -1:] + 1

    def _next(self, row: _Row, log_probs: torch.Tensor) -> int:
        if row.stop_reason:
            return 0  # a finished row is carried along; no other row sees it
        if row.prompt.temperature == 0:
            token = int(log_probs.argmax())
        else:
            weights = torch.softmax(log_probs / row.prompt.temperature, dim=-1)
            token = int(torch.multinomial(weights, 1, generator=row.generator))
        row.token_ids.append(token)
        row.log_probs.append(float(log_probs[token]))
        if token in self.encoder.end_ids:
            row.stop_reason = "end"
            return token
        row.text = self._read(row.token_ids)
        row.text, stopped = cut_at_stop(row.text, row.prompt.stop)
        row.text, closed = cut_at_stop(row.text, self.encoder.stop)
        if stopped or closed:
            row.stop_reason = "end" if closed else "stop"
        if not row.stop_reason and len(row.token_ids) == row.prompt.max_new_tokens:
            row.stop_reason = "length"
            row.text = _without_half_stop(row.text, (*row.prompt.stop, *self.encoder.stop))
        return token

    def _read(self, token_ids: Sequence[int]) -> str:
        text = self.tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text)

    def _completion(self, row: _Row) -> Completion:
        assert row.stop_reason
        return Completion(
            text=row.text,
            token_ids=tuple(row.token_ids),
            log_probs=tuple(row.log_probs),
            stop_reason=row.stop_reason,
            prompt_tokens=len(row.encoded.ids),
            generated_tokens=len(row.token_ids),
            cut_tokens=row.encoded.cut_tokens,
        )

    # --- choices ----------------------------------------------------------------------------------------------------

    def _choose(self, prompt: Prompt, options: Sequence[str]) -> Choice:
        tails = [self.encoder.plain(option) for option in options]
        if not all(tails):
            raise UsageError(f"option={options[tails.index([])]!r}: the model's tokenizer has no token for it")
        encoded = self._fitted(prompt.messages, max(map(len, tails)))
        head = encoded.ids
        ids, mask = _pad_left([head], self.model.device)
        logits, cache = self._forward(ids, mask, mask.cumsum(-1) - 1, None)
        first = self._log_probs(logits[:, -1])[0]
        rows = max(1, min(_ROWS, _ROW_TOKENS // len(head)))
        totals = [float(first[tail[0]]) for tail in tails]
        longer = [i for i, tail in enumerate(tails) if len(tail) > 1]
        for start in range(0, len(longer), rows):
            group = longer[start : start + rows]
            for i, rest in zip(group, self._continue(head, cache, [tails[i] for i in group]), strict=True):
                totals[i] += rest
        scores = tuple(total / len(tail) for total, tail in zip(totals, tails, strict=True))
        return Choice(
            index=pick(scores, prompt.temperature, prompt.seed),
            scores=scores,
            prompt_tokens=len(head),
            cut_tokens=encoded.cut_tokens,
        )

    def _continue(self, head: list[int], cache: Any, tails: Sequence[list[int]]) -> list[float]:
        """Per tail the summed log-probability of its tokens from the second on, after ``head``."""
        device = self.model.device
        width = max(map(len, tails)) - 1
        inputs = torch.tensor([[*tail[:-1], *[0] * (width - len(tail) + 1)] for tail in tails], device=device)
        # Padding on the right comes after every token that counts, where causal attention cannot see it.
        forked = _forked(cache, len(tails))
        if forked is None:
            prefix = torch.tensor([head] * len(tails), device=device)
            inputs = torch.cat([prefix, inputs], dim=1)
            position = torch.arange(inputs.shape[1], device=device).expand(len(tails), -1)
        else:
            position = torch.arange(len(head), len(head) + width, device=device).expand(len(tails), -1)
        mask = torch.ones((len(tails), len(head) + width), dtype=torch.long, device=device)
        logits, _ = self._forward(inputs, mask, position, forked, keep=width)
        log_probs = self._log_probs(logits[:, -width:])
        targets = torch.tensor([[*tail[1:], *[0] * (width - len(tail) + 1)] for tail in tails], device=device)
        found = log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1).tolist()
        return [sum(row[: len(tail) - 1]) for row, tail in zip(found, tails, strict=True)]

    # --- the model --------------------------------------------------------------------------------------------------

    def _forward(
        self, ids: torch.Tensor, mask: torch.Tensor, position: torch.Tensor, cache: Any, *, keep: int = 1
    ) -> tuple[torch.Tensor, Any]:
        """Logits [rows, at least ``keep``, vocabulary] of the last positions, and the cache."""
        wanted = {"position_ids": position, "logits_to_keep": keep}
        given = {key: value for key, value in wanted.items() if key in self._takes}
        if cache is not None:
            given[self._cache_name] = cache
        out = self.model(input_ids=ids, attention_mask=mask, use_cache=True, **given)
        return out.logits, getattr(out, self._cache_name)

    def _log_probs(self, logits: torch.Tensor) -> torch.Tensor:
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        if bool(torch.isnan(log_probs).any()):
            raise ModelError(
                f"model={self.name!r}: its logits are not numbers (NaN); damaged weights or too small a dtype"
            )
        return log_probs


@dataclass(slots=True)
class _Row:
    """A completion in the making."""

    prompt: Prompt
    encoded: Encoded
    generator: torch.Generator
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    text: str = ""
    stop_reason: Literal["stop", "length", "end"] | None = None


def _pad_left(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask [rows, longest]. The filler is masked out, so any id will do: no pad token is needed."""
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in rows], device=device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, mask


def _forked(cache: Any, rows: int) -> Any | None:
    """A copy of a cache of one row, repeated; None for a kind of cache that cannot be."""
    layers = getattr(cache, "layers", None)
    if not layers or not all(hasattr(layer, "batch_repeat_interleave") for layer in layers):
        return None
    forked = copy.deepcopy(cache)
    forked.batch_repeat_interleave(rows)
    return forked


def _without_half_stop(text: str, stop: Sequence[str]) -> str:
    """A text that ran out of tokens while it was writing a stop string, without that beginning of it."""
    halves = (string[:n] for string in stop for n in range(len(string) - 1, 0, -1))
    longest = max((half for half in halves if text.endswith(half)), key=len, default="")
    return text[: len(text) - len(longest)]


def _end_ids(model: Any) -> set[int]:
    ids: set[int] = set()
    for config in (getattr(model, "generation_config", None), model.config.get_text_config()):
        eos = getattr(config, "eos_token_id", None)
        ids.update([eos] if isinstance(eos, int) else eos or ())
    return ids


# --- loading --------------------------------------------------------------------------------------------------------


def _device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise UsageError(f"device={device!r}: 'auto', 'cpu', 'cuda', 'cuda:N' or another torch device") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars, log lines or warnings of the libraries inside; everything as it was after."""
    ours, hub = transformers.utils.logging, logging.getLogger("huggingface_hub")
    verbosity, bars, level = ours.get_verbosity(), ours.is_progress_bar_enabled(), hub.level
    ours.set_verbosity_error()
    ours.disable_progress_bar()
    hub.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        hub.setLevel(level)
        ours.set_verbosity(verbosity)
        if bars:
            ours.enable_progress_bar()

"""One causal language model as a forward pass, and what its family's cache can do: found out, not assumed.

Families differ. Where every layer keeps the keys and values of all tokens, a cache is cut and joined at will
("sliced"); sliding-window layers too, since they are given a cache without a window and their mask does the rest. Where
a layer keeps a recurrent or convolution state, whole caches are copied ("copied"). Where neither gives what one pass
over the whole prompt gives, nothing is reused ("none"). ``Network.family`` tries on the model itself and keeps the best
that is exact. This module knows no tokenizer, prompt or request.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any, Literal

import torch
import transformers

from rir_gym.errors import ModelError
from rir_policies.hf.adapters import Adapters

__all__ = ["Family", "KeysValues", "Network", "joined", "size_of", "sliced"]

Family = Literal["sliced", "copied", "none"]

KeysValues = list[tuple[torch.Tensor, torch.Tensor] | None]
"""Per layer keys and values, each [1, heads, tokens, width]; None for a layer that keeps none of its own."""

_CACHE_NAMES = ("cache", "past_key_values", "cache_params")
_PROBE = 13


class Network:
    """The forward pass of one model.

    Args:
        model: a transformers model with a language-modelling head, in evaluation mode.
        name: for errors.

    Attributes:
        vocabulary: number of token ids that it scores.
        adapters, adapter: which adapter is switched on before a forward pass; see ``hf.adapters``.

    Raises:
        ModelError: its forward takes no cache under any known name.
    """

    def __init__(self, model: Any, *, name: str) -> None:
        self.model, self.name = model, name
        takes = inspect.signature(model.forward).parameters
        self._cache_name = next((known for known in _CACHE_NAMES if known in takes), "")
        if not self._cache_name:
            raise ModelError(f"model={name!r}: its forward takes no cache; use a decoder-only model with one")
        self._takes = frozenset(takes)
        config = model.config.get_text_config()
        self.context_tokens: int | None = getattr(config, "max_position_embeddings", None)
        self._kinds: list[str] | None = getattr(config, "layer_types", None)
        self._window: int | None = getattr(config, "sliding_window", None)
        self.vocabulary: int = config.vocab_size
        self.adapters: Adapters | None = None
        self.adapter: str | None = None
        self._family: Family | None = None
        self._packs: bool | None = None

    @property
    def device(self) -> torch.device:
        """Where the inputs must lie."""
        device: torch.device = self.model.device
        return device

    def forward(
        self,
        ids: torch.Tensor,
        *,
        mask: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
        places: torch.Tensor | None = None,
        cache: Any = None,
        keep: int = 1,
    ) -> tuple[torch.Tensor, Any]:
        """Log-probabilities [rows, keep, vocabulary] (float32) of the last ``keep`` positions, and the cache.

        Args:
            ids: [rows, new tokens].
            mask: [rows, cached + new tokens], 1 where there is a token; or bool [rows, 1, new, cached + new], who
                attends to whom; None where nothing is padded.
            positions: [rows, new tokens]; None counts up.
            places: [rows, cached + new], the position of everything that is attended to; needed with a bool mask.
            cache: what an earlier pass returned; it is extended in place.
            keep: how many positions, from the end.

        Raises:
            ModelError: logits that are not numbers.
        """
        told = self._mask(mask, positions, places)
        given: dict[str, Any] = {"logits_to_keep": keep, "position_ids": positions, "attention_mask": told}
        given = {key: value for key, value in given.items() if value is not None and key in self._takes}
        if cache is not None:
            given[self._cache_name] = cache
        if self.adapters is not None:
            self.adapters.use(self.adapter)
        out = self.model(input_ids=ids, use_cache=True, **given)
        log_probs = torch.log_softmax(out.logits[:, -keep:].float(), dim=-1)
        if bool(torch.isnan(log_probs).any()):
            raise ModelError(
                f"model={self.name!r}: its logits are not numbers (NaN); damaged weights or too small a dtype"
            )
        return log_probs, getattr(out, self._cache_name)

    def empty(self) -> Any:
        """A cache without tokens: of whole keys and values where the family is sliced, else the model's own (None)."""
        return transformers.DynamicCache() if self.family == "sliced" else None

    @property
    def family(self) -> Family:
        """What its cache can do; tried out on the first use, with a few tokens."""
        if self._family is None:
            self._family = self._tried()
        return self._family

    @property
    def packs(self) -> bool:
        """Whether options can be scored side by side in one row, behind a mask; tried out on the first use."""
        if self._packs is None:
            self._packs = self.family == "sliced" and self._packs_exactly()
        return self._packs

    # --- masks ------------------------------------------------------------------------------------------------------

    def _mask(self, mask: torch.Tensor | None, positions: torch.Tensor | None, places: torch.Tensor | None) -> Any:
        """A mask as the model takes it: added to the scores, one for each kind of layer where it has several."""
        if mask is None or mask.dim() == 2:
            return mask
        assert positions is not None and places is not None  # noqa: PT018
        windows = {"full_attention": mask}
        if self.window is not None:
            near = positions.unsqueeze(2) - places.unsqueeze(1) < self.window
            windows["sliding_attention"] = mask & near.unsqueeze(1)
        added = {kind: self._added(each) for kind, each in windows.items()}
        kinds = set(self._kinds or ())
        if len(kinds) > 1:
            return added
        return added["sliding_attention" if self.window is not None else "full_attention"]

    def _added(self, mask: torch.Tensor) -> torch.Tensor:
        added = torch.zeros(mask.shape, dtype=self.model.dtype, device=mask.device)
        return added.masked_fill_(~mask, torch.finfo(self.model.dtype).min)

    @property
    def window(self) -> int | None:
        """The sliding window of its layers where it has one and some layer uses it."""
        slides = self._window is not None and (self._kinds is None or "sliding_attention" in self._kinds)
        return self._window if slides else None

    # --- trying out -------------------------------------------------------------------------------------------------

    def _probe(self) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(0, self.vocabulary, (1, _PROBE), generator=generator)
        return ids.to(self.device)

    def _tried(self) -> Family:
        with torch.inference_mode():
            ids = self._probe()
            whole, _ = self.forward(ids)
            other, _ = self.forward(ids.flip(1)[:, :-1])
            tries: tuple[tuple[Family, Any], ...] = (("sliced", self._by_slices), ("copied", self._by_copies))
            for family, attempt in tries:
                try:
                    got = attempt(ids)
                except Exception:  # a family that cannot do it says so in any way it likes
                    continue
                if all(self._same(whole, each, other) for each in got):
                    return family
        return "none"

    def _by_slices(self, ids: torch.Tensor) -> list[torch.Tensor]:
        """The same last position from a cache cut after 5 of 9 tokens, and from one that was joined."""
        cache = transformers.DynamicCache()
        self.forward(ids[:, :9], cache=cache)
        if any(kept is not None and kept[0].shape[-2] != 9 for kept in sliced(cache, 0, 0, 9)):
            raise ModelError(f"model={self.name!r}: its layers do not keep every token")
        first, second = sliced(cache, 0, 0, 5), sliced(cache, 0, 5, 7)
        cut, _ = self.forward(ids[:, 5:], cache=joined([[first]], [5]))
        both, _ = self.forward(ids[:, 7:], cache=joined([[first, second]], [7]))
        return [cut, both]

    def _by_copies(self, ids: torch.Tensor) -> list[torch.Tensor]:
        _, cache = self.forward(ids[:, :7])
        first, _ = self.forward(ids[:, 7:], cache=copy.deepcopy(cache))
        again, _ = self.forward(ids[:, 7:], cache=copy.deepcopy(cache))
        return [first, again]

    def _packs_exactly(self) -> bool:
        """Two continuations side by side behind a mask, against each alone."""
        with torch.inference_mode():
            ids = self._probe()
            head, left, right = ids[:, :7], ids[:, 7:9], ids[:, 9:11]
            seen = torch.ones(11, 11, dtype=torch.bool, device=self.device).tril()
            seen[9:, 7:9] = False
            positions = torch.tensor([[*range(7), 7, 8, 7, 8]], device=self.device)
            try:
                packed, _ = self.forward(
                    ids[:, :11],
                    mask=seen[None, None],
                    positions=positions,
                    places=positions,
                    keep=3,
                    cache=self.empty(),
                )
            except Exception:  # as above
                return False
            one, _ = self.forward(torch.cat([head, left], 1))
            two, _ = self.forward(torch.cat([head, right], 1))
        same = self._same(one, packed[:, :1], two)
        return same and self._same(two, packed[:, 2:], one)

    def _same(self, wanted: torch.Tensor, got: torch.Tensor, other: torch.Tensor) -> bool:
        """Equal up to rounding; in a coarse dtype, much closer than what another prompt gives."""
        apart = float((wanted - got).abs().mean())
        return apart < (1e-3 if self.model.dtype == torch.float32 else 0.1 * float((wanted - other).abs().mean()))


def sliced(cache: Any, row: int, start: int, stop: int) -> KeysValues:
    """Keys and values of tokens ``start`` to ``stop`` of one row of a cache, as copies of their own."""
    kept: KeysValues = []
    for layer in cache.layers:
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if keys is None or values is None or keys.dim() != 4:
            kept.append(None)
        else:
            part = (slice(row, row + 1), slice(None), slice(start, stop))
            kept.append((keys[part].clone(), values[part].clone()))
    return kept


def cut(kept: KeysValues, start: int, stop: int) -> KeysValues:
    """The part for tokens ``start`` to ``stop``, as copies of their own."""
    part = (slice(None), slice(None), slice(start, stop))
    return [None if pair is None else (pair[0][part].clone(), pair[1][part].clone()) for pair in kept]


def size_of(kept: KeysValues) -> int:
    """Bytes."""
    return sum(each.nbytes for pair in kept if pair is not None for each in pair)


def joined(rows: Sequence[Sequence[KeysValues]], lengths: Sequence[int]) -> Any:
    """A cache of n rows from each row's pieces in order, padded on the left to the longest of ``lengths``.

    From each row's pieces the first ``lengths[i]`` tokens are taken. Where all are 0 the cache is empty.
    """
    cache = transformers.DynamicCache()
    width = max(lengths)
    model_row = next((pieces for pieces in rows if pieces), None)
    if not width or model_row is None:
        return cache
    for layer, pair in enumerate(model_row[0]):
        if pair is None:
            continue
        stacked = []
        for side in (0, 1):
            lines = [
                _line([piece[layer] for piece in pieces], side, length, width, pair[side])
                for pieces, length in zip(rows, lengths, strict=True)
            ]
            stacked.append(lines[0] if len(lines) == 1 else torch.cat(lines, dim=0))
        cache.update(*stacked, layer)
    return cache


def _line(pieces: Sequence[Any], side: int, length: int, width: int, like: torch.Tensor) -> torch.Tensor:
    parts = [piece[side] for piece in pieces]
    if length < width:
        parts.insert(0, like.new_zeros((1, like.shape[1], width - length, like.shape[3])))
    line = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)
    return line[:, :, :width]

"""Training data of the small agent: a tokenizer made from exported text, and exported rows packed as tries.

Rows are those of ``rir-gym export sft`` and ``roles``: a prompt and one reply. The rows of one episode begin alike (the
history), so they are packed as a trie of tokens: every shared beginning stands in it once, a token attends to its own
ancestors, and its position is its depth. That trains exactly what separate rows would. Only replies are targets.
This module knows no model and no environment.
"""

from __future__ import annotations

import functools
import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rir_policies.encoding import ChatEncoder
from rir_policies.training import Samples

__all__ = ["Forest", "Row", "Trie", "encoded_rows", "make_tokenizer", "pack", "read_rows"]

ROLES = ("system", "user", "assistant")
_PIECE = re.compile(r"\n\n|\n| ?[A-Za-z]+| ?\d+|[^\sA-Za-z\d]| ")
_MOST_PHRASES = 900
_LEAST_COUNT = 5
_NUMBERS = 100
_COMMAND_TOKENS = 3
_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' }}{{ message['content'] }}{{ '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


# --- rows -------------------------------------------------------------------------------------------------------------


def read_rows(folder: Path, *, every: int = 1) -> Iterator[dict[str, Any]]:
    """The training rows of an export, in order; of ``every`` rows one."""
    with (folder / "train.jsonl").open(encoding="utf-8") as lines:
        for line in islice(lines, 0, None, every):
            yield json.loads(line)


@dataclass(frozen=True, slots=True)
class Row:
    """One reply and its prompt as token ids.

    Args:
        ids: the prompt, the reply, and the end of its turn.
        replied: how many of the last ids are targets.
        role, part: as in the export; of the agent's rows the role is "act".
        recovered: whether the memory in the prompt tells of a failure.
        weight: of its targets in the loss, together; √(n/3) for n of them, so that a command's three count as 1.
    """

    ids: tuple[int, ...]
    replied: int
    role: str
    part: str
    recovered: bool
    weight: float = 1.0


def encoded_rows(rows: Iterable[dict[str, Any]], samples: Samples) -> dict[str, list[Row]]:
    """Rows by episode. The ids are those of ``Samples.sample``, and so of the prompts that models are asked."""
    encoder = samples.encoder
    for name in ("plain", "_markup"):  # the same texts come again and again
        method = getattr(encoder, name)
        if not hasattr(method, "cache_info"):
            setattr(encoder, name, functools.lru_cache(maxsize=200_000)(method))
    found: dict[str, list[Row]] = {}
    for row in rows:
        made = samples.sample(row["prompt"], row["completion"][0]["content"])
        assert made is not None
        ids, labels = made
        recovered = any(_FAILED in said["content"] for said in row["prompt"] if said["role"] != "assistant")
        replied = sum(label >= 0 for label in labels)
        weight = math.sqrt(replied / _COMMAND_TOKENS)
        told = Row(tuple(ids), replied, row.get("role", "act"), row["part"], recovered, weight)
        found.setdefault(row["episode"], []).append(told)
    return found


_FAILED = "Why the last abandoned attempt failed:"


# --- tokenizer --------------------------------------------------------------------------------------------------------


def make_tokenizer(rows: Iterable[dict[str, Any]], texts: Iterable[str], *, context: int) -> Any:
    """A word-level tokenizer whose vocabulary has the phrases of these rows as single tokens.

    Words in which commands end (places, things) and numbers stay tokens of their own; what stands between two of them
    is one phrase, where it came at least five times. So a prompt of a thousand words is a few hundred tokens. No token
    reaches over a blank line or past a message, so a conversation's beginning has the same tokens however it goes on.

    Args:
        rows: of exports.
        texts: more texts, whose words and phrases are to be known even where no row has them.
        context: the most tokens of a prompt, for its configuration.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    contents, commands = Counter[str](), Counter[str]()
    for row in rows:
        contents.update({said["content"]: 1 for said in (*row["prompt"], *row["completion"])})
        if row["part"] == "action":
            commands[row["completion"][0]["content"]] += 1
    names = {command.split()[-1] for command in commands}
    phrases, pieces = Counter[str](), Counter[str]()
    for text, count in contents.items():
        for run in _runs(text, names):
            phrases[run] += min(count, 50)
        pieces.update(_PIECE.findall(text))
    for text in texts:
        pieces.update(_PIECE.findall(text))
        for run in _runs(text, names):
            phrases[run] += _LEAST_COUNT
    common = [run for run, count in phrases.most_common(_MOST_PHRASES) if count >= _LEAST_COUNT and len(run) > 1]
    numbers = [f"{space}{n}" for n in range(_NUMBERS) for space in ("", " ")]
    special = ["<|pad|>", "<|unknown|>", *[f"<|{role}|>" for role in ROLES], "<|end|>"]
    named = [f"{space}{name}" for name in sorted(names) for space in ("", " ")]
    vocabulary = dict.fromkeys([*special, *common, *named, *numbers, *sorted(pieces)])
    ordered = sorted(common, key=len, reverse=True)
    alternatives = [re.escape(run) + (r"(?![A-Za-z])" if run[-1].isalpha() else "") for run in ordered]
    core = Tokenizer(models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token="<|unknown|>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex("|".join([*alternatives, _PIECE.pattern])), behavior="isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<|pad|>",
        unk_token="<|unknown|>",
        eos_token="<|end|>",
        additional_special_tokens=[f"<|{role}|>" for role in ROLES],
        model_max_length=context,
    )
    tokenizer.chat_template = _TEMPLATE
    return tokenizer


def _runs(text: str, names: set[str]) -> Iterator[str]:
    """The longest stretches without a name, a number or a blank line."""
    run: list[str] = []
    for piece in [*_PIECE.findall(text), ""]:
        word = piece.strip()
        if piece in ("", "\n\n") or word in names or word.isdigit():
            if run:
                yield "".join(run)
            run = []
        else:
            run.append(piece)


# --- tries ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Trie:
    """Tokens of several rows, every shared beginning once.

    Attributes:
        tokens, parents, depths: of each of N nodes; parents come first, a root's parent is -1.
        places, targets, weights: where a token is predicted (a node), which, and how much it counts.
        lengths: how many targets each row has, in order.
        turns: places and targets of the replies inside the prompts (the actions of the history), each once.
    """

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    turns: list[tuple[int, int]] = field(default_factory=list)
    _known: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows are in it."""
        return len(self.lengths)

    def missing(self, row: Row) -> int:
        """How many nodes ``add`` would make."""
        at = -1
        for done, token in enumerate(row.ids[:-1]):
            found = self._known.get((at, token))
            if found is None:
                return len(row.ids) - 1 - done
            at = found
        return 0

    def add(self, row: Row, *, opens: int = -1, closes: int = -1) -> None:
        """A row: its last ``replied`` ids become targets. The last id is only predicted, so it is no node.

        ``opens`` and ``closes`` are the tokens around a reply, for ``turns``; -1 collects none.
        """
        at, first, inside = -1, len(row.ids) - row.replied, False
        self.lengths.append(row.replied)
        for depth, token in enumerate(row.ids):
            if depth >= first:
                self.places.append(at)
                self.targets.append(token)
                self.weights.append(row.weight / row.replied)
            if depth == len(row.ids) - 1:
                return
            found = self._known.get((at, token))
            if found is None:
                found = len(self.tokens)
                self._known[at, token] = found
                self.tokens.append(token)
                self.parents.append(at)
                self.depths.append(depth)
                if inside and depth < first:
                    self.turns.append((at, token))
            inside = token == opens or (inside and token != closes)
            at = found

    def seen(self) -> np.ndarray[Any, Any]:
        """[N, N] bool: node i attends to node j, one of its ancestors or itself."""
        size = len(self.tokens)
        seen = np.zeros((size, size), dtype=bool)
        for i, parent in enumerate(self.parents):
            if parent >= 0:
                seen[i] = seen[parent]
            seen[i, i] = True
        return seen


def pack(rows: Sequence[Row], *, nodes: int, rng: random.Random, opens: int = -1, closes: int = -1) -> Trie | None:
    """A trie of some of an episode's rows in a random order, as many as fit into ``nodes``; None where none does."""
    trie = Trie()
    order = list(rows)
    rng.shuffle(order)
    for row in order:
        if len(trie.tokens) + trie.missing(row) <= nodes:
            trie.add(row, opens=opens, closes=closes)
    return trie if trie.targets else None


@dataclass(frozen=True, slots=True)
class Forest:
    """Episodes to draw tries from.

    Args:
        opens, closes: as in ``Trie.add``.
        recovered: the share of draws from the episodes with a failure in memory; 0 draws all alike.
    """

    episodes: tuple[tuple[Row, ...], ...]
    opens: int = -1
    closes: int = -1
    recovered: float = 0.0

    def draw(self, count: int, *, nodes: int, rng: random.Random) -> list[Trie]:
        """``count`` tries of episodes drawn with replacement."""
        failed = [rows for rows in self.episodes if any(row.recovered for row in rows)] if self.recovered else []
        tries: list[Trie] = []
        while len(tries) < count:
            some = failed if failed and rng.random() < self.recovered else self.episodes
            trie = pack(rng.choice(some), nodes=nodes, rng=rng, opens=self.opens, closes=self.closes)
            if trie is not None:
                tries.append(trie)
        return tries


def samples_of(tokenizer: Any) -> Samples:
    """Training samples for a tokenizer, as the package makes them."""
    return Samples(ChatEncoder(tokenizer))

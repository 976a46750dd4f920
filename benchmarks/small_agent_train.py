"""Training the small agent: a llama from scratch, on tries of exported rows, for so many minutes of CPU time.

Loss is on replies only. The result is an ordinary Hugging Face folder (safetensors, tokenizer, chat template). This
module knows no environment and no mechanism.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from small_agent_data import Forest, Row, Trie, pack

__all__ = ["Recipe", "accuracy", "load", "save", "train"]

_WARM_UP = 100
_SMALLEST = 0.05
_TURN_TOKENS = 3


@dataclass(frozen=True, slots=True)
class Recipe:
    """The model and its training.

    Args:
        width, layers, heads: of the llama; its MLP is 8/3 as wide.
        context: the most positions.
        cpu_seconds: of training, of all threads together: 1560 are 13 minutes on two cores that do nothing else.
        nodes: the most tokens of a trie.
        tries: tries a step.
        rate: the highest learning rate of AdamW; it warms up over 100 steps and falls to 5 % with a cosine.
        threads: of torch.
        turns: weight of each reply inside a prompt (an action of the history, seen without its instructions).
        language: weight of each other token of a prompt; 0 trains replies alone.
        seed: of weights and draws.
    """

    width: int = 128
    layers: int = 5
    heads: int = 4
    context: int = 1536
    cpu_seconds: float = 1560.0
    nodes: int = 1024
    tries: int = 2
    rate: float = 4e-3
    threads: int = 1
    turns: float = 0.3
    language: float = 0.0
    seed: int = 0


def made(recipe: Recipe, tokenizer: Any) -> Any:
    """The model with its first weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(recipe.seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=recipe.width,
            intermediate_size=8 * recipe.width // 3 // 32 * 32,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.heads,
            max_position_embeddings=recipe.context,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def losses(
    model: Any, tries: Sequence[Trie], *, turns: float = 0.0, language: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Per target its loss, whether it was the likeliest token, and its weight; first come those of the rows' replies.

    ``turns`` and ``language`` are the weights of a reply in the history, and of every token of the prompts.
    """
    width = max(len(trie.tokens) for trie in tries)
    ids = torch.zeros((len(tries), width), dtype=torch.long)
    depths = torch.zeros((len(tries), width), dtype=torch.long)
    seen = np.zeros((len(tries), 1, width, width), dtype=bool)
    rows: list[int] = []
    for i, trie in enumerate(tries):
        size = len(trie.tokens)
        ids[i, :size] = torch.tensor(trie.tokens)
        depths[i, :size] = torch.tensor(trie.depths)
        seen[i, 0, :size, :size] = trie.seen()
        rows += [i] * len(trie.places)
    every = np.arange(width)
    seen[:, 0, every, every] = True
    dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~torch.from_numpy(seen), torch.finfo(dtype).min)
    hidden = model.model(input_ids=ids, attention_mask=mask, position_ids=depths, use_cache=False).last_hidden_state
    places = [place for trie in tries for place in trie.places]
    chosen = [target for trie in tries for target in trie.targets]
    counts = [weight for trie in tries for weight in trie.weights]
    for i, trie in enumerate(tries if turns else ()):
        rows += [i] * len(trie.turns)
        places += [place for place, _ in trie.turns]
        chosen += [target for _, target in trie.turns]
        counts += [turns / _TURN_TOKENS] * len(trie.turns)
    for i, trie in enumerate(tries if language else ()):
        edges = [(parent, node) for node, parent in enumerate(trie.parents) if parent >= 0]
        rows += [i] * len(edges)
        places += [parent for parent, _ in edges]
        chosen += [trie.tokens[node] for _, node in edges]
        counts += [language] * len(edges)
    logits = model.lm_head(hidden[torch.tensor(rows), torch.tensor(places)]).float()
    targets, weights = torch.tensor(chosen), torch.tensor(counts)
    return F.cross_entropy(logits, targets, reduction="none"), logits.argmax(-1) == targets, weights


def train(
    forest: Forest, tokenizer: Any, recipe: Recipe, *, start: Any = None, tell: Callable[[str], None] = print
) -> tuple[Any, dict[str, Any]]:
    """The trained model, and figures of its training.

    Args:
        start: a model to go on with; None is a new one.
        tell: takes a line now and then.
    """
    torch.set_num_threads(recipe.threads)
    model = made(recipe, tokenizer) if start is None else start
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.05)
    rng, steps, tokens, replies, told = random.Random(recipe.seed), 0, 0, 0, 0.0
    began, spent = time.perf_counter(), time.process_time()
    recent: list[tuple[float, float]] = []
    while (passed := time.process_time() - spent) < recipe.cpu_seconds:
        done = passed / recipe.cpu_seconds
        falling = _SMALLEST + (1 - _SMALLEST) * 0.5 * (1 + math.cos(math.pi * done))
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate * min(1.0, (steps + 1) / _WARM_UP) * falling
        tries = forest.draw(recipe.tries, nodes=recipe.nodes, rng=rng)
        with torch.autocast("cpu", torch.bfloat16):
            each, right, weights = losses(model, tries, turns=recipe.turns, language=recipe.language)
        loss = (each * weights).sum() / weights.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps += 1
        tokens += sum(len(trie.tokens) for trie in tries)
        replies += sum(trie.rows for trie in tries)
        own = sum(len(trie.targets) for trie in tries)
        hits = float((right * weights)[:own].sum() / weights[:own].sum())
        recent = [*recent[-49:], (float(loss.detach()), hits)]
        if passed - told >= 30:
            told = passed
            means = [sum(values) / len(recent) for values in zip(*recent, strict=True)]
            rate = f"{steps} steps, {tokens / passed:.0f} tokens/s"
            tell(f"{passed:.0f} CPU s, {rate}, loss {means[0]:.3f}, right {means[1]:.3f}")
    model.eval()
    parameters = sum(weight.numel() for weight in model.parameters())
    seconds = time.perf_counter() - began
    return model, {
        "parameters": parameters,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(time.process_time() - spent, 1),
        "threads": recipe.threads,
        "steps": steps,
        "tokens": tokens,
        "replies": replies,
        "loss": round(recent[-1][0], 4) if recent else None,
    }


def accuracy(model: Any, episodes: Sequence[Sequence[Row]], *, nodes: int) -> dict[str, tuple[float, int]]:
    """By role and part (of the agent's rows: before and after a failure) the share of replies whose every token is
    the likeliest, and how many there are. One trie an episode."""
    right: dict[str, list[int]] = {}
    rng = random.Random(0)
    with torch.inference_mode():
        for rows in episodes:
            kinds: dict[str, list[Row]] = {}
            for row in rows:
                name = (
                    f"{row.role} {'after' if row.recovered else 'before'}"
                    if row.role == "act"
                    else f"{row.role} {row.part}"
                )
                kinds.setdefault(name, []).append(row)
            for name, some in kinds.items():
                trie = pack(some, nodes=nodes, rng=rng)
                if trie is None:
                    continue
                _, hits, _ = losses(model, [trie])
                found = hits.tolist()
                at = 0
                for length in trie.lengths:
                    right.setdefault(name, []).append(all(found[at : at + length]))
                    at += length
    return {name: (sum(values) / len(values), len(values)) for name, values in sorted(right.items())}


def load(folder: Path) -> tuple[Any, Any]:
    """Tokenizer and model of such a folder, to go on with."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    return tokenizer, AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False, use_safetensors=True)


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """An ordinary folder that ``--model`` takes."""
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)

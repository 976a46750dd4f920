"""What one card does, in under five minutes and without a download.

    python benchmarks/gpu_check.py [--quick] [--json PATH]

A llama of about 1.1 B random parameters (its speed is that of a trained one) and a byte-level tokenizer are made on the
spot. Rows of ``decode``: dtype, batch, tokens_per_s of 64 greedy tokens after 256. Rows of ``reuse``: dtype, reuse,
seconds of 30 choices in an episode that grows by 60 tokens a step and goes back four times. ``--quick`` takes a tiny
model and runs anywhere; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
LARGE = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32}
BATCHES = (1, 2, 4, 8, 16, 32, 64)


def main() -> None:
    """Measure, print, and write JSON where asked; exit status 2 without a card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny model, on the CPU too")
    parser.add_argument("--json", type=Path, help="write the result there")
    arguments = parser.parse_args()
    import torch

    if not torch.cuda.is_available() and not arguments.quick:
        print("no CUDA device: nothing was measured", file=sys.stderr)
        sys.exit(2)
    start = time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batches = BATCHES[:2] if arguments.quick else BATCHES
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "quick": arguments.quick,
        "decode": [],
        "reuse": [],
    }
    for dtype in ("bfloat16", "float32"):
        network, tokenizer = random_llama(SMALL if arguments.quick else LARGE, dtype, device)
        result["parameters"] = sum(weight.numel() for weight in network.parameters())
        result["decode"] += [decode(network, tokenizer, dtype, batch) for batch in batches]
        result["reuse"] += [grow_and_go_back(network, tokenizer, dtype, limit) for limit in (None, 0)]
        del network
    result["seconds"] = time.perf_counter() - start
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def random_llama(shape: dict[str, int], dtype: str, device: str) -> tuple[Any, Any]:
    """A llama with random weights and a byte-level tokenizer with a chat template."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    specials = ["<s>", "<|turn|>", "<|end|>"]
    backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate([*specials, *alphabet])}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="<|end|>", additional_special_tokens=["<|turn|>"]
    )
    tokenizer.chat_template = (
        "{% for m in messages %}{{ '<|turn|>' + m.role + '\\n' + m.content + '<|end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|turn|>assistant\\n' }}{% endif %}"
    )
    config = transformers.LlamaConfig(
        **shape,
        num_key_value_heads=4,
        vocab_size=32_000,
        max_position_embeddings=16_384,
        bos_token_id=0,
        eos_token_id=2,
    )
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(0)
        network = transformers.LlamaForCausalLM(config).to(getattr(torch, dtype)).eval()
    return network, tokenizer


def decode(network: Any, tokenizer: Any, dtype: str, batch: int) -> dict[str, Any]:
    """Greedy tokens a second of one batch."""
    from rir_gym.base import Message
    from rir_policies.hf import HFModel
    from rir_policies.model import Prompt

    model = HFModel(network, tokenizer, name="random", deterministic=False, batch_size=batch, prefix_bytes=0)
    prompts = [Prompt((Message("user", f"{i:03} " * 64),), max_new_tokens=64) for i in range(batch)]
    model.generate(prompts)
    start = time.perf_counter()
    replies = model.generate(prompts)
    seconds = time.perf_counter() - start
    tokens = sum(reply.generated_tokens for reply in replies)
    return {"dtype": dtype, "batch": batch, "tokens_per_s": tokens / seconds, "seconds": seconds}


def grow_and_go_back(network: Any, tokenizer: Any, dtype: str, limit: int | None) -> dict[str, Any]:
    """Thirty choices of one episode, four rollbacks among them."""
    from rir_gym.base import Message
    from rir_policies.hf import HFModel
    from rir_policies.model import Prompt

    model = HFModel(network, tokenizer, name="random", prefix_bytes=limit)
    model.network.packs  # noqa: B018  tried out before the clock runs
    options = [f"{verb} {thing}" for verb in ("take", "open", "close") for thing in ("lamp", "door", "box", "key")]
    rng = random.Random(0)
    history: list[Message] = [Message("user", "begin " * 30)]
    computed = 0
    start = time.perf_counter()
    for turn in range(30):
        if turn % 7 == 6:
            history = history[: rng.randrange(1, len(history), 2)]
        (choice,) = model.choose([Prompt(tuple(history), episode=1)], [options])
        computed += choice.prompt_tokens - choice.reused_tokens
        said = Message("assistant", options[choice.index])
        history += [said, Message("user", f"step {turn}: " + "you see it " * 4)]
    seconds = time.perf_counter() - start
    return {"dtype": dtype, "reuse": limit is None, "seconds": seconds, "prefilled_tokens": computed}


if __name__ == "__main__":
    main()

"""Tiny random models of several families, and a byte-level tokenizer: exact arithmetic without a download."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from rir_policies.hf import HFModel

SPECIALS = ["<s>", "<|im_start|>", "<|im_end|>"]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def tiny_tokenizer(template: str | None = CHATML) -> Any:
    """Byte level, 259 ids, no pad token."""
    vocab = {token: i for i, token in enumerate([*SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="<|im_end|>", additional_special_tokens=["<|im_start|>"]
    )
    tokenizer.chat_template = template
    return tokenizer


def tiny_network(family: str = "llama", *, context: int = 256) -> Any:
    """Two layers of random weights, large enough that the distribution is not flat."""
    shape: dict[str, Any] = {
        "vocab_size": 259,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "max_position_embeddings": context,
        "initializer_range": 0.6,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": None,
    }
    recurrent = {"num_heads": 4, "head_dim": 16, "state_size": 8, "n_groups": 1, "expand": 2, "chunk_size": 8}
    mixed = {f"mamba_{name}": value for name, value in {"d_ssm": 64, "n_heads": 4, "d_head": 16, "d_state": 8}.items()}
    windows = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "llama": ("Llama", {}),
        "qwen3": ("Qwen3", {}),
        "gemma3": ("Gemma3Text", {**windows, "query_pre_attn_scalar": 16}),
        "mistral": ("Mistral", {"sliding_window": 16}),
        "lfm2": ("Lfm2", {"layer_types": ["conv", "full_attention"], "initializer_range": 0.3}),
        "mamba2": ("Mamba2", recurrent),
        "falcon_h1": ("FalconH1", {**mixed, "mamba_chunk_size": 8}),
    }
    name, own = kinds[family]
    config = getattr(transformers, f"{name}Config")(**{**shape, **own})
    kind = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return kind(config).eval()


def tiny(family: str = "llama", *, template: str | None = CHATML, context: int = 256, **options: Any) -> HFModel:
    return HFModel(tiny_network(family, context=context), tiny_tokenizer(template), name=f"tiny-{family}", **options)

"""Fine-tunes a model with TRL on what an expert did, and says how much better it predicts what it never saw.

    python examples/trl_sft.py [--quick]                      # a tiny random model, on any machine
    python examples/trl_sft.py --model Qwen/Qwen3-0.6B        # a real one; a GPU is used where there is one

Needs `pip install "rir-gym[data,hf]" trl`. Whole tasks are held out, so the second figure is about new tasks.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from finetuning_data import play
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from trl import SFTConfig, SFTTrainer

from rir_gym.data.exports import Plan, Split, export
from rir_policies.prompts import load_prompts
from rir_policies.rendering import Renderer

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny() -> tuple[Any, Any]:
    """A random llama of two layers that reads bytes, and its tokenizer."""
    specials = ["<s>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {token: i for i, token in enumerate([*specials, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    ends = {"bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **ends)
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.LlamaConfig(vocab_size=len(vocabulary), max_position_embeddings=16384, **shape)
    return transformers.LlamaForCausalLM(config), tokenizer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="few episodes and steps, in seconds")
    parser.add_argument("--model", help="a folder or a hub name, instead of the tiny random model")
    parser.add_argument("--out", type=Path, help="a new folder for data and model")
    asked = parser.parse_args()
    out = asked.out or Path(tempfile.mkdtemp()) / "out"
    play(out / "records", 12 if asked.quick else 200)
    export("sft", out / "records", out / "sft", Plan(Renderer(load_prompts()), split=Split(0.2)))
    datasets.disable_progress_bars()
    rows = datasets.load_dataset(str(out / "sft"), cache_dir=str(out / "cache"))
    held_out = rows["test"].select(range(min(len(rows["test"]), 4 if asked.quick else 64)))

    model, tokenizer = tiny() if asked.model is None else (asked.model, None)
    settings = SFTConfig(
        output_dir=str(out / "run"),
        max_length=None,  # its default of 1,024 tokens cuts longer rows
        max_steps=4 if asked.quick else 200,
        per_device_train_batch_size=2,
        per_device_eval_batch_size=2,
        learning_rate=3e-3 if asked.model is None else 2e-5,
        bf16=torch.cuda.is_available(),
        use_cpu=not torch.cuda.is_available(),
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
        seed=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of TRL and torch, about settings that are theirs
        trainer = SFTTrainer(
            model=model, args=settings, train_dataset=rows["train"], eval_dataset=held_out, processing_class=tokenizer
        )
        before = trainer.evaluate()["eval_loss"]
        trainer.train()
        after = trainer.evaluate()["eval_loss"]
    print(f"{len(rows['train'])} rows to train on, {len(held_out)} held out")
    print(f"loss on held-out tasks: {before:.3f} before, {after:.3f} after {settings.max_steps} steps")
    trainer.save_model(str(out / "model"))
    trainer.processing_class.save_pretrained(str(out / "model"))
    print(f"play it: rir-gym run --model {out / 'model'} --mechanism rir --out runs/tuned")


if __name__ == "__main__":
    main()

"""Reading weights: a folder with safetensors, a GGUF file, or a name on the hub. Code and pickles are never run.

This module knows files, devices and number formats, and nothing of prompts.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import torch
import transformers

from rir_gym.errors import ModelError, UsageError
from rir_policies.hf.model import HFModel
from rir_policies.weights import find_weights, why_not

__all__ = ["load"]

_DTYPES = ("auto", "float32", "bfloat16", "float16")


def load(
    name_or_path: str | Path,
    *,
    device: str = "auto",
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
    deterministic: bool = True,
    batch_size: int = 8,
    prefix_bytes: int | None = None,
) -> HFModel:
    """Load a model: a folder with safetensors, a ``.gguf`` file or a folder with exactly one, else a name on the hub.

    A GGUF file is dequantized on each load. Code that comes with a model is never run, pickled weights are never read.

    Args:
        name_or_path: also the ``name`` of the model in records (the name of the GGUF file, or of the folder).
        device: "auto" is the first CUDA device, or the CPU; else a torch device.
        dtype: "auto" is float32 on the CPU and bfloat16 elsewhere.
        deterministic: see ``HFModel``.
        batch_size: see ``HFModel``.
        prefix_bytes: see ``HFModel``.

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
    return HFModel(
        model,
        tokenizer,
        name=name,
        deterministic=deterministic,
        batch_size=batch_size,
        prefix_bytes=prefix_bytes,
    )


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

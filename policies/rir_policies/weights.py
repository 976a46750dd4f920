"""Where the weights of a local model lie, and which are refused. Knows file names only; imports no model library."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from rir_gym.errors import MissingDependency, ModelError

__all__ = ["find_weights", "why_not"]

_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def find_weights(name: str) -> tuple[str, dict[str, Any]]:
    """The folder or hub name that ``from_pretrained`` takes for ``name``, and the arguments it needs beside it.

    Raises:
        ModelError: nothing there, no weights, several GGUF files, pickled weights only.
        MissingDependency: a GGUF file without the ``gguf`` package.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return _folder(name, path)
    if path.is_file():
        if path.suffix != ".gguf":
            raise ModelError(f"model={name!r}: a file that is not .gguf; give the folder of a safetensors model")
        return _gguf(path)
    if path.suffix == ".gguf" or path.is_absolute() or name.startswith((".", "~")) or len(path.parts) != 2:
        raise ModelError(f"model={name!r}: no such file or folder; give one that exists, or owner/model of the hub")
    return name, {}


def why_not(source: str, error: Exception) -> str:
    """One line on why ``from_pretrained`` failed on what ``find_weights`` gave, with the remedy."""
    reason = (" ".join(str(error).split()) or type(error).__name__)[:200]
    if Path(source).exists():
        return f"cannot be loaded ({reason}); the folder must hold config, tokenizer and undamaged weights"
    return f"no such folder, and cannot be fetched from the hub ({reason}); give a local folder or a .gguf file"


def _folder(name: str, path: Path) -> tuple[str, dict[str, Any]]:
    files = sorted(file for file in path.iterdir() if file.is_file())
    if any(file.suffix == ".safetensors" for file in files):
        return str(path), {}
    gguf = [file for file in files if file.suffix == ".gguf"]
    if len(gguf) == 1:
        return _gguf(gguf[0])
    if gguf:
        raise ModelError(f"model={name!r}: {len(gguf)} .gguf files; give the path of one, such as {gguf[0].name}")
    if any(file.suffix in _PICKLES for file in files):
        raise ModelError(
            f"model={name!r}: pickled weights only, which are never read; convert them to safetensors "
            "(save_pretrained does) or give a .gguf"
        )
    raise ModelError(f"model={name!r}: no weights in this folder; it needs *.safetensors or one *.gguf")


def _gguf(file: Path) -> tuple[str, dict[str, Any]]:
    if any(importlib.util.find_spec(needed) is None for needed in ("gguf", "accelerate")):
        raise MissingDependency("a .gguf model", "hf")
    return str(file.parent), {"gguf_file": file.name}

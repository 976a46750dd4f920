"""LoRA adapters on one base model: loaded once, switched before each forward pass, so that each role may have its own.

Adapters are safetensors (``adapter_config.json`` and ``adapter_model.safetensors`` of ``peft``, extra "lora"); pickled
ones are never read. This module knows no tokenizer and no role.
"""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rir_gym.errors import MissingDependency, ModelError

__all__ = ["Adapters"]

_WEIGHTS = "adapter_model.safetensors"


@dataclass(slots=True)
class Adapters:
    """The adapters of one base model, and which of them is switched on; None is the base model alone."""

    base: Any
    tuner: Any = None
    active: str | None = None

    def add(self, folder: Path) -> str:
        """Load one, and give the name under which it is used.

        Raises:
            ModelError: no adapter there, a pickled one, or one that does not fit the base model.
            MissingDependency: ``peft`` is not installed.
        """
        if importlib.util.find_spec("peft") is None:
            raise MissingDependency("a LoRA adapter", "lora")
        import peft

        if not (folder / "adapter_config.json").is_file() or not (folder / _WEIGHTS).is_file():
            raise ModelError(f"adapter={str(folder)!r}: a folder with adapter_config.json and {_WEIGHTS} is required")
        name = f"adapter{0 if self.tuner is None else len(self.tuner.peft_config)}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if self.tuner is None:
                    self.tuner = peft.PeftModel.from_pretrained(self.base, str(folder), adapter_name=name)
                else:
                    self.tuner.load_adapter(str(folder), adapter_name=name)
        except Exception as error:  # the library raises what it likes on an adapter of another model
            raise ModelError(f"adapter={str(folder)!r}: does not fit ({' '.join(str(error).split())[:200]})") from error
        self.base.eval()
        self.active = name
        self.use(None)
        return name

    def use(self, name: str | None) -> None:
        """Switch to an adapter, or to the base model alone."""
        if name == self.active:
            return
        tuned = self.tuner.base_model
        if name is None:
            tuned.disable_adapter_layers()
        else:
            tuned.enable_adapter_layers()
            tuned.set_adapter(name)
        self.active = name

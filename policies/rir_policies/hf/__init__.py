"""Local Hugging Face models: safetensors, a GGUF file, or a name on the hub. The only package here that imports torch.

``load`` makes an ``HFModel``. ``loading`` reads weights, ``network`` is the forward pass and what its family's cache
can do, ``stores`` keeps what was computed for prompts' beginnings, ``decoding`` generates, ``scoring`` chooses. Knows
nothing of roles and mechanisms.
"""

from __future__ import annotations

from rir_gym.errors import MissingDependency

try:
    import torch  # noqa: F401
    import transformers  # noqa: F401
except ImportError as error:
    raise MissingDependency("a local model", "hf") from error

from rir_policies.hf.loading import load
from rir_policies.hf.model import HFModel

__all__ = ["HFModel", "load"]

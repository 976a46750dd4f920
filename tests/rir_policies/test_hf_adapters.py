"""LoRA adapters: each role may have its own, on weights that are loaded once."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("peft", reason="LoRA adapters need the extra lora")

import peft
import torch
from tiny_models import tiny, tiny_network

from rir_gym.base import Message
from rir_gym.errors import MissingDependency, ModelError
from rir_policies.model import Prompt

PROMPT = Prompt((Message("user", "look around"),), max_new_tokens=8, episode=1)
OPTIONS = ["go north", "go", "take the lamp"]


def saved(folder: Path, seed: int, *, targets: tuple[str, ...] = ("q_proj", "v_proj")) -> Path:
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        config = peft.LoraConfig(r=4, lora_alpha=32, target_modules=list(targets), init_lora_weights=False)
        peft.get_peft_model(tiny_network(), config).save_pretrained(folder)
    return folder


def test_each_adapter_speaks_for_itself_and_the_base_stays(tmp_path: Path) -> None:
    base = tiny()
    before = base.choose([PROMPT], [OPTIONS])[0].scores
    first = base.with_adapter(saved(tmp_path / "reviewer", 1))
    second = base.with_adapter(saved(tmp_path / "actor", 2), name="actor")
    assert (first.name, second.name) == ("tiny-llama+reviewer", "actor")
    scores = [model.choose([PROMPT], [OPTIONS])[0].scores for model in (first, second, base, second, first)]
    assert scores[2] == pytest.approx(before, abs=1e-5)
    assert scores[0] == pytest.approx(scores[4], abs=1e-5)
    assert scores[1] == pytest.approx(scores[3], abs=1e-5)
    assert max(abs(a - b) for a, b in zip(scores[0], scores[1], strict=True)) > 1e-2
    assert max(abs(a - b) for a, b in zip(scores[0], before, strict=True)) > 1e-2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        merged = peft.PeftModel.from_pretrained(tiny_network(), str(tmp_path / "reviewer")).merge_and_unload()
    ids = torch.tensor([base.encode(PROMPT.messages)])
    with torch.inference_mode():
        wanted = torch.log_softmax(merged(input_ids=ids).logits[0, -1].float(), -1)
        got, _ = first.network.forward(ids)
    assert torch.allclose(got[0, -1], wanted, atol=1e-4)


def test_what_is_no_adapter_is_refused_and_the_base_still_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tiny()
    before = base.choose([PROMPT], [OPTIONS])[0].scores
    with pytest.raises(ModelError, match=r"adapter_model\.safetensors is required"):
        base.with_adapter(tmp_path / "nothing")
    pickled = saved(tmp_path / "pickled", 1)
    (pickled / "adapter_model.safetensors").rename(pickled / "adapter_model.bin")
    with pytest.raises(ModelError, match=r"adapter_model\.safetensors is required"):
        base.with_adapter(pickled)
    other = saved(tmp_path / "other", 1)
    text = (other / "adapter_config.json").read_text().replace("q_proj", "no_such_layer").replace("v_proj", "nor_this")
    (other / "adapter_config.json").write_text(text)
    with pytest.raises(ModelError, match="does not fit"):
        base.with_adapter(other)
    assert base.choose([PROMPT], [OPTIONS])[0].scores == pytest.approx(before, abs=1e-5)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"rir-gym\[lora\]"):
        base.with_adapter(other)

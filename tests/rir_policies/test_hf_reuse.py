"""What a model computed before: reused exactly, or not at all, in every family."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from tiny_models import tiny, tiny_network, tiny_tokenizer

from rir_gym.base import Message
from rir_gym.errors import ModelError, UsageError
from rir_policies.hf import HFModel
from rir_policies.hf.decoding import prefill
from rir_policies.hf.network import Network
from rir_policies.hf.stores import store_for
from rir_policies.model import Prompt

FAMILIES = {
    "llama": "sliced",
    "qwen3": "sliced",
    "gemma3": "sliced",
    "mistral": "sliced",
    "lfm2": "copied",
    "mamba2": "copied",
    "falcon_h1": "copied",
}


def network(family: str) -> Network:
    return Network(tiny_network(family), name=family)


@pytest.mark.parametrize(("family", "kind"), FAMILIES.items())
def test_what_a_family_can_do_is_found_out(family: str, kind: str) -> None:
    assert network(family).family == kind


@pytest.mark.parametrize("family", FAMILIES)
def test_after_a_rollback_the_numbers_are_those_of_a_fresh_run(family: str) -> None:
    """Histories that grow, go back to an earlier point and grow another way; past every window."""
    net = network(family)
    store = store_for(net, 10**9)
    rng = random.Random(1)
    history = [rng.randrange(259) for _ in range(20)]
    seen: set[tuple[int, ...]] = set()
    computed = 0
    with torch.inference_mode():
        for turn in range(24):
            if turn % 6 == 5:
                history = history[: rng.randrange(10, len(history))]
            else:
                history += [rng.randrange(259) for _ in range(rng.randrange(1, 9))]
            tail = [rng.randrange(259) for _ in range(5)]
            prompt = history + tail
            got, _, begun = prefill(net, store, [prompt], marks=[[len(history)]])
            want, _ = net.forward(torch.tensor([prompt]))
            assert torch.allclose(got[0, -1], want[0, -1], atol=1e-4)
            computed += len(prompt) - begun.lengths[0]
            seen.update(tuple(prompt[:n]) for n in range(1, len(prompt) + 1))
    assert len(history) > 40
    least = len(seen)
    assert least <= computed <= (1.15 * least if net.family == "sliced" else 1.6 * least)


@pytest.mark.parametrize("family", ["llama", "gemma3", "mistral"])
def test_a_batch_with_beginnings_of_its_own_is_exact(family: str) -> None:
    net = network(family)
    store = store_for(net, 10**9)
    rng = random.Random(2)
    base = [rng.randrange(259) for _ in range(30)]
    with torch.inference_mode():
        for _ in range(4):
            rows = [
                base[: rng.randrange(1, 30)] + [rng.randrange(259) for _ in range(rng.randrange(1, 12))]
                for _ in range(5)
            ]
            got, _, begun = prefill(net, store, rows, marks=[[]] * 5)
            for row, log_probs in zip(rows, got, strict=True):
                assert torch.allclose(log_probs[-1], net.forward(torch.tensor([row]))[0][0, -1], atol=1e-4)
    assert sum(begun.lengths) > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_replies_and_choices_do_not_depend_on_what_was_kept(family: str) -> None:
    prompts = [
        Prompt((Message("system", "rules"), Message("user", "look " * n + end)), max_new_tokens=6, episode=1)
        for n, end in ((1, "a"), (4, "b"), (9, "c"), (4, "d"), (4, "b"))
    ]
    options = ["go north", "go", "take the lamp", "x"]
    keeping, plain = tiny(family), tiny(family, prefix_bytes=0)
    reused = 0
    for prompt in prompts:
        (ours,), (theirs,) = keeping.generate([prompt]), plain.generate([prompt])
        assert (ours.text, ours.token_ids) == (theirs.text, theirs.token_ids)
        (chosen,), (wanted,) = keeping.choose([prompt], [options]), plain.choose([prompt], [options])
        assert chosen.index == wanted.index
        assert list(chosen.scores) == pytest.approx(list(wanted.scores), abs=1e-4)
        assert theirs.reused_tokens == wanted.reused_tokens == 0
        reused += ours.reused_tokens + chosen.reused_tokens
    assert reused > 0
    assert plain.kept_bytes == 0 < keeping.kept_bytes


def test_in_deterministic_mode_an_episode_shares_nothing_with_another() -> None:
    def prompt(text: str, episode: int) -> Prompt:
        return Prompt((Message("user", text),), max_new_tokens=4, episode=episode)

    alone, among = tiny(), tiny()
    texts = ["look around here", "look around here and there", "look around"]
    single = [alone.generate([prompt(text, 1)])[0] for text in texts]
    mixed = []
    for text in texts:
        among.generate([prompt(text + "!", 2), prompt(text, 3)])
        mixed += among.generate([prompt(text, 7)])
        among.generate([prompt(text, 0)])
    assert mixed == single  # to the last bit
    assert [reply.reused_tokens for reply in mixed][1] > 0
    assert among.generate([prompt(texts[0], 0)])[0].reused_tokens == 0


def test_the_memory_for_what_is_kept_is_bounded() -> None:
    model = tiny(prefix_bytes=60_000, deterministic=False)
    for n in range(40):
        model.generate([Prompt((Message("user", f"{n} " * 20),), max_new_tokens=2)])
        assert model.kept_bytes <= 60_000
    model.forget()
    assert model.kept_bytes == 0
    with pytest.raises(UsageError, match="prefix_bytes=-1: at least 0"):
        tiny(prefix_bytes=-1)


def test_where_memory_runs_out_the_batch_is_halved_and_the_limit_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(deterministic=False, prefix_bytes=0)
    prompts = [Prompt((Message("user", "look " * n),), max_new_tokens=4) for n in (3, 4, 5, 6, 7, 8)]
    wanted = model.generate(prompts)
    sizes: list[int] = []
    forward = model.network.forward

    def small(ids: Any, **options: Any) -> Any:
        sizes.append(len(ids))
        if len(ids) > 2:
            raise torch.cuda.OutOfMemoryError("simulated")
        return forward(ids, **options)

    monkeypatch.setattr(model.network, "forward", small)
    assert [reply.text for reply in model.generate(prompts)] == [reply.text for reply in wanted]
    assert max(sizes) > 2
    sizes.clear()
    assert [reply.text for reply in model.generate(prompts)] == [reply.text for reply in wanted]
    assert max(sizes) <= 3  # not tried as a whole again

    def none(ids: Any, **options: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("simulated")

    monkeypatch.setattr(model.network, "forward", none)
    with pytest.raises(ModelError, match="out of memory on one request"):
        model.generate(prompts)


def test_a_family_whose_cache_lies_is_not_trusted() -> None:
    """A cache that loses half of its values whenever it is taken up again is exact neither in slices nor in copies."""

    def lie(_: Any, args: Any, kwargs: Any) -> None:
        cache = kwargs.get("cache") or kwargs.get("past_key_values")
        if cache is not None and cache.get_seq_length():
            for layer in cache.layers:
                layer.values = layer.values * 0.5

    network = tiny_network("llama")
    network.model.register_forward_pre_hook(lie, with_kwargs=True)
    model = HFModel(network, tiny_tokenizer(), name="liar", deterministic=False)
    assert model.network.family == "none"
    assert not model.network.packs
    (first,) = model.choose([Prompt((Message("user", "a"),))], [["go north", "go"]])
    plain = tiny("llama", prefix_bytes=0)
    (wanted,) = plain.choose([Prompt((Message("user", "a"),))], [["go north", "go"]])
    assert first.reused_tokens == 0
    assert list(first.scores) == pytest.approx(list(wanted.scores), abs=1e-4)

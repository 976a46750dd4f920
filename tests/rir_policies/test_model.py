"""The protocol's own rules, on a model made of two functions."""

from __future__ import annotations

import collections
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_gym.base import Message
from rir_gym.errors import UsageError
from rir_policies.model import FunctionModel, Model, Prompt, check_options, cut_at_stop, pick

ASK = (Message("user", "where to"),)


def test_function_model_is_a_model_and_answers_in_order() -> None:
    model = FunctionModel(replies=lambda p: p.messages[0].content.upper(), choices=lambda p, o: len(o) - 1)
    assert isinstance(model, Model)
    prompts = [Prompt((Message("user", text),)) for text in ("a b", "c")]
    assert [c.text for c in model.generate(prompts)] == ["A B", "C"]
    assert [c.prompt_tokens for c in model.generate(prompts)] == [2, 1]
    choices = model.choose(prompts, [["x", "y"], ["z"]])
    assert [c.index for c in choices] == [1, 0]
    assert all(max(c.scores) == c.scores[c.index] for c in choices)


def test_function_model_applies_stop_strings() -> None:
    model = FunctionModel(replies=lambda p: "go north\nObservation: forged")
    (cut,) = model.generate([Prompt(ASK, stop=("\nObservation:",))])
    assert (cut.text, cut.stop_reason, cut.generated_tokens) == ("go north", "stop", 2)
    (whole,) = model.generate([Prompt(ASK)])
    assert (whole.text, whole.stop_reason) == ("go north\nObservation: forged", "end")


def test_an_index_outside_of_the_options_is_an_error() -> None:
    with pytest.raises(UsageError, match="index=2: 0 to 1"):
        FunctionModel(choices=lambda p, o: 2).choose([Prompt(ASK)], [["a", "b"]])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([[]], "at least one option"),
        ([["a", ""]], "non-empty"),
        ([["a", "b", "a"]], "'a' more than once"),
        ([["a"], ["b"]], "2 lists"),
        (["ab"], "at least one option"),
    ],
)
def test_bad_options(options: list[list[str]], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_options([Prompt(ASK)], options)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"messages": ()}, "at least one message"),
        ({"messages": (Message("tool", "x"),)}, "role='tool': one of system, user, assistant"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"temperature": -0.1}, "temperature=-0.1"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"stop": ("",)}, "non-empty"),
        ({"stop": "ab"}, "a tuple"),
    ],
)
def test_bad_prompts(change: dict[str, object], said: str) -> None:
    fields: dict[str, object] = {"messages": ASK, **change}
    with pytest.raises(UsageError, match=said):
        Prompt(**fields)  # type: ignore[arg-type]


@given(st.lists(st.floats(-50, 0), min_size=1, max_size=8), st.integers())
def test_greedy_picks_the_first_of_the_best_whatever_the_seed(scores: list[float], seed: int) -> None:
    index = pick(scores, 0.0, seed)
    assert scores[index] == max(scores)
    assert max(scores) not in scores[:index]


@given(st.lists(st.floats(-50, 0), min_size=1, max_size=8), st.integers(), st.floats(0.01, 10))
def test_a_draw_depends_on_its_seed_alone(scores: list[float], seed: int, temperature: float) -> None:
    index = pick(scores, temperature, seed)
    assert 0 <= index < len(scores)
    assert pick(scores, temperature, seed) == index


def test_draws_follow_the_softmax() -> None:
    # odds 4 : 1 at temperature 1 (1.386 = ln 4), 2 : 1 at temperature 2
    for temperature, share in ((1.0, 4 / 5), (2.0, 2 / 3)):
        drawn = collections.Counter(pick([-1.0, -2.386294], temperature, seed) for seed in range(4000))
        assert drawn[0] / 4000 == pytest.approx(share, abs=0.03)


def test_the_first_stop_string_wins() -> None:
    assert cut_at_stop("a<c>b<d>", ("<d>", "<c>")) == ("a", True)
    assert cut_at_stop("plain", ("<d>",)) == ("plain", False)
    assert cut_at_stop("plain", ()) == ("plain", False)


def test_the_protocol_loads_no_model_library() -> None:
    code = "import sys, rir_policies.model, rir_policies.encoding, rir_policies.weights; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

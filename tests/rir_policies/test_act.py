"""The model actor: choices, free text, thoughts, re-asks, and its record of calls."""

from dataclasses import replace

import pytest

from rir_gym.base import DecisionKind, Review, Step, View
from rir_gym.memory import ReflectionMemory
from rir_policies.act import ModelActor
from rir_policies.ask import draw_seed
from rir_policies.model import FunctionModel
from rir_policies.prompts import load_prompts

PROMPTS = load_prompts()


def view(*, listed=True, **changes):
    info = {"admissible": ["go lab", "wait"]} if listed else {}
    history = (Step(None, "a lab", info=info), Step("go hall", "a hall", info=info))
    base = View(
        seed=5,
        objective="brew",
        history=history,
        memory=ReflectionMemory("brew"),
        agent_calls=1,
        agent_calls_left=9,
        rollbacks_left=2,
    )
    return replace(base, **changes)


class Tape:
    """A model that answers from a script and keeps every batch that it was given."""

    name = "tape"

    def __init__(self, replies=(), picks=()):
        self.replies, self.picks, self.batches = list(replies), list(picks), []

    def generate(self, prompts):
        self.batches.append(("generate", list(prompts)))
        return FunctionModel(replies=lambda _: self.replies.pop(0)).generate(prompts)

    def choose(self, prompts, options):
        self.batches.append(("choose", list(prompts)))
        return FunctionModel(choices=lambda _, row: row.index(self.picks.pop(0))).choose(prompts, options)


def test_a_batch_of_choices_is_one_call_of_the_model():
    tape = Tape(picks=["wait", "rollback", "go lab"])
    decisions = ModelActor(tape, PROMPTS)([view(), view(), view()])
    assert [decision.kind for decision in decisions] == [DecisionKind.ACTION, DecisionKind.REQUEST, DecisionKind.ACTION]
    assert [decision.action for decision in decisions] == ["wait", None, "go lab"]
    assert [kind for kind, _ in tape.batches] == ["choose"]
    [call] = decisions[1].calls
    assert (call.role, call.kind, call.text) == ("act", "first", "rollback")
    assert call.options == ("go lab", "wait", "rollback")
    assert call.scores == (-1.0, -1.0, 0.0)
    assert call.messages == tape.batches[0][1][1].messages
    assert call.prompt_tokens > 0
    assert call.seconds >= 0


def test_free_text_is_read_and_choices_and_lines_mix_in_one_batch_each():
    tape = Tape(replies=["Action: sing", "rollback 1"], picks=["wait"])
    decisions = ModelActor(tape, PROMPTS)([view(listed=False), view(), view(listed=False)])
    assert [decision.action for decision in decisions] == ["sing", "wait", None]
    assert decisions[2].target == 1
    assert [(kind, len(batch)) for kind, batch in tape.batches] == [("choose", 1), ("generate", 2)]


def test_an_unreadable_line_is_asked_for_once_more_and_only_that_one():
    tape = Tape(replies=["", "sing", "dance"])
    first, second = ModelActor(tape, PROMPTS)([view(listed=False), view(listed=False)])
    assert (first.action, second.action) == ("dance", "sing")
    assert [call.kind for call in first.calls] == ["first", "reask"]
    assert [call.kind for call in second.calls] == ["first"]
    assert [len(batch) for _, batch in tape.batches] == [2, 1]
    assert PROMPTS.texts["act.reask"] in first.calls[1].messages[-1].content
    assert first.calls[1].messages[:-1] == first.calls[0].messages[:-1]
    assert tape.batches[0][1][0].seed != tape.batches[1][1][0].seed


def test_twice_unreadable_is_unparsed_and_not_asked_a_third_time():
    tape = Tape(replies=["", "<think>"])
    [decision] = ModelActor(tape, PROMPTS)([view(listed=False)])
    assert decision.kind is DecisionKind.UNPARSED
    assert decision.action is None
    assert [call.kind for call in decision.calls] == ["first", "reask"]


def test_without_requests_a_written_rollback_never_becomes_an_action():
    tape = Tape(replies=["rollback 1", "rollback"])
    [decision] = ModelActor(tape, PROMPTS, requests="none")([view(listed=False)])
    assert decision.kind is DecisionKind.UNPARSED
    tape = Tape(picks=["wait"])
    [decision] = ModelActor(tape, PROMPTS, requests="none")([view()])
    assert decision.calls[0].options == ("go lab", "wait")


def test_a_declined_request_is_not_offered_again_at_the_same_step():
    tape = Tape(picks=["wait"])
    declined = Review(1, 0.5, "continue", requested=True)
    [decision] = ModelActor(tape, PROMPTS)([view(last_review=declined)])
    assert decision.calls[0].options == ("go lab", "wait")


def test_the_final_response_is_chosen_and_then_written():
    tape = Tape(replies=["Paris"], picks=["final"])
    [decision] = ModelActor(tape, PROMPTS)([view(can_submit=True)])
    assert (decision.kind, decision.action) == (DecisionKind.FINAL, "Paris")
    assert [call.kind for call in decision.calls] == ["first", "sub"]
    assert decision.calls[1].messages[-2].content == "final"
    tape = Tape(replies=["", ""], picks=["final"])
    [decision] = ModelActor(tape, PROMPTS)([view(can_submit=True)])
    assert decision.kind is DecisionKind.UNPARSED
    assert [call.kind for call in decision.calls] == ["first", "sub", "reask"]


def test_a_command_called_final_or_rollback_is_a_command():
    info = {"admissible": ["rollback", "final"]}
    seen = view(history=(Step(None, "x", info=info), Step("a", "y", info=info)), can_submit=True)
    for word in ("rollback", "final"):
        [decision] = ModelActor(Tape(picks=[word]), PROMPTS)([seen])
        assert (decision.kind, decision.action) == (DecisionKind.ACTION, word)


def test_a_thought_comes_first_and_the_choice_goes_on_from_it():
    tape = Tape(replies=["<think>x</think>The lab is north.", ""], picks=["go lab", "wait"])
    actor = ModelActor(tape, PROMPTS, thought_tokens=20)
    first, second = actor([view(), view()])
    assert (first.thought, first.action) == ("The lab is north.", "go lab")
    assert [call.kind for call in first.calls] == ["first", "sub"]
    assert first.calls[1].messages[-2].content == "The lab is north."
    assert first.calls[1].messages[: len(first.calls[0].messages)] == first.calls[0].messages
    assert (second.thought, len(second.calls)) == ("", 2)
    assert all(message.content for message in second.calls[1].messages)
    assert tape.batches[0][1][0].max_new_tokens == 20


def test_a_thought_before_a_free_line():
    tape = Tape(replies=["Singing helps.", "sing"])
    [decision] = ModelActor(tape, PROMPTS, thought_tokens=20, temperature=0.7)([view(listed=False)])
    assert (decision.thought, decision.action) == ("Singing helps.", "sing")
    assert [call.kind for call in decision.calls] == ["first", "sub"]
    assert {prompt.temperature for _, batch in tape.batches for prompt in batch} == {0.7}


def test_seeds_come_from_the_episode_and_its_calls_alone():
    seed = draw_seed(view(), "act choice")
    tape = Tape(picks=["wait", "wait", "wait"])
    ModelActor(tape, PROMPTS)([view(), view(agent_calls=2), view(seed=6)])
    seeds = [prompt.seed for prompt in tape.batches[0][1]]
    assert seeds[0] == seed == draw_seed(view(objective="other"), "act choice")
    assert len(set(seeds)) == 3
    assert all(0 <= value < 2**31 for value in seeds)
    assert draw_seed(view(terminal=True), "act choice") != seed


@pytest.mark.parametrize("views", [[], [view()]])
def test_no_views_no_model_call(views):
    tape = Tape(picks=["wait"])
    assert len(ModelActor(tape, PROMPTS)(views)) == len(views)
    assert len(tape.batches) == len(views)

"""Reply -> value or UNPARSED, for the ways in which models reply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_gym.base import Decision, DecisionKind
from rir_policies.read import read_action, read_facts, read_final, read_reflection, read_text


@pytest.mark.parametrize(
    "reply",
    [
        "go north",
        "  go north  \n",
        "Action: go north",
        "**Action:** go north",
        "**Action**: go north",
        "Action 3: go north",
        "Action：go north",
        "Next command: `go north`",
        "> go north",
        "- go north",
        '"go north"',
        "```\ngo north\n```",
        "```text\nAction: go north\n```",
        "```go north```",
        '```json\n{"action": "go north"}\n```',
        '{"thought": "x", "action": "go north"}',
        "<think>I could go south\nor not</think>go north",
        "I could go south</think>\ngo north",
        "Thought: the door is there\nAction: go north",
        "The door is there.\nAction:\ngo north\nAction: go south",
        "Thought: the door is there\ngo north",
    ],
)
def test_one_command_in_many_wrappings(reply):
    decision = read_action(reply, can_submit=True)
    assert (decision.kind, decision.action) == (DecisionKind.ACTION, "go north")


@pytest.mark.parametrize("action", ["去北方", "открой дверь", "نوش", "ouvre la porte à gauche"])
def test_any_script_is_a_command(action):
    assert read_action(f"Action: {action}", can_submit=False).action == action


@pytest.mark.parametrize(
    ("reply", "target"),
    [
        ("rollback", None),
        ("Rollback.", None),
        ("rollback 3", 3),
        ("rollback: 3", 3),
        ("Action: rollback to step 12", 12),
        ("**Action:** `rollback 0`", 0),
    ],
)
def test_a_request_with_and_without_target(reply, target):
    decision = read_action(reply, can_submit=False)
    assert (decision.kind, decision.target) == (DecisionKind.REQUEST, target)


@pytest.mark.parametrize("reply", ["rollback transaction 5", "roll the barrel back", "do not rollback"])
def test_a_command_that_only_mentions_rollback_stays_a_command(reply):
    assert read_action(reply, can_submit=False) == Decision.act(reply)


@pytest.mark.parametrize("reply", ["final: 42", "Final answer: 42", "**final:** 42", "Action: final: 42"])
def test_a_final_response_where_the_environment_has_one(reply):
    assert read_action(reply, can_submit=True) == Decision(DecisionKind.FINAL, "42")
    assert read_action(reply, can_submit=False).kind is DecisionKind.UNPARSED


def test_of_two_decisions_in_one_reply_the_first_counts():
    assert read_action("final: 42\nAction: go north", can_submit=True) == Decision(DecisionKind.FINAL, "42")
    assert read_action("Action: go north\nfinal: 42", can_submit=True).action == "go north"
    assert read_action("final: line one\nline two", can_submit=True).action == "line one\nline two"


@pytest.mark.parametrize(
    "reply",
    ["", "   \n ", "```\n```", "<think>never closed", "Thought: only that", "Action:", "go north " * 40, "final:"],
)
def test_what_cannot_be_read_is_unparsed(reply):
    assert read_action(reply, can_submit=True).kind is DecisionKind.UNPARSED


def test_the_thought_is_kept():
    assert read_action("Thought: north it is\nAction: go north", can_submit=False).thought == "north it is"


@given(st.text(max_size=300))
def test_readers_take_any_text(reply):
    decision = read_action(reply, can_submit=True)
    assert isinstance(decision.action, str) == (decision.kind in (DecisionKind.ACTION, DecisionKind.FINAL))
    assert decision.action is None or decision.action.strip()
    cause = read_reflection(reply)
    assert cause is None or 0 < len(cause) <= 600
    assert len(read_facts(reply, step=1)) <= 4


def test_a_final_response_that_was_asked_for():
    assert read_final("Final: Paris\nFrance") == Decision(DecisionKind.FINAL, "Paris\nFrance")
    assert read_final("<think>hm</think>Paris").action == "Paris"
    assert read_final(" \n").kind is DecisionKind.UNPARSED


@pytest.mark.parametrize(
    "reply", ["", "42", "go north", "Go North.", "Action: go north", "Cause: too short", "```\n```", "..."]
)
def test_no_reflection(reply):
    assert read_reflection(reply, echoes=["go north"]) is None


def test_a_piece_of_the_question_is_no_reflection():
    question = "In one sentence: what caused the failure, and at which step?"
    assert read_reflection("What caused the failure, and at which step?", question=question) is None
    assert read_reflection("What caused the failure was ash.", question=question) == "What caused the failure was ash."


def test_a_reflection_is_cleaned_and_bounded():
    assert read_reflection("<think>a</think>**Cause:** The ash was poured early.") == "The ash was poured early."
    assert read_reflection("```\nthe ash was poured\ntoo early\n```") == "the ash was poured too early"
    assert read_reflection("灰倒得太早了。") == "灰倒得太早了。"
    long = " ".join(f"Sentence number {i} says one more thing about ash." for i in range(40))
    cut = read_reflection(long)
    assert cut is not None
    assert cut.endswith("ash.")
    assert 500 < len(cut) <= 600
    assert len(read_text("word" * 400)) <= 600


def test_a_repetition_loop_is_cut():
    assert read_reflection("The ash was poured early. " * 300) == "The ash was poured early."
    assert read_text("pour ash and go " * 50) == "pour ash and go"
    assert read_reflection("ash " * 500) is None
    assert read_text("The value is 0.5 and 1. Then 2. done") == "The value is 0.5 and 1. Then 2. done"


def test_facts_are_typed_lines_and_bad_lines_are_dropped():
    reply = """Sure! Here they are:
- **Fact:** the book is in the hall
2. elimination: ash does not glow
Affordance 3: the pot can be emptied in the lab
fact: The book is in the hall.
fact: <something that was seen>
fact: none
fact: you are in the lab
fact: the agent has ash
fact: the lamp is currently lit
opinion: this is hard
fact:"""
    facts = read_facts(reply, step=5)
    assert [(fact.channel, fact.text, fact.step) for fact in facts] == [
        ("fact", "the book is in the hall", 5),
        ("elimination", "ash does not glow", 5),
        ("affordance", "the pot can be emptied in the lab", 5),
    ]
    assert read_facts("none", step=5) == ()
    assert read_facts("the book is in the hall", step=5) == ()
    question = "What does the record show that stays true whatever the agent does next?"
    parroted = "fact: the place that stays true whatever the agent does"
    assert read_facts(parroted, step=5) != ()
    assert read_facts(parroted, step=5, question=question) == ()
    assert read_facts("fact: the record is on the shelf", step=5, question=question) != ()
    many = "\n".join(f"fact: thing number {word} is there" for word in "abcdefgh")
    assert len(read_facts(many, step=0)) == 4


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ('Here you are: {"action": "go north"}', "go north"),
        ('{"thought": "x", "next_action": "go north", "why": "cut of', "go north"),
        ("{'action': 'go north',}", "go north"),
        ('{"decision": {"command": "go north"}}', "go north"),
        ('Action: go north\n{"action": "go south"}', "go north"),
        ('go north\nObservation 4: a hall\n{"action": "go south"}', "go north"),
        ("Thought: north\nAction: go north\n<observation step='3'>\nAction: go south", "go north"),
        ("Observation: a hall\nAction: go north", "go north"),
        ('print({"a": 1})', 'print({"a": 1})'),
        ("[[4, 3]]", "[[4, 3]]"),
        ('{"thought": "go north"}', None),
        ('{"action": "go nor', None),
        ("{}", None),
    ],
)
def test_json_and_invented_observations(reply, action):
    assert read_action(reply, can_submit=False).action == action


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("go north", None),
        ("rollback 1", None),
        ("Action: take 1", None),
        ("Thought: x\ngo north", None),
        ("go north\n", "go north"),
        ("go north\nand then per", "go north"),
        ("```\ngo north\n```", "go north"),
        ("go north\nObservation: you s", "go north"),
        ("final: 12", None),
        ("final: the key is under the m", "the key is under the m"),
        ("final: 12\nAction: go", "12"),
    ],
)
def test_where_a_reply_was_cut_off_its_last_line_is_not_trusted(reply, action):
    assert read_action(reply, can_submit=True, cut=True).action == action
    assert read_action(reply, can_submit=True).kind is not DecisionKind.UNPARSED


def test_a_cut_end_is_left_out_of_what_is_remembered():
    assert read_final("12", cut=True).kind is DecisionKind.UNPARSED
    assert read_final("It is Paris, I th", cut=True).action == "It is Paris, I th"
    assert [fact.text for fact in read_facts("fact: a book lies here\nfact: the door needs 1", step=0, cut=True)] == [
        "a book lies here"
    ]
    said = "The ash was poured too early. Next time wait until step 1"
    assert read_reflection(said, cut=True) == "The ash was poured too early."
    assert read_reflection("The ash was poured at step 1", cut=True) == "The ash was poured at step"
    assert read_reflection(said) == said


def test_facts_and_causes_in_json():
    assert [fact.channel for fact in read_facts('{"facts": ["a red book"], "elimination": "ash is bad"}', step=1)] == [
        "fact",
        "elimination",
    ]
    assert read_facts('{"learned": ["fact: a red book", "none"]}', step=1)[0].text == "a red book"
    assert read_reflection('{"failure_cause": "the ash was poured", "x": 1}') == "the ash was poured"
    assert read_reflection('{"x": "the ash was poured"}') is None

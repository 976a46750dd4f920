"""Rules are voted on, bounded, and read back from strict JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_gym.errors import UsageError
from rir_policies.expel import Experience, Recall, Rule, RuleBook, Rules, learn_rules, read_votes, voted
from rir_policies.model import FunctionModel
from rir_policies.prompts import load_prompts


@pytest.mark.parametrize(
    ("line", "vote"),
    [
        ("ADD: look first", ("ADD", None, "look first")),
        ("- **ADD** 7: look first", ("ADD", 7, "look first")),
        ("AGREE 2", ("AGREE", 2, "")),
        ("agree 2: yes", ("AGREE", 2, "yes")),
        ("EDIT 1： 先看书", ("EDIT", 1, "先看书")),
        ("[REMOVE 12]", ("REMOVE", 12, "")),
    ],
)
def test_a_vote_is_read(line: str, vote: tuple[str, int | None, str]) -> None:
    assert read_votes(f"Here are my votes:\n{line}\nThank you") == [vote]


@given(st.text(max_size=200))
def test_any_reply_can_be_read(reply: str) -> None:
    for kind, number, text in read_votes(reply):
        assert kind in ("ADD", "EDIT", "REMOVE", "AGREE")
        assert number is None or number >= 0
        assert len(text) <= 200


VOTES = st.lists(
    st.tuples(
        st.sampled_from(["ADD", "EDIT", "REMOVE", "AGREE"]),
        st.one_of(st.none(), st.integers(0, 8)),
        st.sampled_from(["", "look", "read", "wait", "act"]),
    ),
    max_size=12,
)


@given(rounds=st.lists(VOTES, max_size=6), most=st.integers(1, 4))
def test_rules_stay_few_and_are_held_by_votes(rounds: list[list[tuple[str, int | None, str]]], most: int) -> None:
    rules: tuple[Rule, ...] = ()
    for votes in rounds:
        rules = voted(rules, votes, most=most)
        assert len(rules) <= most
        assert all(rule.votes > 0 and rule.text for rule in rules)
        assert [rule.votes for rule in rules] == sorted((rule.votes for rule in rules), reverse=True)


def test_the_votes_by_hand() -> None:
    rules = [Rule("look", 3), Rule("wait", 1)]
    assert voted(rules, [("AGREE", 1, ""), ("REMOVE", 2, "")]) == (Rule("look", 4),)
    assert voted(rules, [("EDIT", 2, "act"), ("ADD", None, "look")]) == (Rule("look", 3), Rule("act", 2))
    assert voted(rules, [("ADD", None, "read")], most=2) == tuple(rules)
    assert voted(rules, [("ADD", None, "read"), ("REMOVE", 2, "")], most=2) == (Rule("look", 3), Rule("read", 2))
    assert voted(rules, [("AGREE", 9, ""), ("REMOVE", 0, ""), ("ADD", None, "")]) == tuple(rules)


def test_no_rule_is_learned_from_nothing() -> None:
    with pytest.raises(UsageError, match="experiences=0"):
        learn_rules([], FunctionModel(), load_prompts())
    with pytest.raises(UsageError, match="most=0"):
        learn_rules([Experience(1, "g", True, "> x")], FunctionModel(), load_prompts(), most=0)


def test_a_full_list_says_so() -> None:
    asked: list[str] = []

    def reply(prompt: object) -> str:
        asked.append(prompt.messages[-1].content)  # type: ignore[attr-defined]
        return f"ADD: rule {len(asked)}"

    split = [Experience(seed, "g", True, "> x") for seed in range(9)]
    book = learn_rules(split, FunctionModel(replies=reply), load_prompts(), most=2)
    assert ["do not add" in question for question in asked] == [False, False, True]
    assert [rule.text for rule in book.rules] == ["rule 1", "rule 2"]


def test_successes_are_retrieved_by_shared_words() -> None:
    won = [Experience(5, "brew the tea", True, "> a"), Experience(4, "find the coin", True, "> b")]
    recall = Recall(RuleBook((), tuple(won)))
    assert "> b" in recall("FIND a coin").render()
    assert "> b" in recall("nothing in common").render()  # the lowest seed among equals
    assert Rules("g").render() == ""
    assert Recall(RuleBook())("g").render() == ""


@pytest.mark.parametrize("value", [None, {}, {"rules": [], "successes": []}, {"rules": 3}, [], "x"])
def test_what_is_no_rule_book_is_said_so(value: object) -> None:
    with pytest.raises(UsageError, match="RuleBook"):
        RuleBook.from_json(value)

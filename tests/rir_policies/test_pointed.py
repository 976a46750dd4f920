"""Written choices: which option a free reply names, and when it names none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_policies.pointed import read_choice

VERDICTS = ["CONTINUE", "ROLLBACK"]
URGENCIES = ["0.0", "0.25", "0.5", "0.75", "1.0"]
STEPS = ["1", "2", "3", "12"]
COMMANDS = ["go north", "go north east", "take lamp", "去北方", "去南方"]


def named(reply: str, options: list[str], *, cut: bool = False) -> str | None:
    index = read_choice(reply, options, cut=cut)
    return None if index is None else options[index]


@pytest.mark.parametrize(
    ("reply", "options", "wanted"),
    [
        ("continue.", VERDICTS, "CONTINUE"),
        ("**Verdict:** ROLLBACK", VERDICTS, "ROLLBACK"),
        ("The ash is in the pot: ROLLBACK!", VERDICTS, "ROLLBACK"),
        ("No rollback is needed, so CONTINUE", VERDICTS, "CONTINUE"),
        ("ROLLBACK, not CONTINUE", VERDICTS, "ROLLBACK"),
        ("ROLLBACK or not?</think>CONTINUE", VERDICTS, "CONTINUE"),
        ('Sure:\n```json\n{"verdict": "ROLLBACK"}\n```', VERDICTS, "ROLLBACK"),
        ("{'verdict': 'CONTINUE',}", VERDICTS, "CONTINUE"),
        ('{"thought": "rollback", "verdict": "CONTINUE"}', VERDICTS, "CONTINUE"),
        ("Restore step 2", STEPS, "2"),
        ("restore_step: 12", STEPS, "12"),
        ("step two", STEPS, "2"),
        ("2.0", STEPS, "2"),
        ("[2]", STEPS, "2"),
        ("2) because it is the latest", STEPS, "2"),
        ('{"restore_step": 3, "why": "1 was too early"}', STEPS, "3"),
        ("Answer: 3\nAnswer: 1", STEPS, "3"),
        ("Answer:\n3", STEPS, "3"),
        ("2\n\nSteps 1 and 3 came too early and too late.", STEPS, "2"),
        ("0.7", URGENCIES, "0.75"),
        ("Urgency: 70%", URGENCIES, "0.75"),
        ("0,5", URGENCIES, "0.5"),
        ("1", URGENCIES, "1.0"),
        ("Go North East!", COMMANDS, "go north east"),
        ("I'd go north east then", COMMANDS, "go north east"),
        ("> `take lamp`", COMMANDS, "take lamp"),
        ("我要去北方。", COMMANDS, "去北方"),
    ],
)
def test_what_a_reply_names(reply: str, options: list[str], wanted: str) -> None:
    assert named(reply, options) == wanted


@pytest.mark.parametrize(
    ("reply", "options"),
    [
        ("", VERDICTS),
        ("<think>CONTINUE", VERDICTS),
        ("weitermachen", VERDICTS),
        ("CONTINUE or ROLLBACK", VERDICTS),
        ("I would not ROLLBACK.", VERDICTS),
        ("Don't rollback!", VERDICTS),
        ("Rollback isn't needed.", VERDICTS),
        ("CONTINUEROLLBACK", VERDICTS),
        ("DISCONTINUE", VERDICTS),
        ("CONTINUE " * 40, VERDICTS),
        ('{"either": "CONTINUE", "or": "ROLLBACK"}', VERDICTS),
        ('{"verdict": "CONTINUE", "decision": "ROLLBACK"}', VERDICTS),
        ('{"verdict": ["maybe"]}', VERDICTS),
        ("-1", STEPS),
        ("−2", STEPS),
        ("2.5", STEPS),
        ("7", STEPS),
        ("1e0", STEPS),
        ("step 2 of 12", STEPS),
        ("1 or 2", STEPS),
        ("1, 2", STEPS),
        ("0.2", STEPS),
        ('{"step": 9}', STEPS),
        ("1.5", URGENCIES),
        ("-0.5", URGENCIES),
        ("high", URGENCIES),
        ("on a scale from 0.0 to 1.0 it is 0.75", URGENCIES),
        ("go south", COMMANDS),
        ("go north, then take lamp", COMMANDS),
        ("去北方还是去南方", COMMANDS),
    ],
)
def test_nothing_is_guessed(reply: str, options: list[str]) -> None:
    assert named(reply, options) is None


@pytest.mark.parametrize(
    ("reply", "options", "wanted"),
    [
        ("1", STEPS, None),
        ("3", STEPS, None),
        ("The step is 1", STEPS, None),
        ("Step 1\n", STEPS, "1"),
        ("step 1 it seems to", STEPS, "1"),
        ('{"step": 1', STEPS, None),
        ('{"step": 1, "why": "beca', STEPS, "1"),
        ("go north", COMMANDS, None),
        ("take lamp", COMMANDS, "take lamp"),
        ("ROLLBACK", VERDICTS, "ROLLBACK"),
    ],
)
def test_where_the_reply_was_cut_off_nothing_is_trusted_that_may_go_on(
    reply: str, options: list[str], wanted: str | None
) -> None:
    assert named(reply, options, cut=True) == wanted


def test_an_option_is_found_whatever_it_looks_like() -> None:
    odd = ["...", "?", "say: hi", '{"a": 1}', "[x]", "-", "``", "a  b", "A b"]
    for option in odd:
        assert named(option, odd) == option


@given(st.text(max_size=200), st.sampled_from([VERDICTS, STEPS, URGENCIES, COMMANDS]), st.booleans())
def test_any_text_is_taken(reply: str, options: list[str], cut: bool) -> None:
    index = read_choice(reply, options, cut=cut)
    assert index is None or 0 <= index < len(options)


@given(st.sampled_from(["{}", "{} ", "**{}**", "`{}`", "Answer: {}", "- {}", "\n{}\n"]), st.integers(0, 3))
def test_every_option_can_be_named(form: str, index: int) -> None:
    for options in (STEPS, COMMANDS, URGENCIES):
        assert named(form.format(options[index]), options) == options[index]

"""What surrounds an answer: fences, thinking, JSON whole and damaged, repetition, a cut end."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_policies.tidy import clean, from_json, loop_end, unfinished


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ('{"a": "x", "b_c": 2, "d": null, "e": true}', [("a", "x"), ("b c", "2"), ("d", "null"), ("e", "true")]),
        ('Here: {"a": "x"} and {"a": "y"}', [("a", "x")]),
        ('[{"a": "x"}, {"a": "y"}]', [("a", "x"), ("a", "y")]),
        ('{"a": {"b": ["x", {"c": "y"}]}}', [("b", "x"), ("c", "y")]),
        ("{'a': 'x', 'n': 3,}", [("a", "x"), ("n", "3")]),
        ('{"a": "x\\ny", "b": "cut of', [("a", "x\ny")]),
        ('{"a": "say \\"hi\\"", "b":', [("a", 'say "hi"')]),
        ('{"n": 12', []),
        ('{"n": 12, "m": 1', [("n", "12")]),
        ("{}", []),
        ("no object {here}", None),
        ("[1, 2]", None),
        ("", None),
    ],
)
def test_json_as_pairs(text: str, pairs: list[tuple[str, str]] | None) -> None:
    assert from_json(text) == pairs


def test_hostile_text_takes_no_time() -> None:
    start = time.monotonic()
    for text in ('{"' * 9_000, "[{" * 9_000, '{"a":' * 4_000, '{"a": "' + "\\" * 19_000, "`" * 20_000):
        from_json(clean(text))
    loop_end("ab" * 10_000)
    assert time.monotonic() - start < 5


@given(st.dictionaries(st.text("abcd", min_size=1), st.text(), max_size=5), st.sampled_from(["", "so: ", "```json\n"]))
def test_whatever_json_says_is_found(value: dict[str, str], before: str) -> None:
    text = before + json.dumps(value)
    assert from_json(text) == list(value.items())


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [("go", True), ("go \t", True), ("go\n", False), ("```\ngo\n```", False), ("go\n\n ", False), ("", True)],
)
def test_a_last_line_may_go_on_only_where_it_was_cut(reply: str, wanted: bool) -> None:
    assert unfinished(reply, cut=True) == wanted
    assert not unfinished(reply, cut=False)

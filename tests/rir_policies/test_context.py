"""A history that is longer than the context: the middle goes, the frame stays, numbers never shift."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from rir_gym.base import Message, RestorePoint, Step, Verdict, VerdictKind, View
from rir_gym.memory import ReflectionMemory
from rir_policies import chat
from rir_policies.context import fitted, without_steps
from rir_policies.encoding import Encoded
from rir_policies.prompts import load_prompts


def words(messages: list[Message]) -> Encoded:
    """A tokenizer of words; two tokens of markup a message."""
    pieces: list[tuple[int, ...]] = []
    for message in messages:
        pieces += [(0, 0), tuple(hash(word) % 10_000 + 1 for word in message.content.split())]
    return Encoded(tuple(pieces), tuple(i % 2 == 1 for i in range(len(pieces))))


def view(steps: int) -> View:
    history = [Step(None, "the first room")]
    history += [Step(f"go to room {i}", f"this is room {i} " * 6) for i in range(1, steps + 1)]
    memory = ReflectionMemory("find the lamp")
    points = tuple(RestorePoint(i, i, f"in room {i}") for i in range(steps + 1))
    return View(seed=0, objective="find the lamp", history=tuple(history), memory=memory, restorable=points)


@given(st.integers(0, 40), st.integers(0, 20))
def test_the_frame_and_the_last_steps_stay(steps: int, count: int) -> None:
    whole = chat.review(view(steps), load_prompts())
    left = without_steps(whole, count)
    assert left[:2] == list(whole[:2]) or steps == 0  # instructions with the objective, the first observation
    assert left[-1] == whole[-1]  # the last observation, the role's instructions
    roles = [message.role for message in left[1:]]
    assert roles == ["user" if i % 2 == 0 else "assistant" for i in range(len(roles))]
    numbers = [int(n) for message in left for n in re.findall(r'<observation step="(\d+)">', message.content)]
    gone = min(count, max(0, steps - 1))
    assert numbers == [0, *range(gone + 1, steps + 1)]


@given(st.integers(1, 60), st.integers(60, 900))
def test_the_limit_holds_and_the_cut_is_counted(steps: int, limit: int) -> None:
    whole = chat.review(view(steps), load_prompts())
    found = fitted(lambda messages: words(list(messages)), whole, limit)
    full = len(words(list(whole)).ids)
    if found is None:
        assert limit < full
        return
    assert len(found.ids) <= limit
    assert found.cut_tokens == full - len(found.ids)
    assert (found.cut_tokens == 0) == (full <= limit)


def test_neighbouring_steps_are_cut_alike() -> None:
    def encode(messages: object) -> Encoded:
        return words(list(messages))  # type: ignore[call-overload]

    same = 0
    for steps in range(30, 40):
        one, two = (fitted(encode, chat.review(view(n), load_prompts()), 500) for n in (steps, steps + 1))
        assert one is not None
        assert two is not None
        shared = next((i for i, (a, b) in enumerate(zip(one.ids, two.ids, strict=False)) if a != b), len(one.ids))
        same += shared > 0.6 * len(one.ids)
    assert same >= 8


def test_restore_points_diagnosis_and_memory_survive_every_cut() -> None:
    there = view(50)
    verdict = Verdict(VerdictKind.ROLLBACK, diagnosis="the wrong door was opened")
    asked = chat.coarse(there, verdict, there.restorable, load_prompts())
    left = without_steps(asked, 49)
    assert ", ".join(str(i) for i in range(51)) in left[-1].content
    assert "the wrong door was opened" in left[-1].content
    assert "find the lamp" in left[0].content

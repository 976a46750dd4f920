"""Localization: coarse to fine by a model, and the fixed choices."""

from dataclasses import replace

import pytest

from rir_gym.base import RestorePoint, Step, Verdict, VerdictKind, View
from rir_gym.memory import ReflectionMemory
from rir_policies.model import FunctionModel
from rir_policies.prompts import load_prompts
from rir_policies.where import CoarseToFine, Here, Start, candidates

PROMPTS = load_prompts()
VERDICT = Verdict(VerdictKind.ROLLBACK, diagnosis="ash was poured")


def view(steps=(0, 1, 2, 3, 4), *, t=4, **changes):
    history = (Step(None, "o0"), *(Step(f"a{i}", f"o{i + 1}") for i in range(t)))
    points = tuple(RestorePoint(10 + step, step, f"σ{step}") for step in steps)
    base = View(seed=1, objective="g", history=history, memory=ReflectionMemory("g"), restorable=points)
    return replace(base, **changes)


def locate(picks, *views):
    """The restores, and the options that the model was given, in order."""
    said, rows = list(picks), []

    def choices(prompt, row):
        rows.append(tuple(row))
        return row.index(said.pop(0))

    restores = CoarseToFine(FunctionModel(choices=choices), PROMPTS)(views, [VERDICT] * len(views))
    assert not said
    return restores, rows


def test_coarse_names_an_interval_and_fine_a_candidate_in_it():
    [restore], rows = locate(["1", "3", "2"], view())
    assert rows == [("0", "1", "2", "3", "4"), ("1", "2", "3", "4"), ("1", "2", "3")]
    assert restore.interval == (1, 3)
    assert restore.point == RestorePoint(12, 2, "σ2")
    assert restore.justification == "σ2"
    assert restore.stages == ("coarse", "fine")
    assert [(call.role, call.kind) for call in restore.calls] == [
        ("coarse", "first"),
        ("coarse", "sub"),
        ("fine", "first"),
    ]
    assert restore.confidence == pytest.approx(1 / (1 + 2 * 2.718281828459045**-1))


def test_the_second_question_goes_on_from_the_answer_to_the_first():
    [restore], _ = locate(["1", "3", "2"], view())
    first, second = restore.calls[:2]
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[-2].content == "1"


def test_fine_is_shown_the_candidates_in_the_interval_only():
    [restore], _ = locate(["1", "3", "2"], view())
    shown = restore.calls[2].messages[-1].content
    assert "step 1: σ1\nstep 2: σ2\nstep 3: σ3" in shown
    assert "σ0" not in shown
    assert "ash was poured" in shown


def test_one_candidate_left_is_not_asked_about_and_both_stages_count():
    [restore], rows = locate(["4"], view())
    assert (restore.point.t, restore.interval, restore.confidence) == (4, (4, 4), 1.0)
    assert restore.stages == ("coarse", "fine")
    [restore], rows = locate([], view(steps=(2,)))
    assert (restore.point.t, restore.stages, restore.calls, rows) == (2, ("coarse", "fine"), (), [])
    [restore], rows = locate(["0", "0"], view())
    assert restore.interval == (0, 0)


def test_only_restorable_steps_are_options_and_episodes_go_as_a_batch():
    (first, second), rows = locate(["2", "0", "4", "3", "2", "3"], view(steps=(2, 4)), view(steps=(3, 0)))
    assert rows[:2] == [("2", "4"), ("0", "3")]
    assert (first.point.t, second.point.t) == (2, 3)
    assert second.point.node == 13


def test_at_an_end_the_current_step_is_no_candidate():
    assert [point.t for point in candidates(view(terminal=True))] == [0, 1, 2, 3]
    assert [point.t for point in candidates(view(steps=(4,), terminal=True))] == [4]
    assert [point.t for point in candidates(view(steps=(4, 0)))] == [0, 4]


def test_nothing_to_restore_is_no_point_and_no_invocation():
    [restore], _ = locate([], view(steps=()))
    assert (restore.point, restore.stages) == (None, ())


def test_here_is_the_current_step():
    here = Here()([view(), view(steps=(0, 1))], [VERDICT, VERDICT])
    assert [restore.point and restore.point.t for restore in here] == [4, None]
    assert [restore.stages for restore in here] == [(), ()]


def test_start_is_step_0_or_the_earliest_that_can_be_restored():
    start = Start()([view(), view(steps=(3, 2)), view(steps=())], [VERDICT] * 3)
    assert [restore.point and restore.point.t for restore in start] == [0, 2, None]
    assert {restore.stages for restore in start} == {()}

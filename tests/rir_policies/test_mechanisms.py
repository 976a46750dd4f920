"""Each mechanism is RIR with a restricted choice of (k, M+): which roles it keeps and which it replaces."""

import json

import pytest

from rir_gym.base import Mechanism, Restore, RestorePoint, Step, Verdict, VerdictKind, View
from rir_gym.errors import UsageError
from rir_gym.memory import Fact, ReflectionMemory
from rir_policies.act import ModelActor
from rir_policies.expel import Rule, RuleBook
from rir_policies.mechanisms import (
    MECHANISMS,
    NEEDS_MODEL,
    direct_selection,
    model_roles,
    react,
    reflection_only,
    restart,
    rir,
    rollback_only,
)
from rir_policies.model import FunctionModel
from rir_policies.scripted import ExactLocalizer, ExactReviewer, ScriptedPatch
from rir_policies.what import keep
from rir_policies.when import Hybrid, never
from rir_policies.where import Here, Start

MODEL = FunctionModel(replies=lambda prompt: "fact: the book is in the hall", choices=lambda prompt, row: len(row) - 1)
ROLES = model_roles(MODEL)
BOOK = RuleBook((Rule("read the book first"),))


def reviewed():
    history = (Step(None, "o0"), *(Step(f"a{i}", f"o{i}") for i in range(9)))
    points = tuple(RestorePoint(i, i, f"σ{i}") for i in range(10))
    return View(seed=1, objective="g", history=history, memory=ReflectionMemory("g"), restorable=points)


def stages(mechanism):
    """(restored step, roles invoked, facts learned) of one due review on which the model says ROLLBACK."""
    view = reviewed()
    [verdict] = mechanism.when([view])
    assert verdict.kind is VerdictKind.ROLLBACK
    [restore] = mechanism.where([view], [verdict])
    [patch] = mechanism.what([view], [verdict], [restore])
    return restore.point.t, (*restore.stages, *(["patch"] if patch.invoked else [])), len(verdict.learned)


def test_the_ledger_law_of_each_mechanism():
    assert stages(rir(**ROLES)) == (9, ("coarse", "fine", "patch"), 1)
    assert stages(reflection_only(**ROLES)) == (9, ("patch",), 1)
    assert stages(restart(**ROLES)) == (0, ("patch",), 1)
    assert stages(rollback_only(**ROLES)) == (9, ("coarse", "fine"), 0)
    assert stages(direct_selection(**ROLES)) == (9, ("fine", "patch"), 1)


def test_restrictions_replace_what_they_fix_and_keep_the_rest():
    full = rir(**ROLES, l_min=2, l_max=6, review_terminal=False, memory_position="tail")
    for name, make in MECHANISMS.items():
        mechanism = make(**ROLES, l_min=2, l_max=6, review_terminal=False, memory_position="tail", rules=BOOK)
        assert isinstance(mechanism, Mechanism)
        assert mechanism.name == name
        assert (mechanism.restriction <= full.restriction) == (name != "lats")
        assert mechanism.nodes == ("tree" if name == "lats" else "branch")
        assert (mechanism.review_terminal, mechanism.memory_position) == (False, "tail")
    assert full.when == Hybrid(ROLES["reviewer"], l_min=2, l_max=6)
    assert reflection_only(**ROLES).where == Here()
    assert reflection_only(**ROLES).what == ROLES["what"]
    assert restart(**ROLES).where == Start()
    assert rollback_only(**ROLES).what is keep
    assert rollback_only(**ROLES).where == ROLES["where"]


def test_react_never_reviews_and_is_not_told_of_rollbacks():
    mechanism = react(**ROLES, uses_oracle=True)
    assert mechanism.when is never
    assert isinstance(mechanism.act, ModelActor)
    assert mechanism.act.requests == "none"
    assert not mechanism.uses_oracle
    act = react(act=keep).act
    assert act is keep


def test_roles_that_a_restriction_replaces_need_not_be_given():
    act, reviewer, where, what = (ROLES[name] for name in ("act", "reviewer", "where", "what"))
    assert reflection_only(act=act, reviewer=reviewer, what=what) == reflection_only(**ROLES)
    assert restart(act=act, reviewer=reviewer, what=what) == restart(**ROLES)
    assert rollback_only(act=act, reviewer=reviewer, where=where) == rollback_only(**ROLES)


def test_settings_are_json_and_name_every_role_without_addresses():
    exact = {
        "act": keep,
        "reviewer": ExactReviewer(learn=lambda view: [Fact("fact", "x")], recall=0.8),
        "where": ExactLocalizer(),
        "what": ScriptedPatch(),
    }
    for name, make in MECHANISMS.items():
        for roles in (ROLES, *([exact] if name not in NEEDS_MODEL else [])):
            settings = make(**roles, uses_oracle=True, settings={"note": 1}, rules=BOOK).settings
            assert json.loads(json.dumps(settings)) == settings
            assert settings["note"] == 1
            assert "0x" not in json.dumps(settings)
    settings = rir(**exact, uses_oracle=True).settings
    assert (settings["l_min"], settings["l_max"], settings["l_0"]) == (4, 8, 8)
    assert "recall=0.8" in settings["when"]
    assert "digest" in rir(**ROLES).settings["act"]


@pytest.mark.parametrize("make", list(MECHANISMS.values()))
def test_bad_arguments_are_refused(make):
    with pytest.raises(UsageError, match="l_min"):
        make(**ROLES, l_min=9)
    with pytest.raises(TypeError):
        make(**ROLES, lmin=3)
    with pytest.raises(TypeError):
        make(reviewer=never)


@pytest.mark.parametrize("name", sorted(NEEDS_MODEL))
def test_what_needs_a_model_says_so(name):
    with pytest.raises(UsageError, match="played by a language model"):
        MECHANISMS[name](act=keep, rules=BOOK)


def test_expel_needs_rules():
    with pytest.raises(UsageError, match="rules=None"):
        MECHANISMS["expel"](**ROLES)


def test_only_what_is_declared_uses_the_oracle():
    plain = {name for name, make in MECHANISMS.items() if make(**ROLES, rules=BOOK).uses_oracle}
    assert plain == {"reflexion", "lats", "restart_with_attribution"}
    told = {name for name, make in MECHANISMS.items() if make(**ROLES, rules=BOOK, uses_oracle=True).uses_oracle}
    assert set(MECHANISMS) - told == {"react", "reflact", "expel"}


def test_a_lambda_will_do_for_a_role():
    point = RestorePoint(3, 3)
    mechanism = rir(
        act=ROLES["act"],
        reviewer=lambda views: [Verdict(VerdictKind.ROLLBACK, diagnosis="ash was poured") for _ in views],
        where=lambda views, verdicts: [Restore(point) for _ in views],
        what=ScriptedPatch(),
    )
    assert stages(mechanism) == (3, ("patch",), 0)

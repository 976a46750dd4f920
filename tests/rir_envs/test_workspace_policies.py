"""The expert, the facts and the evidence roles beside the workspace: what they know, never read, and do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rir_envs.workspace import WorkspaceEnv
from rir_envs.workspace_evidence import mistake
from rir_envs.workspace_making import FAMILIES
from rir_envs.workspace_policies import Expert, evidence_localizer, evidence_reviewer, knowledge, observed_facts
from rir_envs.workspace_world import contents
from rir_gym.base import Decision, Mechanism, Patch, RestorePoint, Step, Verdict, VerdictKind, View
from rir_gym.errors import UsageError
from rir_gym.ledger import Budget
from rir_gym.loop import run
from rir_gym.memory import Fact, Memory, ReflectionMemory
from rir_gym.rollback import RollbackWrapper

CAREFUL, HASTY = Expert(trust=0.0, slip=0.0), Expert(trust=1.0, slip=0.0)


class Forbidden:
    """Stands where oracle knowledge would be; reading anything of it fails the test."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"read {name} of the oracle")


class Branch:
    """A branch played by hand; ``view`` is what a role sees of it. The oracle is Forbidden everywhere."""

    def __init__(self, family: str, seed: int = 0) -> None:
        self.seed, self.env = seed, WorkspaceEnv(family=family)
        observation, info = self.env.reset(seed=seed)
        self.objective = str(info["objective"])
        self.history = [Step(None, observation, info=self._visible(info), oracle=Forbidden())]  # type: ignore[arg-type]

    def play(self, *actions: str) -> Branch:
        for action in actions:
            observation, reward, terminated, truncated, info = self.env.step(action)
            step = Step(action, observation, reward, terminated, truncated, self._visible(info), Forbidden())  # type: ignore[arg-type]
            self.history.append(step)
        return self

    def act(self, expert: Expert, calls: int = 60, memory: Memory | None = None) -> Branch:
        for _ in range(calls):
            if not self.history[-1].over:
                self.play(expert([self.view(memory)])[0].action)
        return self

    def view(self, memory: Memory | None = None, **more: Any) -> View:
        points = tuple(RestorePoint(node=100 + t, t=t) for t in range(len(self.history)))
        view = View(
            seed=self.seed,
            objective=self.objective,
            history=tuple(self.history),
            memory=memory or ReflectionMemory(self.objective),
            restorable=points,
            agent_calls=len(self.history),
            agent_calls_left=20,
            rollbacks_left=3,
            terminal=self.history[-1].over,
            oracle=Forbidden(),  # type: ignore[arg-type]
        )
        return replace(view, **more)

    @staticmethod
    def _visible(info: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in info.items() if key != "oracle"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_careful_expert_succeeds(family: str) -> None:
    for seed in range(4):
        branch = Branch(family, seed).act(CAREFUL)
        assert branch.history[-1].reward == 1.0
        assert len(branch.history) - 1 <= 24
        assert evidence_reviewer([branch.view()])[0].kind is VerdictKind.CONTINUE


@pytest.mark.parametrize("family", FAMILIES)
def test_belief_about_files_follows_what_is_there(family: str) -> None:
    branch = Branch(family, 2)
    for expert in (Expert(trust=0.5, slip=0.4), CAREFUL):
        for _ in range(12):
            if branch.history[-1].over:
                break
            branch.act(expert, 1)
            state = branch.env.get_state()
            true = contents(state.task, state.state.files)
            believed = knowledge(branch.view()).now.files
            stamped = {path: content for path, content in true.items() if content.origin}
            assert {path: believed[path] for path in stamped} == stamped
            assert believed.keys() == true.keys()


def test_a_hasty_expert_skips_the_notes_until_it_is_about_to_submit() -> None:
    branch = Branch("ledger").act(HASTY)
    actions = [step.action for step in branch.history[1:]]
    read = actions.index("read notes/amendments.txt")
    assert any(action.startswith("post") for action in actions[:read])
    careful = [step.action for step in Branch("ledger").act(CAREFUL).history[1:]]
    assert not any(action.startswith("post") for action in careful[: careful.index("read notes/amendments.txt")])


def test_what_memory_holds_is_not_skipped_and_not_asked_again() -> None:
    first = Branch("ledger").act(CAREFUL, 6)
    memory = ReflectionMemory(first.objective).learn(observed_facts(first.view()))
    again = Branch("ledger").act(HASTY, memory=memory)
    assert again.history[-1].reward == 1.0
    assert not any(step.action.startswith(("read", "query", "search")) for step in again.history[1:])


def test_who_has_seen_that_files_are_replaced_looks_first() -> None:
    hasty = next(seed for seed in range(50) if not _wins(Branch("chapters", seed).act(HASTY)))
    branch = Branch("chapters", hasty).act(HASTY)
    facts = observed_facts(branch.view())
    assert [fact.channel for fact in facts].count("affordance") == 1
    memory = ReflectionMemory(branch.objective).learn(facts)
    assert _wins(Branch("chapters", hasty).act(HASTY, memory=memory))


def _wins(branch: Branch) -> bool:
    return branch.history[-1].reward == 1.0


def test_facts_are_about_the_start_and_outlive_any_rollback() -> None:
    branch = Branch("invoices")
    branch.play("move inbox/scan-01.doc inbox/other.doc", 'search "Subject:"', "read inbox/other.doc")
    facts = observed_facts(branch.view())
    plain = observed_facts(Branch("invoices").play('search "Subject:"', "read inbox/scan-01.doc").view())
    assert all(fact.invariant for fact in facts)
    assert facts[0].text == plain[0].text
    assert "inbox/other.doc:" not in facts[0].text
    assert "read inbox/scan-01.doc" in facts[1].text
    lost = Branch("invoices").play("delete inbox/scan-01.doc", 'search "Subject:"')
    assert observed_facts(lost.view()) == ()


@pytest.mark.parametrize(
    ("family", "command"),
    [
        ("chapters", "delete book/chapter-04.doc"),
        ("ledger", "post books/ledger.sqlite rent 0.01 r-1"),
        ("logs", "write incidents/master.log 08:00 web-1 net"),
        ("orders", "append depots/shipped.log 0 nowhere"),
    ],
)
def test_the_reviewer_blames_what_put_the_goal_out_of_reach(family: str, command: str) -> None:
    branch = Branch(family).act(CAREFUL, 5)
    good = len(branch.history) - 1
    assert mistake(branch.view()) is None
    branch.play("list", command, "list")
    view = branch.view()
    [verdict], found = evidence_reviewer([view]), mistake(view)
    assert found is not None
    assert (verdict.kind, found.step, found.point.t) == (VerdictKind.ROLLBACK, good + 1, good + 1)
    assert command in verdict.diagnosis
    [restore] = evidence_localizer([view], [verdict])
    assert restore.point == found.point
    few = replace(view, restorable=tuple(point for point in view.restorable if point.t < 3))
    assert evidence_localizer([few], [verdict])[0].point.t == 2  # type: ignore[union-attr]


def test_while_too_little_is_known_a_lost_document_is_evidence() -> None:
    branch = Branch("invoices").play("list", "delete inbox/scan-03.doc", "list")
    found = mistake(branch.view())
    assert found is not None
    assert (found.step, found.point.t) == (1, 1)
    assert mistake(Branch("invoices").play("list", "move inbox/scan-03.doc tmp/a.doc", "list").view()) is None


def test_a_success_is_never_doubted_and_an_unreadable_view_is_no_evidence() -> None:
    branch = Branch("reminders").act(CAREFUL)
    assert mistake(branch.view()) is None
    odd = replace(branch.view(), history=(Step(None, 3), Step("x", None), Step(None, "Moved a to b.")), restorable=())
    assert mistake(odd) is None
    assert evidence_reviewer([odd])[0].kind is VerdictKind.CONTINUE
    assert isinstance(CAREFUL.intent(odd), str)
    foreign = replace(branch.view(), objective="Make tea.")
    assert CAREFUL.intent(foreign) == "list"


def test_draws_are_functions_of_seed_and_calls() -> None:
    expert = Expert(trust=0.5, slip=0.5)
    view = Branch("labels").view()
    assert [expert([view])[0].action for _ in range(3)] == [expert([view])[0].action] * 3
    some = {expert([replace(view, agent_calls=n)])[0].action for n in range(60)}
    assert len(some) > 5
    assert not any(action.startswith(("send", "submit")) for action in some)
    with pytest.raises(UsageError, match="trust=2"):
        Expert(trust=2)


def test_recovery_by_evidence_succeeds_where_acting_alone_does_not() -> None:
    expert = Expert(trust=0.5, slip=0.05)

    def when(views: Sequence[View]) -> list[Verdict]:
        due = [
            view for view in views if view.terminal or view.t - (view.last_review.step if view.last_review else 0) >= 4
        ]
        found = dict(zip(map(id, due), evidence_reviewer(due), strict=True))
        return [found.get(id(view), Verdict.not_due()) for view in views]

    def what(views: Sequence[View], verdicts: Sequence[Verdict], restores: Sequence[Any]) -> list[Patch]:
        return [Patch(view.memory) for view in views]

    def never(views: Sequence[View]) -> list[Verdict]:
        return [Verdict.not_due() for _ in views]

    won = {}
    for name, role in (("alone", never), ("recovering", when)):
        mechanism = Mechanism(name, expert, role, evidence_localizer, what)
        env = RollbackWrapper(WorkspaceEnv())
        won[name] = sum(run([env], mechanism, budget=Budget(24), seeds=[seed])[0].success for seed in range(12))
        env.close()
    assert won["recovering"] >= won["alone"] + 3


def test_roles_answer_a_batch_in_order() -> None:
    views = [Branch(family).view() for family in FAMILIES]
    decisions = CAREFUL(views)
    assert [decision.action for decision in decisions] == [CAREFUL([view])[0].action for view in views]
    assert all(isinstance(decision, Decision) for decision in decisions)
    assert len(evidence_reviewer(views)) == len(views)
    assert isinstance(observed_facts(views[0]), tuple)
    assert all(isinstance(fact, Fact) for fact in observed_facts(views[0]))

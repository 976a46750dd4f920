"""A mechanism that leaves what it declares fails the run, and the error says what it did and what it declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym
import pytest

from rir_gym import (
    Budget,
    Decision,
    DecisionKind,
    Fact,
    Mechanism,
    MechanismError,
    Patch,
    Restore,
    RestorePoint,
    Restriction,
    RollbackWrapper,
    Unicode,
    UsageError,
    Verdict,
    VerdictKind,
    View,
    run,
)
from rir_gym.operator import Depths, Memories


class Road(gym.Env[str, str]):
    """A road of milestones; any action goes one further. ``known`` is its oracle."""

    action_space = Unicode()
    observation_space = Unicode()

    def __init__(self, tells: bool = True) -> None:
        self.place, self.tells = 0, tells

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return "0", self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.place += 1
        return f"{self.place}", 0.0, action == "stop", False, self._info()

    def _info(self) -> dict[str, Any]:
        return {"oracle": {"success": False, "failed": False, "score": 0.0}} if self.tells else {}

    def get_state(self) -> int:
        return self.place

    def set_state(self, state: int) -> None:
        self.place = state


ROLLBACK = Verdict(VerdictKind.ROLLBACK)
LEARNED = Fact("fact", "the road is long")


def at(t: int) -> Callable[[View], Restore]:
    return lambda view: Restore(next(point for point in view.restorable if point.t == t))


def mechanism(
    *,
    act: Callable[[View], Decision] = lambda view: Decision.act("on"),
    when: Callable[[View], Verdict] = lambda view: Verdict.not_due(),
    where: Callable[[View], Restore] | None = None,
    what: Callable[[View], Patch] = lambda view: Patch(view.memory),
    **declared: Any,
) -> Mechanism:
    return Mechanism(
        "suspect",
        act=lambda views: [act(view) for view in views],
        when=lambda views: [when(view) for view in views],
        where=lambda views, _: [(where or at(0))(view) for view in views],
        what=lambda views, *_: [what(view) for view in views],
        **declared,
    )


def play(made: Mechanism, *, calls: int = 8, rollbacks: int = 2, tells: bool = True) -> Any:
    [episode] = run([RollbackWrapper(Road(tells))], made, budget=Budget(calls, rollbacks), seeds=[0])
    return episode


def on_step(t: int) -> Callable[[View], Verdict]:
    return lambda view: ROLLBACK if view.t == t else Verdict.not_due()


@pytest.mark.parametrize(
    ("depths", "allowed"),
    [
        (Depths.none(), set()),
        (Depths.zero(), {0}),
        (Depths.at_most(2), {0, 1, 2}),
        (Depths("between", 1, 2), {1, 2}),
        (Depths("between", 2), {2, 3, 4}),
        (Depths.start(), {4}),
        (Depths(), {0, 1, 2, 3, 4}),
    ],
)
@pytest.mark.parametrize("k", range(5))
def test_a_depth_that_was_not_declared_fails_the_run(depths: Depths, allowed: set[int], k: int) -> None:
    made = mechanism(when=on_step(4), where=at(4 - k), restriction=Restriction(depths))
    if k in allowed:
        ledger = play(made, calls=6, rollbacks=1).ledger
        assert ledger.rollbacks + ledger.corrections >= 1
        return
    with pytest.raises(MechanismError) as caught:
        play(made, calls=6)
    said = str(caught.value)
    assert "mechanism='suspect'" in said
    assert f"k={k} " in said
    assert f"declares {Restriction(depths)}" in said


def test_a_memory_that_was_not_declared_fails_the_run() -> None:
    def change(view: View) -> Patch:
        return Patch(view.memory.learn([LEARNED]))

    unchanged = Restriction(memories=Memories.unchanged())
    with pytest.raises(MechanismError, match=r"k=2 .*changed ReflectionMemory at step 2; it declares any k; M\+ = M"):
        play(mechanism(when=on_step(2), what=change, restriction=unchanged))
    with pytest.raises(MechanismError, match=r"at most 3 notes"):
        play(mechanism(when=on_step(2), what=change, restriction=Restriction(memories=Memories.notes(3))))
    assert play(mechanism(when=on_step(2), what=change)).ledger.rollbacks


def test_what_a_review_learns_is_declared_too() -> None:
    learned = Verdict(VerdictKind.CONTINUE, learned=(LEARNED,))
    bare = mechanism(when=lambda view: learned, restriction=Restriction(Depths.none(), Memories.unchanged()))
    with pytest.raises(MechanismError, match=r"changed M at step 0; it declares no recovery; M\+ = M"):
        play(bare)
    assert play(replace(bare, restriction=Restriction(Depths.none()))).memory.environment == (LEARNED,)


def other_branch(view: View) -> Restore:
    """Back to step 1 first; then, from the new branch, the last node of the old one."""
    return Restore(RestorePoint(1, 1)) if view.rollbacks_left == 2 else Restore(RestorePoint(4, 4))


def test_another_branch_is_restored_only_by_a_tree_search() -> None:
    made = mechanism(when=on_step(4), where=other_branch)
    with pytest.raises(MechanismError, match=r'restores node 4 from node 7, .*declares nodes="branch"'):
        play(made, calls=12)
    tree = replace(made, restriction=Restriction(nodes="tree"))
    assert play(tree, calls=12).ledger.rollbacks == 2


def test_a_tree_search_is_held_to_its_memory() -> None:
    tree = Restriction(memories=Memories.notes(1), nodes="tree")
    made = mechanism(when=on_step(2), what=lambda view: Patch(view.memory.learn([LEARNED])), restriction=tree)
    with pytest.raises(MechanismError, match="at most 1 notes; any kept node"):
        play(made)


@pytest.mark.parametrize("role", ["act", "when"])
def test_an_oracle_that_was_not_declared_is_not_read(role: str) -> None:
    def peek(view: View) -> Any:
        assert view.oracle is None or not view.oracle.success
        return Decision.act("on") if view.oracle.distances and role == "act" else Verdict.not_due()

    with pytest.raises(MechanismError, match=r"read view.oracle.distances; it declares uses_oracle=False"):
        play(mechanism(**{role: peek}))
    play(mechanism(uses_oracle=True, **{role: peek}))


def test_other_faults_of_a_role_are_its_own() -> None:
    def broken(view: View) -> Decision:
        return view.no_such_thing  # type: ignore[attr-defined,no-any-return]

    with pytest.raises(AttributeError, match="no_such_thing"):
        play(mechanism(act=broken))


def test_an_oracle_where_none_exists_is_refused_before_any_step() -> None:
    asked: list[View] = []
    made = mechanism(act=lambda view: asked.append(view) or Decision.act("on"), uses_oracle=True)  # type: ignore[func-returns-value]
    with pytest.raises(UsageError, match=r"mechanism='suspect': declares uses_oracle=True, but .* has no oracle"):
        play(made, tells=False)
    assert not asked


# --- B_agent --------------------------------------------------------------------------------------------------------


def costing(*costs: int) -> Callable[[View], Decision]:
    left = list(costs)
    return lambda view: replace(Decision.act("on"), agent_calls=left.pop(0))


def test_every_sample_counts() -> None:
    episode = play(mechanism(act=costing(3, 0, 0, 2)), calls=5)
    assert (episode.ledger.agent_calls, episode.ledger.steps, episode.stopped) == (5, 4, "agent_calls")


@pytest.mark.parametrize("cost", [-1, 1.0, True, None])
def test_a_cost_is_a_count(cost: Any) -> None:
    with pytest.raises(MechanismError, match="agent_calls="):
        play(mechanism(act=costing(cost)))


def test_no_decision_costs_more_than_what_is_left() -> None:
    seen: list[int] = []

    def greedy(view: View) -> Decision:
        seen.append(view.agent_calls_left)
        return replace(Decision.act("on"), agent_calls=3)

    with pytest.raises(MechanismError, match="agent_calls=3, where 1 of B_agent were left"):
        play(mechanism(act=greedy), calls=4)
    assert seen == [4, 1]
    assert play(mechanism(act=greedy), calls=6).ledger.agent_calls == 6


def test_nothing_is_done_that_was_not_paid_for() -> None:
    with pytest.raises(MechanismError, match="decision 3 of the episode, but only 2 agent calls"):
        play(mechanism(act=costing(2, 0, 0)))


def test_what_a_rollback_dropped_was_paid_for_once() -> None:
    free = mechanism(act=costing(2, 0, 0, 1, 1), when=lambda view: ROLLBACK if view.t == 1 else Verdict.not_due())
    ledger = play(free, calls=4, rollbacks=1).ledger
    assert (ledger.rollbacks, ledger.steps, ledger.agent_calls) == (1, 4, 4)


def test_a_correction_gives_nothing_back() -> None:
    again = mechanism(
        act=costing(2, 0, 0), when=lambda view: ROLLBACK if view.t == 1 else Verdict.not_due(), where=at(1)
    )
    with pytest.raises(MechanismError, match="only 2 agent calls"):
        play(again)


@pytest.mark.parametrize(("own", "budget", "done"), [(None, 3, 3), (1, 3, 1), (5, 2, 2)])
def test_the_narrower_cap_on_rollbacks_holds(own: int | None, budget: int, done: int) -> None:
    seen: list[int] = []

    def when(view: View) -> Verdict:
        seen.append(view.rollbacks_left)
        return ROLLBACK if view.t == 1 else Verdict.not_due()

    episode = play(mechanism(when=when, max_rollbacks=own), calls=12, rollbacks=budget)
    assert episode.ledger.rollbacks == episode.budget.rollbacks == done
    assert seen[0] == done


def test_a_final_response_is_paid_for() -> None:
    final = replace(Decision(DecisionKind.FINAL, "x"), agent_calls=2)
    assert play(mechanism(act=lambda view: final)).ledger.agent_calls == 2

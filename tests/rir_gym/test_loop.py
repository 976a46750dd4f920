"""Algorithm 1, line by line, with scripted replies on a corridor."""

import gymnasium as gym
import pytest

from rir_gym import (
    Budget,
    Decision,
    DecisionKind,
    Fact,
    Mechanism,
    Patch,
    Restore,
    RestorePoint,
    RollbackWrapper,
    UsageError,
    Verdict,
    VerdictKind,
    run,
)
from rir_gym.memory import Failure
from rir_gym.spaces import Unicode


class Corridor(gym.Env):
    """Position 0..; "right" adds one; "goal" ends with success, "pit" in failure; everything else waits."""

    action_space = Unicode()
    observation_space = Unicode()

    def __init__(self, submits=False):
        self.position, self.said, self.submits = 0, "", submits

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.said = 0, ""
        return self._seen(False, False)[0::4]

    def step(self, action):
        self.position += action == "right"
        self.said = action
        return self._seen(action in ("goal", "answer 42"), action == "pit")

    def _seen(self, won, lost):
        info = {"objective": "get there", "admissible": ["right", "wait", "goal", "pit"], "committed": False}
        info["oracle"] = {"success": won, "failed": lost, "score": float(won)}
        return f"at {self.position}", float(won), won or lost, False, info

    def describe(self):
        return f"place {self.position}"

    def submit(self, text):
        return f"answer {text}" if self.submits else None

    def get_state(self):
        return self.position, self.said

    def set_state(self, state):
        self.position, self.said = state


class Script:
    """Roles that say what stands in a list and keep every view they were shown."""

    def __init__(self, act=(), when=(), where=(), what=()):
        self.lines = {"act": list(act), "when": list(when), "where": list(where), "what": list(what)}
        self.seen = {"act": [], "when": [], "where": [], "what": []}

    def role(self, name, default):
        def say(views, *answers):
            said = []
            for view in views:
                self.seen[name].append(view)
                line = self.lines[name].pop(0) if self.lines[name] else default
                said.append(line(view) if callable(line) else line)
            return said

        return say

    def mechanism(self, **settings):
        return Mechanism(
            "scripted",
            act=self.role("act", Decision.act("right")),
            when=self.role("when", Verdict.not_due()),
            where=self.role("where", Restore(None)),
            what=self.role("what", lambda view: Patch(view.memory)),
            **settings,
        )

    def run(self, *, calls=6, rollbacks=3, submits=False, **settings):
        env = RollbackWrapper(Corridor(submits))
        [self.episode] = run([env], self.mechanism(**settings), budget=Budget(calls, rollbacks), seeds=[7])
        return self.episode


REQUEST = Decision(DecisionKind.REQUEST)
UNPARSED = Decision(DecisionKind.UNPARSED)
CONTINUE = Verdict(VerdictKind.CONTINUE, urgency=0.25)
ROLLBACK = Verdict(VerdictKind.ROLLBACK, urgency=0.75, diagnosis="took a wrong turn")
UNREAD = Verdict(VerdictKind.UNPARSED)


def to(t, **extra):
    """A localizer's answer: the restore point of step t."""
    return lambda view: Restore(next(p for p in view.restorable if p.t == t), stages=("coarse", "fine"), **extra)


def actions(episode):
    return [node.step.action for node in episode.last.branch()[1:]]


def outcomes(episode):
    return [event.outcome for event in episode.events if event.outcome]


# --- act ------------------------------------------------------------------------------------------------------------


def test_without_reviews_every_call_steps_until_the_budget_is_spent():
    script = Script()
    episode = script.run(calls=4)
    assert (episode.ledger.agent_calls, episode.ledger.steps, episode.stopped) == (4, 4, "agent_calls")
    assert [view.agent_calls_left for view in script.seen["act"]] == [4, 3, 2, 1]
    assert [view.t for view in script.seen["act"]] == [0, 1, 2, 3]


def test_the_agent_sees_objective_history_and_restore_points_with_summaries():
    script = Script()
    script.run(calls=3)
    view = script.seen["act"][-1]
    assert view.objective == "get there"
    assert [step.observation for step in view.history] == ["at 0", "at 1", "at 2"]
    assert [step.action for step in view.history] == [None, "right", "right"]
    assert view.restorable == tuple(RestorePoint(i, i, f"place {i}") for i in range(3))
    assert list(view.admissible) == ["right", "wait", "goal", "pit"]


def test_the_episode_ends_when_the_environment_ends():
    episode = Script(act=[Decision.act("goal")]).run()
    assert (episode.stopped, episode.success, episode.score, episode.ledger.steps) == ("terminated", True, 1.0, 1)


def test_a_final_response_without_a_submit_action_stops_unstepped_and_unreviewed():
    script = Script(act=[Decision.act("right"), Decision(DecisionKind.FINAL, "42")])
    episode = script.run()
    assert (episode.stopped, episode.final_response, episode.ledger.steps) == ("final", "42", 1)
    assert len(script.seen["when"]) == 1
    assert episode.ledger.agent_calls == 2


def test_a_final_response_is_submitted_before_any_review_and_its_end_is_reviewed_once():
    script = Script(act=[Decision(DecisionKind.FINAL, "42")])
    episode = script.run(submits=True)
    assert actions(episode) == ["answer 42"]
    assert (episode.stopped, episode.success, episode.final_response) == ("terminated", True, None)
    assert [view.terminal for view in script.seen["when"]] == [True]
    assert script.seen["act"][0].can_submit


def test_a_submitted_final_response_can_be_rolled_back():
    script = Script(act=[Decision(DecisionKind.FINAL, "42")], when=[ROLLBACK], where=[to(0)])
    episode = script.run(submits=True, calls=3)
    assert actions(episode) == ["right", "right"]
    assert episode.ledger.rollbacks == 1


# --- when -----------------------------------------------------------------------------------------------------------


def test_a_request_answered_continue_costs_the_call_steps_nothing_and_is_told():
    script = Script(act=[Decision.act("right"), REQUEST], when=[Verdict.not_due(), CONTINUE])
    episode = script.run(calls=3)
    assert (episode.ledger.agent_calls, episode.ledger.steps, episode.ledger.requests) == (3, 2, 1)
    assert script.seen["when"][1].proposed == REQUEST
    after = script.seen["act"][2]
    assert after.t == 1
    assert (after.last_review.outcome, after.last_review.requested, after.last_review.step) == ("continue", True, 1)
    assert "declined" in outcomes(episode)


def test_an_action_that_reads_as_a_rollback_is_a_request_and_never_the_operator():
    script = Script(act=[Decision.act("right"), Decision.act("rollback 0")], when=[Verdict.not_due(), CONTINUE])
    episode = script.run(calls=3)
    assert script.seen["when"][1].proposed == Decision(DecisionKind.REQUEST, target=0)
    assert (episode.ledger.requests, episode.ledger.steps, episode.ledger.rollbacks) == (1, 2, 0)
    assert actions(episode) == ["right", "right"]


def test_every_review_sets_t_rev_and_the_urgency():
    script = Script(when=[Verdict.not_due(), CONTINUE])
    script.run(calls=4)
    reviews = [view.last_review for view in script.seen["act"]]
    assert reviews[:2] == [None, None]
    assert (reviews[2].step, reviews[2].urgency, reviews[2].requested) == (1, 0.25, False)
    assert script.seen["when"][0].last_review is None


def test_not_due_is_no_review():
    assert Script().run().ledger.reviews == 0


def test_the_proposed_action_is_executed_after_continue():
    episode = Script(when=[CONTINUE]).run(calls=1)
    assert actions(episode) == ["right"]
    assert episode.ledger.reviews == 1


def test_new_knowledge_is_merged_on_continue_and_seen_from_the_next_call_on():
    script = Script(when=[Verdict(VerdictKind.CONTINUE, learned=(Fact("fact", "the door is red", step=0),))])
    script.run(calls=2)
    assert "red" not in script.seen["act"][0].memory.render()
    assert "red" in script.seen["act"][1].memory.render()


def test_an_unreadable_verdict_sets_t_rev_leaves_the_urgency_and_steps_on():
    script = Script(when=[CONTINUE, UNREAD])
    episode = script.run(calls=3)
    review = script.seen["act"][2].last_review
    assert (review.step, review.urgency, review.outcome) == (1, 0.25, "unparsed")
    assert (episode.ledger.unreadable_verdicts, episode.ledger.reviews, episode.ledger.steps) == (1, 2, 3)


def test_an_unreadable_first_verdict_leaves_the_initial_horizon():
    script = Script(when=[UNREAD])
    script.run(calls=2)
    assert script.seen["act"][1].last_review.urgency is None


def test_an_unreadable_action_costs_a_call_and_steps_nothing_and_may_still_be_reviewed():
    script = Script(act=[UNPARSED], when=[CONTINUE])
    episode = script.run(calls=2)
    assert (episode.ledger.agent_calls, episode.ledger.steps, episode.ledger.unreadable_actions) == (2, 1, 1)
    assert script.seen["when"][0].proposed == UNPARSED


# --- where, what, restore -------------------------------------------------------------------------------------------


def wander(t, **where):
    """Three steps, then a rollback to step t; the fourth proposal is dropped."""
    return Script(when=[Verdict.not_due()] * 3 + [ROLLBACK], where=[to(t, **where)])


def test_a_rollback_restores_world_and_history_and_drops_the_proposal():
    script = wander(1)
    episode = script.run(calls=5)
    after = script.seen["act"][4]
    assert [step.observation for step in after.history] == ["at 0", "at 1"]
    assert actions(episode) == ["right", "right"]
    assert (episode.ledger.agent_calls, episode.ledger.steps, episode.ledger.rollbacks) == (5, 4, 1)
    assert [event.outcome for event in episode.events if isinstance(event.value, Decision)][3] == "dropped"


def test_a_rollback_resets_the_schedule_to_the_restore_point():
    script = wander(1)
    script.run(calls=5)
    review = script.seen["act"][4].last_review
    assert (review.step, review.urgency, review.outcome, review.requested) == (1, None, "rollback", False)


def test_abandoned_branches_are_kept_in_the_tree():
    episode = wander(1).run(calls=5)
    assert [node.id for node in episode.nodes] == [0, 1, 2, 3, 4]
    assert episode.nodes[4].parent is episode.nodes[1]
    assert [node.id for node in episode.last.branch()] == [0, 1, 4]


def test_the_patched_memory_is_seen_from_the_next_call_on_and_survives():
    script = wander(1)
    script.lines["what"] = [
        lambda view: Patch(view.memory.abandon(resumed_at=1, ended_at=view.t, failure=Failure("fell asleep")))
    ]
    episode = script.run(calls=5)
    assert "fell asleep" in script.seen["act"][4].memory.render()
    assert "fell asleep" in episode.memory.render()


def test_where_and_what_see_the_merged_knowledge_of_the_review():
    script = Script(when=[Verdict(VerdictKind.ROLLBACK, learned=(Fact("fact", "lava"),))], where=[to(0)])
    script.run(calls=1)
    assert "lava" in script.seen["where"][0].memory.render()
    assert "lava" in script.seen["what"][0].memory.render()


def test_budgets_and_counts_are_not_rewound():
    script = wander(0)
    episode = script.run(calls=6)
    assert [view.agent_calls_left for view in script.seen["act"]] == [6, 5, 4, 3, 2, 1]
    assert script.seen["act"][4].rollbacks_left == 2
    assert episode.ledger.steps == 5


def test_a_correction_restores_nothing_and_does_not_count_against_the_rollback_budget():
    script = Script(when=[Verdict.not_due(), ROLLBACK], where=[to(1)])
    episode = script.run(calls=3)
    assert (episode.ledger.corrections, episode.ledger.rollbacks) == (1, 0)
    assert script.seen["act"][2].rollbacks_left == 3
    assert (script.seen["act"][2].t, script.seen["act"][2].last_review.outcome) == (1, "correction")
    assert script.seen["act"][2].last_review.urgency is None
    assert actions(episode) == ["right", "right"]


def test_a_spent_rollback_budget_steps_on_with_the_horizon_of_the_urgency():
    script = Script(when=[Verdict.not_due(), ROLLBACK, ROLLBACK], where=[to(0)])
    episode = script.run(calls=4, rollbacks=1)
    review = script.seen["act"][3].last_review
    assert (review.outcome, review.urgency) == ("refused", 0.75)
    assert (episode.ledger.rollbacks, episode.ledger.coarse, episode.ledger.reviews) == (1, 1, 2)
    assert actions(episode) == ["right", "right"]


def test_an_unreadable_interval_is_counted_and_the_rollback_goes_on():
    episode = wander(1, interval_unread=True).run(calls=4)
    assert (episode.ledger.unreadable_intervals, episode.ledger.rollbacks) == (1, 1)


@pytest.mark.parametrize("point", [None, RestorePoint(node=99, t=1)])
def test_an_unreadable_restore_point_abandons_the_rollback_and_the_step_goes_on(point):
    script = Script(when=[Verdict.not_due(), ROLLBACK], where=[Restore(point, stages=("coarse", "fine"))])
    episode = script.run(calls=3)
    assert (episode.ledger.unreadable_restores, episode.ledger.abandoned, episode.ledger.rollbacks) == (1, 1, 0)
    assert script.seen["what"] == []
    review = script.seen["act"][2].last_review
    assert (review.outcome, review.urgency, review.step) == ("abandoned", 0.75, 1)
    assert actions(episode) == ["right"] * 3


def test_an_unreadable_patch_is_counted():
    script = wander(1)
    script.lines["what"] = [lambda view: Patch(view.memory, unread=True)]
    assert script.run(calls=4).ledger.unreadable_patches == 1


def test_the_ledger_law_of_full_recovery():
    script = Script(when=[Verdict.not_due(), ROLLBACK, CONTINUE, ROLLBACK, CONTINUE], where=[to(0), to(1)])
    ledger = script.run(calls=8).ledger
    assert (ledger.rollbacks, ledger.corrections) == (1, 1)
    assert ledger.auxiliary == ledger.reviews + 3 * (ledger.rollbacks + ledger.corrections)


# --- the end --------------------------------------------------------------------------------------------------------


def test_a_terminal_review_can_undo_the_end():
    script = Script(
        act=[Decision.act("right"), Decision.act("pit")], when=[Verdict.not_due()] * 2 + [ROLLBACK], where=[to(1)]
    )
    episode = script.run(calls=4)
    assert [view.terminal for view in script.seen["when"]] == [False, False, True, False, False]
    assert script.seen["when"][2].proposed is None
    assert actions(episode) == ["right", "right", "right"]
    assert episode.ledger.rollbacks == 1


@pytest.mark.parametrize("verdict", [Verdict.not_due(), CONTINUE, UNREAD])
def test_anything_but_a_rollback_at_the_end_stops(verdict):
    script = Script(act=[Decision.act("pit")], when=[Verdict.not_due(), verdict])
    episode = script.run()
    assert (episode.stopped, len(script.seen["when"]), episode.ledger.agent_calls) == ("terminated", 2, 1)


def test_a_correction_at_the_end_stops_too():
    script = Script(act=[Decision.act("pit")], when=[Verdict.not_due(), ROLLBACK], where=[to(1)])
    assert script.run().stopped == "terminated"


def test_without_terminal_reviews_the_end_is_the_end():
    script = Script(act=[Decision.act("pit")], when=[Verdict.not_due(), ROLLBACK])
    episode = script.run(review_terminal=False)
    assert (episode.stopped, len(script.seen["when"])) == ("terminated", 1)


def test_no_terminal_review_when_no_agent_call_is_left():
    script = Script(act=[Decision.act("pit")])
    assert script.run(calls=1).stopped == "terminated"
    assert len(script.seen["when"]) == 1


# --- who may know what ----------------------------------------------------------------------------------------------


def test_oracle_knowledge_reaches_only_mechanisms_that_declare_it():
    plain, declared = Script(act=[Decision.act("goal")]), Script(act=[Decision.act("goal")])
    plain.run()
    declared.run(uses_oracle=True)
    for view in plain.seen["act"] + plain.seen["when"]:
        assert view.oracle is None
        assert all(step.oracle is None and "oracle" not in step.info for step in view.history)
    assert declared.seen["when"][-1].oracle.success
    assert declared.seen["when"][-1].oracle.distances == (None, None)


@pytest.mark.parametrize("snapshot", ["native", "deepcopy", "pickle"])
def test_the_oracle_is_that_of_the_live_instance(snapshot):
    script = Script(when=[Verdict.not_due()] * 3 + [ROLLBACK], where=[to(1)])
    env = RollbackWrapper(gym.make("rir_gym/Apothecary-v0"), snapshot=snapshot)
    script.lines["act"] = [lambda view: Decision.act(view.oracle.source.best_action())] * 9
    mechanism = script.mechanism(uses_oracle=True)
    run([env], mechanism, budget=Budget(9), seeds=[3])
    for view in script.seen["act"]:
        assert list(view.oracle.distances) == sorted(view.oracle.distances, reverse=True)
        assert view.oracle.distances[-1] == view.oracle.distances[0] - view.t
    assert script.seen["act"][-1].oracle.source.distance() == env.get_wrapper_attr("oracle").distance()


def test_episodes_in_lockstep_are_the_episodes_alone():
    def batch(n):
        script = Script(act=[Decision.act("wait")])
        mechanism = Mechanism(
            "greedy",
            act=lambda views: [
                Decision.act("right" if view.seed % 2 else "goal" if view.t > 2 else "wait") for view in views
            ],
            when=script.role("when", Verdict.not_due()),
            where=script.role("where", Restore(None)),
            what=script.role("what", None),
        )
        envs = [RollbackWrapper(Corridor()) for _ in range(n)]
        return mechanism, envs

    mechanism, envs = batch(3)
    together = run(envs, mechanism, budget=Budget(5), seeds=[1, 2, 3])
    alone = []
    for seed in (1, 2, 3):
        mechanism, envs = batch(1)
        alone += run(envs, mechanism, budget=Budget(5), seeds=[seed])
    assert [actions(e) for e in together] == [actions(e) for e in alone]
    assert [e.ledger for e in together] == [e.ledger for e in alone]


def test_a_role_is_called_once_for_the_episodes_that_need_it():
    sizes = []

    def act(views):
        sizes.append(len(views))
        return [Decision.act("goal" if view.seed == 1 else "right") for view in views]

    mechanism = Script().mechanism()
    mechanism = Mechanism("m", act, mechanism.when, mechanism.where, mechanism.what, review_terminal=False)
    run([RollbackWrapper(Corridor()) for _ in range(3)], mechanism, budget=Budget(3), seeds=[1, 2, 3])
    assert sizes == [3, 2, 2]


# --- bad input ------------------------------------------------------------------------------------------------------


def test_bad_input_is_refused_before_anything_is_done():
    mechanism, env = Script().mechanism(), RollbackWrapper(Corridor())
    with pytest.raises(UsageError, match="seeds=1"):
        run([env, RollbackWrapper(Corridor())], mechanism, budget=Budget(3), seeds=[1])
    with pytest.raises(UsageError, match="instance of its own"):
        run([env, env], mechanism, budget=Budget(3), seeds=[1, 2])
    with pytest.raises(UsageError, match="RollbackWrapper"):
        run([Corridor()], mechanism, budget=Budget(3), seeds=[1])


def test_a_role_that_answers_too_little_is_named():
    mechanism = Mechanism("m", lambda views: [], *[lambda *a: []] * 3)
    with pytest.raises(UsageError, match="0 answers for 1 views"):
        run([RollbackWrapper(Corridor())], mechanism, budget=Budget(3), seeds=[1])

"""Each mechanism does what its card says, by model and by instrument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import pytest

from rir_envs.apothecary_policies import Expert, evidence_localizer, evidence_reviewer
from rir_gym import Budget, Decision, Episode, Fact, Mechanism, Restore, RestorePoint, RollbackWrapper, Unicode, run
from rir_gym.base import DecisionKind, Verdict, VerdictKind, View
from rir_gym.episode import Event
from rir_policies.actors import Asking
from rir_policies.expel import Experience, Rule, RuleBook, learn_rules
from rir_policies.mechanisms import MECHANISMS, NEEDS_MODEL, model_roles
from rir_policies.model import Choice, Completion, FunctionModel, Prompt
from rir_policies.notes import Notes
from rir_policies.prompts import load_prompts
from rir_policies.scripted import ScriptedPatch
from rir_policies.search import SearchMemory


class Stairs(gym.Env[str, str]):
    """Ten steps up; "up" climbs, "slip" does nothing, "jump" breaks a leg for good (the environment goes on)."""

    action_space = Unicode()
    observation_space = Unicode()

    def __init__(self, ends: bool = False) -> None:
        self.height, self.broken, self.ends = 0, False, ends

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.height, self.broken = 0, False
        return self._seen()[0], self._seen()[4]

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.broken = self.broken or action == "jump"
        self.height += action == "up" and not self.broken
        return self._seen()

    def _seen(self) -> tuple[str, float, bool, bool, dict[str, Any]]:
        won, lost = self.height == 10, self.broken
        info: dict[str, Any] = {"objective": "get up", "admissible": ["up", "slip", "jump"], "committed": False}
        info["oracle"] = {"success": won, "failed": lost, "score": self.height / 10}
        return f"step {self.height}{' broken' * lost}", float(won), won or (lost and self.ends), False, info

    def describe(self) -> str:
        return f"height {self.height}"

    def get_state(self) -> tuple[int, bool]:
        return self.height, self.broken

    def set_state(self, state: tuple[int, bool]) -> None:
        self.height, self.broken = state


class Line:
    """An agent that says what stands in a list, then "up", and keeps what it saw."""

    def __init__(self, *actions: str) -> None:
        self.actions, self.seen = list(actions), list[View]()

    def __call__(self, views: Sequence[View]) -> list[Decision]:
        self.seen += views
        return [Decision.act(self.actions.pop(0) if self.actions else "up") for _ in views]


def says(*steps: int, learned: tuple[Fact, ...] = ()) -> Callable[[Sequence[View]], list[Verdict]]:
    """A reviewer: ROLLBACK at the n-th times that it is asked."""
    asked = iter(range(10**6))

    def judge(views: Sequence[View]) -> list[Verdict]:
        return [
            Verdict(VerdictKind.ROLLBACK, 1.0, "a slip", learned)
            if next(asked) in steps
            else Verdict(VerdictKind.CONTINUE)
            for _ in views
        ]

    return judge


def always(kind: VerdictKind) -> Callable[[Sequence[View]], list[Verdict]]:
    return lambda views: [Verdict(kind, 1.0, "a slip") for _ in views]


def back(k: int) -> Callable[..., list[Restore]]:
    """A localizer that goes k steps back, as far as it sees restore points; it says what it saw."""

    def locate(views: Sequence[View], verdicts: Any) -> list[Restore]:
        return [
            Restore(
                min(view.restorable, key=lambda point: abs(view.t - k - point.t), default=None),
                stages=("coarse", "fine"),
            )
            for view in views
        ]

    return locate


def play(mechanism: Mechanism, *, calls: int = 30, rollbacks: int | None = None, ends: bool = False) -> Episode:
    env = RollbackWrapper(Stairs(ends), snapshot="native")
    budget = Budget(calls, rollbacks or mechanism.max_rollbacks or 3)
    [episode] = run([env], mechanism, budget=budget, seeds=[3])
    return episode


def built(name: str, act: Any, reviewer: Any, *, k: int = 2, **pieces: Any) -> Mechanism:
    return MECHANISMS[name](act=act, reviewer=reviewer, where=back(k), what=ScriptedPatch(), **pieces)


def reviews(episode: Episode) -> list[int]:
    """The steps t at which a review happened."""
    return [event.t for event in episode.events if isinstance(event.value, Verdict)]


def depths(episode: Episode) -> list[int]:
    """k of every recovery."""
    found = []
    for i, event in enumerate(episode.events):
        if event.outcome in ("rollback", "correction"):
            point = _restore(episode.events[i + 1]).point
            assert point is not None
            found.append(event.t - point.t)
    return found


def _restore(event: Event) -> Restore:
    assert isinstance(event.value, Restore)
    return event.value


# --- no rollback ----------------------------------------------------------------------------------------------------


def test_react_has_one_call_a_step_and_no_auxiliary_call() -> None:
    ledger = play(built("react", Line(), always(VerdictKind.ROLLBACK))).ledger
    assert (ledger.agent_calls, ledger.steps, ledger.auxiliary) == (10, 10, 0)


def test_reflact_asks_for_a_sentence_on_state_and_goal() -> None:
    questions: list[str] = []

    def reply(prompt: Prompt) -> str:
        questions.append(prompt.messages[-1].content)
        return "The state is a stair and the goal is up."

    model = FunctionModel(replies=reply)
    episode = play(MECHANISMS["reflact"](**model_roles(model)), calls=3)
    assert episode.ledger.agent_calls == 3
    thought = load_prompts().texts["reflact.thought"]
    assert questions
    assert all(question.endswith(thought) for question in questions)
    decisions = [event.value for event in episode.events if isinstance(event.value, Decision)]
    assert all(decision.thought.startswith("The state is a stair") for decision in decisions)


def test_self_refine_counts_every_draft_and_stops_at_an_all_clear() -> None:
    act = Line("slip", "slip", "slip", "slip")
    episode = play(built("self_refine", act, says(0, 1, 2)), calls=8)
    # step 0: two drafts dropped and the third given unseen (two refinements); step 1: one dropped, then an all-clear
    assert reviews(episode) == [0, 0, 1, 1, 2, 3, 4]
    assert depths(episode) == [0, 0, 0]
    assert (episode.ledger.agent_calls, episode.ledger.steps, episode.ledger.corrections) == (8, 5, 3)
    assert [node.step.action for node in episode.nodes[1:3]] == ["slip", "up"]


def test_a_critique_holds_for_its_step_only() -> None:
    act = Line("slip")
    play(built("self_refine", act, says(0)), calls=4)
    failures = [getattr(view.memory, "failure", None) for view in act.seen]
    assert [failure is not None and failure.action == "slip" for failure in failures] == [False, True, False, False]


def test_expel_shows_rules_and_the_nearest_success_and_learns_nothing() -> None:
    prompts: list[Prompt] = []

    def choose(prompt: Prompt, row: Sequence[str]) -> int:
        prompts.append(prompt)
        return 0

    won = [Experience(1, "get up the stairs", True, "> up"), Experience(2, "brew tea", True, "> boil")]
    book = RuleBook((Rule("never jump"),), tuple(won))
    made = MECHANISMS["expel"](**model_roles(FunctionModel(choices=choose)), rules=book)
    episode = play(made, calls=2)
    system = prompts[0].messages[0].content
    assert "- never jump" in system
    assert "get up the stairs" in system
    assert "brew tea" not in system
    assert episode.ledger.auxiliary == 0
    assert episode.memory.to_json()["rules"] == ["never jump"]


def test_expel_rules_are_voted_from_pairs_then_from_successes() -> None:
    asked: list[str] = []
    replies = ["ADD: look first\nADD: never jump", "AGREE 2\nREMOVE 1\nREMOVE 1"]

    def reply(prompt: Prompt) -> str:
        asked.append(prompt.messages[-1].content)
        return replies[len(asked) - 1]

    split = [Experience(1, "get up", False, "> jump"), Experience(1, "get up", True, "> up")]
    book = learn_rules(split, FunctionModel(replies=reply), load_prompts())
    assert "Failed attempt:\n> jump" in asked[0]
    assert "1. look first\n2. never jump" in asked[1]
    assert book.rules == (Rule("never jump", 3),)
    assert RuleBook.from_json(book.to_json()) == book


# --- restarts -------------------------------------------------------------------------------------------------------


def test_reflexion_begins_anew_when_the_attempt_has_failed_and_keeps_three_plans() -> None:
    act = Line(*["jump"] * 7)  # every other one is proposed at the end of an attempt, and dropped
    episode = play(built("reflexion", act, says()), rollbacks=9)
    assert episode.success
    assert depths(episode) == [1] * 4
    assert all(event.t == depth for event, depth in zip(_rollbacks(episode), depths(episode), strict=True))
    assert isinstance(episode.memory, Notes)
    assert len(episode.memory.notes) == 3


def _rollbacks(episode: Episode) -> list[Event]:
    return [event for event in episode.events if event.outcome == "rollback"]


@pytest.mark.parametrize("ends", [True, False])
def test_reflexion_reads_the_success_signal_alone(ends: bool) -> None:
    episode = play(built("reflexion", Line("up", "jump"), always(VerdictKind.CONTINUE)), ends=ends)
    assert (episode.success, depths(episode)) == (True, [2])
    fine = play(built("reflexion", Line(), always(VerdictKind.ROLLBACK)), ends=ends)
    assert (fine.success, fine.ledger.reviews) == (True, 0)


def test_reflexion_takes_three_times_the_same_in_vain_for_a_failure() -> None:
    episode = play(built("reflexion", Line("up", "slip", "slip", "slip"), says()))
    assert (depths(episode), reviews(episode)) == ([4], [4])
    assert play(built("reflexion", Line("slip", "slip"), says())).ledger.rollbacks == 0


def test_a_restart_with_attribution_blames_the_decisive_step() -> None:
    act = Line("up", "up", "jump", "up")
    made = built("restart_with_attribution", act, says(0, learned=(Fact("fact", "high"),)), k=1)
    episode = play(made)
    assert depths(episode) == [3]
    memory = episode.memory
    assert isinstance(memory, Notes)
    assert [note.text for note in memory.notes] == ["step 2, jump: a slip"]
    assert memory.notes[0].failure is not None
    assert (memory.notes[0].failure.action, memory.notes[0].facts) == ("jump", ())


# --- rollbacks ------------------------------------------------------------------------------------------------------


def test_ga_rollback_looks_after_step_six_and_goes_back_one_to_four_six_times() -> None:
    episode = play(built("ga_rollback", Line(*["slip"] * 99), always(VerdictKind.ROLLBACK), k=9), calls=60)
    assert min(reviews(episode)) == 7
    assert set(depths(episode)) <= {1, 2, 3, 4}
    assert depths(episode)[0] == 4
    assert episode.ledger.rollbacks == 6
    assert isinstance(episode.memory, Notes)
    assert len(episode.memory.notes) == 3


def assistant(step: str, sure: float) -> Any:
    """A model whose assistant names ``step`` with this mean token probability; it acts by the first option."""
    import math

    class Sure:
        name = "sure"

        def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
            return [Completion("that was a mistake there") for _ in prompts]

        def choose(self, prompts: Sequence[Prompt], options: Sequence[Sequence[str]]) -> list[Choice]:
            chosen = [list(row).index(step) if row[0] == "none" and step in row else 0 for row in options]
            return [
                Choice(i, tuple(math.log(sure) if j == i else -9.0 for j in range(len(row))))
                for i, row in zip(chosen, options, strict=True)
            ]

    return Sure()


@pytest.mark.parametrize(("sure", "rolls"), [(0.92, 0), (0.94, 1)])
def test_ga_rollback_ignores_an_assistant_that_is_not_sure(sure: float, rolls: int) -> None:
    made = MECHANISMS["ga_rollback"](**model_roles(assistant("5", sure)))
    episode = play(made, calls=9)
    assert depths(episode) == [2] * rolls
    verdicts = [event for event in episode.events if isinstance(event.value, Verdict)]
    assert verdicts[0].t == 7
    if rolls:
        assert isinstance(episode.memory, Notes)
        assert episode.memory.notes[0].text == "step 5: that was a mistake there"
        assert episode.ledger.auxiliary == episode.ledger.reviews + episode.ledger.patches


def test_src_looks_every_three_steps_and_rejects_three_at_most() -> None:
    act = Line(*["slip"] * 5)
    episode = play(built("src", act, says(0), k=9), calls=14)
    assert reviews(episode)[:3] == [3, 3, 6]
    assert depths(episode) == [3]
    notes = [getattr(view.memory, "failure", None) is not None for view in act.seen]
    assert notes[4:7] == [True, False, False]  # shown at the step from which three were rejected, and there alone


def test_src_ends_the_run_when_a_target_was_hit_more_than_twice() -> None:
    episode = play(built("src", Line(*["slip"] * 99), always(VerdictKind.ROLLBACK), k=3), calls=60)
    assert (depths(episode), episode.stopped) == ([3, 3, 3], "final")


def test_src_accepts_when_a_verdict_cannot_be_read() -> None:
    episode = play(built("src", Line(), always(VerdictKind.UNPARSED)))
    assert episode.success
    assert episode.ledger.rollbacks == 0


def test_src_rejects_six_times_at_most() -> None:
    episode = play(built("src", Line(), always(VerdictKind.ROLLBACK), k=1), calls=99)
    assert episode.ledger.rollbacks == 6


def test_webrollback_has_a_critic_at_every_step_and_no_memory() -> None:
    act = Line()
    episode = play(built("webrollback", act, says(2, learned=(Fact("fact", "high"),)), k=2))
    assert reviews(episode)[:4] == [1, 2, 3, 1]
    assert (depths(episode), episode.ledger.patches) == ([2], 0)
    assert {view.memory.render() for view in act.seen} == {""}


def test_webrollback_by_a_model_selects_any_earlier_state_at_once() -> None:
    def choose(prompt: Prompt, row: Sequence[str]) -> int:
        said = prompt.messages[-1].content
        return 1 if ("ROLLBACK" in row and "Status: step 3." in said) or "most promising" in said else 0

    made = MECHANISMS["webrollback"](**model_roles(FunctionModel(choices=choose)))
    episode = play(made, calls=5)
    assert depths(episode) == [2]
    assert (episode.ledger.coarse, episode.ledger.fine, episode.ledger.patches) == (0, 1, 0)


def test_agentrewind_carries_a_request_out_and_keeps_every_note() -> None:
    request = Decision(DecisionKind.REQUEST, thought="wrong way", target=1)
    lines = [Decision.act("up"), Decision.act("up"), request, request, request, request]

    class Agent(Line):
        def __call__(self, views: Sequence[View]) -> list[Decision]:
            self.seen += views
            return [lines.pop(0) if lines else Decision.act("up") for _ in views]

    act = Agent()
    episode = play(built("agentrewind", Asking(act, says()), says()), rollbacks=5)
    assert depths(episode) == [1, 0, 0, 0]
    assert isinstance(episode.memory, Notes)
    assert [note.text for note in episode.memory.notes] == ["wrong way"] * 4
    assert episode.success


def test_agentrewind_without_a_target_asks_where() -> None:
    asks = Asking(Line(), says(2))
    episode = play(built("agentrewind", asks, says(), k=2))
    assert depths(episode) == [2]
    assert episode.ledger.requests == 1


def test_a_scripted_agent_asks_once_a_step_and_not_without_a_rollback_left() -> None:
    asking = Asking(Line(), always(VerdictKind.ROLLBACK))
    declined = MECHANISMS["agent_only"](
        act=asking, reviewer=always(VerdictKind.CONTINUE), where=back(1), what=ScriptedPatch()
    )
    episode = play(declined)
    assert episode.success
    assert (episode.ledger.requests, episode.ledger.reviews) == (9, 10)  # and the end
    assert play(built("agent_only", asking, always(VerdictKind.ROLLBACK)), rollbacks=2).ledger.rollbacks == 2


@pytest.mark.parametrize(("chance", "least", "most"), [(0.0, 0, 0), (0.5, 1, 8), (1.0, 9, 9)])
def test_how_often_it_asks(chance: float, least: int, most: int) -> None:
    asking = Asking(Line(), always(VerdictKind.ROLLBACK), chance=chance)
    made = MECHANISMS["agent_only"](
        act=asking, reviewer=always(VerdictKind.CONTINUE), where=back(1), what=ScriptedPatch()
    )
    assert least <= play(made).ledger.requests <= most


# --- search ---------------------------------------------------------------------------------------------------------


class Dice:
    """An agent that draws from a list by the number of agent calls, as a temperature does."""

    def __init__(self, *actions: str) -> None:
        self.actions = actions

    def __call__(self, views: Sequence[View]) -> list[Decision]:
        return [Decision.act(self.actions[view.agent_calls % len(self.actions)]) for view in views]


def test_lats_samples_ten_at_the_root_and_five_elsewhere_and_pays_for_each() -> None:
    made = built("lats", Dice("up", "up", "up", "slip"), always(VerdictKind.CONTINUE))
    episode = play(made, calls=22)
    decisions = [event.value for event in episode.events if isinstance(event.value, Decision)]
    assert [decision.agent_calls for decision in decisions] == [10, 5, 5, 2]
    assert {decision.action for decision in decisions} == {"up"}
    assert decisions[0].sampled == ("up", "slip")
    assert episode.ledger.agent_calls == 22


def test_lats_goes_on_from_a_sibling_that_was_paid_for() -> None:
    made = built("lats", Dice("jump", "jump", "up"), broken_is_bad)
    episode = play(made, calls=17)
    decisions = [event.value for event in episode.events if isinstance(event.value, Decision)]
    assert [(d.action, d.agent_calls) for d in decisions] == [("jump", 10), ("jump", 5), ("up", 0), ("jump", 2)]
    assert decisions[0].sampled == ("jump", "up")
    assert episode.ledger.rollbacks == 1
    memory = episode.memory
    assert isinstance(memory, SearchMemory)
    root = memory.place(())
    assert root is not None
    assert (root.visits, root.total, root.untried) == (1, pytest.approx(0.1), ())
    assert len(memory.notes) == 1


def broken_is_bad(views: Sequence[View]) -> list[Verdict]:
    return [
        Verdict(VerdictKind.ROLLBACK if "broken" in view.observation else VerdictKind.CONTINUE, 1.0, "a broken leg")
        for view in views
    ]


def test_lats_stops_at_the_true_reward_and_keeps_three_reflections() -> None:
    made = built("lats", Dice(*["jump"] * 6, *["slip"] * 2, *["up"] * 192), broken_is_bad)
    episode = play(made, calls=200)
    assert (episode.success, episode.stopped) == (True, "terminated")
    assert episode.ledger.rollbacks >= 1
    assert isinstance(episode.memory, SearchMemory)
    assert 1 <= len(episode.memory.notes) <= 3
    assert episode.ledger.agent_calls >= episode.ledger.steps


def test_lats_jumps_to_another_branch() -> None:
    """After the left branch is spent, UCT goes to a node that is no ancestor of where it stands."""
    made = built("lats", Dice("up", "slip", "jump"), broken_is_bad)
    made = replace(made, when=replace(made.when, depth=2))  # type: ignore[type-var]
    episode = play(made, calls=300)
    jumps = [
        (event.node, _restore(episode.events[i + 1]).point)
        for i, event in enumerate(episode.events)
        if event.outcome == "rollback"
    ]
    off = [at for at, to in jumps if to is not None and to.node not in {n.id for n in episode.nodes[at].branch()}]
    assert off


def test_lats_ends_after_thirty_iterations() -> None:
    made = built("lats", Dice("slip", "jump"), always(VerdictKind.ROLLBACK))
    episode = play(made, calls=900)
    assert isinstance(episode.memory, SearchMemory)
    assert episode.memory.iterations == episode.ledger.rollbacks <= 30


def test_lats_by_a_model_reads_values_from_one_to_ten() -> None:
    def choose(prompt: Prompt, row: Sequence[str]) -> int:
        return 6 if row[-1] == "10" else 0

    made = MECHANISMS["lats"](**model_roles(FunctionModel(choices=choose)))
    episode = play(made, calls=16)
    assert isinstance(episode.memory, SearchMemory)
    assert {place.value for place in episode.memory.places} == {0.7}


# --- the paper's own ------------------------------------------------------------------------------------------------


def test_the_triggers() -> None:
    def at(name: str, act: Any, **schedule: Any) -> list[int]:
        return reviews(play(built(name, act, always(VerdictKind.CONTINUE), **schedule), calls=9))

    asking = Asking(Line(), says(1))
    assert at("agent_only", asking) == [2]
    assert at("scheduled_fixed", Line()) == [6]
    assert at("scheduled_fixed", Line(), l_min=2, l_max=4) == [3, 6]
    assert at("scheduled_adaptive", Line(), l_min=2, l_max=6) == [6, 8]  # L_0 = 6, then L = 2: the urgency is 1
    assert at("hybrid_fixed", Asking(Line(), says(1)), l_min=2, l_max=4) == [2, 5]
    assert at("rir", Asking(Line(), says(1)), l_min=2, l_max=6) == [2, 4, 6]


def test_a_request_does_not_hasten_a_schedule() -> None:
    requests = [Decision.act("up"), Decision(DecisionKind.REQUEST)]

    def act(views: Sequence[View]) -> list[Decision]:
        return [requests[view.agent_calls % 2] for view in views]

    scheduled = built("scheduled_fixed", act, always(VerdictKind.CONTINUE), l_min=5, l_max=5)
    assert reviews(play(scheduled, calls=8)) == []
    assert reviews(play(built("hybrid_fixed", act, always(VerdictKind.CONTINUE)), calls=8)) == [1, 2, 3, 4]


def test_direct_selection_is_one_stage() -> None:
    episode = play(built("direct_selection", Line("slip"), says(0), l_min=2, l_max=2))
    assert (episode.ledger.rollbacks, episode.ledger.coarse, episode.ledger.fine) == (1, 0, 1)


# --- all of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(MECHANISMS) - NEEDS_MODEL))
def test_each_plays_apothecary_with_instruments_within_its_budget(name: str) -> None:
    roles = {"reviewer": evidence_reviewer, "where": evidence_localizer, "what": ScriptedPatch()}
    made = MECHANISMS[name](act=Expert(trust=1.0, slip=0.2), **roles)
    envs = [RollbackWrapper(gym.make("rir_gym/Apothecary-v0")) for _ in range(8)]
    episodes = run(envs, made, budget=Budget(30, made.max_rollbacks or 3), seeds=range(8))
    assert all(episode.ledger.agent_calls <= 30 for episode in episodes)
    alone = [
        run(
            [RollbackWrapper(gym.make("rir_gym/Apothecary-v0"))],
            made,
            budget=Budget(30, made.max_rollbacks or 3),
            seeds=[i],
        )
        for i in range(8)
    ]
    assert [episode.ledger for episode in episodes] == [episode.ledger for [episode] in alone]


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_each_is_played_by_a_model(name: str) -> None:
    def choose(prompt: Prompt, row: Sequence[str]) -> int:
        return prompt.seed % len(row)

    def reply(prompt: Prompt) -> str:
        return ["the wrong thing was done there", "", "up"][prompt.seed % 3]

    book = RuleBook((Rule("never jump"),))
    made = MECHANISMS[name](**model_roles(FunctionModel(reply, choose), temperature=1.0), rules=book)
    for seed in range(4):
        env = RollbackWrapper(Stairs(ends=True), snapshot="native")
        [episode] = run([env], made, budget=Budget(25, 3), seeds=[seed])
        assert episode.ledger.agent_calls <= 25
        for event in episode.events:
            for call in event.value.calls:
                assert "$" not in call.messages[-1].content


def test_a_point_that_is_not_there_is_none() -> None:
    from rir_policies.targets import Named

    view = View(1, "g", (), Notes("g"), restorable=(RestorePoint(0, 0), RestorePoint(1, 1)))
    verdicts = [Verdict(VerdictKind.ROLLBACK, diagnosis=text) for text in ("step 1: x", "step 7: x", "x step 1:", "")]
    points = [restore.point for restore in Named()([view] * 4, verdicts)]
    assert points == [RestorePoint(1, 1), None, None, None]

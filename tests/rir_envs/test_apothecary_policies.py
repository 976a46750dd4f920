"""The expert, the facts and the evidence roles beside Apothecary: what they know, never read, and do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from rir_envs.apothecary import ApothecaryEnv
from rir_envs.apothecary_evidence import mistake
from rir_envs.apothecary_policies import Expert, evidence_localizer, evidence_reviewer, knowledge, observed_facts
from rir_envs.apothecary_reading import seen_in
from rir_envs.apothecary_world import State, World
from rir_gym.base import Decision, DecisionKind, Mechanism, Patch, RestorePoint, Step, Verdict, VerdictKind, View
from rir_gym.errors import UsageError
from rir_gym.ledger import Budget
from rir_gym.loop import run
from rir_gym.memory import Fact, Failure, Memory, ReflectionMemory
from rir_gym.rollback import RollbackWrapper

DIFFICULTIES: tuple[dict[str, Any], ...] = (
    {},
    {"stores": 8, "ingredients": 9, "recipe_size": 4, "spare": 0.6},
    {"stores": 1, "ingredients": 3, "recipe_size": 2, "spare": 0.0},
    {"rumour_wrong": 1.0},
)
CAREFUL, HASTY = Expert(trust=0.0, slip=0.0), Expert(trust=1.0, slip=0.0)


class Forbidden:
    """Stands where oracle knowledge would be; reading anything of it fails the test."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"read {name} of the oracle")


class Branch:
    """A branch played by hand; ``view`` is what a role sees of it. The oracle is Forbidden everywhere."""

    def __init__(self, seed: int = 0, **difficulty: Any) -> None:
        self.seed, self.env = seed, ApothecaryEnv(**difficulty)
        observation, info = self.env.reset(seed=seed)
        self.objective = str(info["objective"])
        self.history = [Step(None, observation, info=self._visible(info), oracle=Forbidden())]  # type: ignore[arg-type]

    def play(self, *actions: str) -> Branch:
        for action in actions:
            observation, reward, terminated, truncated, info = self.env.step(action)
            step = Step(action, observation, reward, terminated, truncated, self._visible(info), Forbidden())  # type: ignore[arg-type]
            self.history.append(step)
        return self

    def fetch(self, *things: str) -> Branch:
        for thing in things:
            self.play(f"go {next(room for room, lie in self.state.floor if thing in lie)}", f"take {thing}")
        return self

    def wander(self, rng: random.Random, steps: int) -> Branch:
        for _ in range(steps):
            admissible = list(self.history[-1].admissible or ())
            if admissible:
                weights = [1 if command.startswith("go") else 4 for command in admissible]
                self.play(rng.choices(admissible, weights)[0])
        return self

    def act(self, expert: Expert, calls: int, memory: Memory | None = None) -> Branch:
        for _ in range(calls):
            if not self.over:
                self.play(expert([self.view(memory)])[0].action)
        return self

    @property
    def over(self) -> bool:
        return self.history[-1].over

    @property
    def world(self) -> World:
        world = self.env.get_state().world
        assert world is not None
        return world

    @property
    def state(self) -> State:
        state = self.env.get_state().state
        assert state is not None
        return state

    def view(self, memory: Memory | None = None, *, keep: Sequence[int] | None = None, **more: Any) -> View:
        points = range(len(self.history)) if keep is None else keep
        view = View(
            seed=self.seed,
            objective=self.objective,
            history=tuple(self.history),
            memory=memory or ReflectionMemory(self.objective),
            restorable=tuple(RestorePoint(node=100 + t, t=t) for t in points),
            agent_calls=len(self.history),
            agent_calls_left=20,
            rollbacks_left=3,
            oracle=Forbidden(),  # type: ignore[arg-type]
        )
        return replace(view, **more)

    @staticmethod
    def _visible(info: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in info.items() if key != "oracle"}


@dataclass(frozen=True)
class Plans:
    """A memory of another kind."""

    def render(self) -> str:
        return "try harder"

    def learn(self, learned: Sequence[Fact]) -> Plans:
        return self

    def to_json(self) -> dict[str, Any]:
        return {}


def verdict(view: View) -> Verdict:
    return evidence_reviewer([view])[0]


def wrong_rumours(kind: str, count: int = 12) -> list[Branch]:
    """Branches of worlds without spares whose rumour is wrong in an ingredient, or in the treatment."""
    branches = [Branch(seed, rumour_wrong=1.0, spare=0.0) for seed in range(60)]
    alike = {"treatment": True, "ingredient": False}[kind]
    found = [b for b in branches if (b.world.rumour.ingredients == b.world.recipe.ingredients) is alike]
    return found[:count]


# --- knowledge and facts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_knowledge_of_a_branch_agrees_with_the_hidden_world(difficulty: dict[str, Any]) -> None:
    for seed in range(25):
        branch = Branch(seed, **difficulty).wander(random.Random(seed), 30)
        known, state, world = knowledge(branch.view()), branch.state, branch.world
        assert known.rumour == world.rumour
        assert known.recipe in (None, world.recipe)
        assert (known.recipe is not None) == state.read == known.state.read
        assert known.book in (None, world.book)
        assert replace(known.state, floor=()) == replace(state, floor=())
        assert set(known.state.floor) == {(room, lie) for room, lie in state.floor if room in known.explored}
        visited = {seen.room for step in branch.history if (seen := seen_in(step.observation))}
        assert known.explored == visited & set(world.rooms[3:])
        assert branch.over or known.stores == tuple(sorted(world.rooms[3:]))


def test_facts_are_true_invariant_and_carry_the_step_that_shows_them() -> None:
    kinds = set()
    for seed in range(100):
        branch = Branch(seed, **DIFFICULTIES[seed % len(DIFFICULTIES)])
        start = dict(branch.state.floor)
        branch.wander(random.Random(seed), 25)
        world, view = branch.world, branch.view()
        truths = {("fact", f"the book says: {world.recipe}"), ("fact", f"the book is in the {world.book}")}
        truths |= {
            ("fact", f"at the start these lay in the {room}: {', '.join(lie) or 'nothing'}")
            for room, lie in start.items()
        }
        if world.rumour != world.recipe:
            truths.add(("elimination", f"the rumoured recipe is wrong: {world.rumour}"))
        facts = observed_facts(view)
        assert len({fact.text for fact in facts}) == len(facts)
        for fact in facts:
            assert (fact.channel, fact.text) in truths
            assert fact.invariant
            assert not fact.reverify
            assert fact.step is not None
            assert fact in observed_facts(replace(view, history=view.history[: fact.step + 1]))
            assert fact not in observed_facts(replace(view, history=view.history[: fact.step]))
            kinds.add(fact.text.split(":")[0].rsplit(" ", 1)[0])
    assert len(kinds) == 4


def test_facts_survive_in_memory_and_are_read_back() -> None:
    for seed in range(50):
        branch = Branch(seed, rumour_wrong=1.0).act(CAREFUL, 40)
        seen = knowledge(branch.view())
        memory = (
            ReflectionMemory(branch.objective).learn(observed_facts(branch.view())).abandon(resumed_at=0, ended_at=9)
        )
        again = Branch(seed, rumour_wrong=1.0)
        known = knowledge(again.view(memory))
        assert (known.recipe, known.book, known.explored) == (seen.recipe, seen.book, seen.explored)
        assert known.refuted
        assert known.state.room == "hall"
        assert set(known.state.floor) == {(room, lie) for room, lie in again.state.floor if room in known.explored}
        again.act(CAREFUL, 4, memory)
        assert observed_facts(again.view(memory)) == observed_facts(again.view())


def test_a_dark_offer_of_exactly_the_rumour_refutes_it_and_no_other_does() -> None:
    for branch in wrong_rumours("treatment"):
        branch.act(HASTY, 40)
        dark = [i for i, step in enumerate(branch.history) if "stays dark" in step.observation]
        assert dark
        elimination = Fact(
            "elimination", f"the rumoured recipe is wrong: {branch.world.rumour}", dark[0], invariant=True
        )
        assert elimination in observed_facts(branch.view())
    branch = Branch(0, rumour_wrong=1.0, spare=0.0)
    branch.fetch(branch.world.rumour.ingredients[0]).play(
        "go lab", f"pour {branch.world.rumour.ingredients[0]}", "heat"
    )
    view = branch.play("go shrine", "offer").view()
    assert knowledge(view).dark
    assert not knowledge(view).refuted
    assert all(fact.channel == "fact" for fact in observed_facts(view))


def test_what_cannot_be_read_is_skipped() -> None:
    branch = Branch(3).play("go attic", "take honey", "x" * 100_000)
    expected = knowledge(branch.view())
    strange = [Step("?", text) for text in ("", "水", 7, None, "You are in the attic.", b"You hold ash.")]
    view = branch.view(Plans(), history=(*branch.history[:2], *strange, *branch.history[2:]))
    assert knowledge(view) == expected
    assert HASTY.intent(view) == HASTY.intent(branch.view())
    facts = [
        Fact("fact", text, 1) for text in ("the book says: ", "the book says: x", "at the start these lay in the ", "")
    ]
    told = knowledge(branch.view(ReflectionMemory("g").learn(facts)))
    assert told.recipe is None
    doubtful = Fact("fact", "the book says: ash, bone, moss, then heat", 1, reverify=True)
    assert knowledge(branch.view(ReflectionMemory("g", (doubtful,)))).recipe is None
    only_strange = replace(view, history=tuple(strange))
    assert observed_facts(only_strange) == ()
    assert verdict(only_strange).kind is VerdictKind.CONTINUE
    assert CAREFUL([only_strange])[0].kind is DecisionKind.ACTION


# --- the expert -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_a_careful_expert_without_slips_always_succeeds(difficulty: dict[str, Any]) -> None:
    for seed in range(50):
        assert Branch(seed, **difficulty).act(CAREFUL, 45).state.won


def test_a_hasty_expert_without_slips_stands_or_falls_with_the_rumour() -> None:
    for seed in range(50):
        right = Branch(seed, rumour_wrong=0.0).act(HASTY, 45)
        assert right.state.won
        assert not right.state.read
        wrong = Branch(seed, rumour_wrong=1.0, spare=0.0).act(HASTY, 45)
        assert not wrong.state.won
        assert any("stays dark" in step.observation for step in wrong.history)
        assert wrong.state.read


def test_haste_is_drawn_once_an_episode_and_slips_at_every_call() -> None:
    expert = Expert(trust=0.3, slip=0.25)
    assert 240 < sum(expert.hasty(seed) for seed in range(1000)) < 360
    assert [expert.hasty(seed) for seed in range(50)] != [
        replace(expert, seed_salt="b").hasty(seed) for seed in range(50)
    ]
    view = Branch(5).view()
    views = [replace(view, agent_calls=calls) for calls in range(1000)]
    actions = [decision.action for decision in expert(views)]
    assert actions == [decision.action for decision in expert(views)]
    assert set(actions) == set(view.admissible or ())
    assert 150 < sum(action != expert.intent(view) for action in actions) < 280
    assert {expert.intent(one) for one in views} == {expert.intent(view)}


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_intents_are_admissible_on_any_branch(difficulty: dict[str, Any]) -> None:
    for seed in range(40):
        branch = Branch(seed, **difficulty)
        rng = random.Random(seed)
        while len(branch.history) < 40 and not branch.over:
            for expert in (CAREFUL, HASTY):
                assert expert.intent(branch.view()) in (branch.history[-1].admissible or ())
            branch.wander(rng, 1)


def test_the_expert_sees_views_only() -> None:
    """Where two worlds look the same so far, the decisions are the same, whatever is hidden."""
    pairs = 0
    for seed in range(40):
        one, two = Branch(seed, rumour_wrong=0.0), Branch(seed, rumour_wrong=0.0)
        hidden = two.env.get_state()
        other = replace(two.world.recipe, treatment={"heat": "chill", "chill": "heat"}[two.world.recipe.treatment])
        two.env.set_state(replace(hidden, world=replace(two.world, recipe=other)))
        expert = Expert(trust=1.0, slip=0.2)
        while len(one.history) < 15 and one.history[-1].observation == two.history[-1].observation:
            first, second = expert([one.view(), two.view()])
            assert first == second
            one.play(first.action)
            two.play(second.action)
            pairs += 1
    assert pairs > 400


def test_with_the_memory_of_a_failure_a_hasty_expert_reads_the_book_first() -> None:
    for branch in wrong_rumours("ingredient"):
        memory = ReflectionMemory("g", failure=Failure("the shrine stayed dark", action="pour ash"))
        branch.act(HASTY, 45, memory)
        assert branch.state.won
        read = next(i for i, step in enumerate(branch.history) if step.action == "read")
        assert all(not step.action.startswith("pour") for step in branch.history[1:read])


def test_a_room_that_the_memory_blames_is_explored_last() -> None:
    branch = Branch(0)
    order = sorted(branch.world.rooms[3:])
    assert CAREFUL.intent(branch.view()) == f"go {order[0]}"
    memory = ReflectionMemory("g", failure=Failure("nothing there", action=f"go {order[0]}"))
    assert CAREFUL.intent(branch.view(memory)) == f"go {order[1]}"


@pytest.mark.parametrize("arguments", [{"trust": -0.1}, {"trust": 2}, {"slip": "often"}, {"slip": True}])
def test_bad_settings_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="a probability"):
        Expert(**arguments)


# --- review and localization by evidence ----------------------------------------------------------------------------


def test_no_alarm_without_evidence() -> None:
    reviews = 0
    for seed in range(60):
        difficulty = DIFFICULTIES[seed % len(DIFFICULTIES)]
        careful = Branch(seed, **difficulty)
        dry = Branch(seed, **difficulty)
        rng = random.Random(seed)
        for _ in range(35):
            careful.act(CAREFUL, 1)
            safe = [command for command in dry.history[-1].admissible or () if not command.startswith("pour")]
            dry.play(rng.choice(safe))
            for branch in (careful, dry):
                answer = verdict(branch.view(terminal=branch.over))
                assert answer.kind is VerdictKind.CONTINUE
                assert answer.learned == observed_facts(branch.view())
                reviews += 1
    assert reviews > 1000


@pytest.mark.parametrize("kind", ["ingredient", "treatment"])
def test_a_dark_offer_of_an_unknown_recipe_goes_back_before_the_brew(kind: str) -> None:
    for branch in wrong_rumours(kind):
        while "stays dark" not in branch.history[-1].observation:
            assert verdict(branch.view()).kind is VerdictKind.CONTINUE
            branch.act(HASTY, 1)
        view = branch.view()
        answer = verdict(view)
        assert (answer.kind, answer.urgency) == (VerdictKind.ROLLBACK, 1.0)
        assert "dark" in answer.diagnosis
        restore = evidence_localizer([view], [answer])[0]
        poured = next(i for i, step in enumerate(branch.history) if str(step.action).startswith("pour"))
        assert restore.point == RestorePoint(node=100 + poured - 1, t=poured - 1)
        assert restore.interval == (poured - 1, view.t)
        assert restore.stages == ("coarse", "fine")


@pytest.mark.parametrize("source", ["branch", "memory"])
def test_a_pot_that_contradicts_the_known_recipe_goes_back_before_the_wrong_action(source: str) -> None:
    for branch in wrong_rumours("ingredient"):
        recipe, rumour = branch.world.recipe, branch.world.rumour
        wrong = next(thing for thing in rumour.ingredients if thing not in recipe.ingredients)
        good = next(thing for thing in rumour.ingredients if thing in recipe.ingredients)
        memory = ReflectionMemory(branch.objective)
        if source == "memory":
            told = Branch(branch.seed, rumour_wrong=1.0, spare=0.0)
            memory = memory.learn(observed_facts(told.play(f"go {told.world.book}", "read").view()))
        branch.fetch(good, wrong).play("go lab", f"pour {good}")
        before = len(branch.history) - 1
        branch.play(f"pour {wrong}", rumour.treatment)
        if source == "branch":
            assert verdict(branch.view(memory)).kind is VerdictKind.CONTINUE
            branch.play(f"go {branch.world.book}", "read")
        view = branch.view(memory)
        assert verdict(view).kind is VerdictKind.ROLLBACK
        assert wrong in verdict(view).diagnosis
        restore = evidence_localizer([replace(view, memory=memory.learn(observed_facts(view)))], [verdict(view)])[0]
        assert restore.point is not None
        assert restore.point.t == before
        after = Branch(branch.seed, rumour_wrong=1.0, spare=0.0).play(
            *[str(step.action) for step in branch.history[1 : before + 1]]
        )
        informed = memory.learn(observed_facts(view))
        assert HASTY.intent(after.view(informed)) != f"pour {wrong}"
        assert after.act(HASTY, 30, informed).state.won


def test_what_was_poured_away_still_counts_where_it_was_needed() -> None:
    for branch in wrong_rumours("ingredient"):
        good = branch.world.recipe.ingredients[0]
        branch.play(f"go {branch.world.book}", "read").fetch(good).play("go lab", f"pour {good}")
        before = len(branch.history) - 1
        view = branch.play("empty").view()
        assert verdict(view).kind is VerdictKind.ROLLBACK
        restore = evidence_localizer([view], [verdict(view)])[0]
        assert restore.point is not None
        assert restore.point.t == before


def test_what_is_cheaper_to_repair_than_to_undo_is_left_to_the_agent() -> None:
    for branch in wrong_rumours("ingredient"):
        junk = next(thing for thing in branch.world.rumour.ingredients if thing not in branch.world.recipe.ingredients)
        branch.play(f"go {branch.world.book}", "read").fetch(junk).play("go lab", f"pour {junk}")
        assert mistake(branch.view()) is None
        assert branch.act(HASTY, 1).history[-1].action == "empty"
        assert verdict(branch.view()).kind is VerdictKind.CONTINUE


def test_the_localizer_takes_what_can_be_restored() -> None:
    branch = wrong_rumours("treatment")[0].act(HASTY, 40)
    blamed = mistake(branch.view())
    assert blamed is not None
    early, late = blamed.step - 3, blamed.step + 2
    views = [branch.view(keep=keep) for keep in ((0, early, late), (late,), (), range(late))]
    points = [restore.point for restore in evidence_localizer(views, [verdict(view) for view in views])]
    assert [point and point.t for point in points] == [early, None, None, blamed.step]
    calm = Branch(1).play("go attic").view()
    here = evidence_localizer([calm], [verdict(calm)])[0]
    assert here.point is not None
    assert here.point.t == calm.t


def test_batches_are_answered_in_order() -> None:
    branches = [Branch(seed).wander(random.Random(seed), 20) for seed in range(10)]
    views = [branch.view() for branch in branches if not branch.over]
    verdicts = evidence_reviewer(views)
    assert verdicts == [verdict(view) for view in views]
    assert evidence_localizer(views, verdicts) == [
        evidence_localizer([view], [one])[0] for view, one in zip(views, verdicts, strict=True)
    ]
    assert Expert()(views) == [Expert()([view])[0] for view in views]


def test_on_the_loop_recovery_by_evidence_beats_none() -> None:
    """Same agent, same calls: the whole world, its views and these roles fit together."""

    def when(views: Sequence[View]) -> list[Verdict]:
        due = [view.terminal or view.t - (view.last_review.step if view.last_review else 0) >= 4 for view in views]
        return [verdict(view) if now else Verdict.not_due() for view, now in zip(views, due, strict=True)]

    def what(views: Sequence[View], verdicts: Sequence[Verdict], restores: Sequence[Any]) -> list[Patch]:
        patches = []
        for view, answer, restore in zip(views, verdicts, restores, strict=True):
            assert isinstance(view.memory, ReflectionMemory)
            failure = Failure(answer.diagnosis, action=str(view.history[min(restore.point.t + 1, view.t)].action))
            memory = view.memory.abandon(resumed_at=restore.point.t, ended_at=view.t, failure=failure)
            patches.append(Patch(memory))
        return patches

    def never(views: Sequence[View]) -> list[Verdict]:
        return [Verdict.not_due() for _ in views]

    def act(views: Sequence[View]) -> list[Decision]:
        assert all(view.oracle is None for view in views)
        return Expert()(views)

    seeds, wins = range(100), []
    envs = [RollbackWrapper(ApothecaryEnv()) for _ in seeds]
    for name, trigger in (("none", never), ("rir", when)):
        mechanism = Mechanism(name, act, trigger, evidence_localizer, what)
        wins.append(sum(episode.success for episode in run(envs, mechanism, budget=Budget(32), seeds=seeds)))
    assert wins[1] >= wins[0] + 10

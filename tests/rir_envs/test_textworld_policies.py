"""The expert, the facts and the evidence roles beside TextWorld: what they know, never read, and do."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_envs.textworld import TextWorldEnv, cooking, simple
from rir_envs.textworld_errands import kind, route, sought
from rir_envs.textworld_evidence import mistake
from rir_envs.textworld_policies import Expert, evidence_localizer, evidence_reviewer, knowledge, observed_facts
from rir_envs.textworld_reading import COOK, CUT, Direction, read_recipe
from rir_gym.base import Decision, DecisionKind, Mechanism, Patch, RestorePoint, Step, Verdict, VerdictKind, View
from rir_gym.errors import UsageError
from rir_gym.ids import IDS
from rir_gym.ledger import Budget
from rir_gym.loop import run
from rir_gym.memory import Fact, Failure, Memory, ReflectionMemory
from rir_gym.rollback import RollbackWrapper

CAREFUL, HASTY = Expert(trust=0.0, slip=0.0), Expert(trust=1.0, slip=0.0)
RISKY = ("eat", "cook", "slice", "dice", "chop", "prepare")

needs_textworld = pytest.mark.skipif(find_spec("textworld") is None, reason="needs the extra 'textworld'")


class Forbidden:
    """Stands where oracle knowledge would be; reading anything of it fails the test."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"read {name} of the oracle")


@dataclass
class House:
    """A treasure hunt in TextWorld's words: rooms on a grid, open exits, and things on floors.

    ``sought`` taken wins and ``wrong`` taken loses, as in the treasure hunter; only the walls are simpler.
    """

    rooms: dict[tuple[int, int], str]
    walls: set[frozenset[tuple[int, int]]]
    lies: dict[str, tuple[int, int]]
    sought: str = "coin"
    wrong: str = ""
    at: tuple[int, int] = (0, 0)
    held: set[str] = field(default_factory=set)

    def reset(self, *, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        self.at, self.held = (0, 0), set()
        return f"Your objective is to retrieve the {self.sought}.\n\n{self.look()}", self.info()

    def ways(self) -> dict[str, tuple[int, int]]:
        x, y = self.at
        near = {"north": (x, y + 1), "south": (x, y - 1), "east": (x + 1, y), "west": (x - 1, y)}
        return {w: p for w, p in near.items() if p in self.rooms and frozenset((self.at, p)) not in self.walls}

    def here(self) -> list[str]:
        return sorted(thing for thing, place in self.lies.items() if place == self.at and thing not in self.held)

    def look(self) -> str:
        exits = " ".join(f"There is an exit to the {way}." for way in self.ways())
        things = "".join(f"\n\nThere is a {thing} on the floor." for thing in self.here())
        return f"-= {self.rooms[self.at]} =-\nYou are in a room.\n\n{exits}{things}"

    def info(self) -> dict[str, Any]:
        over = self.sought in self.held or self.wrong in self.held
        commands = [f"go {way}" for way in self.ways()] + [f"take {thing}" for thing in self.here()]
        return {"objective": f"retrieve the {self.sought}", "admissible": [] if over else sorted([*commands, "look"])}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        assert action in self.info()["admissible"]
        if action.startswith("go "):
            self.at = self.ways()[action[3:]]
        elif action.startswith("take "):
            self.held.add(action[5:])
        over = self.sought in self.held or self.wrong in self.held
        end = "*** The End ***" if self.sought in self.held else "*** You lost! ***"
        text = f"You pick it up.\n\n{end}" if over else self.look()
        return text, 0.0, over, False, self.info()


class Branch:
    """A branch played by hand; ``view`` is what a role sees of it. The oracle is Forbidden everywhere."""

    def __init__(self, env: Any, seed: int = 0) -> None:
        self.seed, self.env = seed, env
        observation, info = env.reset(seed=seed)
        self.objective = str(info["objective"])
        self.history = [self._step(None, observation, info=info)]

    def play(self, *actions: str) -> Branch:
        for action in actions:
            observation, reward, terminated, truncated, info = self.env.step(action)
            self.history.append(self._step(action, observation, reward, terminated, truncated, info=info))
        return self

    def wander(self, rng: random.Random, steps: int) -> Branch:
        for _ in range(steps):
            safe = [c for c in self.history[-1].admissible or () if not c.startswith(RISKY)]
            if safe:
                self.play(rng.choice(safe))
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
    def won(self) -> bool:
        return "*** The End ***" in self.history[-1].observation

    @property
    def lost(self) -> bool:
        return "*** You lost! ***" in self.history[-1].observation

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
    def _step(*values: Any, info: dict[str, Any]) -> Step:
        visible = {key: value for key, value in info.items() if key != "oracle"}
        return Step(*values, info=visible, oracle=Forbidden())  # type: ignore[arg-type]


@dataclass(frozen=True)
class Plans:
    """A memory of another kind."""

    def render(self) -> str:
        return "try harder"

    def learn(self, learned: Sequence[Fact]) -> Plans:
        return self

    def to_json(self) -> dict[str, Any]:
        return {}


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], TextWorldEnv]]:
    """Real games, each made once."""
    made: dict[str, TextWorldEnv] = {}
    makers = {"cooking": lambda: cooking(level=4, game_seed=0), "simple": lambda: simple(level=2, game_seed=0)}

    def get(name: str) -> TextWorldEnv:
        if name not in made:
            made[name] = makers[name]()
        return made[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIR_GYM_CACHE", str(tmp_path_factory.mktemp("games")))
        yield get
    for env in made.values():
        env.close()


@pytest.fixture(params=[pytest.param(name, marks=needs_textworld) for name in ("cooking", "simple")])
def env(request: pytest.FixtureRequest, games: Callable[[str], TextWorldEnv]) -> TextWorldEnv:
    return games(request.param)


@pytest.fixture(params=[pytest.param("cooking", marks=needs_textworld)])
def kitchen(request: pytest.FixtureRequest, games: Callable[[str], TextWorldEnv]) -> TextWorldEnv:
    return games(request.param)


def learned(branch: Branch) -> ReflectionMemory:
    return ReflectionMemory(branch.objective).learn(observed_facts(branch.view()))


def verdict(view: View) -> Verdict:
    return evidence_reviewer([view])[0]


def located(view: View) -> RestorePoint | None:
    return evidence_localizer([view], [verdict(view)])[0].point


houses = st.builds(
    lambda width, height, walls, coin, towel: (width, height, walls, coin, towel),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)


def house(width: int, height: int, walls: int, coin: int, towel: bool) -> House:
    """A connected house: a random spanning tree and some more exits; the coin, and maybe a towel, lie anywhere."""
    rng = random.Random(walls)
    spots = [(x, y) for x in range(width) for y in range(height)]
    pairs = [frozenset((a, b)) for a in spots for b in spots if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]
    pairs = sorted(set(pairs), key=sorted)
    rng.shuffle(pairs)
    group = {spot: spot for spot in spots}
    shut = set()
    for pair in pairs:
        a, b = sorted(pair)
        if group[a] == group[b]:
            shut |= {pair} if rng.random() < 0.7 else set()
        group = {spot: group[a] if at == group[b] else at for spot, at in group.items()}
    lies = {"coin": spots[coin % len(spots)]} | ({"towel": spots[walls % len(spots)]} if towel else {})
    rooms = {spot: f"Room {spot[0]} {spot[1]}" for spot in spots}
    return House(rooms, shut, lies, wrong="towel")


# --- reading and facts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("foods", [("egg",), ("red onion", "salt"), ("block of cheese", "red hot pepper", "milk")])
def test_a_recipe_is_read_as_it_is_written(foods: tuple[str, ...]) -> None:
    verbs = [(cook, cut) for cook in ("", *COOK) for cut in ("", *CUT)]
    for shift in range(len(verbs)):
        recipe = tuple(Direction(food, *verbs[(shift + 5 * i) % len(verbs)]) for i, food in enumerate(foods))
        told = [f"{verb} the {one.food}" for one in recipe for verb in (one.cut, one.cook) if verb]
        names, lines = "\n  ".join(foods), "\n  ".join([*told, "prepare meal"])
        assert read_recipe(f"Gather these.\n\nIngredients:\n{names}\n\nDirections:\n{lines}") == recipe
    assert read_recipe("Ingredients:\n\nDirections:\n") is None


def test_what_the_objective_asks_for() -> None:
    assert kind("Check the cookbook in the kitchen") == "cook"
    assert kind("It's only missing a grilled lettuce.") == kind("place the lettuce on the stove") == "stove"
    assert kind("retrieve the coin") == "find"
    assert route("head north, then go through the east gate of the western house") == ("north", "east")
    known = knowledge(Branch(house(2, 1, 0, 0, True)).view())
    assert sought(known, "coin")
    assert not sought(known, "towel")
    assert not sought(replace(known, objective="take the old coin", held=frozenset(["old coin"])), "coin")


def test_facts_have_their_step_and_are_said_once(env: TextWorldEnv) -> None:
    for seed in range(6):
        branch = Branch(env, seed).act(CAREFUL, 2 * seed).wander(random.Random(seed), 15)
        facts = observed_facts(branch.view())
        assert len({fact.text for fact in facts}) == len(facts) > 3
        for fact in facts:
            assert fact.invariant
            assert fact.step is not None
            assert fact in observed_facts(branch.view(history=tuple(branch.history[: fact.step + 1])))
            assert fact not in observed_facts(branch.view(history=tuple(branch.history[: fact.step])))


def test_facts_of_different_branches_agree(env: TextWorldEnv) -> None:
    """What is called invariant is: random branches, things carried about on them, never contradict each other."""
    said: dict[str, str] = {}
    seen: dict[str, int] = {}
    for seed in range(5):
        branch = Branch(env, seed).act(CAREFUL, 3 * seed).wander(random.Random(seed), 40)
        for fact in observed_facts(branch.view()):
            subject = fact.text.split(": ")[0].split(" leads to ")[0]
            assert said.setdefault(subject, fact.text) == fact.text
            seen[subject] = seen.get(subject, 0) + 1
    assert sum(count > 1 for count in seen.values()) > 10


def test_a_container_is_told_of_once_and_as_it_was(kitchen: TextWorldEnv) -> None:
    branch = Branch(kitchen)
    while "fridge" not in str(branch.history[-1].action):
        branch.act(CAREFUL, 1)
    told = [fact for fact in observed_facts(branch.view()) if "inside the fridge" in fact.text]
    assert len(told) == 1
    assert "nothing" not in told[0].text
    taken = next(c for c in branch.history[-1].admissible or () if c.startswith("take") and c.endswith("from fridge"))
    branch.play(taken, "close fridge", "open fridge")
    assert [fact for fact in observed_facts(branch.view()) if "inside the fridge" in fact.text] == told


def test_facts_survive_in_memory_and_are_read_back(env: TextWorldEnv) -> None:
    done = Branch(env).act(CAREFUL, 60)
    assert done.won
    before = knowledge(done.view(history=tuple(done.history[:-1])))
    memory = learned(done).abandon(resumed_at=0, ended_at=done.view().t)
    again = Branch(env)
    known = knowledge(again.view(memory))
    assert known.places.keys() == before.places.keys()
    assert dict(known.leads) == dict(before.leads)
    assert known.recipe == before.recipe
    assert known.recalled == (before.recipe is not None)
    assert known.room == known.start == before.start
    assert not known.held
    assert len(again.act(CAREFUL, 60, memory).history) <= len(done.history)
    assert again.won


def test_what_is_in_doubt_is_not_read(kitchen: TextWorldEnv) -> None:
    branch = Branch(kitchen)
    facts = [replace(fact, reverify=True) for fact in observed_facts(Branch(kitchen).act(CAREFUL, 40).view())]
    bare = knowledge(Branch(kitchen).view())
    assert knowledge(branch.view(ReflectionMemory(branch.objective, tuple(facts)))) == bare


STARTS = ("the cookbook says: ", "the exits of the ", "going ", "fixed in the ", "at the start these lay in the ",
          "at the start these lay inside the ", "this command lost the game: ", "")  # fmt: skip


@given(st.sampled_from(STARTS), st.text(max_size=40), st.text(max_size=200))
def test_any_text_can_stand_in_history_and_memory(start: str, rest: str, observation: str) -> None:
    branch = Branch(house(2, 2, 1, 3, False))
    strange = [Step("go north", text) for text in (observation, "", 7, None, b"-= Room =-", f"-= {rest} =-\n{start}")]
    strange.append(Step(rest, observation, info={"admissible": [rest, f"take {rest}", f"open {rest}", "go up"]}))
    view = branch.view(ReflectionMemory("g", (Fact("fact", start + rest, 1),)), history=(*branch.history, *strange))
    knowledge(view)
    observed_facts(view)
    for memory in (view.memory, Plans()):
        for expert in (CAREFUL, HASTY):
            assert expert([replace(view, memory=memory)])[0].kind is DecisionKind.ACTION
        answer = verdict(replace(view, memory=memory))
        assert answer.kind in (VerdictKind.CONTINUE, VerdictKind.ROLLBACK)
        evidence_localizer([replace(view, memory=memory)], [answer])


def test_a_megabyte_of_text_is_no_burden() -> None:
    branch = Branch(house(2, 2, 1, 3, False))
    view = branch.view(history=(*branch.history, Step("look", "-= A =-\nan open " * 100_000), *branch.history))
    assert CAREFUL.intent(view) == CAREFUL.intent(branch.view())


# --- the expert -----------------------------------------------------------------------------------------------------


def test_a_careful_expert_wins_and_says_only_what_is_admissible(env: TextWorldEnv) -> None:
    env.reset()
    gold = env.oracle.plan()
    assert gold is not None
    for seed in range(6):
        branch = Branch(env, seed).wander(random.Random(seed), 3 * seed)
        start = len(branch.history)
        while not branch.over and len(branch.history) < start + 80:
            intent = CAREFUL.intent(branch.view())
            assert intent in (branch.history[-1].admissible or ())
            branch.play(intent)
        assert branch.won
        assert seed or len(branch.history) <= 2 * len(gold)


@given(houses)
def test_a_careful_expert_finds_the_coin_in_any_house(settings: tuple[int, int, int, int, bool]) -> None:
    world = house(*settings)
    branch = Branch(world).act(CAREFUL, 4 * len(world.rooms) + 1)
    assert branch.won
    assert all(CAREFUL.intent(branch.view(history=tuple(branch.history[:i]))) in step.info["admissible"]
               for i, step in enumerate(branch.history[:-1], 1))  # fmt: skip


@given(houses, st.integers(0, 50))
def test_misbeliefs_about_ways_only_cost_calls(settings: tuple[int, int, int, int, bool], seed: int) -> None:
    world = house(*settings)
    del world.lies["coin"]
    world.lies = {"coin": max(world.rooms)}
    assert Branch(world, seed).act(HASTY, 8 * len(world.rooms) + 1).won


def test_an_exit_taken_for_a_dead_end_costs_calls() -> None:
    calls = dict.fromkeys((CAREFUL, Expert(trust=0.5, slip=0.0)), 0)
    for seed in range(40):
        world = house(4, 3, seed, 5 * seed, False)
        for expert in calls:
            branch = Branch(world, seed).act(expert, 100)
            assert branch.won
            calls[expert] += branch.view().t
    assert calls[CAREFUL] * 1.05 < calls[Expert(trust=0.5, slip=0.0)]


def test_a_thing_taken_for_the_one_that_is_sought_loses_until_the_memory_knows() -> None:
    world = house(3, 1, 0, 2, False)
    world.lies["towel"] = (1, 0)
    for seed in range(10):
        branch = Branch(world, seed).act(HASTY, 20)
        assert branch.lost
        assert branch.history[-1].action == "take towel"
        assert Branch(world, seed).act(HASTY, 20, ReflectionMemory(branch.objective)).lost
        assert Branch(world, seed).act(HASTY, 20, learned(branch)).won
        blamed = ReflectionMemory(branch.objective, failure=Failure("it was lost", action="take towel"))
        assert Branch(world, seed).act(HASTY, 20, blamed).won
        assert Branch(world, seed).act(CAREFUL, 20).won


def test_a_misread_recipe_loses_until_the_contrary_is_known(kitchen: TextWorldEnv) -> None:
    verbs = set()
    for seed in range(8):
        branch = Branch(kitchen, seed).act(HASTY, 80)
        assert branch.lost
        wrong = branch.history[-1].action
        verbs.add(wrong.split()[0])
        assert wrong.startswith((*CUT, "cook"))
        before = tuple(branch.history[:-1])
        assert HASTY.intent(branch.view(history=before)) == wrong
        assert HASTY.intent(branch.view(Plans(), history=before)) == wrong
        failed = ReflectionMemory(branch.objective, failure=Failure("it was lost", action=wrong))
        lethal = [fact for fact in observed_facts(branch.view()) if fact.channel == "elimination"]
        assert len(lethal) == 1
        book = [fact for fact in observed_facts(branch.view()) if "cookbook says" in fact.text]
        for memory in (
            failed,
            failed.learn(lethal),
            ReflectionMemory("g").learn(book),
            ReflectionMemory("g").learn(lethal),
        ):
            assert HASTY.intent(branch.view(memory, history=before)) != wrong
        assert Branch(kitchen, seed).act(HASTY, 80, learned(branch)).won
    assert len(verbs) > 1


def test_misbeliefs_are_fixed_by_the_seed_and_slips_are_drawn_at_every_call(kitchen: TextWorldEnv) -> None:
    branch = Branch(kitchen)
    expert = Expert(trust=0.4, slip=0.25)
    while not knowledge(branch.view()).recipe:
        branch.act(CAREFUL, 1)
    known = knowledge(branch.view())
    read = [expert.beliefs(known, seed).recipe for seed in range(300)]
    assert read == [expert.beliefs(known, seed).recipe for seed in range(300)]
    assert known.recipe is not None
    right = sum(one in known.recipe for seen in read for one in seen or ())
    assert 0.30 < right / (300 * len(known.recipe)) < 0.42  # 0.6 * 0.6: each direction has two verbs here
    assert read != [replace(expert, seed_salt="b").beliefs(known, seed).recipe for seed in range(300)]
    views = [branch.view(agent_calls=calls) for calls in range(500)]
    actions = [decision.action for decision in expert(views)]
    assert actions == [expert([view])[0].action for view in views]
    assert set(actions) <= set(views[0].admissible or ())
    assert 80 < sum(action != expert.intent(views[0]) for action in actions) < 150


@pytest.mark.parametrize("arguments", [{"trust": -0.1}, {"trust": 2}, {"slip": "often"}, {"slip": True}])
def test_bad_settings_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="a probability"):
        Expert(**arguments)


def test_the_ids_name_this_module() -> None:
    ids = [each for each in IDS if each.id.startswith("rir_gym/TextWorld-")]
    assert {each.policies for each in ids} == {"rir_envs.textworld_policies"}


# --- review and localization by evidence ----------------------------------------------------------------------------


def test_no_alarm_on_a_careful_way(env: TextWorldEnv) -> None:
    branch = Branch(env)
    while not branch.over:
        branch.act(CAREFUL, 1)
        answer = verdict(branch.view(terminal=branch.over))
        assert answer.kind is VerdictKind.CONTINUE
        assert answer.learned == observed_facts(branch.view())
        assert located(branch.view()) == RestorePoint(node=100 + branch.view().t, t=branch.view().t)
    assert branch.won


def test_a_lost_game_goes_back_before_the_command_that_lost_it(kitchen: TextWorldEnv) -> None:
    for seed in range(3):
        branch = Branch(kitchen, seed).act(HASTY, 80)
        view = branch.view(terminal=True, rollbacks_left=1)
        answer = verdict(view)
        assert (answer.kind, answer.urgency) == (VerdictKind.ROLLBACK, 1.0)
        assert str(branch.history[-1].action) in answer.diagnosis
        restore = evidence_localizer([view], [answer])[0]
        assert restore.point == RestorePoint(node=99 + view.t, t=view.t - 1)
        read = next(i for i, step in enumerate(branch.history) if step.action == "examine cookbook")
        assert restore.interval == (read - 1, view.t)
        assert restore.stages == ("coarse", "fine")
        some = [0, view.t - 4]
        assert located(branch.view(keep=some, terminal=True)) == RestorePoint(node=96 + view.t, t=view.t - 4)
        assert located(branch.view(keep=[view.t], terminal=True)) is None
        assert located(branch.view(keep=[], terminal=True)) is None


def test_a_walk_astray_is_undone_where_that_saves_calls() -> None:
    corridor = house(4, 1, 0, 0, False)
    corridor.rooms[0, 1] = "Side"
    corridor.lies = {"coin": (0, 1)}
    told = learned(Branch(corridor).play("go north", "go south", "go east", "go east", "go east"))
    told = told.learn([Fact("fact", "at the start these lay in the Side: coin", 1, invariant=True)])
    branch = Branch(corridor)
    for steps in range(4):
        view = branch.view(told)
        expected = VerdictKind.ROLLBACK if steps == 3 else VerdictKind.CONTINUE
        assert verdict(view).kind is expected
        assert located(view) == RestorePoint(node=100 if steps == 3 else 100 + steps, t=0 if steps == 3 else steps)
        assert mistake(replace(view, rollbacks_left=1)) is None
        if steps < 3:
            branch.play("go east")


def test_batches_are_answered_in_order(kitchen: TextWorldEnv) -> None:
    branches = [Branch(kitchen, seed).act(HASTY, 5 + 9 * seed) for seed in range(5)]
    views = [branch.view() for branch in branches]
    verdicts = evidence_reviewer(views)
    assert verdicts == [verdict(view) for view in views]
    assert evidence_localizer(views, verdicts) == [
        evidence_localizer([view], [one])[0] for view, one in zip(views, verdicts, strict=True)
    ]
    assert Expert()(views) == [Expert()([view])[0] for view in views]


def test_on_the_loop_recovery_by_evidence_beats_none(kitchen: TextWorldEnv) -> None:
    """Same agent, same calls, one game, six seeds: the world, its views and these roles fit together."""

    def when(views: Sequence[View]) -> list[Verdict]:
        due = [view.terminal or view.t - (view.last_review.step if view.last_review else 0) >= 6 for view in views]
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

    wins = []
    env = RollbackWrapper(kitchen)
    for name, trigger in (("none", never), ("rir", when)):
        mechanism = Mechanism(name, act, trigger, evidence_localizer, what)
        wins.append(sum(run([env], mechanism, budget=Budget(40), seeds=[seed])[0].success is True for seed in range(6)))
    assert wins[1] >= wins[0] + 3

"""The knowledge-limited expert of ALFWorld and its evidence roles: on text alone, in a small house written here."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_envs.alfworld_evidence import LIMIT, mistake
from rir_envs.alfworld_policies import Expert, evidence_localizer, evidence_reviewer, knowledge, observed_facts
from rir_envs.alfworld_reading import Task, kind_of, read_list, read_task, sights
from rir_gym.base import RestorePoint, Step, VerdictKind, View
from rir_gym.errors import UsageError
from rir_gym.memory import Fact, ReflectionMemory

OPENING = "You are in the middle of a room. Looking quickly around you, you see {}.\n\nYour task is to: {}"
SURE = Expert(trust=0.0, slip=0.0)


@dataclass
class House:
    """A house that answers in ALFWorld's words; closed receptacles are those whose kind is a fridge or a cabinet."""

    objective: str
    inside: dict[str, list[str]]
    at: str = ""
    held: str = ""
    opened: set[str] = field(default_factory=set)
    hot: set[str] = field(default_factory=set)
    refuses: tuple[str, ...] = ()

    def start(self) -> Step:
        listed = ", ".join(f"a {name}" for name in self.inside)
        return Step(None, OPENING.format(listed, self.objective), info={"admissible": self.commands()})

    def shut(self, name: str) -> bool:
        return kind_of(name) in ("fridge", "cabinet") and name not in self.opened

    def look(self, name: str) -> str:
        if self.shut(name):
            return f"The {name} is closed."
        things = ", ".join(f"a {thing}" for thing in self.inside[name]) or "nothing"
        opened = name in self.opened
        return f"The {name} is open. In it, you see {things}." if opened else f"On the {name}, you see {things}."

    def commands(self) -> list[str]:
        found = [f"go to {name}" for name in self.inside] + ["inventory", "look"]
        if self.at:
            found += [f"examine {self.at}"] + ([f"open {self.at}"] if self.shut(self.at) else [])
            if not self.shut(self.at):
                found += [f"take {thing} from {self.at}" for thing in self.inside[self.at] if not self.held]
                if self.held and kind_of(self.at) not in self.refuses:
                    found.append(f"move {self.held} to {self.at}")
            found += [f"heat {self.held} with {self.at}"] if self.held and kind_of(self.at) == "microwave" else []
        return sorted(found + ([f"examine {self.held}"] if self.held else []))

    def step(self, action: str) -> Step:
        return Step(action, self._said(action), info={"admissible": self.commands()})

    def _said(self, action: str) -> str:
        if action not in self.commands():
            return "Nothing happens."
        verb, _, rest = action.partition(" ")
        if verb == "go":
            self.at = rest.removeprefix("to ")
            return f"You arrive at {self.at}. {self.look(self.at)}"
        if verb == "open":
            self.opened.add(rest)
            return f"You open the {rest}. {self.look(rest)}"
        if verb == "take":
            self.held = rest.partition(" from ")[0]
            self.inside[self.at].remove(self.held)
            return f"You pick up the {self.held} from the {self.at}."
        if verb == "move":
            thing, self.held = self.held, ""
            self.inside[self.at].append(thing)
            return f"You move the {thing} to the {self.at}."
        if verb == "heat":
            self.hot.add(self.held)
            return f"You heat the {self.held} using the {self.at}."
        return f"You are carrying: a {self.held}." if self.held else "You are not carrying anything."


def house(objective: str = "put a hot apple in shelf.", **changed: object) -> House:
    inside = {"fridge 1": ["apple 1"], "cabinet 1": [], "cabinet 2": ["mug 1"], "shelf 1": ["cup 1"], "microwave 1": []}
    return replace(House(objective, inside), **changed)  # type: ignore[arg-type]


def view_of(history: Sequence[Step], objective: str, **changed: object) -> View:
    view = View(0, objective, tuple(history), ReflectionMemory(objective), agent_calls=len(history) - 1)
    points = tuple(RestorePoint(i, i) for i in range(len(history)))
    return replace(view, agent_calls_left=60, rollbacks_left=3, restorable=points, **changed)  # type: ignore[arg-type]


def played(
    expert: Expert, world: House, calls: int, seed: int = 0, memory: ReflectionMemory | None = None
) -> list[Step]:
    history = [world.start()]
    for call in range(calls):
        view = view_of(history, world.objective, agent_calls=call)
        view = replace(view, seed=seed, memory=memory or view.memory)
        history.append(world.step(expert([view])[0].action))
    return history


def said(history: Sequence[Step], *actions: str) -> list[str]:
    return [step.action for step in history if step.action and str(step.action).startswith(actions or ("",))]


@pytest.mark.parametrize(
    ("objective", "task"),
    [
        ("put a mug in desk.", Task("mug", "desk")),
        ("put some peppershaker on drawer.", Task("peppershaker", "drawer")),
        ("put a clean mug in coffeemachine.", Task("mug", "coffeemachine", states=frozenset({"isclean"}))),
        ("heat some egg and put it in garbagecan.", Task("egg", "garbagecan", states=frozenset({"ishot"}))),
        ("put a cool slice of lettuce in fridge.", Task("lettuce", "fridge", states=frozenset({"iscool", "issliced"}))),
        (
            "find two sliced tomato and put them in countertop",
            Task("tomato", "countertop", "", 2, frozenset({"issliced"})),
        ),
        ("put two cd in safe.", Task("cd", "safe", count=2)),
        ("slice bread and put in fridge", Task("bread", "fridge", states=frozenset({"issliced"}))),
        ("look at bowl under the desklamp.", Task("bowl", lamp="desklamp")),
        ("examine the keychain with the desklamp.", Task("keychain", lamp="desklamp")),
        ("Place the warm potato on the counter, please.", None),
        ("", None),
    ],
)
def test_reads_the_words_of_objectives(objective: str, task: Task | None) -> None:
    assert read_task(objective) == task


def test_reads_lists_and_kinds() -> None:
    assert read_list("a mug 1, a cup 2, and an apple 12") == ("mug 1", "cup 2", "apple 12")
    assert read_list("a mug 1, and a cup 2") == ("mug 1", "cup 2")
    assert read_list("nothing") == ()
    assert (kind_of("mug 12"), kind_of("mug")) == ("mug", "mug")


def test_without_errors_it_does_the_task() -> None:
    for seed in range(5):
        world = house()
        history = [world.start()]
        while "apple 1" not in world.inside["shelf 1"]:
            history.append(world.step(SURE([replace(view_of(history, world.objective), seed=seed)])[0].action))
            assert history[-1].observation != "Nothing happens."
        assert world.hot == {"apple 1"}
        assert len(history) < 16


def test_it_looks_into_each_receptacle_once_in_an_order_of_the_seed() -> None:
    orders = []
    for seed in range(6):
        world = house(objective="put a hot statue in shelf.")
        orders.append(tuple(said(played(SURE, world, 12, seed), "go to")))
    assert all(len(set(order)) == len(order) == 5 for order in orders)
    assert len(set(orders)) > 1
    world = house(objective="put a hot statue in shelf.")
    assert orders[0] == tuple(said(played(SURE, world, 12, 0), "go to"))


def test_memory_of_the_start_saves_the_search() -> None:
    memory = ReflectionMemory("").learn([Fact("fact", "at the start these lay in the fridge 1: apple 1", 4, True)])
    history = played(SURE, house(), 7, memory=memory)
    assert said(history) == [
        "go to fridge 1", "open fridge 1", "take apple 1 from fridge 1", "go to microwave 1",
        "heat apple 1 with microwave 1", "go to shelf 1", "move apple 1 to shelf 1",
    ]  # fmt: skip
    doubtful = ReflectionMemory("").learn([replace(memory.environment[0], reverify=True)])
    assert knowledge(view_of([house().start()], "", memory=doubtful)).inside == {}


def test_a_receptacle_believed_empty_comes_last_until_something_is_known_of_it() -> None:
    expert = Expert(trust=0.5, slip=0.0)
    for seed in range(30):
        late = {name for name in house().inside if expert._late(seed, "apple", name)[0]}
        first = said(played(expert, house(), 1, seed))[0].removeprefix("go to ")
        assert first not in late or len(late) == 5
    memory = ReflectionMemory("").learn([Fact("fact", "at the start these lay in the fridge 1: apple 1", 4, True)])
    assert said(played(Expert(trust=1.0, slip=0.0), house(), 1, memory=memory)) == ["go to fridge 1"]


def test_what_looks_alike_is_taken_until_it_did_not_do() -> None:
    believer = Expert(trust=1.0, slip=0.0)
    world = house(objective="put a mug in shelf.")
    world.inside = {"fridge 1": [], "countertop 1": ["cup 2"], "shelf 1": [], "cabinet 2": ["mug 1"]}
    history = [world.start(), world.step("go to countertop 1")]
    calls: list[str] = []
    while "mug 1" not in world.inside["shelf 1"] and len(calls) < 25:
        calls.append(believer.intent(view_of(history, world.objective)))
        history.append(world.step(calls[-1]))
    assert "move cup 2 to shelf 1" in calls
    assert calls[-1] == "move mug 1 to shelf 1"
    learned = observed_facts(view_of(history, world.objective))
    assert "a cup is not what is asked for: put a mug in shelf." in [fact.text for fact in learned]
    told = ReflectionMemory(world.objective).learn(learned)
    again = house(objective="put a mug in shelf.", inside={**world.inside, "countertop 1": ["cup 2"], "shelf 1": []})
    assert knowledge(view_of([again.start()], again.objective, memory=told)).useless == {"cup"}


def test_what_a_receptacle_refuses_is_seen_from_the_list_of_commands() -> None:
    world = house(held="statue 1", refuses=("microwave",))
    history = [world.start(), world.step("go to microwave 1")]
    known = knowledge(view_of(history, world.objective))
    assert known.held == "statue 1"
    assert known.refused == {("statue", "microwave"): 1}
    facts = observed_facts(view_of(history, world.objective))
    assert [fact.text for fact in facts] == [
        "at the start these lay in the microwave 1: nothing",
        "a statue cannot be put in a microwave",
    ]
    assert all(fact.invariant for fact in facts)
    told = ReflectionMemory("").learn(facts)
    assert knowledge(view_of(history[:1], world.objective, memory=told)).refused == {("statue", "microwave"): None}
    while world.inside["shelf 1"][-1] != "apple 1" and len(history) < 25:
        history.append(world.step(SURE.intent(view_of(history, world.objective))))
        assert history[-1].observation != "Nothing happens."
    assert world.inside["shelf 1"][-1] == "apple 1"


def test_facts_are_of_the_first_look_and_carry_their_step() -> None:
    world = house()
    history = [world.start()]
    for action in ("go to shelf 1", "take cup 1 from shelf 1", "go to cabinet 1", "open cabinet 1", "go to shelf 1"):
        history.append(world.step(action))
    facts = observed_facts(view_of(history, world.objective))
    assert [(fact.text, fact.step) for fact in facts] == [
        ("at the start these lay in the shelf 1: cup 1", 1),
        ("at the start these lay in the cabinet 1: nothing", 4),
    ]


def wandering(world: House, steps: int) -> list[Step]:
    history = [world.start(), world.step("go to fridge 1"), world.step("open fridge 1")]
    while len(history) <= steps:
        history.append(world.step("go to cabinet 1" if len(history) % 2 else "go to cabinet 2"))
    return history


def test_the_evidence_is_a_goal_that_the_limit_puts_out_of_reach() -> None:
    world = house()
    view = view_of(wandering(world, LIMIT - 3), world.objective)
    (verdict,) = evidence_reviewer([view])
    assert verdict.kind is VerdictKind.ROLLBACK
    (restore,) = evidence_localizer([view], [verdict])
    assert restore.point is not None
    assert restore.point.t == LIMIT - 6  # go, take, go, heat, go, move: six from where it wanders
    assert restore.interval == (LIMIT - 6, LIMIT - 3)
    early = view_of(wandering(world, 4), world.objective)
    assert evidence_reviewer([early])[0].kind is VerdictKind.CONTINUE
    assert evidence_localizer([early], [verdict])[0].point == early.restorable[-1]


def test_a_step_that_led_away_is_undone_where_that_saves_calls() -> None:
    world = house()
    history = [world.start(), world.step("go to fridge 1"), world.step("open fridge 1")]
    history += [world.step("take apple 1 from fridge 1"), world.step("go to microwave 1")]
    history += [world.step("move apple 1 to microwave 1"), world.step("go to cabinet 2"), world.step("open cabinet 2")]
    history += [world.step("take mug 1 from cabinet 2")]
    view = view_of(history, world.objective)
    blamed = mistake(view)
    assert blamed is not None
    assert blamed.step == 4
    assert mistake(replace(view, rollbacks_left=1)) is None
    assert evidence_reviewer([view])[0].kind is VerdictKind.ROLLBACK


def test_while_something_is_to_be_found_it_goes_on() -> None:
    world = house(objective="put a hot statue in shelf.")
    view = view_of(wandering(world, LIMIT - 3), world.objective)
    assert evidence_reviewer([view])[0].kind is VerdictKind.CONTINUE
    assert evidence_reviewer([view])[0].urgency == 0.5
    assert evidence_reviewer([replace(view, terminal=True)])[0].kind is VerdictKind.CONTINUE


def test_at_the_end_it_goes_back_to_where_the_goal_was_near_enough() -> None:
    world = house()
    view = view_of(wandering(world, LIMIT), world.objective, terminal=True)
    (verdict,) = evidence_reviewer([view])
    assert verdict.kind is VerdictKind.ROLLBACK
    (restore,) = evidence_localizer([view], [verdict])
    assert restore.point is not None
    assert restore.point.t == LIMIT - 6
    broke = replace(view, agent_calls_left=3)
    assert evidence_reviewer([broke])[0].kind is VerdictKind.CONTINUE


def test_slips_come_with_their_probability_and_depend_on_seed_and_call_alone() -> None:
    world = house()
    view = view_of([world.start()], world.objective)
    views = [replace(view, seed=seed, agent_calls=call) for seed in range(40) for call in range(10)]
    clumsy = Expert(trust=0.0, slip=0.3)
    slipped = sum(a.action != b.action for a, b in zip(clumsy(views), SURE(views), strict=True))
    assert 0.12 < slipped / len(views) < 0.4
    assert clumsy(views) == Expert(trust=0.0, slip=0.3)(views)
    assert clumsy(views) != Expert(trust=0.0, slip=0.3, seed_salt="other")(views)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, "1", None, True, float("nan")])
def test_a_probability_is_one(wrong: object) -> None:
    with pytest.raises(UsageError, match="slip="):
        Expert(slip=wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="trust="):
        Expert(trust=wrong)  # type: ignore[arg-type]


ODD = st.one_of(st.text(), st.none(), st.integers(), st.sampled_from([
    "You arrive at . On the , you see .", "The  is closed.", "You pick up the  from the .", "You are carrying: .",
    "Looking quickly around you, you see .", "You move the a 1 to the b 2.", "You turn on the x.", "Nothing happens.",
]))  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(ODD, ODD), min_size=1, max_size=5), st.text(string.printable), st.none() | st.lists(st.text())
)
def test_any_text_is_survived(rows: list[tuple[object, object]], objective: str, admissible: list[str] | None) -> None:
    history = [Step(action, observation, info={"admissible": admissible}) for action, observation in rows]
    view = view_of(history, objective)
    list(sights(history))
    verdicts = evidence_reviewer([view])
    evidence_localizer([view], verdicts)
    assert isinstance(Expert()([view])[0].action, str)
    memory = ReflectionMemory(objective).learn(observed_facts(view))
    knowledge(replace(view, memory=memory))


def test_many_random_walks_are_read_as_the_house_is() -> None:
    rng = random.Random(3)
    for _ in range(30):
        world = house()
        history = [world.start()]
        for _ in range(25):
            history.append(world.step(rng.choice(world.commands())))
        known = knowledge(view_of(history, world.objective))
        assert (known.at, known.held) == (world.at, world.held)
        assert {name: list(things) for name, things in known.inside.items()}.items() <= world.inside.items()
        assert known.opened == {name for name in world.opened if name in known.opens}
        assert {thing for state, thing in known.states if state == "ishot"} == world.hot

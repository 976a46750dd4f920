"""Shortest plans against the whole state space of small households, as Fast Downward itself walks through it."""

from __future__ import annotations

import random
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rir_envs.alfworld_data import Game
from rir_envs.alfworld_engine import Engine, package_domain, started
from rir_envs.alfworld_home import Standing, domain_rules, home_of
from rir_envs.alfworld_oracle import Planner
from rir_envs.alfworld_plan import _Search, lost_for_good, shortest, understood
from rir_envs.alfworld_state import SavedWorld
from rir_gym.errors import UsageError

INSTALLED = all(find_spec(name) is not None for name in ("alfworld", "textworld", "fast_downward"))
needs_alfworld = pytest.mark.skipif(not INSTALLED, reason="needs the extra 'alfworld'")

GRAMMAR = """
grammar :: \"\"\"{"intro": [{"rhs": "a home"}], "said": [{"rhs": "done"}]}\"\"\";
"""
ACTIONS = {
    "GotoLocation": "go to {r}", "OpenObject": "open {r}", "CloseObject": "close {r}",
    "PickupObject": "take {o} from {r}", "PutObject": "move {o} to {r}", "inventory": "inventory",
    "examineReceptacle": "examine {r}",
    "examineObject": "examine {o}", "ToggleObject": "use {o}", "HeatObject": "heat {o} with {r}",
    "CleanObject": "clean {o} with {r}", "CoolObject": "cool {o} with {r}", "SliceObject": "slice {co} with {ko}",
    "look": "look", "help": "help",
}  # fmt: skip
IDLE = ("look", "inventory", "examinereceptacle", "examineobject", "help")
KINDS = ("place", "look", "clean", "heat", "cool", "two")
TOOLS = {"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"}
STATES = {"clean": "(isClean ?o)", "heat": "(isHot ?o)", "cool": "(isCool ?o)"}
IN_LIGHT = """(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?ot DeskLampType)
    (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))
    (exists (?o - object ?a - agent) (and (objectType ?o AppleType) (holds ?a ?o))))"""
PLACED = """(exists (?r - receptacle) (exists (?o - object) (and (objectType ?o AppleType) (receptacleType ?r {to}Type)
    {state} (inReceptacle ?o ?r) {more})))"""
ANOTHER = "(exists (?p - object) (and (not (= ?o ?p)) (objectType ?p AppleType) {state} (inReceptacle ?p ?r)))"


def household(kind: str, sliced: bool, rng: random.Random) -> str:
    """A problem with up to five receptacles, some at one place, and up to three things, one perhaps in the hand."""
    tool = [TOOLS[kind]] if kind in TOOLS else []
    types = [*tool, *rng.choices(("Shelf", "Cabinet", "Drawer"), k=rng.randint(2, 4))]
    spots = [f"loc_{rng.randrange(max(2, len(types) - rng.randrange(2)))}" for _ in types]
    names = [f"{kind}_bar_{number}" for number, kind in enumerate(types)]
    things = ["Apple"] * (2 if kind == "two" or rng.random() < 0.3 else 1)
    things += (["DeskLamp"] if kind == "look" else []) + (["Knife"] if sliced else [])
    things += ["Mug"] if len(things) < 3 and rng.random() < 0.6 else []
    to, held = rng.choice([name for name in types if name not in tool]), False
    start = rng.choice([*spots, "loc_9"])
    init = [f"(atLocation agent1 {start})"]
    for name, type_, spot in zip(names, types, spots, strict=True):
        init += [f"(receptacleType {name} {type_}Type)", f"(receptacleAtLocation {name} {spot})"]
        init += [f"(openable {name})"] if type_ not in ("Shelf", "SinkBasin") else []
    for number, thing in enumerate(things):
        name = f"{thing}_bar_{10 + number}"
        init += [f"(objectType {name} {thing}Type)"]
        init += [f"({'toggleable' if thing == 'DeskLamp' else 'pickupable'} {name})"]
        if thing == "Apple":
            init += [f"({able} {name})" for able in ("sliceable", "cleanable", "heatable", "coolable")]
        if not held and thing != "DeskLamp" and rng.random() < 0.25:
            held = True
            init += [f"(holds agent1 {name})", "(holdsAny agent1)"]
        else:
            where = rng.randrange(len(names))
            init += [f"(inReceptacle {name} {names[where]})", f"(objectAtLocation {name} {spots[where]})"]
    for type_ in sorted(set(types)):
        for thing in ("Apple", "Knife", "Mug"):
            if (type_, thing) == (to, "Apple") or rng.random() < 0.6:
                init.append(f"(canContain {type_}Type {thing}Type)")
    state = STATES.get(kind, "") + ("(isSliced ?o)" if sliced else "")
    more = ANOTHER.format(state=state.replace("?o", "?p")) if kind == "two" else ""
    goal = IN_LIGHT if kind == "look" else PLACED.format(to=to, state=state, more=more)
    objects = ["agent1 - agent", *(f"{spot} - location" for spot in sorted({*spots, start}))]
    objects += [f"{type_}Type - rtype" for type_ in sorted({*types, *TOOLS.values()})]
    objects += [f"{thing}Type - otype" for thing in sorted({*things, "Apple", "Knife", "ButterKnife", "Mug"})]
    objects += [f"{name} - receptacle" for name in names]
    objects += [f"{thing}_bar_{10 + number} - object" for number, thing in enumerate(things)]
    return (
        f"(define (problem p) (:domain alfred) (:objects {' '.join(objects)}) (:init {' '.join(init)}) (:goal {goal}))"
    )


def engine_of(problem: str) -> Engine:
    worded = [f'action {name} {{ template :: "{text}"; feedback :: "#said#"; }}' for name, text in ACTIONS.items()]
    data = {"pddl_domain": package_domain(), "grammar": GRAMMAR + "\n".join(worded), "pddl_problem": problem}
    return started(Game(Path("small"), "", problem, data))


def distances(engine: Engine, most: int) -> dict[int, float] | None:
    """Fewest actions to the goal from every state that can be reached, by number; None where these are too many."""
    fast_downward = pytest.importorskip("fast_downward")
    library, before, first = engine.library, SavedWorld.of(engine), engine.library.get_state_id()
    back: dict[int, list[int]] = {first: []}
    waiting, won = deque([first]), []
    while waiting and len(back) <= most:
        number = waiting.popleft()
        library.set_state_id(number)
        if library.check_goal():
            won.append(number)
            continue
        operators = (fast_downward.Operator * library.get_applicable_operators_count())()
        library.get_applicable_operators(operators)
        for operator in operators:
            if operator.name.split()[0] not in IDLE:
                library.set_state_id(number)
                library.apply_operator(operator.id, (fast_downward.Atom * operator.nb_effect_atoms)())
                later = library.get_state_id()
                if later not in back:
                    waiting.append(later)
                back.setdefault(later, []).append(number)
    before.put_back(engine)
    if waiting:
        return None
    found = dict.fromkeys(back, float("inf")) | dict.fromkeys(won, 0.0)
    reached = deque(won)
    while reached:
        number = reached.popleft()
        for earlier in back[number]:
            if found[earlier] == float("inf"):
                found[earlier] = found[number] + 1
                reached.append(earlier)
    return found


@needs_alfworld
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sliced", [False, True])
def test_plans_are_shortest_bounds_are_lower_and_nothing_is_called_lost_that_is_not(kind: str, sliced: bool) -> None:
    rng, seen = random.Random(f"{kind}{sliced}"), 0
    while seen < 100:
        engine = engine_of(household(kind, sliced and kind != "look", rng))
        true = distances(engine, 3_000)
        if true is not None:
            planner, start = Planner.of(engine), SavedWorld.of(engine)
            assert planner.exact
            for _ in range(3):
                start.put_back(engine)
                for _ in range(10):
                    plan = planner.plan()
                    mine = len(plan) if isinstance(plan, tuple) else plan
                    fewest, now = true[engine.library.get_state_id()], planner.now()
                    assert mine == fewest
                    bound = _Search.of(planner.home, now).bound.of((now.location, now.held, now.facts))
                    assert bound <= fewest
                    seen += 1
                    moves = [
                        one for one in engine.commands if not one.startswith(("look", "inventory", "help", "examine"))
                    ]
                    if engine.won or not moves:
                        break
                    engine.step(plan[0] if isinstance(plan, tuple) and rng.random() < 0.5 else rng.choice(moves))
        engine.release()


def problem(goal: str) -> str:
    return f"""(define (problem p) (:domain alfred) ; a comment
      (:objects a - agent o p - object r - receptacle L - location OT - otype RT - rtype)
      (:init (atLocation a L) (objectType o OT) (objectType p OT) (pickupable o) (receptacleType r RT)
             (receptacleAtLocation r L) (inReceptacle o r) (inReceptacle p r))
      (:goal {goal}))"""


def test_a_goal_is_its_alternatives_without_what_never_changes() -> None:
    goal = "(exists (?o - object ?r - receptacle) (and (objectType ?o OT) (isHot ?o) (inReceptacle ?o ?r)))"
    home = home_of(problem(goal))
    fixed = frozenset({("ishot", "p")})  # p is never lifted, so where it lies never changes
    assert home.alternatives == (frozenset({("inreceptacle", "o", "r"), ("ishot", "o")}), fixed)
    nested = "(exists (?o - object) (and (isHot ?o) (exists (?p - object) (and (not (= ?o ?p)) (isHot ?p)))))"
    assert home_of(problem(nested)).alternatives == (frozenset({("ishot", "o"), ("ishot", "p")}),)


@pytest.mark.parametrize("goal", ["(forall (?o - object) (isHot ?o))", "(not (isHot o))", "(or (isHot o) (isCool o))"])
def test_other_goals_are_not_read(goal: str) -> None:
    home = home_of(problem(goal))
    assert home.alternatives is None
    assert not understood(home)
    assert shortest(home, Standing("l", None)) is None


def test_impossible_goals_have_no_plan() -> None:
    home = home_of(problem("(exists (?o - object) (and (objectType ?o RT) (isHot ?o)))"))
    assert home.alternatives == ()
    assert shortest(home, Standing("l", None)) == float("inf")
    no_microwave = home_of(problem("(isHot o)"))
    assert shortest(no_microwave, Standing("l", None, frozenset({("inreceptacle", "o", "r")}))) == float("inf")


def test_a_hand_is_lost_where_nothing_holds_the_thing() -> None:
    home = home_of(problem("(isHot o)"))
    assert lost_for_good(home, Standing("l", "o"))
    assert not lost_for_good(home, Standing("l", None))
    fits = problem("(isHot o)").replace("(:init", "(:init (canContain RT OT)")
    assert not lost_for_good(home_of(fits), Standing("l", "o"))


@pytest.mark.parametrize("text", ["", "(", ")(", "(define", "words", "(define (problem p)"])
def test_text_that_is_no_problem_is_one_error(text: str) -> None:
    with pytest.raises(UsageError, match="pddl="):
        home_of(text)


def test_rules_are_equal_whatever_their_layout_comments_and_costs() -> None:
    one = "(define (domain d) (:action A :effect (and (hot ?o) (increase (total-cost) 5))))"
    other = "; words\n(DEFINE (domain D)\n  (:action a :effect (and (hot ?O) )))"
    assert domain_rules(one) == domain_rules(other)
    assert domain_rules(one) != domain_rules(one.replace("hot", "cold"))


@needs_alfworld
def test_a_game_of_another_domain_is_left_to_fast_downward() -> None:
    problem: Any = household("place", False, random.Random(1))
    engine = engine_of(problem)
    engine.game.data["pddl_domain"] = package_domain().replace("(not (opened ?r))", "(opened ?r)")
    assert Planner.of(engine).exact is False
    engine.release()

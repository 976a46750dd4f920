"""Facts and problems of ALFWorld's PDDL domain: of a furnished home, and of what matters for a goal in any state.

A fact is a tuple of lower-case words, the predicate first, as the engine writes them. ``reduced`` leaves out what
cannot matter, as ALFRED's own planner did with things of other types: the package's planner searches breadth first,
and with every thing of a home in the problem ten steps are out of its reach. The reduced problem has a plan exactly
when the full one has, and its shortest plan is a shortest plan of the full one (see ``reduced``).

This module knows the predicates of the domain; it imports neither the package nor a planner, but for the goal library.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from rir_envs.alfworld_goals import goal_pddl
from rir_envs.alfworld_rooms import LAMP, Home, Rules, Thing
from rir_envs.alfworld_route import KNIVES, TOOLS, Goal

__all__ = ["Fact", "facts_of", "problem", "reduced"]

Fact = tuple[str, ...]
"""A predicate and the names of what it holds for, in lower case."""

_ABLE = {"Cleanable": "cleanable", "Heatable": "heatable", "Coolable": "coolable", "Sliceable": "sliceable"}
_STATES = ("isclean", "ishot", "iscool", "issliced", "istoggled", "ison")
_SORTS: Mapping[str, tuple[str, ...]] = {
    "atlocation": ("agent", "location"),
    "receptacleatlocation": ("receptacle", "location"),
    "objectatlocation": ("object", "location"),
    "openable": ("receptacle",),
    "opened": ("receptacle",),
    "inreceptacle": ("object", "receptacle"),
    "receptacletype": ("receptacle", "rtype"),
    "cancontain": ("rtype", "otype"),
    "objecttype": ("object", "otype"),
    "holds": ("agent", "object"),
    "holdsany": ("agent",),
    **dict.fromkeys((*_ABLE.values(), *_STATES, "isreceptacleobject", "pickupable", "toggleable"), ("object",)),
}
"""The predicates that actions and goals of the domain look at, with the sorts of their arguments."""

_NAMED = {*((kind, "otype") for kind in KNIVES), *((kind, "rtype") for _, kind in TOOLS.values())}
"""Types that the domain's actions name: they must exist in every problem."""


def facts_of(home: Home, rules: Rules) -> list[Fact]:
    """What is true at the start: all receptacles are closed, and the agent stands where no receptacle is."""
    facts: list[Fact] = [("atlocation", "agent1", home.start)]
    for receptacle in home.receptacles:
        facts.append(("receptacletype", receptacle.id, f"{receptacle.type}Type"))
        facts.append(("receptacleatlocation", receptacle.id, receptacle.location))
        if receptacle.openable:
            facts.append(("openable", receptacle.id))
    facts += [fact for thing in home.things for fact in _facts_of(thing, rules)]
    kinds = {thing.type for thing in home.things}
    facts += [("cancontain", f"{r}Type", f"{k}Type") for r in home.types() for k in kinds if rules.fits(k, r)]
    return sorted(tuple(word.lower() for word in fact) for fact in facts)


def _facts_of(thing: Thing, rules: Rules) -> list[Fact]:
    facts: list[Fact] = [("objecttype", thing.id, f"{thing.type}Type")]
    facts.append(("toggleable" if thing.type == LAMP else "pickupable", thing.id))
    facts += [(word, thing.id) for able, word in _ABLE.items() if thing.type in rules.able[able]]
    if thing.type in rules.vessels:
        facts.append(("isreceptacleobject", thing.id))
    if thing.where is None:
        return [*facts, ("holds", "agent1", thing.id), ("holdsany", "agent1")]
    return [*facts, ("inreceptacle", thing.id, thing.where.id), ("objectatlocation", thing.id, thing.where.location)]


def problem(goal: Goal, facts: Iterable[Fact]) -> str:
    """The PDDL problem that starts with these facts, those of other predicates left out; equal facts, equal text."""
    known = sorted({fact for fact in facts if fact[0] in _SORTS})
    asked = (goal.destination, "rtype") if goal.destination else (LAMP, "otype")
    names = {(f"{kind}Type".lower(), sort) for kind, sort in {*_NAMED, (goal.target, "otype"), asked}}
    for predicate, *arguments in known:
        names |= set(zip(arguments, _SORTS[predicate], strict=True))
    objects = "\n".join(f"    {name} - {sort}" for name, sort in sorted(names, key=lambda pair: pair[::-1]))
    start = "\n".join(f"    ({' '.join(fact)})" for fact in known)
    return (
        f"(define (problem style)\n(:domain alfred)\n(:objects\n{objects}\n)\n"
        f"(:init\n    (= (total-cost) 0)\n{start}\n)\n{goal_pddl(goal)}"
    )


def reduced(goal: Goal, facts: Collection[Fact]) -> list[Fact]:
    """The facts that matter for the goal, here and now.

    Kept are things of the target's type, knives where something is to be sliced, lamps where light is wanted, and what
    is in the hand; of things that are alike in all that counts (type, place, state) as many as the goal asks for. Kept
    are receptacles that hold a kept thing, the one where the agent is, and of the others one of each sort (what kept
    things fit, whether it is a destination or tool, whether it must be opened first). No receptacle of this domain is
    ever full and no thing is ever in the way, so a plan stays a plan when what is left out comes back, and any plan
    that uses what is left out maps, never longer, on one that uses its like.
    """
    of: dict[str, dict[str, str]] = defaultdict(dict)
    fits: dict[str, set[str]] = defaultdict(set)
    for predicate, *arguments in facts:
        if predicate == "cancontain":
            fits[arguments[0]].add(arguments[1])
        elif len(arguments) == 2:
            of[predicate][arguments[0]] = arguments[1]
    held, at = of["holds"].get("agent1"), of["atlocation"].get("agent1")
    state = {(fact[0], fact[1]) for fact in facts if len(fact) == 2}
    wanted = {goal.target, *(KNIVES if goal.sliced else ()), *(() if goal.destination else (LAMP,))}
    kinds = {f"{kind}Type".lower() for kind in wanted}
    alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for thing, kind in sorted(of["objecttype"].items()):
        if kind in kinds or thing == held:
            flags = tuple((flag, thing) in state for flag in _STATES)
            alike[kind, of["inreceptacle"].get(thing), thing == held, flags].append(thing)
    most = 2 if goal.task_type == "pick_two_obj_and_place" else 1
    things = {thing for group in alike.values() for thing in group[:most]}
    kinds |= {of["objecttype"][thing] for thing in things}
    receptacles = {of["inreceptacle"][thing] for thing in things if thing in of["inreceptacle"]}
    receptacles |= {r for r, location in of["receptacleatlocation"].items() if location == at}
    _, tool = TOOLS.get(goal.task_type, ("", ""))
    purposes = {f"{kind}Type".lower() for kind in (goal.destination, tool) if kind}
    sorts: dict[tuple[bool, str, frozenset[str]], str] = {}
    for receptacle, kind in sorted(of["receptacletype"].items()):
        if receptacle not in receptacles:
            closed = ("openable", receptacle) in state and ("opened", receptacle) not in state
            purpose = kind if kind in purposes else ""
            sorts.setdefault((closed, purpose, frozenset(fits[kind] & kinds)), receptacle)
    ready = [fit for closed, _, fit in sorts if not closed]
    for (closed, purpose, fit), receptacle in sorts.items():
        better = any(fit <= other if closed else fit < other for other in ready)
        if purpose or (fit and not better):
            receptacles.add(receptacle)
    kept = {*things, *receptacles, *kinds, *(of["receptacletype"][receptacle] for receptacle in receptacles)}
    kept |= {"agent1", *of["atlocation"].values(), *of["receptacleatlocation"].values()}
    return [fact for fact in facts if kept.issuperset(fact[1:])]

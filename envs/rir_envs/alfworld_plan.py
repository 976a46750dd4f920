"""Shortest plans in a household: fewest actions from how it stands to its goal, exactly.

A* over the part of the household that can matter: the things of the goal, what the hand holds, knives where something
is to be sliced; the places of these, the place where the agent stands, and of all other places one of each kind, since
two places with the same kinds of receptacles and nothing relevant in them are as good as each other. What is certainly
still to do (``alfworld_bound``) guides it. Two moves in a row are never needed: one walks from any place to any other.

This module knows the effects of ALFWorld's actions (those of ``alfred.pddl`` that lead anywhere: looking, examining,
closing and toggling off never help), and nothing of engines or texts.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rir_envs.alfworld_bound import TOOLS, Bound, Position, Wish
from rir_envs.alfworld_home import Fact, Home, Standing

__all__ = ["DEEPEST", "Act", "lost_for_good", "shortest", "understood"]

Act = tuple[str, str, str]
"""A verb (go, open, take, move, clean, heat, cool, use, slice), a thing or "", and a receptacle or knife."""

DEEPEST = 60_000
"""Positions to look at before giving up; plans of ALFWorld's games take some hundreds."""

_KNIVES = frozenset({"knifetype", "butterknifetype"})
_SUPPORTED = frozenset({*TOOLS, "issliced", "istoggled", "inreceptacle", "holds", "atlocation"})


def shortest(home: Home, now: Standing) -> tuple[Act, ...] | float | None:
    """A plan of fewest actions; ``inf`` where no plan exists; None where this module does not know.

    It does not know goals that are not ``understood``, and gives up after ``DEEPEST`` positions.
    """
    return _Search.of(home, now).run() if understood(home) else None


def understood(home: Home) -> bool:
    """Whether the goal was read, and all its facts are among those that these actions make."""
    goals = home.alternatives
    return goals is not None and all(fact[0] in _SUPPORTED for goal in goals for fact in goal)


def lost_for_good(home: Home, now: Standing) -> bool:
    """Whether the hand holds what can be put nowhere: the one way in which ALFWorld's actions cannot be undone."""
    return now.held is not None and not any(home.holds(receptacle, now.held) for receptacle in home.place)


@dataclass(slots=True)
class _Search:
    home: Home
    start: Standing
    wishes: tuple[Wish, ...]
    relevant: frozenset[str]
    knives: frozenset[str]
    places: tuple[str, ...]
    tools: dict[str, frozenset[str]]
    needed: dict[str, frozenset[str]]
    bound: Bound

    @classmethod
    def of(cls, home: Home, now: Standing) -> _Search:
        wishes = [Wish.of(facts) for facts in home.alternatives or ()]
        sliced = any("issliced" in wanted for wish in wishes for *_, wanted in wish.things)
        knives = frozenset(thing for thing, kinds in home.otypes.items() if sliced and kinds & _KNIVES)
        things = {thing for wish in wishes for thing, *_ in wish.things}
        lamps = {lamp for wish in wishes for lamp in wish.lamps}
        relevant = frozenset({*things, *lamps, *knives, *([now.held] if now.held else [])})
        flags = {flag for wish in wishes for *_, wanted in wish.things for flag in wanted}
        tools = {
            flag: frozenset(r for r, kinds in home.rtypes.items() if rtype in kinds and r in home.place)
            for flag, (_, rtype, _) in TOOLS.items()
            if flag in flags
        }
        ends = {destination for wish in wishes for _, destination, *_ in wish.things if destination}
        spots = {wish.spot for wish in wishes if wish.spot}
        lying = {fact[2] for fact in now.facts if fact[0] == "inreceptacle" and fact[1] in relevant}
        must = {home.place[r] for r in lying if r in home.place} | {now.location} | (spots if lamps else set())
        must |= (
            {fact[2] for fact in now.facts if fact[0] == "objectatlocation" and fact[1] in things} if sliced else set()
        )
        places = tuple(sorted(must & {*home.at, now.location})) + _representatives(
            home, now, must, relevant, tools, ends
        )
        kept = tuple(
            wish for wish in wishes if all(not to or home.place.get(to) in places for _, to, *_ in wish.things)
        )
        bound = Bound(home, kept, knives, tools)
        return cls(home, now, kept, relevant, knives, places, tools, _needed(wishes), bound)

    def run(self) -> tuple[Act, ...] | float | None:
        facts = frozenset(
            fact for fact in self.start.facts if fact[0] == "opened" or (fact[1] in self.relevant and fact[0] != "ison")
        )
        first: Position = (self.start.location, self.start.held, facts)
        came: dict[tuple[Position, bool], tuple[tuple[Position, bool], Act] | None] = {(first, False): None}
        cost = {(first, False): 0}
        queue = [(self.bound.of(first), 0, 0, first, False)]
        serial = looked = 0
        while queue:
            _, negative, _, position, moved = heapq.heappop(queue)
            steps = -negative
            if steps > cost[position, moved]:
                continue
            if any(wish.facts <= self._facts(position) for wish in self.wishes):
                return _way(came, (position, moved))
            looked += 1
            if looked > DEEPEST:
                return None
            for act, later in self._next(position, moved):
                key = later, act[0] == "go"
                if steps + 1 >= cost.get(key, 1 << 30):
                    continue
                rest = self.bound.of(later)
                if rest == float("inf"):
                    continue
                cost[key], came[key] = steps + 1, ((position, moved), act)
                serial += 1
                heapq.heappush(queue, (steps + 1 + rest, -(steps + 1), serial, *key))
        return float("inf")

    def _facts(self, position: Position) -> frozenset[Fact]:
        location, held, facts = position
        return Standing(location, held, facts).all()

    # --- what can be done ---------------------------------------------------------------------------------------------

    def _next(self, position: Position, moved: bool) -> Iterator[tuple[Act, Position]]:
        at, held, facts = position
        home = self.home
        if not moved:
            for place in self.places:
                if place != at and place in home.at:
                    yield ("go", "", home.at[place][0]), (place, held, facts)
        here = home.at.get(at, ())
        for receptacle in here:
            shut = receptacle in home.openable and ("opened", receptacle) not in facts
            inside = [fact[1] for fact in facts if fact[0] == "inreceptacle" and fact[2] == receptacle]
            for thing in sorted(inside):
                if thing in home.able["toggleable"] and ("istoggled", thing) not in facts:
                    yield ("use", thing, receptacle), (at, held, facts | {("istoggled", thing)})
            if shut:
                yield ("open", "", receptacle), (at, held, facts | {("opened", receptacle)})
            elif held is None:
                for thing in sorted(inside):
                    if thing in home.able["pickupable"]:
                        less = {("inreceptacle", thing, receptacle), ("objectatlocation", thing, at)}
                        yield ("take", thing, receptacle), (at, thing, facts - less)
            elif home.holds(receptacle, held):
                more = {("inreceptacle", held, receptacle), ("objectatlocation", held, at)}
                yield ("move", held, receptacle), (at, None, facts | more)
        if held is not None:
            for flag in sorted(self.needed.get(held, ())):
                if flag in TOOLS and (flag, held) not in facts and held in home.able[TOOLS[flag][2]]:
                    for receptacle in here:
                        if receptacle in self.tools[flag]:
                            other = {"ishot": "iscool", "iscool": "ishot"}.get(flag, "")
                            after = (facts - {(other, held)}) | {(flag, held)}
                            yield (TOOLS[flag][0], held, receptacle), (at, held, after)
            if held in self.knives:
                for thing, flags in sorted(self.needed.items()):
                    there = ("objectatlocation", thing, at) in facts
                    if "issliced" in flags and there and thing in home.able["sliceable"]:
                        yield ("slice", thing, held), (at, held, facts | {("issliced", thing)})


def _needed(wishes: Iterable[Wish]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for wish in wishes:
        for thing, _, _, flags in wish.things:
            found[thing] = found.get(thing, frozenset()) | flags
    return found


def _representatives(
    home: Home,
    now: Standing,
    must: set[str],
    relevant: frozenset[str],
    tools: dict[str, frozenset[str]],
    ends: set[str],
) -> tuple[str, ...]:
    """Of the places where nothing relevant lies, the first of each kind of tool, destination and room to put down."""
    movable = sorted(thing for thing in relevant if thing in home.able["pickupable"])
    seen: dict[tuple[object, ...], str] = {}
    for spot in sorted(home.at):
        if spot in must:
            continue
        kind = []
        for receptacle in home.at[spot]:
            uses = tuple(sorted(flag for flag, those in tools.items() if receptacle in those))
            takes = tuple(thing for thing in movable if home.holds(receptacle, thing))
            kinds = tuple(sorted(home.rtypes.get(receptacle, ()))) if receptacle in ends else ()
            shut = receptacle in home.openable and ("opened", receptacle) not in now.facts
            if uses or takes or kinds:
                kind.append((uses, takes, kinds, shut))
        if kind:
            seen.setdefault(tuple(sorted(kind)), spot)
    return tuple(seen.values())


def _way(
    came: dict[tuple[Position, bool], tuple[tuple[Position, bool], Act] | None], last: tuple[Position, bool]
) -> tuple[Act, ...]:
    acts = []
    while (step := came[last]) is not None:
        last, act = step
        acts.append(act)
    return tuple(reversed(acts))

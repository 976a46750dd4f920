"""How many actions are certainly still needed: the lower bound that guides the search for shortest plans.

It counts what no plan can do without: one action for each property, and for each thing that must be carried, a take, a
put, an "open" for each closed receptacle on its way, and an arrival at each place that it must be carried to or fetched
from. One thing is carried at a time, so arrivals with two things are two arrivals. Counting too little costs time,
counting too much would cost the plans their shortness. This module knows ALFWorld's actions; it searches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rir_envs.alfworld_home import Fact, Home

__all__ = ["TOOLS", "Bound", "Position", "Wish"]

TOOLS: Mapping[str, tuple[str, str, str]] = {
    "isclean": ("clean", "sinkbasintype", "cleanable"),
    "ishot": ("heat", "microwavetype", "heatable"),
    "iscool": ("cool", "fridgetype", "coolable"),
}
"""For the properties that a thing gets in the hand: the verb, the type of receptacle it is done at, what it takes."""

Position = tuple[str, str | None, frozenset[Fact]]
"""Where the agent stands, what it holds, and the facts about things and receptacles."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One alternative of the goal, by thing.

    ``things`` are (thing, destination or "", to be held, properties); ``lamps`` the things to be toggled; ``spot`` the
    location where the agent must be, or "".
    """

    things: tuple[tuple[str, str, bool, frozenset[str]], ...]
    lamps: tuple[str, ...]
    spot: str
    facts: frozenset[Fact]

    @classmethod
    def of(cls, facts: frozenset[Fact]) -> Wish:
        things: dict[str, tuple[str, bool, frozenset[str]]] = {}
        lamps, spot = [], ""
        for name, *words in sorted(facts):
            if name == "istoggled":
                lamps.append(words[0])
                continue
            if name == "atlocation":
                spot = words[0]
                continue
            destination, hold, wanted = things.get(words[0], ("", False, frozenset()))
            if name == "inreceptacle":
                destination = words[1]
            elif name == "holds":
                hold = True
            else:
                wanted = wanted | {name}
            things[words[0]] = destination, hold, wanted
        return cls(tuple((thing, *rest) for thing, rest in things.items()), tuple(lamps), spot, facts)


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound for some wishes, kept by position. ``tools`` maps a property to the receptacles where it is got."""

    home: Home
    wishes: tuple[Wish, ...]
    knives: frozenset[str]
    tools: Mapping[str, frozenset[str]]
    known: dict[Position, float] = field(default_factory=dict)

    def of(self, position: Position) -> float:
        """At least so many actions to one of the wishes; ``inf`` where that is proven impossible."""
        known = self.known.get(position)
        if known is None:
            lying: dict[str, list[str]] = {}
            for fact in position[2]:
                if fact[0] == "inreceptacle":
                    lying.setdefault(fact[1], []).append(fact[2])
            known = min((self._least(wish, position, lying) for wish in self.wishes), default=float("inf"))
            self.known[position] = known
        return known

    def _least(self, wish: Wish, position: Position, lying: dict[str, list[str]]) -> float:
        at, held, facts = position
        place, openable = self.home.place, self.home.openable
        takes = puts = 0
        done = 0.0
        opened: set[str] = set()
        arrivals, visited = 0, set()
        sources: list[tuple[str, bool]] = []  # where something is to be taken, and whether it leaves from there
        slices = 0
        carried = vague = False
        for thing, to, hold, flags in wish.things:
            missing = [flag for flag in flags if (flag, thing) not in facts]
            treat = [flag for flag in missing if flag in TOOLS]
            if "issliced" in missing:
                done += 1
                slices += 1
            if not (treat or (to and ("inreceptacle", thing, to) not in facts) or (hold and held != thing)):
                continue
            done += len(treat)
            end = place.get(to, "")
            if held == thing:
                source, carried = at, True
            else:
                takes += 1
                where = lying.get(thing)
                if not where:
                    return float("inf")
                source = ""
                if len(where) == 1:
                    source = place[where[0]]
                    if where[0] in openable and ("opened", where[0]) not in facts:
                        opened.add(where[0])
            steps, stands = 0, source
            for flag in treat:
                spots, vague = {place[receptacle] for receptacle in self.tools[flag]}, True
                if not spots:
                    return float("inf")
                if stands not in spots and end not in spots and len(treat) == 1 and source:
                    steps, stands = steps + 1, next(iter(spots))
                    visited |= spots if len(spots) == 1 else set()
            if to:
                puts += 1
                if to in openable and ("opened", to) not in facts:
                    opened.add(to)
                if source and end != stands:
                    steps += 1
                    visited.add(end)
            arrivals += steps
            if held != thing and source:
                sources.append((source, steps > 0))
        ends = {place[to] for _, to, *_ in wish.things if to}
        leaving_here = 0
        for source, leaves in sorted(sources, key=lambda pair: not pair[1]):
            if source in ends and source != at:
                continue
            if source == at:
                leaving_here += leaves
            elif leaves or source not in visited:
                arrivals += 1
                visited.add(source)
        if at not in ends:
            arrivals += max(0, leaving_here - 1)
        for lamp in wish.lamps:
            if ("istoggled", lamp) not in facts:
                done += 1
                spots = {place[receptacle] for receptacle in lying.get(lamp, ())}
                if spots and at not in spots and not spots & visited and wish.spot not in spots:
                    arrivals += 1
        if wish.spot and not vague and wish.spot not in visited and (at != wish.spot or arrivals):
            arrivals += 1
        fetches = bool(slices) and held not in self.knives  # a knife
        if held is not None and not carried and (takes or fetches) and all(thing != held for thing, *_ in wish.things):
            puts += 1
        if fetches:
            done += self._for_a_knife(lying, ends, {at, *visited, *ends, *(source for source, _ in sources)})
        return done + takes + puts + len(opened) + arrivals

    def _for_a_knife(self, lying: dict[str, list[str]], ends: set[str], counted: set[str]) -> float:
        """A knife is to be taken, perhaps from elsewhere; then put down again, or brought to where the thing ends."""
        spots = {self.home.place[receptacle] for knife in self.knives for receptacle in lying.get(knife, ())}
        return 1 + (not spots & counted) + (not spots & ends) if spots else float("inf")

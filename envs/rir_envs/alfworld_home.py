"""A household of ALFWorld as values: what never changes in it, its goal, and how it stands now.

``home_of`` reads a PDDL problem of ALFWorld's domain, ``standing`` the facts that an engine holds. A goal is a list of
alternatives, each a set of facts that together are success: "a hot tomato in a cabinet" has one for each tomato and
cabinet. Goals are conjunctions of facts under "exists", as ALFRED's goal library writes them; of any other
``alternatives`` is None. This module knows the predicates of the domain; it runs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rir_gym.errors import UsageError

__all__ = ["Fact", "Home", "Standing", "domain_rules", "home_of", "standing"]

Fact = tuple[str, ...]
"""A predicate and its arguments, in lower case."""

_Expression = Any  # a nested list of lower-case words

_AGENT_FACTS = frozenset({"atlocation", "holds"})
_THING_FACTS = frozenset({"isclean", "ishot", "iscool", "issliced", "istoggled"})
_CHANGING = _AGENT_FACTS | _THING_FACTS | {"inreceptacle"}
_ABLE = ("pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable", "openable")
_STATIC = frozenset({"receptacleatlocation", "receptacletype", "objecttype", "cancontain", *_ABLE})


@dataclass(frozen=True, slots=True)
class Home:
    """What never changes.

    Args:
        place: the location of each receptacle. ``at`` is the other way round.
        rtypes, otypes: the types of each receptacle and of each thing (one, in ALFWorld's games).
        fits: (receptacle type, thing type) of what may lie where.
        able: for each property, the things that have it (pickupable, heatable ...).
        openable: the receptacles that open.
        alternatives: the sets of facts that are success, each without the facts that never change; None: not read.
    """

    place: Mapping[str, str]
    at: Mapping[str, tuple[str, ...]]
    rtypes: Mapping[str, frozenset[str]]
    otypes: Mapping[str, frozenset[str]]
    fits: frozenset[tuple[str, str]]
    able: Mapping[str, frozenset[str]]
    openable: frozenset[str]
    alternatives: tuple[frozenset[Fact], ...] | None

    def holds(self, receptacle: str, thing: str) -> bool:
        """May this thing be put there?"""
        return any(
            (rtype, otype) in self.fits
            for rtype in self.rtypes.get(receptacle, ())
            for otype in self.otypes.get(thing, ())
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """What holds now: the agent's location, the thing in its hand, and the facts about things and receptacles.

    ``facts`` are inreceptacle, objectatlocation, opened and the properties that things got.
    """

    location: str
    held: str | None
    facts: frozenset[Fact] = field(default_factory=frozenset)

    def all(self) -> frozenset[Fact]:
        """With the agent's own facts as (atlocation, l) and (holds, o)."""
        own = {("atlocation", self.location)} | ({("holds", self.held)} if self.held else set())
        return self.facts | own


def standing(facts: Mapping[Any, Iterable[Any]]) -> Standing:
    """How a household stands, from TextWorld's facts by signature."""
    location, held, found = "", None, set()
    for signature, held_true in facts.items():
        name = signature.name
        if name not in _CHANGING and name not in ("opened", "objectatlocation"):
            continue
        for fact in held_true:
            words = tuple(argument.name for argument in fact.arguments)
            if name == "atlocation":
                location = words[1]
            elif name == "holds":
                held = words[1]
            else:
                found.add((name, *words))
    return Standing(location, held, frozenset(found))


def home_of(problem: str) -> Home:
    """The household of a PDDL problem.

    Raises:
        UsageError: no problem of ALFWorld's domain.
    """
    parts = {part[0]: part[1:] for part in _parsed(problem)[0][1:] if isinstance(part, list) and part}
    static: dict[str, list[tuple[str, ...]]] = {name: [] for name in _STATIC}
    lying: set[Fact] = set()
    for name, *words in (part for part in parts.get(":init", []) if isinstance(part, list)):
        if name in static:
            static[name].append(tuple(words))
        elif name == "inreceptacle":
            lying.add((name, *words))
    kinds = dict(_typed(parts.get(":objects", [])))
    place = {words[0]: words[1] for words in static["receptacleatlocation"]}
    able = {name: frozenset(words[0] for words in static[name]) for name in _ABLE}
    known = {(name, *words) for name in _STATIC for words in static[name]}
    known |= {fact for fact in lying if fact[1] not in able["pickupable"]}
    return Home(
        place=place,
        at={spot: tuple(sorted(r for r in place if place[r] == spot)) for spot in set(place.values())},
        rtypes=_grouped(static["receptacletype"]),
        otypes=_grouped(static["objecttype"]),
        fits=frozenset((rtype, otype) for rtype, otype in static["cancontain"]),
        able=able,
        openable=able["openable"],
        alternatives=_alternatives(parts.get(":goal", [None])[0], kinds, frozenset(known), able["pickupable"]),
    )


def domain_rules(domain: str) -> str:
    """A PDDL domain without comments, layout and costs: equal for equal rules."""

    def shown(part: _Expression) -> str:
        return part if isinstance(part, str) else f"({' '.join(map(shown, part))})"

    return re.sub(r"\(increase \(total-cost\) \d+\)", "", shown(_parsed(domain))).replace(" ", "")


# --- the goal -------------------------------------------------------------------------------------------------------


def _alternatives(
    goal: _Expression, kinds: Mapping[str, str], known: frozenset[Fact], movable: frozenset[str]
) -> tuple[frozenset[Fact], ...] | None:
    variables: dict[str, str] = {}
    literals: list[Fact] = []
    if not _flattened(goal, {}, variables, literals):
        return None
    found = set(_bound(list(variables.items()), {}, literals, _by_kind(kinds), known, movable))
    return tuple(sorted(found, key=sorted))


def _flattened(part: _Expression, scope: Mapping[str, str], variables: dict[str, str], literals: list[Fact]) -> bool:
    """Gather variables (renamed apart) and literals of "and" and "exists"; False for any other condition."""
    match part:
        case ["and", *parts]:
            return all(_flattened(one, scope, variables, literals) for one in parts)
        case ["exists", [*declared], inner]:
            inside = dict(scope)
            for name, kind in _typed(declared):
                inside[name] = f"{name}#{len(variables)}"
                variables[inside[name]] = kind
            return _flattened(inner, inside, variables, literals)
        case ["not", ["=", str(a), str(b)]]:
            literals.append(("differ", scope.get(a, a), scope.get(b, b)))
            return True
        case [str(name), *words] if name in _STATIC | _CHANGING and all(isinstance(word, str) for word in words):
            literals.append((name, *(scope.get(word, word) for word in words)))
            return True
    return False


def _bound(
    variables: list[tuple[str, str]],
    chosen: dict[str, str],
    literals: list[Fact],
    by_kind: Mapping[str, tuple[str, ...]],
    known: frozenset[Fact],
    movable: frozenset[str],
) -> Iterator[frozenset[Fact]]:
    """Every choice of things for the variables under which all that never changes holds; what else must hold."""
    if not variables:
        yield frozenset(_open(chosen, literals, movable))
        return
    (variable, kind), *later = variables
    concerned = [literal for literal in literals if variable in literal]
    for thing in by_kind.get(kind, ()):
        chosen[variable] = thing
        if all(_possible(literal, chosen, known, movable) for literal in concerned):
            yield from _bound(later, chosen, literals, by_kind, known, movable)
    chosen.pop(variable, None)


def _possible(literal: Fact, chosen: Mapping[str, str], known: frozenset[Fact], movable: frozenset[str]) -> bool:
    name, *words = (chosen.get(word, word) for word in literal)
    if any("#" in word for word in words):
        return True  # a variable that is chosen later
    if name == "differ":
        return words[0] != words[1]
    return (name, *words) in known if _fixed(name, words, movable) else True


def _fixed(name: str, words: list[str], movable: frozenset[str]) -> bool:
    return name in _STATIC or (name == "inreceptacle" and words[0] not in movable)


def _open(chosen: Mapping[str, str], literals: list[Fact], movable: frozenset[str]) -> Iterator[Fact]:
    for literal in literals:
        name, *words = (chosen.get(word, word) for word in literal)
        if name != "differ" and not _fixed(name, words, movable):
            yield (name, *(words[1:] if name in _AGENT_FACTS else words))


# --- the text of a problem ------------------------------------------------------------------------------------------


def _parsed(text: str) -> list[_Expression]:
    """PDDL text as nested lists of lower-case words."""
    stack: list[list[_Expression]] = [[]]
    for token in re.findall(r"[()]|[^\s()]+", re.sub(r";[^\n]*", "", text).lower()):
        if token == "(":
            stack.append([])
        elif token == ")" and len(stack) > 1:
            done = stack.pop()
            stack[-1].append(done)
        elif token != ")":
            stack[-1].append(token)
    if len(stack) != 1 or not stack[0] or not isinstance(stack[0][0], list):
        raise UsageError(f"pddl={text[:40]!r}: balanced brackets")
    return stack[0]


def _typed(words: list[_Expression]) -> Iterator[tuple[str, str]]:
    """``a b - t c - u`` as (a, t), (b, t), (c, u)."""
    waiting: list[str] = []
    rest = iter(word for word in words if isinstance(word, str))
    for word in rest:
        if word == "-":
            kind = next(rest, "")
            yield from ((name, kind) for name in waiting)
            waiting = []
        else:
            waiting.append(word)


def _grouped(pairs: Iterable[tuple[str, ...]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return {key: frozenset(values) for key, values in found.items()}


def _by_kind(kinds: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        found.setdefault(kind, []).append(name)
    return {kind: tuple(sorted(names)) for kind, names in found.items()}

"""What somebody who sees only a view of ALFWorld can know: its branch, read as text, and the facts in its memory.

``knowledge`` replays the branch over what the memory tells of the start; ``believed`` makes of it a household that
``alfworld_plan`` can plan in. Facts are written so that they can be read back: where something lay at the start, what a
receptacle does not take, what did not serve as the thing that was asked for. Nothing here touches an environment or an
oracle; whatever cannot be read is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rir_envs.alfworld_home import Fact as Held
from rir_envs.alfworld_home import Home, Standing
from rir_envs.alfworld_reading import Task, kind_of, read_list, read_task, sights
from rir_gym.base import View
from rir_gym.memory import Fact, Memory, ReflectionMemory

__all__ = ["Knowledge", "believed", "knowledge", "observed_facts"]

_LAY, _REFUSES, _NO_USE = "at the start these lay in the ", "cannot be put in a ", "is not what is asked for: "
_OPENS = frozenset({"fridge", "cabinet", "microwave", "drawer", "safe", "box"})
_ABLE = ("pickupable", "cleanable", "heatable", "coolable", "sliceable")


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What branch and memory together tell.

    Args:
        task: what is asked, None where it is worded as this module cannot read.
        receptacles: all of the home, in the order of the first reply.
        at, held: where the agent stands and what it holds; "" for nowhere and nothing.
        inside: for every receptacle that was looked into, in some attempt, what lies there now.
        opens, opened: the receptacles known to open, and those that stand open.
        states: what was done to things, as facts such as ("ishot", "mug 1").
        refused: (kind of thing, kind of receptacle) that do not go together, and the step that shows it (None: memory).
        useless: kinds of things known not to be the kind that is asked for.
    """

    task: Task | None
    receptacles: tuple[str, ...]
    at: str
    held: str
    inside: Mapping[str, tuple[str, ...]]
    opens: frozenset[str]
    opened: frozenset[str]
    states: frozenset[tuple[str, str]]
    refused: Mapping[tuple[str, str], int | None]
    useless: frozenset[str]

    def where(self, kind: str) -> list[tuple[str, str]]:
        """Every thing of a kind whose place is known, and the place; "" for the hand."""
        found = [(thing, spot) for spot, things in self.inside.items() for thing in things if kind_of(thing) == kind]
        return found + ([(self.held, "")] if kind_of(self.held) == kind and self.held else [])


def knowledge(view: View) -> Knowledge:
    """What ``view.history`` and ``view.memory`` tell. Only a ReflectionMemory is read; another kind tells nothing."""
    inside, refused, useless = _remembered(view.memory)
    receptacles: tuple[str, ...] = ()
    at = held = ""
    opens: set[str] = set()
    opened: set[str] = set()
    states: set[tuple[str, str]] = set()
    for i, sight in sights(view.history):
        receptacles = receptacles or sight.all
        if i == 0:
            held = _held_at_the_start(view, receptacles)
        at = sight.at or at
        held = held if sight.carried is None else sight.carried
        if sight.where:
            if sight.opens:
                opens.add(sight.where)
                (opened.discard if sight.things is None else opened.add)(sight.where)
            if sight.things is not None:
                inside[sight.where] = sight.things
        if sight.done == "take":
            held = sight.what
            inside[sight.with_what] = tuple(x for x in inside.get(sight.with_what, ()) if x != held)
        elif sight.done == "move":
            held = ""
            inside[sight.with_what] = (*inside.get(sight.with_what, ()), sight.what)
        elif sight.done:
            states.add((sight.done, sight.what))
            other = {"ishot": "iscool", "iscool": "ishot"}.get(sight.done, "")
            states.discard((other, sight.what))
        shut = at in opens and at not in opened
        for pair in _refusal(view, i) | _unlisted(view, i, held, "" if shut else at):
            refused.setdefault(pair, i)
    useless |= _failed_kinds(view)
    task = read_task(view.objective)
    return Knowledge(
        task, receptacles, at, held, inside, frozenset(opens), frozenset(opened), frozenset(states), refused,
        frozenset(useless - {task.thing if task else ""}),
    )  # fmt: skip


def observed_facts(view: View) -> tuple[Fact, ...]:
    """ΔE: what the branch shows and no action can change, each fact with the step of the observation that shows it.

    What lay where at the start (the first look into a receptacle shows it, since only the agent moves things), what was
    not taken by a kind of receptacle, and what kind of thing did not do, put as asked, for the kind that was asked for.
    """
    facts: list[Fact] = []
    looked: set[str] = set()
    for i, sight in sights(view.history):
        if sight.things is not None and sight.where not in looked:
            looked.add(sight.where)
            facts.append(_fact("fact", f"{_LAY}{sight.where}: {', '.join(sight.things) or 'nothing'}", i))
    for (thing, receptacle), step in sorted(knowledge(view).refused.items()):
        if step is not None:
            facts.append(_fact("elimination", f"a {thing} {_REFUSES}{receptacle}", step))
    facts += [
        _fact("elimination", f"a {kind} {_NO_USE}{view.objective}", view.t) for kind in sorted(_failed_kinds(view))
    ]
    return tuple(facts)


def believed(known: Knowledge, task: Task) -> tuple[Home, Standing]:
    """A household as far as it is known: every receptacle at a place of its own, all that is not refused allowed."""
    things = {thing: spot for spot, lying in known.inside.items() for thing in lying}
    names = {*things, *([known.held] if known.held else [])}
    kinds = {name: kind_of(name) for name in (*names, *known.receptacles)}
    lamps = [name for name in names if task.lamp and kinds[name] == task.lamp]
    wanted = sorted(name for name in names if kinds[name] == task.thing)
    goals: list[frozenset[Held]] = []
    if task.lamp:
        seen = [(thing, lamp) for thing in wanted for lamp in lamps if lamp in things]
        goals = [frozenset({("holds", a), ("istoggled", b), ("atlocation", things[b])}) for a, b in seen]
    for receptacle in known.receptacles if task.to else ():
        if kinds[receptacle] != task.to or (task.thing, task.to) in known.refused:
            continue
        placed = [
            frozenset({("inreceptacle", thing, receptacle), *((state, thing) for state in task.states)})
            for thing in wanted
        ]
        pairs = [a | b for k, a in enumerate(placed) for b in placed[k + 1 :]]
        goals += pairs if task.count == 2 else placed
    rkinds = {kinds[receptacle] for receptacle in known.receptacles}
    movable = frozenset(names - set(lamps))
    home = Home(
        place={receptacle: receptacle for receptacle in known.receptacles},
        at={receptacle: (receptacle,) for receptacle in known.receptacles},
        rtypes={receptacle: frozenset({f"{kinds[receptacle]}type"}) for receptacle in known.receptacles},
        otypes={name: frozenset({f"{kinds[name]}type"}) for name in names},
        fits=frozenset(
            (f"{rkind}type", f"{kind}type")
            for rkind in rkinds
            for kind in {kinds[name] for name in names}
            if (kind, rkind) not in known.refused
        ),
        able={**dict.fromkeys(_ABLE, movable), "toggleable": frozenset(lamps)},
        openable=known.opens
        | {r for r in known.receptacles if kinds[r] in _OPENS and (r not in known.inside or r not in known.opened)},
        alternatives=tuple(sorted({*goals}, key=sorted)),
    )
    facts: set[Held] = {("inreceptacle", thing, spot) for thing, spot in things.items()}
    facts |= {("objectatlocation", thing, spot) for thing, spot in things.items()}
    facts |= {("opened", receptacle) for receptacle in known.opened} | known.states
    return home, Standing(known.at or "nowhere", known.held or None, frozenset(facts))


def _held_at_the_start(view: View, receptacles: tuple[str, ...]) -> str:
    """What the first list of commands lets one examine where no receptacle is near: the thing in the hand."""
    near = {command.removeprefix("examine ") for command in view.history[0].admissible or () if "examine " in command}
    return next(iter(sorted(near - set(receptacles))), "")


def _refusal(view: View, i: int) -> set[tuple[str, str]]:
    """The kinds of a "move" at step i that the game did not know, where nothing but the kinds can be the reason."""
    action, _, receptacle = str(view.history[i].action or "").partition(" to ")
    if not action.startswith("move ") or view.history[i].observation != "Nothing happens.":
        return set()
    listed = view.history[i].admissible
    near = listed is None or f"examine {receptacle}" in listed
    return {(kind_of(action.removeprefix("move ")), kind_of(receptacle))} if near else set()


def _unlisted(view: View, i: int, held: str, at: str) -> set[tuple[str, str]]:
    """The kinds in the hand and at hand, where the list of commands does not offer to put one into the other."""
    listed = view.history[i].admissible
    if not held or not at or not listed or f"examine {at}" not in listed:
        return set()
    return set() if f"move {held} to {at}" in listed else {(kind_of(held), kind_of(at))}


def _failed_kinds(view: View) -> set[str]:
    """Kinds of things that were put where and as the task asks, without success, and so are not what it asks for."""
    task = read_task(view.objective)
    if task is None or not task.to:
        return set()
    states: set[tuple[str, str]] = set()
    placed: dict[str, set[str]] = {}
    for _, sight in sights(view.history):
        if sight.done == "move" and kind_of(sight.with_what) == task.to:
            if all((state, sight.what) in states for state in task.states - {"issliced"}):
                placed.setdefault(kind_of(sight.what), set()).add(sight.what)
        elif sight.done not in ("", "take", "move"):
            states.add((sight.done, sight.what))
    return {kind for kind, things in placed.items() if kind != task.thing and len(things) >= task.count}


def _fact(channel: str, text: str, step: int) -> Fact:
    return Fact("elimination" if channel == "elimination" else "fact", text, step=step, invariant=True)


def _remembered(memory: Memory) -> tuple[dict[str, tuple[str, ...]], dict[tuple[str, str], int | None], set[str]]:
    inside: dict[str, tuple[str, ...]] = {}
    refused: dict[tuple[str, str], int | None] = {}
    useless: set[str] = set()
    for fact in memory.environment if isinstance(memory, ReflectionMemory) else ():
        if fact.reverify:
            continue
        if fact.text.startswith(_LAY):
            where, _, things = fact.text.removeprefix(_LAY).partition(": ")
            inside[where] = read_list(things)
        elif f" {_REFUSES}" in fact.text:
            thing, _, receptacle = fact.text.removeprefix("a ").partition(f" {_REFUSES}")
            refused[thing, receptacle] = None
        elif f" {_NO_USE}" in fact.text:
            useless.add(fact.text.removeprefix("a ").partition(f" {_NO_USE}")[0])
    return inside, refused, useless

"""Tree search over the kept nodes of an episode (LATS): its memory, its agent, and when, where and what for it.

Roles keep no state, so the tree's statistics live in the memory, which no rollback rewinds. A place of the tree is the
list of actions that leads to it. ΔE of a review carries what the agent sampled there and how the critic valued it, as
an affordance whose text is a JSON object; a rollback backs up the value of the leaf and writes a reflection where it
had failed. Selection is UCT. Source: Zhou et al., "Language Agent Tree Search", arXiv 2310.04406. Ours: one child is
tried at a time, a sample that was paid for is played later without a second call, the order of samples is how often
each was drawn (self-consistency), and a critic of states stands in for one of state-action pairs. This module knows no
environment and no model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any

from rir_gym.base import Act, Decision, DecisionKind, Patch, Restore, Verdict, VerdictKind, View, What
from rir_gym.errors import UsageError
from rir_gym.memory import Fact, ReflectionMemory
from rir_policies.critics import value_of
from rir_policies.notes import Note, Notes
from rir_policies.when import Reviewer

__all__ = ["Backup", "Place", "SearchActor", "SearchMemory", "SearchReview", "Select"]

Path = tuple[Any, ...]
_KEY = "search"


@dataclass(frozen=True, slots=True)
class Place:
    """One place of the tree.

    Args:
        path: the actions from the root.
        node: the node id that is restored to be here.
        value: the critic's, in [0, 1].
        untried: actions that were sampled here and not yet taken, the most frequent first; None: nothing was sampled.
        visits, total: how many values were backed up through here, and their sum.
        shut: the environment ended here.
    """

    path: Path
    node: int
    value: float
    untried: Path | None = None
    visits: int = 0
    total: float = 0.0
    shut: bool = False

    @property
    def mean(self) -> float:
        """The mean of what was backed up; before the first time, the critic's value."""
        return self.total / self.visits if self.visits else self.value


@dataclass(frozen=True, slots=True)
class SearchMemory:
    """The tree's statistics and the last ``most`` reflections. ``since`` is the step at which this rollout began."""

    objective: str
    most: int = 3
    places: tuple[Place, ...] = ()
    notes: tuple[Note, ...] = ()
    iterations: int = 0
    since: int = 0

    def place(self, path: Path) -> Place | None:
        """The place at the end of these actions."""
        return next((place for place in self.places if place.path == path), None)

    def learn(self, learned: Sequence[Fact]) -> SearchMemory:
        """Add what a review says of the place where the agent stands (``place_fact``); other facts are not kept."""
        memory = self
        for fact in learned:
            if (seen := _read(fact)) is not None:
                memory = memory._seen(seen)
        return memory

    def _seen(self, seen: Place) -> SearchMemory:
        known = self.place(seen.path)
        if known is not None:
            untried = seen.untried if known.untried is None else known.untried
            merged = replace(known, node=seen.node, untried=untried, shut=known.shut or seen.shut)
            return self._with(merged)
        memory = replace(self, places=(*self.places, seen))
        parent = memory.place(seen.path[:-1]) if seen.path else None
        if parent is not None and parent.untried:
            memory = memory._with(replace(parent, untried=tuple(x for x in parent.untried if x != seen.path[-1])))
        return memory

    def _with(self, place: Place) -> SearchMemory:
        places = tuple(place if known.path == place.path else known for known in self.places)
        return replace(self, places=places)

    def select(self, exploration: float) -> Place | None:
        """UCT from the root down to a place with something left to try; None where the whole tree is spent."""
        at = self.place(())
        if at is None or not self._open(at):
            return None
        while at.untried is not None:
            parent = at
            children = [child for child in self._children(parent) if self._open(child)]

            def score(mean: float, visits: int, above: Place = parent) -> float:
                return mean + exploration * math.sqrt(math.log(above.visits + 1) / (visits + 1))

            best = max(children, key=lambda child: score(child.mean, child.visits), default=None)
            if best is None or (parent.untried and score(parent.mean, 0) >= score(best.mean, best.visits)):
                return parent
            at = best
        return at

    def _children(self, place: Place) -> list[Place]:
        depth = len(place.path)
        return [each for each in self.places if len(each.path) == depth + 1 and each.path[:depth] == place.path]

    def _open(self, place: Place) -> bool:
        if place.shut:
            return False
        return place.untried is None or bool(place.untried) or any(map(self._open, self._children(place)))

    def backup(self, path: Path, value: float, *, since: int) -> SearchMemory:
        """Add a leaf's value to every place on its path; the next rollout begins at step ``since``."""
        on = [
            replace(place, visits=place.visits + 1, total=place.total + value)
            if place.path == path[: len(place.path)]
            else place
            for place in self.places
        ]
        return replace(self, places=tuple(on), iterations=self.iterations + 1, since=since)

    def reflection(self) -> ReflectionMemory:
        """The reflections, for an agent that reads facts; see ``Notes.reflection``."""
        return Notes(self.objective, self.most, notes=self.notes).reflection()

    def render(self) -> str:
        """The reflections; the statistics are not for prompts."""
        return Notes(self.objective, self.most, "Reflections on failed attempts", self.notes).render()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        notes = [{**asdict(note), "facts": [asdict(fact) for fact in note.facts]} for note in self.notes]
        places = [
            {**asdict(place), "path": list(place.path), "untried": None if place.untried is None else [*place.untried]}
            for place in self.places
        ]
        told = {"objective": self.objective, "iterations": self.iterations, "since": self.since}
        return {"kind": "search", **told, "places": places, "notes": notes}


@dataclass(frozen=True, slots=True)
class SearchActor:
    """An ``Act`` that samples an expansion: ``samples`` actions of the inner act, ``root`` of them at the root.

    Each costs one agent call; where fewer are left, fewer are sampled. The most frequent is proposed. At a place whose
    samples are known from the memory, the first untried one is proposed and costs nothing, since it was paid for.
    Samples differ as the inner act's draws do, which depend on the number of agent calls.

    Raises:
        UsageError: a number of samples below 1; on call, a memory that is no ``SearchMemory``.
    """

    act: Act
    _: KW_ONLY
    samples: int = 5
    root: int = 10

    def __post_init__(self) -> None:
        """Refuse an expansion of nothing."""
        if self.samples < 1 or self.root < 1:
            raise UsageError(f"samples={self.samples!r}, root={self.root!r}: at least 1")

    def __call__(self, views: Sequence[View]) -> Sequence[Decision]:
        """One decision a view; the samples of all views are one batch of the inner act."""
        counts = [self._count(view) for view in views]
        drawn = [
            replace(view, agent_calls=view.agent_calls + i)
            for view, count in zip(views, counts, strict=True)
            for i in range(count)
        ]
        replies = list(self.act(drawn)) if drawn else []
        decisions = []
        for view, count in zip(views, counts, strict=True):
            mine, replies = replies[:count], replies[count:]
            decisions.append(_best(mine) if mine else _known(view))
        return decisions

    def _count(self, view: View) -> int:
        if (place := _search(view).place(_path(view))) is not None and place.untried:
            return 0
        return min(self.root if view.t == 0 else self.samples, view.agent_calls_left)


@dataclass(frozen=True, slots=True)
class SearchReview:
    """A ``When`` at every step: it values a new place, and says when a rollout is over.

    A rollout is over where the environment has ended without success, ``depth`` steps after it began, or where the
    critic's value is at most ``cutoff``. Then, with iterations and something to try left, the verdict is ROLLBACK, if
    UCT selects another place than this. The true reward at the end is an oracle: success stops the search.

    Args:
        critic: values a place that was not seen before; see ``value_of``.
        depth: steps of one rollout (ours).
        iterations: rollouts of an episode.
        cutoff: a value that is as good as a failure (ours).
        exploration: the weight of UCT's second term.

    Raises:
        UsageError: on call, a view without oracle or a memory that is no ``SearchMemory``.
    """

    critic: Reviewer
    _: KW_ONLY
    depth: int = 10
    iterations: int = 30
    cutoff: float = 0.1
    exploration: float = 1.0

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """One verdict a view; the critic is called once, with the new places."""
        new = [i for i, view in enumerate(views) if _search(view).place(_path(view)) is None and not view.terminal]
        said = dict(zip(new, self.critic([views[i] for i in new]) if new else (), strict=True))
        return [self._judge(view, said.get(i)) for i, view in enumerate(views)]

    def _judge(self, view: View, said: Verdict | None) -> Verdict:
        if view.oracle is None:
            raise UsageError("view.oracle=None: LATS stops at the true reward and needs uses_oracle=True")
        memory, path = _search(view), _path(view)
        known = memory.place(path)
        value = known.value if known is not None else 0.0 if said is None else value_of(said)
        proposed = view.proposed
        sampled = proposed.sampled if proposed is not None and proposed.kind is DecisionKind.ACTION else None
        place = Place(path, view.node, value, sampled or None, shut=view.terminal)
        facts = (place_fact(place, view.t),)
        calls, learned = (said.calls, said.learned) if said is not None else ((), ())
        going_on = Verdict(VerdictKind.CONTINUE, learned=(*facts, *learned), calls=calls)
        over = view.terminal or view.t - memory.since >= self.depth or value <= self.cutoff
        if view.oracle.success or not over or memory.iterations >= self.iterations:
            return going_on
        after = memory.learn(facts).backup(path, value, since=0)
        target = after.select(self.exploration)
        if target is None or target.path == path:
            return going_on
        why = (said.diagnosis if said is not None else "") or f"a rollout ended at step {view.t} without success"
        return replace(going_on, kind=VerdictKind.ROLLBACK, diagnosis=why)


@dataclass(frozen=True, slots=True)
class Select:
    """A ``Where`` among all kept nodes: the place that UCT selects once the leaf's value is backed up."""

    _: KW_ONLY
    exploration: float = 1.0

    def __call__(self, views: Sequence[View], verdicts: Sequence[Verdict]) -> Sequence[Restore]:
        """One restore point a view; None where the selected node can no longer be restored."""
        return [self._select(view) for view, _ in zip(views, verdicts, strict=True)]

    def _select(self, view: View) -> Restore:
        memory, path = _search(view), _path(view)
        leaf = memory.place(path)
        place = memory.backup(path, leaf.value if leaf else 0.0, since=0).select(self.exploration)
        point = next((point for point in view.restorable if place is not None and point.node == place.node), None)
        return Restore(point, "selected by UCT", stages=("fine",))


@dataclass(frozen=True, slots=True)
class Backup:
    """A ``What``: the leaf's value goes up its path; a failed leaf leaves a reflection, written by ``what``.

    ``what`` writes notes (``NoteDown`` or ``WriteNote``). A rollout that only ran out of depth leaves none.
    """

    what: What
    _: KW_ONLY
    cutoff: float = 0.1

    def __call__(
        self, views: Sequence[View], verdicts: Sequence[Verdict], restores: Sequence[Restore]
    ) -> Sequence[Patch]:
        """One patch a view; the inner role is called once, with the failed leaves."""
        failed = [i for i, view in enumerate(views) if view.terminal or self._value(view) <= self.cutoff]
        asked = [replace(views[i], memory=_notes(_search(views[i]))) for i in failed]
        said = [replace(verdicts[i], learned=_without_places(verdicts[i].learned)) for i in failed]
        written = self.what(asked, said, [restores[i] for i in failed]) if failed else ()
        patches = dict(zip(failed, written, strict=True))
        return [self._patch(view, restores[i], patches.get(i)) for i, view in enumerate(views)]

    def _patch(self, view: View, restore: Restore, written: Patch | None) -> Patch:
        since = restore.point.t if restore.point is not None else view.t
        memory = _search(view).backup(_path(view), self._value(view), since=since)
        if written is None:
            return Patch(memory, invoked=False)
        notes = written.memory.notes if isinstance(written.memory, Notes) else ()
        return replace(written, memory=replace(memory, notes=notes))

    def _value(self, view: View) -> float:
        place = _search(view).place(_path(view))
        return place.value if place is not None else 0.0


def place_fact(place: Place, step: int) -> Fact:
    """A place as an affordance that ``SearchMemory.learn`` reads."""
    told = {
        "path": list(place.path),
        "node": place.node,
        "value": place.value,
        "untried": None if place.untried is None else list(place.untried),
        "shut": place.shut,
    }
    return Fact("affordance", json.dumps({_KEY: told}, ensure_ascii=False, default=_item), step)


def _item(action: Any) -> Any:
    """A NumPy scalar as a plain number; other actions cannot be written down."""
    if not hasattr(action, "item"):
        raise UsageError(f"action={action!r}: a tree search needs actions that are text or numbers")
    return action.item()


def _without_places(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    return tuple(fact for fact in facts if _read(fact) is None)


def _read(fact: Fact) -> Place | None:
    if fact.channel != "affordance" or not fact.text.startswith(f'{{"{_KEY}"'):
        return None
    told = json.loads(fact.text)[_KEY]
    untried = None if told["untried"] is None else tuple(told["untried"])
    return Place(tuple(told["path"]), told["node"], told["value"], untried, shut=told["shut"])


def _search(view: View) -> SearchMemory:
    if not isinstance(view.memory, SearchMemory):
        raise UsageError(f"memory={type(view.memory).__name__}: a tree search keeps a SearchMemory")
    return view.memory


def _path(view: View) -> Path:
    return tuple(step.action for step in view.history[1:])


def _notes(memory: SearchMemory) -> Notes:
    return Notes(memory.objective, memory.most, notes=memory.notes)


def _best(sampled: Sequence[Decision]) -> Decision:
    """The most frequent action of a sample, the first drawn among equals; without any, the first decision."""
    calls = tuple(call for decision in sampled for call in decision.calls)
    acted = [decision for decision in sampled if decision.kind is DecisionKind.ACTION]
    if not acted:
        return replace(sampled[0], calls=calls, agent_calls=len(sampled))
    said = [decision.action for decision in acted]
    distinct = sorted(dict.fromkeys(said), key=lambda action: -said.count(action))
    first = next(decision for decision in acted if decision.action == distinct[0])
    return replace(first, calls=calls, agent_calls=len(sampled), sampled=tuple(distinct))


def _known(view: View) -> Decision:
    place = _search(view).place(_path(view))
    assert place is not None and place.untried  # noqa: PT018
    return replace(Decision.act(place.untried[0]), agent_calls=0)

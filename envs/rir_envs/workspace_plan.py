"""The shortest way from files to a goal, both fully known: values in, commands out.

The environment's oracle applies it to the true files; the policies beside the environment apply it to what an agent
believes. It knows neither which of the two it is given nor where the goal came from.

Every requirement takes a command of its own, but for a move, which can fill one place and empty another. A document
that no command can type must be copied away before its last copy is overwritten. So the least is counted: requirements
that do not stand, less the moves that do two things, plus one for every ring of documents that lie in each other's
places; but a path that must be emptied can hold one of a ring for a while, and then needs no deletion. ``Way.least`` is
that count and ``Way.commands`` a plan; where they are equally long it is a shortest one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rir_envs.workspace_commands import submission
from rir_envs.workspace_goal import Content, Goal, Message, missing, requirements, satisfied

__all__ = ["Way", "progress", "way"]

Files = Mapping[str, Content]
_TEMPORARY = "tmp/kept-{}.tmp"


@dataclass(frozen=True, slots=True)
class Way:
    """A plan to success, the submission at its end included; no plan with fewer than ``least`` commands exists."""

    commands: tuple[str, ...]
    least: int

    @property
    def shortest(self) -> bool:
        """Whether it is proven that no plan is shorter."""
        return len(self.commands) == self.least


def way(goal: Goal, files: Files, sent: tuple[Message, ...], *, careless: bool = False) -> Way | None:
    """A plan from here to success; None where success is out of reach.

    Args:
        careless: do not look whether a place is taken by something that is needed elsewhere. Such a plan may not work.
    """
    messages = [message for message in sorted(goal.messages, key=str) if message not in sent]
    held = set(files.values())
    if Counter(sent) - Counter(goal.messages) or any(content not in held for _, content in messages):
        return None
    bases: dict[str, Content] = {}
    for path, wanted in sorted(goal.places.items()):
        base = _nearest(wanted, files.get(path), held)
        if base is None:
            return None
        bases[path] = base
    places = {path: base for path, base in bases.items() if files.get(path) != base}
    to_add = {path: missing(goal.places[path], base) or () for path, base in bases.items()}
    growth = [
        f"{'post' if bases[path].ledger else 'append'} {path} {more}" for path, add in to_add.items() for more in add
    ]
    grown = {
        base.origin: max(len(to_add[at]) for at in bases if bases[at].origin == base.origin) for base in bases.values()
    }
    least = _least(places, goal, files) + sum(grown.values()) + len(messages) + 1
    made = [*_Work(goal, dict(files), places, messages).commands(careless, growth), submission(goal.answer)]
    return Way(tuple(made), least)


def progress(goal: Goal, start: Files, files: Files, sent: tuple[Message, ...]) -> float:
    """Share of what is to be done that stands, the answer counted among it and not given yet: in [0, 1)."""
    before = satisfied(goal, start, ())
    gained = satisfied(goal, files, sent) - before
    return max(0.0, gained / (requirements(goal) - before + 1))


def _nearest(wanted: Content, here: Content | None, held: set[Content]) -> Content | None:
    """The content to begin with: what lies there already, that of another file, or a text to be typed."""
    if not wanted.origin:
        return wanted
    costs = [
        (len(left) + (content != here), content != here, content.more, content)
        for content in held
        if (left := missing(wanted, content)) is not None
    ]
    return min(costs, key=lambda cost: cost[:3])[3] if costs else None


def _least(places: Files, goal: Goal, files: Files) -> int:
    full = [path for path in goal.absent if path in files]
    spare, needed = Counter(files[path] for path in full), Counter(places.values())
    doubles = sum(min(count, needed[content]) for content, count in spare.items())
    deletes = len(full) - doubles
    return len(places) + max(deletes, _rings(places, files))


def _rings(places: Files, files: Files) -> int:
    """Rings of open places, each of which holds the only copy of what exactly the next one needs."""
    copies, needed = Counter(files.values()), Counter(places.values())
    holder = {files[path]: path for path in places if path in files}
    source = {
        path: holder[content]
        for path, content in places.items()
        if copies[content] == 1 and needed[content] == 1 and content in holder and content.origin
    }
    met: set[str] = set()
    rings = 0
    for start in source:
        path, seen = start, set[str]()
        while path in source and path not in met:
            met.add(path)
            seen.add(path)
            path = source[path]
        rings += path in seen
    return rings


@dataclass(slots=True)
class _Work:
    """Files while a plan is made: ``left`` are the places still to be filled, ``messages`` those still to be sent."""

    goal: Goal
    now: dict[str, Content]
    left: dict[str, Content]
    messages: list[Message]

    def commands(self, careless: bool, growth: list[str]) -> list[str]:
        made: list[str] = []
        while self.left:
            free = [path for path in self.left if careless or self._free(path)]
            free = free or [path for path in self.left if self._copied(path)]
            if free:
                if (filled := self._fill(free[0])) is None:
                    return made
                made.append(filled)
            elif soon := self._endangered():
                made += self._send(soon)
            else:
                path, to = next(iter(self.left)), self._spare()
                made.append(f"copy {path} {to}")
                self.now[to] = self.now[path]
        made += growth
        awaited = {content for _, content in self.messages}
        early = [path for path in sorted(self.goal.absent & self.now.keys()) if self.now[path] not in awaited]
        late = sorted((self.goal.absent & self.now.keys()) - set(early))
        made += [f"delete {path}" for path in early]
        return [*made, *self._send(list(self.messages)), *(f"delete {path}" for path in late)]

    def _free(self, path: str) -> bool:
        """Whether what lies at the path is needed for nothing else."""
        here = self.now.get(path)
        if here is None or not here.origin:
            return True
        return here not in [c for at, c in self.left.items() if at != path] + [c for _, c in self.messages]

    def _endangered(self) -> list[Message]:
        """What is still to be sent, lies where something else belongs, and belongs nowhere itself."""
        held = {self.now.get(path) for path in self.left}
        return [one for one in self.messages if one[1] in held and one[1] not in self.left.values()]

    def _spare(self) -> str:
        """A path for something that is in the way: one that holds what would be deleted, else a new one."""
        needed = [*self.left.values(), *(content for _, content in self.messages)]
        spare = [path for path in sorted(self.goal.absent & self.now.keys()) if self.now[path] not in needed]
        free = (path for n in range(len(self.now) + 1) if (path := _TEMPORARY.format(n)) not in self.now)
        return spare[0] if spare else next(free)

    def _copied(self, path: str) -> bool:
        return any(content == self.now[path] for at, content in self.now.items() if at != path)

    def _fill(self, path: str) -> str | None:
        content = self.left.pop(path)
        sources = sorted(at for at, held in self.now.items() if held == content)
        source = next((at for at in sources if at in self.goal.absent), None)
        if source is None and not content.origin:
            self.now[path] = content
            return f"write {path} {_escaped(content.more[0])}"
        source = source or next((at for at in sources if at in self.left), None)
        verb = "move" if source is not None else "copy"
        source = source or next(iter(sources), None)
        if source is None:
            return None
        self.now[path] = content
        if verb == "move":
            del self.now[source]
        return f"{verb} {source} {path}"

    def _send(self, messages: list[Message]) -> list[str]:
        made = []
        for message in messages:
            self.messages.remove(message)
            path = min((at for at, content in self.now.items() if content == message[1]), default=None)
            made += [f"send {message[0]} {path}"] if path else []
        return made


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")

"""The synthetic worlds of the benchmarks as Gymnasium environments, and how any world is made by its id.

Three sizes of one kind of state (rooms, things with shared references, a log, a generator): 58 containers; 3,000
containers and 1 MB of text, of which a step changes five things; 150,000 containers and 50 MB of arrays, of which a
step changes twenty cells. And one that says it can be copied and is not (EzPickle). All are functions of the seed and
the actions. This module knows no mechanism; ``register_worlds`` gives them the ids ``rir_bench/<Name>-v0``.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from engines import register_engines

import rir_gym
from rir_gym.errors import MissingDependency

__all__ = ["Absent", "EzPickleWorld", "LargeWorld", "MediumWorld", "SmallWorld", "made", "maker", "register_worlds"]

Returned = tuple[str, float, bool, bool, dict[str, Any]]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Absent(Exception):
    """A world that cannot be made here, and why."""


class SmallWorld(gym.Env[str, Any]):
    """Ten rooms in a ring and ten things in them. Actions: 0, 1 walk; 2 take; 3 put down, opened or shut."""

    def __init__(self) -> None:
        self.action_space = gym.spaces.Discrete(4)
        self.observation_space = rir_gym.Unicode()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """A new world; ``options`` are not read."""
        super().reset(seed=seed)
        self.rng = random.Random(int(self.np_random.integers(2**32)))
        self.rooms: list[dict[str, Any]] = [
            {"name": f"room {i}", "exits": [(i + 1) % 10, (i - 1) % 10], "things": []} for i in range(10)
        ]
        self.things: dict[int, dict[str, Any]] = {}
        for i in range(10):  # each is held twice, by the table and by its room
            self.things[i] = {"id": i, "name": f"thing {i}", "state": {"open": False, "wear": 0}}
            self.rooms[self.rng.randrange(10)]["things"].append(self.things[i])
        self.place, self.turn, self.score = 0, 0, 0.0
        self.carried: list[dict[str, Any]] = []
        self.flags: dict[str, int] = {}
        self.visited: set[int] = set()
        return self._view(), {}

    def step(self, action: int) -> Returned:
        """Never ends; the reward is random for a thing taken, else 0."""
        room, gain = self.rooms[self.place], 0.0
        self.turn += 1
        self.visited.add(self.place)
        if action < 2:
            self.place = room["exits"][action]
        elif action == 2 and room["things"]:
            thing = room["things"].pop(self.rng.randrange(len(room["things"])))
            thing["state"]["wear"] += 1
            self.carried.append(thing)
            gain = self.rng.random()
        elif action == 3 and self.carried:
            thing = self.carried.pop(self.rng.randrange(len(self.carried)))
            thing["state"]["open"] ^= True
            room["things"].append(thing)
        self.score += gain
        self.flags[f"flag {self.turn % 5}"] = self.turn
        return self._view(), gain, False, False, {}

    def _view(self) -> str:
        room = self.rooms[self.place]
        seen = ", ".join(f"{thing['name']} {thing['state']}" for thing in room["things"])
        return f"{room['name']}: {seen or 'nothing'}; carried {len(self.carried)}, visited {list(self.visited)}"


class Thing:
    """One of the medium world's."""

    def __init__(self, number: int, place: int, text: str) -> None:
        self.number, self.place, self.text = number, place, text
        self.open, self.wear, self.tags = False, 0, [f"tag {number % 7}"]


class MediumWorld(gym.Env[str, Any]):
    """200 rooms, 1,000 things with long texts, a vocabulary, a grammar, a log; a step moves five things."""

    def __init__(self) -> None:
        self.action_space = gym.spaces.Discrete(3)
        self.observation_space = rir_gym.Unicode()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """A new world; ``options`` are not read."""
        super().reset(seed=seed)
        self.rng = rng = random.Random(int(self.np_random.integers(2**32)))
        words = ["".join(rng.choices(_LETTERS, k=8)) for _ in range(2000)]
        self.vocabulary = {word: i for i, word in enumerate(words)}
        self.grammar = {f"rule {i}": rng.choices(words, k=6) for i in range(400)}
        self.things = [Thing(i, rng.randrange(200), " ".join(rng.choices(words, k=85))) for i in range(1000)]
        self.rooms: list[dict[str, Any]] = [
            {
                "exits": [(i + 1) % 200, (i - 1) % 200, i * 7 % 200],
                "things": [],
                "text": " ".join(rng.choices(words, k=40)),
            }
            for i in range(200)
        ]
        for thing in self.things:
            self.rooms[thing.place]["things"].append(thing)
        self.place, self.turn, self.score = 0, 0, 0
        self.log: list[str] = []
        return self._view(), {}

    def step(self, action: int) -> Returned:
        """Never ends; the reward is the action."""
        self.turn += 1
        for _ in range(5):
            thing = self.things[self.rng.randrange(1000)]
            self.rooms[thing.place]["things"].remove(thing)
            thing.place = self.rng.randrange(200)
            self.rooms[thing.place]["things"].append(thing)
            thing.wear += 1
        self.place = self.rooms[self.place]["exits"][int(action)]
        self.score += int(action)
        self.log.append(f"turn {self.turn} at {self.place}")
        return self._view(), float(action), False, False, {}

    def _view(self) -> str:
        room = self.rooms[self.place]
        things = [(thing.number, thing.wear) for thing in room["things"]]
        return f"{self.log[-1:]} {self.score}: {room['text']} {things}"


class Being:
    """One of the large world's."""

    def __init__(self, number: int) -> None:
        self.number, self.name = number, f"being {number}"
        self.at, self.bag = [number % 5000, number // 5000], list[int]()


class LargeWorld(gym.Env[str, Any]):
    """A map and a fog of side × side bytes and many beings; a step moves twenty beings and changes twenty-one cells.

    ``reset(options={"side": ..., "beings": ...})`` makes that episode's world of another size: a proof needs dozens
    of copies, and 100 MB a copy is too much for it, so the wrapper is proven small and measured large.
    """

    def __init__(self, *, side: int = 5000, beings: int = 50_000) -> None:
        self.side, self.count = side, beings
        self.action_space = gym.spaces.Discrete(3)
        self.observation_space = rir_gym.Unicode()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """A new world."""
        super().reset(seed=seed)
        size = {"side": self.side, "beings": self.count, **(options or {})}
        shape = (size["side"], size["side"])
        self.map = self.np_random.integers(0, 9, size=shape, dtype=np.uint8)
        self.fog = np.full(shape, 0, dtype=np.uint8)  # touched now: the first step should not pay for the pages
        self.beings = [Being(i) for i in range(size["beings"])]
        self.by_name = {being.name: being for being in self.beings}
        self.turn = 0
        self.log: list[str] = []
        return self._view([]), {}

    def step(self, action: int) -> Returned:
        """Never ends; no reward."""
        self.turn += 1
        side, moved = len(self.map), [self.beings[i] for i in self.np_random.integers(0, len(self.beings), size=20)]
        for being in moved:
            being.at[0] = (being.at[0] + int(action)) % side
            being.bag.append(self.turn)
            cell = being.at[0], being.at[1] % side
            self.fog[cell] = (int(self.fog[cell]) + 1) % 251
        self.map[self.turn % side, int(action)] ^= 1
        self.log.append(f"turn {self.turn}")
        return self._view(moved), 0.0, False, False, {}

    def digest(self) -> str:
        """All of the state in one word: an observation shows only a sliver of it."""
        beings = repr([(being.at, being.bag) for being in self.beings])
        return f"{zlib.crc32(self.map.data)} {zlib.crc32(self.fog.data)} {hash(beings)} {hash(repr(self.log))}"

    def _view(self, moved: list[Being]) -> str:
        row = self.map[self.turn % len(self.map)]
        seen = [
            (b.number, b.at, len(b.bag), int(self.fog[b.at[0] % len(self.fog), b.at[1] % len(self.fog)])) for b in moved
        ]
        return f"{self.log[-1:]} {row[:8].tolist()} {seen}"


class EzPickleWorld(gym.Env[str, Any], gym.utils.EzPickle):
    """A walk of 40 steps whose copies and pickles are silently anew: EzPickle keeps only the arguments."""

    def __init__(self, *, width: int = 7) -> None:
        gym.utils.EzPickle.__init__(self, width=width)
        self.width, self.place, self.walked = width, 0, list[int]()
        self.action_space = gym.spaces.Discrete(3)
        self.observation_space = rir_gym.Unicode()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """At a random place; ``options`` are not read."""
        super().reset(seed=seed)
        self.place, self.walked = int(self.np_random.integers(self.width)), []
        return f"at {self.place}", {}

    def step(self, action: int) -> Returned:
        """One place on, and a stumble; ends after 40."""
        self.place = (self.place + int(action) + int(self.np_random.integers(2))) % self.width
        self.walked.append(self.place)
        return f"at {self.place} after {self.walked[-4:]}", float(self.place), len(self.walked) >= 40, False, {}


def register_worlds() -> None:
    """Register the ids of this module, once."""
    for cls in (SmallWorld, MediumWorld, LargeWorld, EzPickleWorld):
        env_id = f"rir_bench/{cls.__name__.removesuffix('World')}-v0"
        if env_id not in gym.registry:
            gym.register(env_id, entry_point=f"{__name__}:{cls.__name__}")


def maker(env_id: str, **arguments: Any) -> Callable[[], gym.Env[Any, Any]]:
    """A function that makes that world.

    Raises:
        Absent: it is not registered, or needs a package that is not installed.
    """

    make = partial(made, env_id, **arguments)
    try:
        make().close()
    except (ImportError, MissingDependency, gym.error.UnregisteredEnv, gym.error.DependencyNotInstalled) as error:
        raise Absent(f"{env_id}: {error}") from error
    return make


def made(env_id: str, **arguments: Any) -> gym.Env[Any, Any]:
    """That world, in whichever process."""
    register_worlds()
    register_engines()
    return gym.make(env_id, **arguments)

"""ALFWorld's engine (TextWorld's ``PddlEnv`` over Fast Downward) for one game: made, begun and stepped.

Three traps are kept away from the user. Importing ``alfworld`` makes a folder and sets ``ALFWORLD_DATA``: it is
imported privately, and neither stays. Fast Downward's library keeps one game in global variables and is never unloaded:
each engine borrows a private copy, and gives it back. The translator replaces ``sys.argv`` and ``sys.stdout``: one at a
time, and both are put back. This module knows how a game runs, and nothing of Gymnasium, goals or plans.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rir_envs.alfworld_data import Game
from rir_envs.textworld_games import quietly
from rir_gym.errors import MissingDependency, UsageError

__all__ = ["NOTHING_HAPPENS", "Engine", "Libraries", "package_domain", "started"]

NOTHING_HAPPENS = "Nothing happens."

_FEATURE = "an ALFWorld game"
_ONE_AT_A_TIME = threading.RLock()


@dataclass(frozen=True, slots=True, eq=False)
class Libraries:
    """The private copies of Fast Downward's library that no game uses now, for the games to come."""

    idle: list[Any] = field(default_factory=list)

    def lend(self) -> Loan:
        """An idle copy, or another one: 33 MB of a file that is deleted already, and some of memory."""
        return Loan(self, self.idle.pop() if self.idle else importlib.import_module("fast_downward").load_lib())


@dataclass(slots=True, eq=False)
class Loan:
    """A library that is one game's until it is ended."""

    owner: Libraries
    library: Any

    def end(self) -> None:
        """Have the library used again; ending twice is fine."""
        library, self.library = self.library, None
        if library is not None:
            self.owner.idle.append(library)


_LIBRARIES = Libraries()


@dataclass(frozen=True, slots=True, eq=False)
class Engine:
    """A running game. ``pddl`` is TextWorld's environment; what changes is all inside it."""

    game: Game
    pddl: Any
    loan: Loan

    @property
    def library(self) -> Any:
        """The private copy of Fast Downward that holds the state of this game."""
        return self.pddl.downward_lib

    @property
    def world(self) -> Any:
        """TextWorld's ``PddlState``: the facts, and the operators that apply now."""
        return self.pddl._pddl_state

    @property
    def names(self) -> dict[str, str]:
        """The names in commands and observations, by the names in the PDDL problem."""
        return {entity.id: entity.name for entity in self.pddl._entity_infos.values()}

    @property
    def won(self) -> bool:
        """Whether the goal condition holds."""
        return bool(self.pddl.state["won"])

    @property
    def feedback(self) -> str:
        """What the game said last."""
        return str(self.pddl.state.feedback)

    @property
    def commands(self) -> list[str]:
        """The admissible commands, sorted."""
        return list(self.pddl.state["admissible_commands"])

    def step(self, command: str) -> str:
        """Do an admissible command, on a copy of the facts, and give what the game says.

        Whoever keeps the facts keeps them as they are; a copy made at a save or a restore instead would list the same
        facts in another order.
        """
        world = self.world
        world._facts = defaultdict(set, {signature: set(facts) for signature, facts in world._facts.items()})
        world._vars_by_name = dict(world._vars_by_name)
        world._vars_by_type = defaultdict(set, {kind: set(those) for kind, those in world._vars_by_type.items()})
        world._var_counts = Counter(world._var_counts)
        self.pddl.step(command)
        self._compact()
        return self.feedback

    def planned(self) -> list[str] | None:
        """A plan of Fast Downward from here, None where it finds none; some milliseconds to some seconds."""
        with _loading():
            plan = self.world.replan(self.pddl._entity_infos)
        return list(plan) or None

    def release(self) -> None:
        """Give the library back for the next game; this engine must not be used any more. Twice is fine."""
        self.loan.end()

    def _compact(self) -> None:
        """Of each applicable operator TextWorld reads two numbers, but keeps a kilobyte: keep the numbers."""
        world = self.world
        world._operators = {op.id: _Operator(op.id, op.nb_effect_atoms) for op in world._operators.values()}


@dataclass(frozen=True, slots=True, eq=False)
class _Wording:
    """Stands where TextWorld keeps its grammar, and words the same command for the same operator once only.

    TextWorld words every applicable command anew at every step, which takes three quarters of it. What a template asks
    the world is kept only where the answer never changes.
    """

    grammar: Any
    known: dict[tuple[object, ...], str] = field(default_factory=dict)

    def derive(self, start: str, context: Mapping[str, Any]) -> str:
        """As the grammar's own."""
        if "#" in start or not set(_ASKED.findall(start)) <= _STATIC:
            return str(self.grammar.derive(start, context))
        words = set(_WORD.findall(start))
        mapping = context["mapping"]
        key = (start, *sorted((place.name, var.name) for place, var in mapping.items() if place.name in words))
        if key not in self.known:
            self.known[key] = str(self.grammar.derive(start, context))
        return self.known[key]


_ASKED, _WORD = re.compile(r"(\w+)\("), re.compile(r"\w+")
_STATIC = frozenset({"receptacleatlocation", "receptacletype", "objecttype", "openable"})


@dataclass(frozen=True, slots=True)
class _Operator:
    id: int
    nb_effect_atoms: int


def started(game: Game) -> Engine:
    """The game at its beginning.

    Raises:
        MissingDependency: the extra ``alfworld`` is not installed.
        UsageError: its texts are not those of a game.
    """
    textworld, pddl, naming = _packages()
    with _loading():
        # Not by the class: that would load a library each time, 33 MB that no process can unload.
        env = pddl.PddlEnv.__new__(pddl.PddlEnv)
        textworld.Environment.__init__(env, textworld.EnvInfos(won=True, admissible_commands=True))
        loan = _LIBRARIES.lend()
        env.downward_lib = loan.library
        engine = Engine(game, env, loan)
        try:
            env.load(game.data)
            names = naming.Demangler(game_infos=env._entity_infos, shuffle=False)
            for entity in env._entity_infos.values():
                entity.name = names.demangle_alfred_name(entity.id)
            env._logic.grammar = _Wording(env._logic.grammar)
            _begin(engine)
        except (Exception, SystemExit) as error:  # foreign parsers, on what a file holds
            loan.end()
            said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise UsageError(f"game={str(game.path)!r}: a game that ALFWorld's engine can load ({said})") from error
    return engine


def package_domain() -> str:
    """The text of the PDDL domain in the installed ``alfworld`` package."""
    return (_home_of_alfworld() / "data" / "alfred.pddl").read_text("utf-8")


def _begin(engine: Engine) -> None:
    """What ``PddlEnv.reset`` does to the state that ``load`` has just built; it would build it again, in seconds."""
    env = engine.pddl
    env.prev_state, env.state, env._last_action, env._moves = None, type(env.state)(), None, 0
    context = {
        "state": env._pddl_state,
        "facts": list(env._pddl_state.facts),
        "variables": {},
        "mapping": {},
        "entity_infos": env._entity_infos,
    }
    env.state.feedback = env.state.raw = env._logic.grammar.derive("#intro#", context)
    env._gather_infos()
    engine._compact()


@contextmanager
def _loading() -> Iterator[None]:
    with _ONE_AT_A_TIME, quietly():
        arguments = sys.argv
        try:
            yield
        finally:
            sys.argv = arguments


def _packages() -> tuple[Any, Any, Any]:
    """``textworld``, its PDDL environment, and ALFWorld's names for things.

    Raises:
        MissingDependency: one of them is not installed.
    """
    try:
        with quietly():
            textworld = importlib.import_module("textworld")
            pddl = importlib.import_module("textworld.envs.pddl.pddl")
        importlib.import_module("fast_downward")
        return textworld, pddl, _private("alfworld.agents.utils.misc")
    except ImportError as error:
        raise MissingDependency(_FEATURE, "alfworld") from error


def _home_of_alfworld() -> Path:
    spec = find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependency(_FEATURE, "alfworld")
    return Path(next(iter(spec.submodule_search_locations)))


_KEPT: dict[str, Any] = {}


def _private(name: str) -> Any:
    """A module of ``alfworld``, imported without what its import does: whoever imports it later gets that as usual."""
    if name in sys.modules:
        return sys.modules[name]
    with _ONE_AT_A_TIME, quietly():
        if name not in _KEPT:
            before, chosen = set(sys.modules), os.environ.get("ALFWORLD_DATA")
            os.environ["ALFWORLD_DATA"] = str(_home_of_alfworld())  # it makes this folder where there is none
            try:
                _KEPT[name] = importlib.import_module(name)
            finally:
                for new in [new for new in sys.modules if new not in before and new.split(".")[0] == "alfworld"]:
                    del sys.modules[new]
                if chosen is None:
                    del os.environ["ALFWORLD_DATA"]
                else:
                    os.environ["ALFWORLD_DATA"] = chosen
    return _KEPT[name]

"""What is known about a running ALFWorld game with full knowledge of it, computed only when asked.

Plans are the shortest there are (``alfworld_plan``) where the game has the domain of the installed ``alfworld`` package
and a goal that is read; they are kept by how the household stands. For any other game Fast Downward is asked: its plans
are not shortest, and take from milliseconds to minutes. Asking changes nothing in the game.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rir_envs.alfworld_engine import Engine, package_domain
from rir_envs.alfworld_home import Fact, Home, Standing, domain_rules, home_of, standing
from rir_envs.alfworld_plan import Act, lost_for_good, shortest, understood

if TYPE_CHECKING:
    from rir_envs.alfworld import ALFWorldEnv

__all__ = ["ALFWorldOracle", "Planner"]

_KEPT = 4096
_ACTIONS = {
    "go": ("gotolocation", "", "r"),
    "open": ("openobject", "", "r"),
    "take": ("pickupobject", "o", "r"),
    "move": ("putobject", "o", "r"),
    "clean": ("cleanobject", "o", "r"),
    "heat": ("heatobject", "o", "r"),
    "cool": ("coolobject", "o", "r"),
    "use": ("toggleobject", "o", ""),
    "slice": ("sliceobject", "co", "ko"),
}


@dataclass(slots=True, eq=False)
class Planner:
    """Plans of one loaded game, kept by how the household stands. ``exact``: they are shortest, and none means none."""

    engine: Engine
    home: Home
    exact: bool
    start: Standing
    plans: dict[Standing, tuple[str, ...] | float | None] = field(default_factory=dict)

    @classmethod
    def of(cls, engine: Engine) -> Planner:
        """For a game at its beginning."""
        home = home_of(engine.game.data["pddl_problem"])
        same = domain_rules(engine.game.data["pddl_domain"]) == domain_rules(package_domain())
        return cls(engine, home, same and understood(home), standing(engine.world._facts))

    def now(self) -> Standing:
        """How the household stands."""
        return standing(self.engine.world._facts)

    def plan(self) -> tuple[str, ...] | float | None:
        """Commands to success from here; ``inf`` where it is out of reach, None where not known."""
        now = self.now()
        if now not in self.plans:
            if len(self.plans) >= _KEPT:
                self.plans.clear()
            self.plans[now] = self._made(now)
        return self.plans[now]

    def lost(self) -> bool:
        """Whether the goal is out of reach for good: the hand is full for ever, and the goal needs it empty."""
        if not lost_for_good(self.home, self.now()):
            return False
        return self.plan() == float("inf") if self.exact else self.engine.planned() is None

    def done(self) -> tuple[Fact, ...]:
        """The facts of the goal that were made since the beginning, for whichever things."""
        now = self.now().all() - self.start.all()
        return tuple(sorted({fact for goal in self.home.alternatives or () for fact in goal} & now))

    def progress(self) -> float | None:
        """The largest share of an alternative's facts that hold."""
        now = self.now().all()
        return max((len(goal & now) / len(goal) for goal in self.home.alternatives or () if goal), default=None)

    def _made(self, now: Standing) -> tuple[str, ...] | float | None:
        if self.engine.won:
            return ()
        if not self.exact:
            planned = self.engine.planned()
            return tuple(planned) if planned else None
        found = shortest(self.home, now)
        return tuple(self._command(act) for act in found) if isinstance(found, tuple) else found

    def _command(self, act: Act) -> str:
        verb, thing, other = act
        action, one, two = _ACTIONS[verb]
        names = self.engine.names
        if verb == "go":
            return f"go to {names[other]}"
        words = {key: names[name] for key, name in ((one, thing), (two, other)) if key}
        return str(self.engine.pddl._logic.actions[action].template.format(**words))


@dataclass(frozen=True, slots=True)
class ALFWorldOracle:
    """The oracle of one environment. Every method raises ``UsageError`` before the first reset and after close."""

    env: ALFWorldEnv

    @property
    def exact(self) -> bool:
        """Whether ``distance`` is the fewest actions, and not an upper bound of them."""
        return self._planner().exact

    def distance(self) -> float | None:
        """Fewest actions to success (at most so many where ``exact`` is False); ``inf`` when lost, None unknown."""
        plan = self._plan()
        return float(len(plan)) if isinstance(plan, tuple) else plan

    def best_action(self) -> str | None:
        """The first action of the plan; None when the game is won, lost or no plan is known."""
        plan = self.plan()
        return plan[0] if plan else None

    def plan(self) -> Sequence[str] | None:
        """Commands to success; empty when won, None when lost or unknown."""
        plan = self._plan()
        return plan if isinstance(plan, tuple) else None

    def recoverable(self, within: int) -> bool | None:
        """Whether success is reachable within so many actions; None where neither is proven."""
        distance = self.distance()
        if distance is None or (within < distance < float("inf") and not self.exact):
            return None
        return distance <= within

    def progress(self) -> float | None:
        """The share of the goal's facts that hold for the best choice of things, in [0, 1]; None: not read."""
        return self._planner().progress()

    def _plan(self) -> tuple[str, ...] | float | None:
        """The planner's, but for what takes more actions than the limit leaves."""
        plan = self._planner().plan()
        if not isinstance(plan, tuple) or len(plan) <= self.env._left:
            return plan
        return float("inf") if self.exact or self.env._left == 0 else None

    def _planner(self) -> Planner:
        return self.env._require_begun()

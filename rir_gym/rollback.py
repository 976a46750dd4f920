"""``RollbackWrapper``: checkpoints an environment before every action and adds an action that takes actions back.

What is inside the wrapper is rolled back, what is outside is not. This module holds the rules of the operator (which
restore points are legal, what a rollback costs, what the action space looks like); the world and its past are
``snapshot.world.World``'s. It knows no mechanism, loop or model.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, SupportsFloat

import gymnasium as gym
import numpy as np

from rir_gym.actions import ActionCode
from rir_gym.arguments import check_amount, check_choice, check_count, check_limit, check_names
from rir_gym.base import Checkpoint, Node
from rir_gym.errors import NotRestorable, RollbackRefused, SnapshotError, UsageError
from rir_gym.snapshot.auto import choose
from rir_gym.snapshot.lifetime import Lifetime
from rir_gym.snapshot.protocol import Adopting
from rir_gym.snapshot.world import World, descends
from rir_gym.values import fresh

__all__ = ["RollbackWrapper"]

Returned = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]


class RollbackWrapper(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Any Gymnasium environment, with every action undoable.

    Args:
        env: the environment; its own wrappers (time limits, reward transforms) are rolled back with it.
        snapshot: "auto", "native", "heap", "pickle", "deepcopy", "fork", "replay" or "keyframes" (of the first of these
            that is proven; "keyframes:heap" of that one); proven on this environment, or refused. With "fork" the
            environment lives in another process: ``env`` is closed, and ``unwrapped`` is a proxy.
        rng: "same" puts every generator back (same action, same future); "resample" draws a new future.
        reward: "telescope" pays G_r − G_t − rollback_cost at a rollback, so that the undiscounted sum over the run is
            the return of the branch that survives minus the costs; "zero" pays −rollback_cost. With a discount below
            1 the identity does not hold.
        terminal: "pass" returns the end of an episode as it is (a rollback after it is legal until ``reset``); "held"
            holds the flags back for one action, for vector environments, which reset before an agent can ask.
        max_depth: largest depth of the rollback actions of a non-text action space.
        max_rollbacks: executed rollbacks per episode; None is no limit.
        step_limit: real steps per episode, abandoned ones included; the last one truncates. None is no limit.
        rollback_cost, step_cost: subtracted from the reward of each executed rollback and real step, never refunded.
        keep: "all" checkpoints, or besides the root's the last so many, in the order in which their nodes were left.
        keep_bytes: a budget for their sizes, if the mechanism can tell: the further back, the fewer stay (1 in 2, 4…).
        share: attributes of a layer of ``env`` that are neither copied nor compared (sockets, handles, loggers).
        step_timeout: seconds that a step may take, with "fork" only: one that takes longer ends the episode with
            ``info["timeout"]`` and can be undone. None is no limit.
        keyword: the text action ``"<keyword> <int>"`` is the rollback to that restore point.

    Raises:
        UsageError: a bad argument.
        NotRestorable: no snapshot mechanism is faithful here.

    The action space is text plus the rollback command, ``Discrete(n + max_depth)`` where action ``start + n − 1 + d``
    undoes d steps (with ``info["action_mask"]``), or ``OneOf((inner, Discrete(max_depth, start=1)))`` for any other
    space. A rollback *action* that cannot be done is refused in ``info["rollback"]``; the *method* raises.

    >>> env = RollbackWrapper(gym.make("FrozenLake-v1", is_slippery=False))
    >>> _ = env.reset(seed=0)
    >>> env.step(1)[0], env.step(1)[0], env.rollback(to=1)[0], env.restorable, env.steps_taken
    (4, 8, 4, (0, 1), 2)
    """

    snapshot_stop = True  # an environment that refers to its wrapper does not make it part of its world

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        snapshot: str = "auto",
        rng: Literal["same", "resample"] = "same",
        reward: Literal["telescope", "zero"] = "telescope",
        terminal: Literal["pass", "held"] = "pass",
        max_depth: int = 8,
        max_rollbacks: int | None = None,
        step_limit: int | None = None,
        rollback_cost: float = 0.0,
        step_cost: float = 0.0,
        keep: int | Literal["all"] = "all",
        keep_bytes: int | None = None,
        share: Sequence[str] = (),
        step_timeout: float | None = None,
        keyword: str = "rollback",
        _make: Callable[[], gym.Env[Any, Any]] | None = None,
    ) -> None:
        if isinstance(env, gym.vector.VectorEnv):
            raise UsageError(f"env={env!r}: one environment; wrap those inside a vector, each on its own")
        given = {name: value for name, value in locals().items() if name not in ("self", "env", "_make", "__class__")}
        check_choice("rng", rng, ("same", "resample"))
        check_choice("reward", reward, ("telescope", "zero"))
        check_choice("terminal", terminal, ("pass", "held"))
        check_count("max_depth", max_depth, 1)
        check_limit("max_rollbacks", max_rollbacks, 0)
        check_limit("step_limit", step_limit, 1)
        check_amount("rollback_cost", rollback_cost)
        check_amount("step_cost", step_cost)
        check_names("share", share)
        lifetime = Lifetime.of(keep, keep_bytes)
        self.settings = {**given, "share": list(share)}
        gym.utils.RecordConstructorArgs.__init__(self, **self.settings)
        self._code = ActionCode(copy.deepcopy(env.action_space), max_depth, keyword)
        mechanism, self.snapshot_report = choose(env, name=snapshot, share=share, make=_make, step_timeout=step_timeout)
        if rng == "resample" and self.snapshot_report.unseen:
            raise NotRestorable(f"rng='resample': a generator inside {self.snapshot_report.unseen[0]} is out of reach")
        self._world = World(env, mechanism, share=share, lifetime=lifetime)
        if isinstance(mechanism, Adopting):
            env = self._world.env = mechanism.adopt(env)
        super().__init__(env)
        self._rng, self._reward, self._terminal = rng, reward, terminal
        self._max_rollbacks, self._step_limit = max_rollbacks, step_limit
        self._rollback_cost, self._step_cost = float(rollback_cost), float(step_cost)
        self.action_space = self._code.space()
        self.steps_taken = self.rollbacks_done = 0
        self._barrier: Node | None = None
        self._held = self._closed = False

    @classmethod
    def from_factory(cls, make_env: Callable[[], gym.Env[Any, Any]], **settings: Any) -> RollbackWrapper:
        """Wrap ``make_env()``; fresh instances for proofs and replay are made by the same function."""
        return cls(make_env(), _make=make_env, **settings)

    # --- the past -------------------------------------------------------------------------------------------------

    @property
    def node(self) -> Node:
        """Where the world stands.

        Raises:
            RollbackRefused: before ``reset`` or after ``close``.
        """
        self._require_episode()
        return self._world.node

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every node of the episode in the order of real steps, abandoned branches included."""
        return tuple(self._world.nodes)

    @property
    def history(self) -> tuple[Node, ...]:
        """The current branch, from the root to where the world stands: ``history[t].t == t``."""
        return self.node.branch()

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Every checkpoint that is kept, of any branch, in the order of their nodes, with its size now."""
        return self._world.kept()

    @property
    def checkpoint_bytes(self) -> int | None:
        """Bytes of all kept checkpoints now; None where the mechanism cannot tell."""
        return sum(kept.size or 0 for kept in self.checkpoints) if self._world.mechanism.sized else None

    @property
    def restorable(self) -> tuple[int, ...]:
        """I_t: the restore points r ≤ t of the current branch that can be restored now (r = t undoes nothing)."""
        return tuple(node.t for node in self.history if self._barred(node) is None)

    def refusal(self, to: int | Node) -> str | None:
        """Why a rollback there would be refused now; None where it can be done."""
        try:
            self._target(to)
        except RollbackRefused as error:
            return str(error)
        return None

    def restore_point(self, action: Any) -> int | None:
        """The restore point that an action of this action space names; None for a task action."""
        return self._code.read(action, self.node.t)[0]

    # --- the environment ------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; its budgets and counts begin anew. Rollback never reaches across it."""
        if self._closed:
            raise UsageError("reset: the environment is closed; make a new one")
        node = self._world.reset(seed, options)
        self.env = self._world.env
        self.steps_taken = self.rollbacks_done = 0
        self._held = False
        self._barrier = node if node.step.info.get("committed") else None
        self._code.check_collision(node.step.admissible)
        return fresh(node.step.observation), self._info(node)

    def step(self, action: Any) -> Returned:
        """A task action, or the rollback action. A rollback that cannot be done is refused in ``info["rollback"]``."""
        self._require_episode()
        target, inner = self._code.read(action, self.node.t)
        if target is not None:
            try:
                return self.rollback(target)
            except RollbackRefused as error:
                refused = {"ok": False, "to": target, "from": self.node.t, "reason": str(error)}
                return self._returned(0.0, released=True, rollback=refused)
        if self._held:
            return self._returned(0.0, released=True)
        if self._spent():
            raise UsageError(f"step_limit={self._step_limit}: spent; call reset")
        try:
            node = self._world.step(inner)
        finally:
            self.env = self._world.env
        self.steps_taken += 1
        if node.step.info.get("committed"):
            self._barrier = node
        self._code.check_collision(node.step.admissible)
        self._held = self._terminal == "held" and (node.step.over or self._spent()) and any(self._undoable(node))
        return self._returned(node.step.reward - self._step_cost)

    def rollback(self, to: int | Node, *, seed: int | None = None) -> Returned:
        """Put the world back to before action ``to`` of the current branch, or to any kept node.

        Args:
            to: a restore point r (0 ≤ r ≤ t) of the current branch, or a ``Node`` of this episode.
            seed: with ``rng="resample"``, the seed of the new future; by default it follows from the episode's seed
                and the number of the rollback.

        Returns:
            The five values of ``step``: the observation and info of that checkpoint as fresh copies, the reward
            G_r − G_t − rollback_cost ("telescope"), its flags, and ``info["rollback"]`` with to, from, depth, node.

        Raises:
            RollbackRefused: out of range, not kept, beyond a commitment, budget spent, before reset, after close; or
                the mechanism could not put the world back. The world is unchanged.
            UsageError: ``seed`` with ``rng="same"``, or not an int of at least 0.
        """
        if seed is not None:
            check_count("seed", seed, 0)
            if self._rng == "same":
                raise UsageError(f"seed={seed!r}: a rollback is seeded only with rng='resample'")
        target = self._target(to)
        here = self.node
        if target is not here:
            try:
                self._world.keep()
                self._world.restore(target)
            except SnapshotError as error:
                raise RollbackRefused(f"rollback to {to!r}: {error}") from error
            self.env = self._world.env
            self.rollbacks_done += 1
            if self._rng == "resample":
                self._world.reseed([*self._world.entropy, self.rollbacks_done] if seed is None else [seed])
        self._held = False
        cost = self._rollback_cost if target is not here else 0.0
        reward = (target.ret - here.ret if self._reward == "telescope" else 0.0) - cost
        done = {"ok": True, "to": target.t, "from": here.t, "depth": here.t - target.t, "node": target.id}
        return self._returned(reward, rollback={**done, "rollbacks": self.rollbacks_done})

    def close(self) -> None:
        """Close the environment; its past is dropped."""
        self._closed = True
        self._world.forget()
        self._world.env.close()

    # --- rules ----------------------------------------------------------------------------------------------------

    def _require_episode(self) -> None:
        if self._closed or not self._world.begun:
            why = "closed: make a new one" if self._closed else "not reset yet: call reset"
            raise RollbackRefused(f"the environment is {why}")

    def _target(self, to: int | Node) -> Node:
        self._require_episode()
        here = self._world.node
        if isinstance(to, Node):
            if to.id >= len(self._world.nodes) or self._world.nodes[to.id] is not to:
                raise RollbackRefused(f"rollback to {to!r}: a node of another episode or environment")
            target = to
        elif isinstance(to, int | np.integer) and not isinstance(to, bool):
            branch = self.history
            if not 0 <= to < len(branch):
                raise RollbackRefused(f"rollback to={int(to)}: restore points are 0 to {here.t}")
            target = branch[int(to)]
        else:
            raise RollbackRefused(f"rollback to={to!r}: an int or a Node of this episode")
        if (reason := self._barred(target)) is not None:
            raise RollbackRefused(f"rollback to {target.t}: {reason}")
        return target

    def _barred(self, node: Node) -> str | None:
        """Why a node of this episode cannot be restored; standing still is always legal."""
        if node is self._world.node:
            return None
        if self._barrier is not None and (self._world.repeats or not descends(node, self._barrier)):
            return f"step {self._barrier.t} had an effect outside that cannot be taken back"
        if self._max_rollbacks is not None and self.rollbacks_done >= self._max_rollbacks:
            return f"max_rollbacks={self._max_rollbacks}: spent"
        if self._spent():
            return f"step_limit={self._step_limit}: spent"
        return self._world.missing(node)

    def _spent(self) -> bool:
        return self._step_limit is not None and self.steps_taken >= self._step_limit

    # --- actions and results --------------------------------------------------------------------------------------

    def _returned(self, reward: float, *, released: bool = False, rollback: dict[str, Any] | None = None) -> Returned:
        """The five values at the node where the world stands."""
        node = self.node
        info = self._info(node)
        if rollback is not None:
            info["rollback"] = rollback
        terminated, truncated = node.step.terminated, node.step.truncated or self._spent()
        self._held = self._held and not released
        if self._held:
            info["held"] = {"terminated": terminated, "truncated": truncated}
            terminated = truncated = False
        return fresh(node.step.observation), reward, terminated, truncated, info

    def _info(self, node: Node) -> dict[str, Any]:
        info: dict[str, Any] = fresh(dict(node.step.info))
        if node.step.oracle is not None:
            info["oracle"] = fresh(dict(node.step.oracle))
        return info | self._code.mask(info, self._undoable(node))

    def _undoable(self, node: Node) -> Iterator[bool]:
        """Whether 1, 2, … steps can be undone."""
        while (parent := node.parent) is not None:
            yield self._barred(parent) is None
            node = parent

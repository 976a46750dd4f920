"""``ForkedEnv``: an environment that stands here and lives in another process, where it can be forked.

Everything is asked of the live world there; attributes and methods of any of its layers too, by name. The caller's
global generators are the environment's: their state goes there with each call where it moved, and comes back. This
module knows how to ask, how a world is frozen and woken, and what happens when one dies; it knows no tree.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import gymnasium as gym

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.fork_keeper import Keeper
from rir_gym.snapshot.fork_link import Closed, Late, Link
from rir_gym.snapshot.fork_live import OURS_S, Live
from rir_gym.snapshot.fork_worker import MISSING, VALUE, Path
from rir_gym.snapshot.process_rng import ProcessRng, read, same, write
from rir_gym.values import fresh

__all__ = ["ForkedEnv", "Frozen", "inside"]

T = TypeVar("T")

_CLOSE_S = 10.0


@dataclass(slots=True, eq=False, weakref_slot=True)
class Frozen:
    """A sleeping copy of the world: how to wake it, and what was known of the global generators and files then."""

    link: Link
    rng: ProcessRng | None
    writes: int
    returned: Any = field(repr=False)

    def close(self) -> None:
        """It ends as soon as it sees that."""
        self.link.close()


class ForkedEnv(gym.Env[Any, Any]):
    """The proxy. ``packed`` is a pickled function without arguments that makes the environment, there.

    Args:
        keeper: whose descendant it becomes; None starts one of its own, which ends with it.
        step_timeout: seconds that a step may take. One that takes longer is ended together with its process; it returns
            the last observation, reward 0, ``truncated``, and ``info["timeout"]``.

    Raises:
        SnapshotError: the environment cannot be made in another process.
    """

    snapshot_stop = True  # no mechanism of this process can see what it stands for

    def __init__(
        self, packed: bytes, *, keeper: Keeper | None = None, spec: Any = None, step_timeout: float | None = None
    ) -> None:
        self._packed, self._timeout = packed, step_timeout
        self._live, self._left = Live(), False
        self._rng: ProcessRng | None = None
        self._returned: tuple[Any, dict[str, Any]] | None = None
        self._keeper, self._owns = keeper or Keeper(), keeper is None
        self._sleeping: weakref.WeakSet[Frozen] = weakref.WeakSet()
        self.writes = 0
        self.keeps_files = False
        self.spec = spec
        _standing.add(self)
        try:
            shown = self._begin()
        except BaseException:
            self._leave()
            raise
        self.action_space, self.observation_space = shown["action_space"], shown["observation_space"]
        self.metadata, self.render_mode = shown["metadata"], shown["render_mode"]

    # --- an environment -----------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The reset of the environment; in a new process, where there is none that lives."""
        if not self._live.here and not self._left:
            self._begin()
        observation, info = self._act("reset()", None, "reset", seed=seed, options=options)
        self._returned = observation, info
        return fresh(observation), fresh(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """The step of the environment.

        Raises:
            WorldDied: its process died in it.
        """
        try:
            observation, reward, terminated, truncated, info = self._act(
                f"step({_short(action)})", self._timeout, "step", action
            )
        except Late:
            self._live.end(f"step({_short(action)}) did not return within {self._timeout} s")
            observation, info = self._returned if self._returned is not None else (None, {})
            return fresh(observation), 0.0, False, True, {**fresh(info), "timeout": True}
        self._returned = observation, info
        return fresh(observation), reward, terminated, truncated, fresh(info)

    def render(self) -> Any:
        """The picture of the environment."""
        return self._ask("render()", "render")

    def close(self) -> None:
        """Close the environment, and end every process of it; a second call does nothing."""
        if self._live.here and self._live.ours:
            with suppress(Exception):  # what it says at its end changes nothing
                self._ask("close()", "close", _limit=_CLOSE_S)
            self._live.end("it is closed")
        self._leave()

    # --- what else it has ---------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Plain values as they are; methods and objects as something that asks there when it is used."""
        if name.startswith("__") or "_owns" not in self.__dict__:
            raise AttributeError(name)
        return self._found((name,))

    @property
    def np_random(self) -> Any:
        """The environment's own generator, there: its methods draw from it."""
        return self._found(("np_random",))

    @np_random.setter
    def np_random(self, value: Any) -> None:
        self.set_wrapper_attr("np_random", value)

    @property
    def np_random_seed(self) -> Any:
        """The seed of that generator."""
        return self._found(("np_random_seed",))

    def get_wrapper_attr(self, name: str) -> Any:
        """An attribute of this proxy, or of any layer there."""
        return getattr(self, name)

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether there is one."""
        return hasattr(self, name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set it there; what the proxy shows itself, here too."""
        if name in ("action_space", "observation_space", "metadata", "render_mode"):
            setattr(self, name, value)
        self._ask(f"set_wrapper_attr({name!r})", "put", name, value)
        return True

    def in_worker(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function of a module with the environment, there; its result must pickle."""
        result: T = self._ask(f"{function.__name__}()", "apply", function, *args, **kwargs)
        return result

    def __reduce__(self) -> Any:
        raise TypeError("an environment that lives in another process cannot be copied or pickled")

    def __str__(self) -> str:
        return f"<ForkedEnv of {self.spec.id if self.spec is not None else 'a factory'}>"

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def freeze(self) -> Frozen:
        """A checkpoint of the world as it is. ``keeps_files`` says from then on whether it declares a ``workdir``.

        Raises:
            SnapshotError: a fork would not be faithful or is not possible, with the reason.
        """
        rng = self._rng
        if self._live.here:  # else what was known last is still so
            self.keeps_files = bool(getattr(self, "workdir", None))
        (_, descriptors) = self._talk("a checkpoint", ("freeze", (), {}), OURS_S)
        process, frozen = descriptors
        self._live.goes_on_as(process)
        made = Frozen(Link(frozen), rng, self.writes, self._returned)
        self._sleeping.add(made)
        return made

    def wake(self, frozen: Frozen) -> None:
        """A copy of a checkpoint lives from now on; what lived before is ended first, without closing it.

        Raises:
            SnapshotError: the checkpoint is gone; what lives goes on.
        """
        try:
            frozen.link.send("wake")
            (outcome, said), descriptors = frozen.link.receive(OURS_S)
            if outcome == "error":
                raise SnapshotError(f"fork: {said}")
            link = Link(descriptors[0])
            _, (process,) = link.receive(OURS_S)
        except (Closed, Late) as error:
            raise SnapshotError(f"fork: the process of this checkpoint has died ({error or 'no answer'})") from error
        self._live.end("another world was put in its place")
        self._live.become(link, process)
        self._rng, self._returned = frozen.rng, frozen.returned
        link.send("go")

    def owns_keeper(self) -> None:
        """From now on the keeper ends with this world."""
        self._owns = True

    @property
    def gone(self) -> str | None:
        """Why nothing lives, if so."""
        return self._live.gone

    # --- asking -------------------------------------------------------------------------------------------------------

    def _begin(self) -> dict[str, Any]:
        """A new live world."""
        link = self._keeper.begin()
        try:
            (_, _), descriptors = link.receive(OURS_S)
        except (Closed, Late) as error:
            link.close()
            raise SnapshotError("fork: the worker's process died at once") from error
        self._live.become(link, descriptors[0])
        self._rng = None
        shown: dict[str, Any] = self._ask("making the environment", "make", self._packed)
        return shown

    def _found(self, path: Path) -> Any:
        if not self._live.here:
            raise AttributeError(f"{'.'.join(path)}: nothing lives that has it: {self._live.gone}")
        kind, value = self._ask(f"attribute {'.'.join(path)}", "get", path)
        if kind == MISSING:
            raise AttributeError(f"{self} has no attribute {'.'.join(path)!r}")
        return value if kind == VALUE else _There(self, path)

    def _act(self, told: str, limit_s: float | None, what: str, *args: Any, **kwargs: Any) -> Any:
        """Reset or step, with the caller's global generators."""
        now = read()
        moved = None if self._rng is not None and same(now, self._rng) else now
        self._rng = now
        result, drawn, wrote = self._ask(told, "act", what, moved, *args, _limit=limit_s, **kwargs)
        if drawn is not None:
            write(drawn)
            self._rng = drawn
        self.writes += bool(wrote)
        return result

    def _ask(self, told: str, name: str, *args: Any, _limit: float | None = None, **kwargs: Any) -> Any:
        """The answer of the live world; its error is raised here.

        Raises:
            WorldDied: its process died, or nothing lives.
            Late: no answer within the limit; the world is of no use any more.
        """
        return self._talk(told, (name, args, kwargs), _limit)[0]

    def _talk(self, told: str, message: Any, limit_s: float | None) -> tuple[Any, list[int]]:
        result, descriptors, raised, rng = self._live.talk(told, message, limit_s)
        if raised is None:
            return result, descriptors
        if rng is not None and self._rng is not None and not same(rng, self._rng):
            write(rng)
            self._rng = rng
        raise raised

    def _leave(self) -> None:
        """Nothing will live here any more."""
        self._live.let_go("it is closed")
        self._left = True
        for frozen in list(self._sleeping):
            frozen.close()
        if self._owns:
            self._keeper.close()

    def __del__(self) -> None:
        if "_owns" in self.__dict__:
            self._leave()


_standing: weakref.WeakSet[ForkedEnv] = weakref.WeakSet()


@atexit.register
def _leave_all() -> None:
    """What nobody closed is closed at the end of this process."""
    for env in list(_standing):
        env._leave()


@dataclass(frozen=True, slots=True)
class _There:
    """A method or object of the environment, there: calls and attributes are asked of whatever lives then."""

    _env: ForkedEnv
    _path: Path

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._env._ask(f"{'.'.join(self._path)}()", "call", self._path, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._env._found((*self._path, name))


def inside(env: gym.Env[Any, Any], function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """``function(env, ...)`` in the process where the environment lives."""
    if isinstance(env, ForkedEnv):
        return env.in_worker(function, *args, **kwargs)
    return function(env, *args, **kwargs)


def _short(action: Any) -> str:
    text = repr(action)
    return text if len(text) <= 120 else text[:117] + "..."

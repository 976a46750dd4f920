"""What a snapshot mechanism is: save a world, put it back, say how. Nothing here knows a concrete mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym

from rir_gym.base import Node

__all__ = ["Adopting", "Bounded", "Keyed", "Losing", "Report", "Snapshotter", "Start", "Timed"]


@dataclass(frozen=True, slots=True)
class Start:
    """What began an episode, and what was done to it from outside.

    Args:
        seed, options: the arguments of its reset; ``seed`` is None only where the caller's reset had none.
        reseeds: by node id, the entropy that the generators were given anew just before the step to that node.
    """

    seed: int | None = None
    options: Mapping[str, Any] | None = None
    reseeds: dict[int, tuple[int, ...]] = field(default_factory=dict)


class Snapshotter(Protocol):
    """One way to save and put back a wrapped environment. Tokens are opaque, reusable, and belong to one episode.

    A token lives until it is dropped or the episode is forgotten; each of its ends comes once, and neither raises.
    """

    @property
    def name(self) -> str:
        """As it is asked for and recorded."""
        ...

    @property
    def sized(self) -> bool:
        """Whether ``size`` can tell; without it there is no byte budget (``keep_bytes``)."""
        ...

    @property
    def repeats(self) -> bool:
        """Whether a restore resets and acts again.

        What the actions do outside is then done again as well, and a reset has to be given a seed to be repeated.
        """
        ...

    @property
    def tied(self) -> bool:
        """Whether a token is about the very objects that it was saved from: a copy of them cannot be put back by it."""
        ...

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> Any:
        """A token for the world as it is, at ``node`` of the episode begun by ``start``. The world is not changed.

        Raises:
            SnapshotError: the world cannot be saved; it is unchanged.
        """
        ...

    def restore(self, env: gym.Env[Any, Any], token: Any) -> gym.Env[Any, Any]:
        """The environment to use from now on: ``env`` itself put back, or another instance in its place.

        Raises:
            SnapshotError: the world cannot be put back; ``env`` is as it was before the call.
        """
        ...

    def size(self, token: Any) -> int | None:
        """Bytes that the token holds now; None where nobody can say. A drop may move bytes to another token."""
        ...

    def drop(self, token: Any) -> None:
        """The token will not be restored again: free what only it holds. The others stay valid, whatever the order."""
        ...

    def forget(self) -> None:
        """The episode is over and all its tokens with it; called at every reset and at close, tokens or none."""
        ...


@runtime_checkable
class Adopting(Protocol):
    """A mechanism for environments of its own kind."""

    def adopt(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """The environment that takes the place of ``env``, which is closed.

        Raises:
            SnapshotError: it cannot be made; ``env`` is as it was.
        """
        ...


@runtime_checkable
class Bounded(Protocol):
    """A mechanism whose tokens are few by nature."""

    @property
    def most(self) -> int | None:
        """So many tokens at once; None is no limit."""
        ...


@runtime_checkable
class Keyed(Protocol):
    """A mechanism that restores some nodes from others, by doing the steps in between again."""

    @property
    def keyframes(self) -> tuple[int, ...]:
        """The ids of the nodes that others, or themselves, are restored from now."""
        ...

    def begins_at(self, token: Any) -> int:
        """The id of the node that a token is restored from; its own where nothing has to be done again."""
        ...


@runtime_checkable
class Losing(Protocol):
    """A mechanism whose tokens may become useless while they are kept."""

    def lost(self, env: gym.Env[Any, Any], token: Any) -> str | None:
        """Why the token cannot be restored any more; None where it can."""
        ...


@runtime_checkable
class Timed(Protocol):
    """A mechanism that wants to know how long steps take."""

    def stepped(self, seconds: float) -> None:
        """The environment has made a step in so much time."""
        ...


@dataclass(frozen=True, slots=True)
class Report:
    """What was chosen and why each mechanism before it was not (``env.get_wrapper_attr("snapshot_report")``).

    ``unseen``: the objects of the proven environment that a Python walk cannot look into, with their paths.
    """

    chosen: str
    reasons: Mapping[str, str] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()

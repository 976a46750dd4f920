"""How a rollback is written as an action, for each kind of action space. Knows no world and no rules.

Text: the whole string ``"<keyword> <int>"`` names a restore point. ``Discrete(n, start)``: action start + n − 1 + d
means depth d. Any other space: ``OneOf((inner, Discrete(max_depth, start=1)))``, whose second part is the depth.
"""

from __future__ import annotations

import copy
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete, OneOf, Space, Text

from rir_gym.errors import UsageError
from rir_gym.spaces import Unicode

__all__ = ["ActionCode"]


@dataclass(frozen=True, slots=True)
class ActionCode:
    """The code of one inner action space: the outer space, and what an outer action means.

    Raises:
        UsageError: ``keyword`` is not one word.
    """

    inner: Space[Any]
    max_depth: int
    keyword: str

    def __post_init__(self) -> None:
        if not isinstance(self.keyword, str) or not re.fullmatch(r"\S+", self.keyword):
            raise UsageError(f"keyword={self.keyword!r}: one word without white space")

    @property
    def is_text(self) -> bool:
        """Whether actions are text."""
        return isinstance(self.inner, Text | Unicode)

    def space(self) -> Space[Any]:
        """A new outer space with a generator of its own."""
        if self.is_text:
            return Unicode()
        if isinstance(self.inner, Discrete):
            return Discrete(int(self.inner.n) + self.max_depth, start=int(self.inner.start))
        either = OneOf((copy.deepcopy(self.inner), Discrete(self.max_depth, start=1)))
        either.seed()  # else the agent's draws would go on where the environment's own space stands
        return either

    def read(self, action: Any, t: int) -> tuple[int | None, Any]:
        """(restore point, None) for a rollback action at step t, (None, inner action) for any other.

        Raises:
            UsageError: neither: a depth beyond ``max_depth``, or not a pair of a ``OneOf`` space.
        """
        if self.is_text:
            to = self.restore_point(action)
            return (to, None) if to is not None else (None, action)
        if isinstance(self.inner, Discrete):
            number = _index(action)
            depth = number - int(self.inner.start) - int(self.inner.n) + 1 if number is not None else 0
            if depth < 1:
                return None, action
        else:
            which, value = action if isinstance(action, tuple | list) and len(action) == 2 else (None, None)
            if _index(which) == 0:
                return None, value
            depth = (_index(value) or 0) if _index(which) == 1 else 0
        if not 1 <= depth <= self.max_depth:
            raise UsageError(f"action={action!r}: an action of {self.space()}")
        return t - depth, None

    def restore_point(self, action: Any) -> int | None:
        """The restore point that a text names; None where it is no rollback command."""
        if not isinstance(action, str) or not action.startswith(self.keyword):
            return None
        command = re.fullmatch(rf"{re.escape(self.keyword)} ([+-]?[0-9]+)", action)
        return int(command[1][:18]) if command else None

    def check_collision(self, admissible: Sequence[str] | None) -> None:
        """Refuse an environment that has such an action of its own.

        Raises:
            UsageError: an admissible command reads as a rollback.
        """
        if self.is_text:
            for command in admissible or ():
                if self.restore_point(command) is not None:
                    raise UsageError(
                        f"keyword={self.keyword!r}: {command!r} is an action of the environment; choose another"
                    )

    def mask(self, info: Mapping[str, Any], undoable: Iterable[bool]) -> dict[str, Any]:
        """``{"action_mask": int8 array of shape (n + max_depth,)}`` for a Discrete space, else nothing.

        Args:
            undoable: whether depth 1, 2, … can be undone; nothing beyond its end can.
        """
        if not isinstance(self.inner, Discrete):
            return {}
        n = int(self.inner.n)
        mask = np.zeros(n + self.max_depth, dtype=np.int8)
        mask[:n] = info.get("action_mask", 1)
        for index, can in zip(range(n, n + self.max_depth), undoable, strict=False):
            mask[index] = can
        return {"action_mask": mask}


def _index(value: Any) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None

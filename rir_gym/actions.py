"""How a rollback is written as an action, for each kind of action space. Knows no world and no rules.

Text: the whole string ``"<keyword> <int>"`` names a restore point. ``Discrete(n, start)``: action start + n − 1 + d
means depth d. Any other space: ``OneOf((inner, Discrete(max_depth, start=1)))``, whose second part is the depth.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
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
        if not re.fullmatch(r"\S+", self.keyword):
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
        return OneOf((copy.deepcopy(self.inner), Discrete(self.max_depth, start=1)))

    def read(self, action: Any, t: int) -> tuple[int | None, Any]:
        """(restore point, None) for a rollback action at step t, (None, inner action) for any other."""
        if self.is_text:
            to = self.restore_point(action)
            return (to, None) if to is not None else (None, action)
        if isinstance(self.inner, Discrete):
            depth = int(action) - int(self.inner.start) - int(self.inner.n) + 1
            return (t - depth, None) if depth >= 1 else (None, action)
        which, value = action
        return (t - int(value), None) if which == 1 else (None, value)

    def restore_point(self, action: Any) -> int | None:
        """The restore point that a text names; None where it is no rollback command."""
        if not isinstance(action, str) or not action.startswith(self.keyword):
            return None
        command = re.fullmatch(rf"{re.escape(self.keyword)} ([+-]?\d{{1,9}})", action)
        return int(command[1]) if command else None

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

    def mask(self, info: Mapping[str, Any], t: int, restorable: Sequence[int]) -> dict[str, Any]:
        """``{"action_mask": int8 array of shape (n + max_depth,)}`` for a Discrete space, else nothing."""
        if not isinstance(self.inner, Discrete):
            return {}
        inner = info.get("action_mask", np.ones(int(self.inner.n), dtype=np.int8))
        depths = [t - depth in restorable for depth in range(1, self.max_depth + 1)]
        return {"action_mask": np.concatenate([inner, np.array(depths, dtype=np.int8)])}

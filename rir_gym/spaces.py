"""The text space: every ``str`` is a member.

``gymnasium.spaces.Text`` wants a finite charset and a maximal length, and its default charset has neither space nor
newline, so real environment text is not a member of it. This module knows nothing of environments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Space

__all__ = ["Unicode"]

_SAMPLE_ALPHABET = "abcdefghijklmnopqrstuvwxyz ABC 0123456789 äßñ 水火 \n'\"<>|"


class Unicode(Space[str]):
    """The space of all strings, the empty one included.

    Under ``AsyncVectorEnv`` pass ``shared_memory=False`` (its shared memory holds fixed-size arrays only).

    >>> Unicode().contains("open the oven"), Unicode().contains(""), Unicode().contains(3)
    (True, True, False)
    """

    def __init__(self, *, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(shape=(), dtype=np.str_, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: a string of any length has no fixed-size array."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A random string of 0 to 15 characters from a small mixed alphabet; masks are not supported.

        Raises:
            ValueError: a mask or probability was given.
        """
        if mask is not None or probability is not None:
            raise ValueError("mask, probability: Unicode cannot be masked; leave both None")
        length = int(self.np_random.integers(0, 16))
        return "".join(_SAMPLE_ALPHABET[i] for i in self.np_random.integers(0, len(_SAMPLE_ALPHABET), length))

    def contains(self, x: Any) -> bool:
        """True for every ``str``."""
        return isinstance(x, str)

    def to_jsonable(self, sample_n: Any) -> list[Any]:
        """Strings are JSON already."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """The strings of ``to_jsonable``."""
        return [str(sample) for sample in sample_n]

    def __repr__(self) -> str:
        return "Unicode()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unicode)

    __hash__ = Space.__hash__

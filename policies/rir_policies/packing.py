"""The options of a choice as one packed row: every shared beginning stands in it once.

The options' tokens form a trie. Its inner nodes, in one row behind the prompt, are all that a model has to compute: a
node attends to the prompt and to its own ancestors, so one forward pass scores every option. Leaves are only scored.
Pure functions of token ids; this module knows no model library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["OptionTrie", "option_tries"]


@dataclass(slots=True)
class OptionTrie:
    """Inner nodes in an order in which parents come first.

    Attributes:
        members: indices of the options in it.
        tokens: token id of each node, N of them; may be none (options of one token each).
        parents: index of each node's parent; -1 is the prompt.
        depths: position of each node after the prompt, 0 for the first.
        paths: per member, where each of its tokens is predicted: node indices, beginning with -1 (the prompt's end).
    """

    members: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    paths: list[tuple[int, ...]] = field(default_factory=list)
    _known: dict[tuple[int, int], int] = field(default_factory=dict)

    def missing(self, tail: Sequence[int]) -> int:
        """How many nodes an option would add."""
        node, known = -1, 0
        for token in tail[:-1]:
            if (step := self._known.get((node, token))) is None:
                break
            node, known = step, known + 1
        return len(tail) - 1 - known

    def add(self, member: int, tail: Sequence[int]) -> None:
        """One more option: its index and its tokens, at least one."""
        node, path = -1, [-1]
        for depth, token in enumerate(tail[:-1]):
            step = self._known.get((node, token))
            if step is None:
                step = self._known[node, token] = len(self.tokens)
                self.tokens.append(token)
                self.parents.append(node)
                self.depths.append(depth)
            node = step
            path.append(node)
        self.members.append(member)
        self.paths.append(tuple(path))

    def ancestors(self) -> list[list[int]]:
        """Per node, itself and its ancestors, from the first on."""
        lines: list[list[int]] = []
        for node, parent in enumerate(self.parents):
            lines.append([*(lines[parent] if parent >= 0 else []), node])
        return lines


def option_tries(tails: Sequence[Sequence[int]], *, limit: int) -> list[OptionTrie]:
    """All options in as few tries as the limit on their nodes makes needful; neighbours share beginnings.

    An option that alone is longer than the limit has a trie of its own.

    >>> [trie] = option_tries([[5, 6, 7], [5, 6, 8], [9]], limit=64)
    >>> trie.tokens, trie.parents, trie.paths
    ([5, 6], [-1, 0], [(-1, 0, 1), (-1, 0, 1), (-1,)])
    """
    order = (
        sorted(range(len(tails)), key=lambda i: list(tails[i])) if sum(map(len, tails)) > limit else range(len(tails))
    )
    tries = [OptionTrie()]
    for member in order:
        trie = tries[-1]
        if trie.members and len(trie.tokens) + trie.missing(tails[member]) > limit:
            tries.append(trie := OptionTrie())
        trie.add(member, tails[member])
    return tries

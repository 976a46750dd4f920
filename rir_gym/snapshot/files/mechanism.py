"""A mechanism around another one: what the environment's working directories hold is saved and put back as well.

An environment declares them by an attribute ``workdir`` of any of its layers: a path, or a sequence of paths. Where
nothing is declared, all is handed through. This module knows when a directory is read and put back, and whose bytes a
checkpoint counts; it knows nothing of how that is done.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from rir_gym.base import Node
from rir_gym.errors import SnapshotError
from rir_gym.snapshot.files.blobs import Blob
from rir_gym.snapshot.files.declared import declared, opened_there
from rir_gym.snapshot.files.tree import files_of
from rir_gym.snapshot.files.workdirs import Trees, Workdirs, still_open
from rir_gym.snapshot.protocol import Keyed, Snapshotter, Start

__all__ = ["Files"]


@dataclass(slots=True, eq=False)
class _Token:
    """``own``: contents whose bytes are counted here; each content is counted at one token."""

    inner: Any
    trees: Trees
    own: list[weakref.ref[Blob]] = field(default_factory=list)


class Files:
    """A mechanism, and the working directories that the environment declares by the end of its reset.

    A mechanism that does actions again gets the directories as they were where it begins: before the reset, so that it
    finds what the first reset found, or at its keyframe. After it they are made exactly what they were, times included.
    """

    def __init__(self, inner: Snapshotter) -> None:
        self.inner = inner
        self.workdirs = Workdirs()
        self._tokens: dict[int, _Token] = {}
        self._keyed = inner if isinstance(inner, Keyed) else None
        self._at_keyframes: dict[int, Trees] = {}
        self._before: Trees | SnapshotError = {}
        self._paths: tuple[str, ...] | None = None
        self._resetting = False
        self._resolved: dict[str, str] = {}

    def __getstate__(self) -> dict[str, Any]:
        """A copy has its own store, without the tokens of this one."""
        state = {**self.__dict__, "_tokens": {}, "_at_keyframes": {}}
        if self.inner.repeats and self._before:
            state["_before"] = SnapshotError("it stayed with the world that this one was copied from")
        return state

    @property
    def name(self) -> str:
        """The mechanism's."""
        return self.inner.name

    @property
    def sized(self) -> bool:
        """The mechanism's."""
        return self.inner.sized

    @property
    def repeats(self) -> bool:
        """The mechanism's."""
        return self.inner.repeats

    @property
    def tied(self) -> bool:
        """Contents stay with the store that holds them."""
        return self.inner.tied or bool(self._paths)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """An episode is about to begin: the end of the last one, and before the reset."""
        self._resetting = True
        self._before = {}
        try:
            paths = declared(env, resolved=self._resolved)
            if self.inner.repeats:
                self._before, _ = self.workdirs.save(paths)
        except SnapshotError as error:
            self._before = error

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> Any:
        """The mechanism's token, with the directories where there are any.

        Raises:
            SnapshotError: either cannot be saved.
        """
        if self._paths is None or self._paths:
            self._paths = declared(env, resolved=self._resolved)
        if not self._paths:
            return self.inner.save(env, node, start)
        if isinstance(self._before, SnapshotError) and self.inner.repeats:
            raise SnapshotError(f"the working directory before the reset: {self._before}")
        if (name := opened_there(env, self._paths)) is not None:
            raise SnapshotError(still_open(name))
        trees, new = self.workdirs.save(self._paths)
        token = _Token(self.inner.save(env, node, start), trees)
        self._note_keyframes({node.id: trees})
        if not self._tokens:  # nobody counts what was in the store before
            before = self._before.values() if isinstance(self._before, dict) else ()
            every = [tree for tree in (*trees.values(), *before) if tree is not None]
            new = list(dict.fromkeys(file.blob for tree in every for file in files_of(tree) if file.blob is not None))
        token.own = [weakref.ref(blob) for blob in new]
        self._tokens[id(token)] = token
        return token

    def restore(self, env: gym.Env[Any, Any], token: Any) -> gym.Env[Any, Any]:
        """Both put back, or neither.

        Raises:
            SnapshotError: one of them cannot be put back; both are as they were, or the message says what is not.
        """
        if not isinstance(token, _Token):
            return self.inner.restore(env, token)
        if self.inner.repeats:
            assert not isinstance(self._before, SnapshotError)
            paths = declared(env, resolved=self._resolved)  # an instance with a directory of its own finds that
            return self._repeated(
                env, token, {path: tree for path, tree in self._before.items() if path in paths}, paths
            )
        if self._keyed is not None and (at := self._at_keyframes.get(self._keyed.begins_at(token.inner))) is not None:
            return self._repeated(env, token, at, tuple(at))
        with self.workdirs.put(token.trees) as putting:
            env = self.inner.restore(env, token.inner)
            putting.make(token.trees)  # some state pairs write files
            return env

    def inner_token(self, token: Any) -> Any:
        """The token of the mechanism alone."""
        return token.inner if isinstance(token, _Token) else token

    def size(self, token: Any) -> int | None:
        """With the bytes of the file contents that are counted at this token."""
        if not isinstance(token, _Token):
            return self.inner.size(token)
        inner = self.inner.size(token.inner)
        return None if inner is None else inner + sum(blob.size for blob in _alive(token.own))

    def drop(self, token: Any) -> None:
        """Contents that no other token needs are deleted; the others are counted at another one."""
        if not isinstance(token, _Token):
            self.inner.drop(token)
            return
        self.inner.drop(token.inner)
        self._note_keyframes({})
        self._tokens.pop(id(token), None)
        token.trees = {}
        if heir := next(reversed(self._tokens.values()), None):
            heir.own += [weakref.ref(blob) for blob in _alive(token.own)]
        token.own = []

    def forget(self) -> None:
        """All tokens go. The contents stay only from one episode to the next, whose start often looks like the last."""
        self.inner.forget()
        for token in self._tokens.values():
            token.trees = {}
        self._tokens.clear()
        self._at_keyframes.clear()
        self._paths = None
        if not self._resetting:
            self._before = {}
            self.workdirs.close()
        self._resetting = False

    def _note_keyframes(self, new: dict[int, Trees]) -> None:
        """The directories at a keyframe are kept as long as it is, whatever becomes of its node's own token."""
        if self._keyed is not None:
            known = {**self._at_keyframes, **new}
            self._at_keyframes = {at: known[at] for at in self._keyed.keyframes if at in known}

    def _repeated(
        self, env: gym.Env[Any, Any], token: _Token, before: Trees, paths: tuple[str, ...]
    ) -> gym.Env[Any, Any]:
        """With the directories as they were ``before`` the actions that are done again."""
        now: Trees | None = None
        try:
            now, _ = self.workdirs.save(paths)
        except SnapshotError as error:
            lost = f"; the working directory could not be kept as it was: {error}"
        with self.workdirs.put(before):
            pass
        try:
            env = self.inner.restore(env, token.inner)
            live = declared(env, resolved=self._resolved)
            if len(live) != len(token.trees):
                raise SnapshotError(f"workdir={live!r}: the fresh instance declares others than {list(token.trees)}")
        except BaseException as error:
            if now is None:
                raise SnapshotError(f"{error}{lost}") from error
            with self.workdirs.put(now):
                pass
            raise
        try:
            with self.workdirs.put(dict(zip(live, token.trees.values(), strict=True))):
                return env
        except SnapshotError as error:
            raise SnapshotError(f"the actions were done again, and the last world is gone, but {error}") from error


def _alive(refs: Sequence[weakref.ref[Blob]]) -> list[Blob]:
    return [blob for ref in refs if (blob := ref()) is not None]

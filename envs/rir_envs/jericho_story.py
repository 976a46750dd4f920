"""Z-machine story files of any maker, checked before they are played.

A broken story file ends the process of the interpreter that loads it. So header, length and checksum are read first;
then the story is copied into the cache and tried in a child process, once for its contents. jericho knows TextWorld's
games by the beginning of the file's name, and without it sees no score of them: the copy is named so, whatever the
user's file is called. This module knows what is checked, and nothing of how a game is played.

The layout of a story file's header: The Z-Machine Standards Document 1.1, section 11.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import stat
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rir_envs.cache import in_child, kept
from rir_gym.errors import MissingDependency, RirError, UsageError

__all__ = ["FEATURE", "Story", "fault_of", "import_jericho", "story_at"]

FEATURE = "rir_gym/Jericho-v0"

_HEADER_BYTES = 64
_MOST_BYTES = 1 << 20
_TIMEOUT_S = 60.0
_REVISION = 1
_ADDRESSES: Mapping[int, str] = {0x08: "dictionary", 0x0A: "objects", 0x0C: "globals", 0x0E: "static memory"}
_WHAT = "the path of a z-machine story file, versions 1 to 8"
_TEXTWORLD = "tw-"


@dataclass(frozen=True, slots=True)
class Story:
    """A story file: where it was, and what was in it when it was read."""

    path: str
    content: bytes = field(repr=False)

    @property
    def version(self) -> int:
        """Of the z-machine that it is for."""
        return self.content[0]

    @property
    def name(self) -> str:
        """Of the copy that is tried. jericho crashes on a name that has no dot."""
        return f"story.z{self.version}"

    @property
    def digest(self) -> str:
        """Of the contents."""
        return hashlib.sha256(self.content).hexdigest()

    def stored(self) -> Path:
        """A copy in the cache that was tried; the user's file is not touched again.

        Raises:
            MissingDependency: jericho is not installed.
            UsageError: the game does not start, or the cache folder cannot be written.
        """
        version = str(import_jericho().__version__)
        folder = kept(f"jericho/{version}/{self.digest[:24]}-{_REVISION}", (self.name, "name"), self._try)
        place = folder / (folder / "name").read_text("utf-8")
        if not place.exists():
            fresh = folder / f".{place.name}-{os.getpid()}"
            fresh.write_bytes(self.content)
            os.replace(fresh, place)
        return place

    def _try(self, scratch: Path) -> None:
        (scratch / self.name).write_bytes(self.content)
        try:
            in_child(__name__, "_trial", [str(scratch), self.name], cwd=scratch, environment={}, timeout_s=_TIMEOUT_S)
        except RirError as error:
            raise UsageError(f"game={self.path!r}: a game that starts; this one broke down ({error})") from error


def story_at(path: object) -> Story:
    """The story at a path.

    Raises:
        UsageError: there is none, it is no regular file, too large, or no story, whole and unchanged.
    """
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise UsageError(f"game={path!r}: {_WHAT}")
    try:
        place = Path(path).expanduser()
        found = place.stat()  # before it is opened: to open a pipe may wait for ever
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"game={str(path)!r}: {_WHAT}; this is not a file")
        if found.st_size > _MOST_BYTES:
            raise UsageError(f"game={str(path)!r}: {_WHAT}, at most {_MOST_BYTES} bytes; this has {found.st_size}")
        content = place.read_bytes()
    except FileNotFoundError as error:
        raise UsageError(f"game={str(path)!r}: {_WHAT}; there is none") from error
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"game={str(path)[:200]!r}: {_WHAT}; it cannot be read ({error})") from error
    if fault := fault_of(content):
        raise UsageError(f"game={str(path)!r}: a whole and unchanged story file; this one {fault}")
    return Story(str(path), content)


def fault_of(story: bytes) -> str | None:
    """What is wrong with the contents of a story file, as the end of a sentence; None where nothing can be seen.

    >>> fault_of(bytes(64))
    'begins with 0 where a story file has its version, 1 to 8'
    """
    if story[:4] == b"Glul":
        return "is a Glulx file, which jericho does not play"
    if story[:4] == b"FORM":
        return "is a Blorb file; take the story file out of it"
    if len(story) < _HEADER_BYTES:
        return f"has {len(story)} bytes, fewer than a header"
    if not 1 <= story[0] <= 8:
        return f"begins with {story[0]} where a story file has its version, 1 to 8"
    length = _word(story, 0x1A) * (2 if story[0] <= 3 else 4 if story[0] <= 5 else 8)
    if length == 0:  # the oldest files say neither length nor checksum
        length = len(story)
    elif not _HEADER_BYTES < length <= len(story):
        return f"says that it has {length} bytes and has {len(story)}"
    elif (found := sum(story[_HEADER_BYTES:length]) & 0xFFFF) != _word(story, 0x1C):
        return f"has the checksum {found}, its header says {_word(story, 0x1C)}"
    for place, what in _ADDRESSES.items():
        if not _HEADER_BYTES <= _word(story, place) < length:
            return f"has its {what} outside the file"
    return None


def import_jericho() -> Any:
    """The ``jericho`` package, imported now.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("jericho")
    except ImportError as error:
        raise MissingDependency(FEATURE, "jericho") from error


def _word(story: bytes, place: int) -> int:
    return int.from_bytes(story[place : place + 2], "big")


def _trial(folder: str, name: str) -> None:
    """The child process: start the game, say something, and write the name that the story is to have."""
    place = Path(folder)
    engine = import_jericho().FrotzEnv(str(place / name), seed=1)
    engine.reset()
    if engine._emulator_halted():
        raise RuntimeError("it halts before the first command")
    state = engine.get_state()
    engine.step("look")
    engine.set_state(state)
    engine.step("look")
    words = {word.word for word in engine.get_dictionary()}
    made_by_textworld = {"tw-print", "tw-extra"} <= {word[:8] for word in words}
    (place / "name").write_text(_TEXTWORLD + name if made_by_textworld else name, "utf-8")

"""Game files that somebody else has made: a ``.z8`` with TextWorld's ``.json`` beside it, checked before it is played.

A broken story file ends the process of the interpreter that loads it, and a ``.json`` of another game makes every
logical fact wrong. So header, length and checksum are read first, then the pair is copied into the cache and tried in
a child process: the game must load, its dictionary must know the names in the ``.json``, and the walkthrough that
follows from the ``.json`` must win. This module knows what is checked, and nothing of how a game is played here.

The layout of a story file's header: The Z-Machine Standards Document 1.1, section 11.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rir_envs.cache import in_child, kept
from rir_envs.textworld_games import import_textworld
from rir_envs.textworld_making import FILES, one_maker
from rir_gym.errors import RirError, UsageError

__all__ = ["GameFile", "game_file", "story_fault"]

_HEADER_BYTES = 64
_MOST_BYTES = {".z8": 1 << 20, ".json": 1 << 26}
_TIMEOUT_S = 120.0
_WORD_LETTERS = 9  # a dictionary of version 8 keeps so many of each word
_ADDRESSES = {0x04: "high memory", 0x06: "start", 0x08: "dictionary", 0x0A: "objects", 0x0C: "globals", 0x0E: "static"}
_REVISION = 1


@dataclass(frozen=True, slots=True)
class GameFile:
    """One game on disk: the id it is offered under, and what is in its two files, read once."""

    id: str
    path: str
    digest: str
    story: bytes
    description: bytes

    @property
    def name(self) -> str:
        """A folder name that is unique for the contents of the two files."""
        return f"file-{self.digest[:24]}"

    def __repr__(self) -> str:
        return f"GameFile(path={self.path!r}, digest={self.digest[:12]!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GameFile) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def stored(self) -> Path:
        """A copy in the cache that was tried; the user's own files are not touched again.

        Raises:
            MissingDependency: TextWorld is not installed.
            UsageError: the two files cannot be played together, or the cache folder cannot be written.
        """
        version = str(import_textworld(self.id).__version__)
        name = f"textworld/{version}/{self.name}-{_REVISION}"
        with one_maker(name):
            return kept(name, FILES, self._try) / FILES[0]

    def _try(self, scratch: Path) -> None:
        (scratch / FILES[0]).write_bytes(self.story)
        (scratch / FILES[1]).write_bytes(self.description)
        verdict = scratch / "verdict"
        try:
            in_child(__name__, "_trial", [str(scratch)], cwd=scratch, environment={}, timeout_s=_TIMEOUT_S)
            fault = verdict.read_text("utf-8")
        except (RirError, OSError) as error:
            raise UsageError(f"path={self.path!r}: a game that TextWorld can load; it broke down ({error})") from error
        if fault:
            raise UsageError(f"path={self.path!r}: {fault}")
        verdict.unlink()


def game_file(id: str, path: str | os.PathLike[str]) -> GameFile:
    """The game at ``path``, a ``.z8`` file, with a ``.json`` of the same name beside it.

    Raises:
        UsageError: no such files, not regular files, too large, or not a story file of version 8, whole and unchanged.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"path={path!r}: the path of a .z8 file, with its .json beside it")
    try:
        story_path = Path(path).expanduser()
    except (TypeError, RuntimeError) as error:
        raise UsageError(f"path={path!r}: the path of a .z8 file, with its .json beside it ({error})") from error
    if story_path.suffix.lower() == ".ulx":
        raise UsageError(
            f"path={str(path)!r}: a .z8 file; TextWorld plays no Glulx (.ulx) since 1.7, so it is not restorable here"
        )
    if story_path.suffix != ".z8":
        raise UsageError(f"path={str(path)!r}: a .z8 file, with its .json beside it")
    story = _read(story_path, str(path))
    if fault := story_fault(story):
        raise UsageError(f"path={str(path)!r}: a story file of version 8, whole and unchanged; this one {fault}")
    description = _read(story_path.with_suffix(".json"), str(path))
    digest = hashlib.sha256(hashlib.sha256(story).digest() + hashlib.sha256(description).digest()).hexdigest()
    return GameFile(id, str(path), digest, story, description)


def story_fault(story: bytes) -> str | None:
    """What is wrong with a story file of version 8, as the end of a sentence; None where nothing can be seen.

    >>> story_fault(b"Glul" + bytes(60))
    'is a Glulx file, which TextWorld plays no more since 1.7'
    """
    if story[:4] == b"Glul":
        return "is a Glulx file, which TextWorld plays no more since 1.7"
    if len(story) < _HEADER_BYTES:
        return f"has {len(story)} bytes, fewer than a header"
    if story[0] != 8:
        return f"begins with {story[0]} where version 8 begins with 8"
    length = 8 * _word(story, 0x1A)
    if not _HEADER_BYTES < length <= len(story):
        return f"says that it has {length} bytes and has {len(story)}"
    if (found := sum(story[_HEADER_BYTES:length]) & 0xFFFF) != _word(story, 0x1C):
        return f"has the checksum {found}, its header says {_word(story, 0x1C)}"
    for place, what in _ADDRESSES.items():
        if not _HEADER_BYTES <= _word(story, place) < length:
            return f"has its {what} outside the file"
    return None


def _word(story: bytes, place: int) -> int:
    return int.from_bytes(story[place : place + 2], "big")


def _read(path: Path, given: str) -> bytes:
    most = _MOST_BYTES[path.suffix]
    try:
        found = path.stat()  # before it is opened: to open a pipe may wait for ever
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"path={given!r}: {path.name} is not a file")
        if found.st_size > most:
            raise UsageError(f"path={given!r}: {path.name} has {found.st_size} bytes, at most {most} are read")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise UsageError(f"path={given!r}: there is no {path.name}; a .z8 file needs its .json beside it") from error
    except (OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"path={given!r}: {path.name} cannot be read ({error})") from error


def _trial(folder: str) -> None:
    """The child process: what is wrong with the two files as text in the file "verdict", empty for nothing."""
    place = Path(folder)
    (place / "verdict").write_text(next(_faults(place), ""), "utf-8")


def _faults(place: Path) -> Iterator[str]:
    textworld = importlib.import_module("textworld")
    try:
        game = textworld.Game.load(str(place / FILES[1]))
        names = [info.name for info in game.infos.values() if info.name]
        objective, most = game.objective, game.max_score
    except Exception as error:  # foreign code on a foreign file
        why = f"{type(error).__name__}: {error}"
        yield f"the .json that describes a TextWorld game is beside it; this one does not ({why})"
        return
    if most == float("inf"):
        yield "a game whose points have an end; this one pays for a repeatable quest"
        return
    wanted = dict.fromkeys(("admissible_commands", "description", "inventory", "won", "lost", "score"), True)
    engine = textworld.start(str(place / FILES[0]), textworld.EnvInfos(policy_commands=True, **wanted))
    try:
        begun = engine.reset()
    except Exception as error:  # foreign code on a foreign file
        yield f"a game made by TextWorld; this one does not answer as such ({type(error).__name__}: {error})"
        return
    other = "the .json of this very game is beside it; this one is of another"
    known = {word.word for word in engine.unwrapped._jericho.get_dictionary()}
    if strange := sorted({word for name in names for word in _words(name) if word[:_WORD_LETTERS] not in known}):
        yield f"{other} ({strange[0]!r} is no word of the game)"
    if _letters(objective) not in _letters(begun["feedback"]):
        yield f"{other} (the game does not open with its objective)"
    plan = begun["policy_commands"] or game.metadata.get("walkthrough") or []
    now: Any = begun
    for command in plan:
        now, _, over = engine.step(command)
        if over:
            break
    if plan and not now["won"]:
        yield f"{other} (its walkthrough does not win)"


def _words(name: str) -> list[str]:
    return [word for word in name.lower().split() if word.isascii() and word.isalnum()]


def _letters(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())

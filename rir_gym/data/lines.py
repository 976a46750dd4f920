"""Lines of a JSON Lines file, plain or as zstd frames, one at a time: which are whole, and where the whole part ends.

A plain line is whole when it ends with a newline. In a ``.zst`` file a line is whole when its frame is, which the
checksum of the frame proves; our writers put one line into a frame. Memory is that of one line (and one block of
64 KiB). This module knows neither records nor JSON.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

from rir_gym.errors import MissingDependency, UsageError

__all__ = ["Compression", "Line", "check_compression", "pack", "read_lines", "suffix_of", "whole_bytes"]

Compression = Literal["none", "zstd"]
_BLOCK = 1 << 16
_FIRST = 1 << 13  # most frames are smaller than a block
_MAGIC = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Line:
    """One line, with its newline, and its number from 1. ``fault`` says what is wrong with it, "" for nothing."""

    number: int
    data: bytes
    fault: str = ""
    torn: bool = False


def check_compression(compression: str) -> Compression:
    """The compression, if it is one that can be used here.

    Raises:
        UsageError: no such compression.
        MissingDependency: "zstd" without its package.
    """
    if compression == "none":
        return "none"
    if compression == "zstd":
        _zstd()
        return "zstd"
    raise UsageError(f"compression={compression!r}: one of {', '.join(get_args(Compression))}")


def suffix_of(compression: Compression) -> str:
    """How the names of its files end."""
    return ".jsonl.zst" if compression == "zstd" else ".jsonl"


def pack(line: bytes, compression: Compression) -> bytes:
    """The bytes of one line in a file: itself, or one zstd frame with a checksum."""
    if compression == "none":
        return line
    packed: bytes = _zstd().ZstdCompressor(level=3, write_checksum=True).compress(line)
    return packed


def read_lines(path: Path) -> Iterator[Line]:
    """Every line, the faulty ones with their fault; what follows a damaged frame is found again.

    Raises:
        OSError: the file cannot be read.
        MissingDependency: a ``.zst`` file without the package.
    """
    with path.open("rb", buffering=_BLOCK) as file:
        if path.suffix == ".zst":
            yield from _Frames(file).lines()
            return
        for number, data in enumerate(file, 1):
            torn = not data.endswith(b"\n")
            yield Line(number, data, "torn line" if torn else "", torn)


def whole_bytes(path: Path) -> int:
    """How many bytes from the start hold whole lines; what follows is a torn tail.

    Raises:
        OSError, MissingDependency: as ``read_lines``.
    """
    with path.open("rb", buffering=_BLOCK) as file:
        if path.suffix != ".zst":
            return _behind_last_newline(file)
        frames = _Frames(file)
        for _ in frames.lines():
            pass
        return frames.whole


def _behind_last_newline(file: BinaryIO) -> int:
    at = file.seek(0, io.SEEK_END)
    while at > 0:
        start = max(0, at - _BLOCK)
        file.seek(start)
        found = file.read(at - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


@dataclass(slots=True)
class _Frames:
    """The zstd frames of a file from its start; ``whole`` is the end of the last good one.

    A frame is good when its checksum says so. One without a checksum (another tool's) is good when another frame or the
    end of the file follows it at once: a frame of ours whose header lost the mark of its checksum is no such frame.
    """

    file: BinaryIO
    whole: int = 0
    _number: int = 0

    def lines(self) -> Iterator[Line]:
        zstd = _zstd()
        start: int | None = 0
        while start is not None:
            try:
                end = yield from self._frame(zstd, start)
            except zstd.ZstdError as error:
                yield self._fault(f"a damaged zstd frame at byte {start} ({error})")
                start = self._next_magic(start + 1)
                continue
            if end is not None:
                self.whole = start = end
            elif self.file.seek(0, io.SEEK_END) == start:
                return
            elif (behind := self._next_good(zstd, start + 1)) is None:
                yield self._fault(f"torn line: the zstd frame at byte {start} ends early", torn=True)
                return
            else:
                yield self._fault(f"a damaged zstd frame at byte {start} (it does not end)")
                start = behind

    def _fault(self, fault: str, *, torn: bool = False) -> Line:
        self._number += 1
        return Line(self._number, b"", fault, torn)

    def _frame(self, zstd: Any, start: int) -> Generator[Line, None, int | None]:
        """The lines of one frame, none before it is known to be good; its end, None where the file ends first."""
        held: list[bytes] = []
        size, good, rest, end = 0, False, b"", None
        for text, end in self._decoded(zstd, start):
            *whole, rest = (rest + text).split(b"\n")
            held += [data + b"\n" for data in whole]
            size += len(text)
            if not good and end is None and len(held) > 1 and size > _BLOCK:  # many lines: look ahead, hold no more
                if self._end(zstd, start) is None:
                    return None
                good = True
            if good:
                yield from self._numbered(held)
                held = []
        if end is not None:
            yield from self._numbered([*held, rest] if rest else held)
        return end

    def _numbered(self, lines: list[bytes]) -> Iterator[Line]:
        for data in lines:
            self._number += 1
            torn = not data.endswith(b"\n")
            yield Line(self._number, data, "torn line" if torn else "", torn)

    def _decoded(self, zstd: Any, start: int) -> Iterator[tuple[bytes, int | None]]:
        """The text of the frame there, in pieces; the last one with the frame's end, if the file does not end first.

        Raises:
            ZstdError: this is no good frame.
        """
        decoder, at, checked = zstd.ZstdDecompressor().decompressobj(), start, False
        while not decoder.eof:
            self.file.seek(at)
            block = self.file.read(_BLOCK if at > start else _FIRST)
            if not block:
                return
            text = decoder.decompress(block)
            if at == start:
                checked = zstd.get_frame_parameters(block).has_checksum
            at += len(block)
            if decoder.eof:
                at -= len(decoder.unused_data)
                self.file.seek(at)
                if not checked and self.file.read(len(_MAGIC)) not in (_MAGIC, b""):
                    raise zstd.ZstdError("no checksum, and no frame behind it")
            yield text, at if decoder.eof else None

    def _end(self, zstd: Any, start: int) -> int | None:
        """The end of the good frame there; None where the file ends first.

        Raises:
            ZstdError: this is no good frame.
        """
        ends = [end for _, end in self._decoded(zstd, start)]
        return ends[-1] if ends else None

    def _next_good(self, zstd: Any, start: int) -> int | None:
        """Where the next good frame begins."""
        place = self._next_magic(start)
        while place is not None:
            try:
                if self._end(zstd, place) is not None:
                    return place
            except zstd.ZstdError:
                pass
            place = self._next_magic(place + 1)
        return None

    def _next_magic(self, start: int) -> int | None:
        tail = b""
        self.file.seek(start)
        at = start
        while block := self.file.read(_BLOCK):
            found = (tail + block).find(_MAGIC)
            if found >= 0:
                return at - len(tail) + found
            at += len(block)
            tail = block[-3:]
        return None


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise MissingDependency("compressed records (.zst)", "data") from error
    return zstandard

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
    """The zstd frames of a file from its start; ``whole`` is the end of the last good one."""

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
                self._number += 1
                yield Line(self._number, b"", f"a damaged zstd frame at byte {start} ({error})")
                start = self._next_magic(start + 1)
                continue
            if end is None:
                return
            self.whole = start = end

    def _frame(self, zstd: Any, start: int) -> Generator[Line, None, int | None]:
        """The lines of one frame, the last one held back until the frame is whole; its end, None where it is torn."""
        self.file.seek(start)
        decoder, rest, held, read = zstd.ZstdDecompressor().decompressobj(), b"", b"", 0
        while not decoder.eof:
            block = self.file.read(_BLOCK if read else _FIRST)
            if not block:
                if read:
                    self._number += 1
                    yield Line(self._number, b"", f"torn line: the zstd frame at byte {start} ends early", torn=True)
                return None
            read += len(block)
            *whole, rest = (rest + decoder.decompress(block)).split(b"\n")
            for data in whole:
                if held:
                    self._number += 1
                    yield Line(self._number, held)
                held = data + b"\n"
        for data in (held, rest):
            if data:
                self._number += 1
                torn = not data.endswith(b"\n")
                yield Line(self._number, data, "torn line" if torn else "", torn)
        return start + read - len(decoder.unused_data)

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

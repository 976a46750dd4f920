"""What is in a set of records: counts, and one digest of its content. Reads streams; knows no environment."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rir_gym.data.config import read_config
from rir_gym.data.keys import Key, key_of
from rir_gym.data.merge import content_of
from rir_gym.data.read import ReadReport, read_records, record_files

__all__ = ["Survey", "survey"]

_COUNTED = ("agent_calls", "steps", "reviews", "rollbacks", "corrections", "prompt_tokens", "generated_tokens")


@dataclass(slots=True)
class Survey:
    """What ``survey`` found.

    ``branches`` counts paths from a root to a leaf. ``repeated`` are further records of an episode with the same
    content (versions of packages aside), ``differing`` those with another. ``torn`` and ``bad`` are lines that are no
    records; ``faults`` says which. ``records_sha256`` is the SHA-256 of the sorted SHA-256 digests of the lines: equal
    for equal records in any order and any files. ``oracle`` counts records of mechanisms with ``uses_oracle``.
    """

    files: int = 0
    bytes: int = 0
    episodes: int = 0
    tasks: int = 0
    successes: int = 0
    oracle: int = 0
    nodes: int = 0
    branches: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    cells: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    repeated: int = 0
    differing: int = 0
    torn: int = 0
    bad: int = 0
    faults: list[str] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    records_sha256: str = ""
    config: dict[str, Any] | None = None

    @property
    def sound(self) -> bool:
        """Whether there is nothing to mend: no bad line, no episode twice."""
        return not (self.torn or self.bad or self.repeated or self.differing)

    def to_json(self) -> dict[str, Any]:
        """All of it in plain JSON values; a cell is {``env``, ``mechanism``, ``player``, ``episodes``}."""
        names = ("env", "mechanism", "player")
        cells = [{**dict(zip(names, cell, strict=True)), "episodes": n} for cell, n in sorted(self.cells.items())]
        return {**asdict(self), "counts": dict(self.counts), "cells": cells, "sound": self.sound}


def survey(path: str | Path) -> Survey:
    """Read and check every record of a file or folder. Memory: one record, and some hundred bytes an episode.

    Raises:
        UsageError: no such path, or a folder without records.
        RecordError: a file or config.json that cannot be read.
    """
    files = record_files(path)
    place = Path(path)
    found = Survey(files=len(files), bytes=sum(file.stat().st_size for file in files))
    if place.is_dir():
        found.config = read_config(place)
        found.set_aside = sorted(file.name for file in place.glob("torn-*"))
    report, contents, digests, tasks = ReadReport(), dict[Key, bytes](), list[bytes](), set[str]()
    for record, line in read_records(files, errors="skip", report=report):
        key, content = key_of(record), content_of(record)
        digests.append(hashlib.sha256(line).digest())
        if key in contents:
            found.repeated += contents[key] == content
            found.differing += contents[key] != content
            continue
        contents[key] = content
        tasks.add(key.task)
        _count(found, record)
    found.episodes, found.tasks = len(contents), len(tasks)
    found.torn = sum(line.torn for line in report.bad)
    found.bad = len(report.bad) - found.torn
    found.faults = [str(line) for line in report.bad]
    found.records_sha256 = hashlib.sha256(b"".join(sorted(digests))).hexdigest()
    return found


def _count(found: Survey, record: dict[str, Any]) -> None:
    header, nodes = record["header"], record["nodes"]
    found.successes += record["result"]["success"]
    found.oracle += header["mechanism"]["uses_oracle"]
    found.nodes += len(nodes)
    found.branches += len(nodes) - len({node["parent"] for node in nodes} - {None})
    found.counts.update({name: record["ledger"][name] for name in _COUNTED})
    player = header["model"] or header["agent"]
    found.cells[header["env"]["id"], header["mechanism"]["name"], str(player)] += 1

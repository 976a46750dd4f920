"""A run folder: a store of records, ``run.json`` (what was to be played) and ``labels.jsonl`` (the truth about it).

``run.json`` holds the resolved suite, the model, the seeds, the configuration of every cell by digest, the versions,
and every revision of the code that played (the commit where the package lies in a git repository, else its version).
It is replaced as a whole. This module knows no mechanism and no environment.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rir_gym.bench.figures import CellFigures, EpisodeFigures, cell_figures, episode_figures
from rir_gym.bench.plan import Plan, plan_of
from rir_gym.bench.sidecar import LABELS, TruthIndex
from rir_gym.bench.suite import Suite
from rir_gym.bench.suite_file import suite_of
from rir_gym.data.keys import Key, key_of
from rir_gym.data.read import ReadReport, read_episodes
from rir_gym.data.records import versions
from rir_gym.errors import RecordError, StoreError, UsageError

__all__ = ["RUN", "Run", "read_run", "revision", "store_config", "write_run"]

RUN = "run.json"
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder, read: its plan, the figures of its cells by digest, and what else is to be said about it."""

    plan: Plan
    about: Mapping[str, Any]
    cells: Mapping[str, CellFigures]
    oracle: Mapping[str, bool]
    notes: tuple[str, ...]


def store_config(suite: Suite, *, model: Mapping[str, Any] | None) -> dict[str, Any]:
    """What must be equal for a run to go on in a folder: suite, package version, seeds, model."""
    from rir_gym import __version__

    return {
        "suite": suite.name,
        "rir_gym": __version__,
        "first_seed": suite.first_seed,
        "training_seeds": list(suite.training_seeds),
        "seed_step": suite.seed_step,
        "model": dict(model) if model else None,
    }


def write_run(folder: Path, plan: Plan, *, model: Mapping[str, Any] | None, absent: Mapping[str, str]) -> list[str]:
    """Write or renew ``run.json``; the revisions that have played into this folder, this one last.

    Args:
        absent: why a mechanism has no cells, by name.

    Raises:
        StoreError: it cannot be written.
        RecordError: there is one that cannot be read.
    """
    file = folder / RUN
    before = _read(file)["revisions"] if file.exists() else []
    now = revision()
    revisions = [*[each for each in before if each != now], now]
    test = plan.suite.test_seeds(max(plan.episodes.values(), default=0))
    content = {
        "schema": _SCHEMA,
        "suite": asdict(plan.suite),
        "model": dict(model) if model else None,
        "seeds": {
            "test": [test.start, test.stop, test.step],
            "training": [plan.suite.training.start, plan.suite.training.stop, plan.suite.seed_step],
        },
        "versions": versions(["textworld", "alfworld", "torch", "transformers"]),
        "revisions": revisions,
        "absent": dict(absent),
        "cells": {digest: {"episodes": plan.episodes[digest], **cell.config()} for digest, cell in plan.cells.items()},
    }
    work = folder / f".{RUN}.partial"
    try:
        work.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", "ascii")
        os.replace(work, file)
    except OSError as error:
        with suppress(OSError):
            work.unlink(missing_ok=True)
        raise StoreError(f"path={str(file)!r}: cannot be written ({error.strerror or error})") from error
    return revisions


def read_run(folder: str | Path) -> Run:
    """Everything that a report needs, in one pass over the records.

    Raises:
        UsageError: no run folder.
        RecordError: a file of it that cannot be read, or is of another schema.
    """
    place = Path(folder)
    if not (place / RUN).is_file():
        raise UsageError(f"run={str(folder)!r}: no folder of a run (it has no {RUN})")
    about = _read(place / RUN)
    try:
        plan = plan_of(suite_of(about["suite"]), extra=about["model"])
    except (KeyError, TypeError, UsageError) as error:
        raise RecordError(f"{place / RUN}: not the {RUN} of this version ({error})") from error
    if plan.cells.keys() != about["cells"].keys():
        raise RecordError(f"{place / RUN}: its cells are not those of its suite; made by another version")
    found: dict[str, list[EpisodeFigures]] = defaultdict(list)
    labelled: dict[str, int] = defaultdict(int)
    oracle: dict[str, bool] = {}
    seen, others, report = set[Key](), set[Key](), ReadReport()

    def ours() -> Iterator[tuple[Key, dict[str, Any]]]:
        """Every record of a cell of the plan, once."""
        if not any(place.glob("episodes*.jsonl*")):
            return
        for record in read_episodes(place, errors="skip", report=report):
            if (key := key_of(record)).config not in plan.cells:
                others.add(key)
            elif key not in seen:
                seen.add(key)
                yield key, record

    for record, truth in TruthIndex(place / LABELS).get(ours()):
        digest = record["header"]["config"]
        if truth is not None and len(truth.columns["lost"]) != len(record["nodes"]):
            truth = None
        labelled[digest] += truth is not None
        oracle[digest] = record["header"]["mechanism"]["uses_oracle"]
        found[digest].append(episode_figures(record, truth))
    cells = {digest: cell_figures(rows, labelled=labelled[digest]) for digest, rows in found.items()}
    return Run(plan, about, cells, oracle, tuple(_notes(plan, about, cells, len(others), report)))


def revision() -> str:
    """The commit of the checkout that this package lies in ("+" where tracked files differ), else its version."""
    from rir_gym import __file__ as here
    from rir_gym import __version__

    package = Path(here).parent
    try:
        _git(package, "ls-files", "--error-unmatch", "__init__.py")
        commit = _git(package, "rev-parse", "HEAD")
        changed = _git(package, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return f"rir-gym {__version__}"
    return commit + "+" * bool(changed)


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout.strip()


def _read(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{file}: cannot be read ({error})") from error
    if not isinstance(value, dict) or value.get("schema") != _SCHEMA:
        schema = value.get("schema") if isinstance(value, dict) else None
        raise RecordError(f"{file}: schema={schema!r}: this version reads schema {_SCHEMA}")
    kinds = {"suite": dict, "cells": dict, "revisions": list, "absent": dict, "versions": dict, "seeds": dict}
    for name, kind in kinds.items():
        if not isinstance(value.get(name), kind):
            raise RecordError(f"{file}: {name} is missing or malformed")
    if not isinstance(value.get("model"), dict | None):
        raise RecordError(f"{file}: model is malformed")
    return value


def _notes(
    plan: Plan, about: Mapping[str, Any], cells: Mapping[str, CellFigures], others: int, report: ReadReport
) -> list[str]:
    notes = []
    played = sum(cell.n for cell in cells.values())
    planned = sum(plan.episodes.values())
    if played < planned:
        notes.append(f"{played} of {planned} planned episodes are there: the run has not ended.")
    labelled = sum(cell.labelled for cell in cells.values())
    if labelled < played:
        notes.append(f"{labelled} of {played} episodes have labels; figures against the truth are over those.")
    if others:
        notes.append(f"{others} records belong to no cell of this suite and are left out.")
    if report.bad:
        notes.append(f"{len(report.bad)} lines could not be read and are left out, such as {report.bad[0]}.")
    if len(about["revisions"]) > 1:
        notes.append(f"Played by more than one revision: {', '.join(map(str, about['revisions']))}.")
    return notes

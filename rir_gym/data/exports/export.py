"""``export``: records in, one folder of training data out, as a whole or not at all.

Reads one record at a time; what it keeps in memory is a digest of every episode and of every row. What needs prompts,
a tokenizer or an environment is passed in as a function. This module knows no wording, no tokenizer and no oracle.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from rir_gym.base import MemoryPosition
from rir_gym.data.exports.files import JsonFiles, ParquetFiles, RowFiles, finishing, writing
from rir_gym.data.exports.paths import TextBounds, dataset_name, needs_minari, paths_of, write_paths
from rir_gym.data.exports.roles import Truth, roles_rows
from rir_gym.data.exports.rows import Reading, dpo_rows, kto_rows, messages_rows, sft_rows
from rir_gym.data.exports.schema import COLUMNS, PARQUET, card
from rir_gym.data.exports.sieve import Sieve
from rir_gym.data.exports.tables import table_rows
from rir_gym.data.exports.tasks import Split, task_text
from rir_gym.data.exports.turns import Render
from rir_gym.data.files import new_folder
from rir_gym.data.keys import digest_of, key_of
from rir_gym.data.read import ReadReport, read_episodes
from rir_gym.errors import UnknownName, UsageError

__all__ = ["FORMATS", "Encode", "ExportReport", "Plan", "export"]

FORMATS = (*COLUMNS, "parquet", "minari")
_ALL = ("roles", "parquet", "minari")
_DATA = ("parquet", "minari")

Encode = Callable[[Sequence[Mapping[str, str]], str], tuple[list[int], list[int]] | None]
"""A prompt's messages and the reply -> token ids and labels (-100: no loss); None where they are too long."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How records become rows; what a format does not use is refused by ``export``.

    Args:
        render: words prompts that were never sent.
        placement: where the memory is to stand in prompts; None is where it stood.
        only: "success" or "all"; None is "all" for ``roles``, ``parquet`` and ``minari`` and "success" for the rest.
        requests: whether granted requests for a review are rows of ``sft``, ``kto`` and ``tokens``, too.
        split: which tasks are held out.
        length: how many tokens a row has, for ``max_tokens``.
        max_tokens: longer rows are left out and counted.
        encode: for ``tokens``.
        escape: rewrites control tokens in texts; None leaves texts as they are.
        shape: makes a row's columns into those of another shape; None is conversations.
        truth: labels of every node for ``roles``; None labels by outcome.
        with_oracle: take mechanisms that read an oracle, too, and (``parquet``) what the oracle said.
        duplicates: "drop" or "keep" rows that train the same.
        file: "jsonl" or "parquet", for formats of rows.
        errors: what to do with a bad line, as in ``read_episodes``.
    """

    render: Render
    placement: MemoryPosition | None = None
    only: Literal["success", "all"] | None = None
    requests: bool = False
    split: Split = field(default_factory=Split)
    length: Callable[[Mapping[str, Any]], int] | None = None
    max_tokens: int | None = None
    encode: Encode | None = None
    escape: Callable[[str], str] | None = None
    shape: Shape | None = None
    truth: Truth | None = None
    with_oracle: bool = False
    duplicates: Literal["drop", "keep"] = "drop"
    file: Literal["jsonl", "parquet"] = "jsonl"
    errors: Literal["raise", "skip"] = "raise"


@dataclass(frozen=True, slots=True)
class Shape:
    """Another shape of prompts and replies: columns of messages become columns of one kind."""

    kind: str
    make: Callable[[str, Sequence[Mapping[str, Any]]], Any] = field(hash=False)


@dataclass(slots=True)
class ExportReport:
    """What an export did.

    ``rows`` and ``tasks`` are by split (of ``parquet`` rows of nodes, of ``minari`` paths). ``left_out`` counts rows,
    or episodes where the reason says so; ``changed`` texts that were rewritten. ``bad`` are lines that could not be
    read.
    """

    format: str
    episodes: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    tasks: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    bytes: int = 0
    files: dict[str, str] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """All of it in plain JSON values."""
        return asdict(self)


def export(format: str, data: str | Path, out: str | Path, plan: Plan) -> ExportReport:
    """Write the episodes of a file or folder of records in one of ``FORMATS`` into a new folder.

    The folder holds one file a split (``train.jsonl``, ``test.jsonl``, or ``.parquet``; of ``parquet`` one for each
    table; of ``minari`` it is a ``MINARI_DATASETS_PATH``), ``README.md`` (a card with the types, so that
    ``datasets.load_dataset(out)`` guesses nothing) and ``export.json`` (what was done).

    Raises:
        UnknownName: no such format.
        UsageError: no records, no episodes, no row left (the message says why), an argument that the format has no use
            for, or ``out`` cannot be written. ``out`` does not exist then.
        OutputExists: there is something at ``out``.
        RecordError: a line that cannot be read or is of another schema, unless ``errors`` is "skip".
        MissingDependency: the format needs an extra.
    """
    _check(format, plan)
    work = _Work(format, data, plan, ExportReport(format))
    records = work.records()
    with new_folder(out) as folder:
        if format == "minari":
            tables = work.minari(folder, records)
        elif format == "parquet":
            tables = work.parquet(folder, records)
        else:
            tables = work.rows(folder, records)
        work.finish(folder, tables)
    return work.report


_Tables = Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]


@dataclass(slots=True)
class _Work:
    """One export under way."""

    format: str
    data: str | Path
    plan: Plan
    report: ExportReport
    left_out: Counter[str] = field(default_factory=Counter)

    def records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every episode once, with its split."""
        seen, tasks, read = set[str](), dict[str, set[str]](), ReadReport()
        for record in read_episodes(self.data, errors=self.plan.errors, report=read):
            key = key_of(record)
            name = digest_of(list(key))
            if name in seen:
                self.left_out["episode again"] += 1
                continue
            seen.add(name)
            self.report.episodes += 1
            if record["header"]["mechanism"]["uses_oracle"] and not self.plan.with_oracle:
                self.left_out["episode of a mechanism that reads an oracle"] += 1
                continue
            if self.format in _DATA and self.only == "success" and not record["result"]["success"]:
                self.left_out["episode without success"] += 1
                continue
            split = self.plan.split(key.task)
            tasks.setdefault(split, set()).add(digest_of(task_text(key.task)))
            yield split, record
        self.report.tasks = {split: len(found) for split, found in sorted(tasks.items(), reverse=True)}
        self.report.bad = [str(line) for line in read.bad]

    @property
    def only(self) -> str:
        return self.plan.only or ("all" if self.format in _ALL else "success")

    def rows(self, folder: Path, records: Iterator[tuple[str, dict[str, Any]]]) -> _Tables:
        """The formats of rows."""
        plan, shape = self.plan, self.plan.shape
        columns = dict(COLUMNS[self.format])
        if shape is not None:
            columns = {name: shape.kind if kind == "messages" else kind for name, kind in columns.items()}
        files: RowFiles = ParquetFiles(folder, columns) if plan.file == "parquet" else JsonFiles(folder)
        reading = Reading(plan.render, plan.placement, self.only, plan.requests)
        sieve = Sieve(
            COLUMNS["sft" if self.format == "tokens" else self.format],
            plan.escape,
            plan.length,
            plan.max_tokens,
            plan.duplicates,
            "refuse" if plan.file == "jsonl" and self.format != "tokens" else "let through",
        )
        with finishing(files):
            for split, record in records:
                if self.only == "success" and not record["result"]["success"] and self.format != "roles":
                    self.left_out["episode without success"] += 1
                    continue
                for row in self.made(record, reading):
                    kept = sieve(row)
                    made = None if kept is None else self.shaped(kept)
                    if made is not None:
                        files.put(split, {name: made[name] for name in columns})
        self.left_out.update(reading.left_out)
        self.left_out.update(sieve.left_out)
        self.report.changed = {name: count for name, count in sieve.changed.items() if count}
        self.report.tokens += sieve.tokens
        self.report.rows = dict(files.rows)
        return {"default": (columns, files.names)}

    def made(self, record: Mapping[str, Any], reading: Reading) -> Iterator[dict[str, Any]]:
        """The rows of one record."""
        if self.format == "roles":
            return roles_rows(record, reading, self.plan.truth)
        make = {
            "sft": sft_rows,
            "tokens": sft_rows,
            "messages": messages_rows,
            "dpo": dpo_rows,
            "kto": kto_rows,
        }
        return make[self.format](record, reading)

    def shaped(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """The row in the shape of its format; None where it is too long as tokens."""
        plan = self.plan
        if self.format == "tokens":
            assert plan.encode is not None
            sample = plan.encode(row["prompt"], row["completion"][0]["content"])
            if sample is None:
                self.left_out["too long"] += 1
                return None
            ids, labels = sample
            self.report.tokens += len(ids)
            return {**row, "input_ids": ids, "labels": labels, "completion_mask": [int(n != -100) for n in labels]}
        if plan.shape is None:
            return row
        kinds = COLUMNS[self.format]
        return {
            name: plan.shape.make(name, value) if kinds[name] == "messages" else value for name, value in row.items()
        }

    def parquet(self, folder: Path, records: Iterator[tuple[str, dict[str, Any]]]) -> _Tables:
        """Three tables."""
        files = {name: ParquetFiles(folder, columns, f"{name}-") for name, columns in PARQUET.items()}
        with finishing(*files.values()):
            for split, record in records:
                for table, row in table_rows(record, with_oracle=self.plan.with_oracle):
                    files[table].put(split, row)
        self.report.rows = dict(files["nodes"].rows)
        return {name: (columns, files[name].names) for name, columns in PARQUET.items()}

    def minari(self, folder: Path, records: Iterator[tuple[str, dict[str, Any]]]) -> _Tables:
        """A Minari data set a split. The first reading finds the characters that occur, the others write."""
        needs_minari()
        bounds, splits = TextBounds(), dict[str, int]()
        for split, record in records:
            bounds.take(record)
            splits[split] = splits.get(split, 0) + len(paths_of(record))
        told = self.report, self.left_out
        for split in [split for split, paths in sorted(splits.items(), reverse=True) if paths]:
            self.report, self.left_out = ExportReport(self.format), Counter()
            again = (record for there, record in self.records() if there == split)
            told[0].rows[split], _ = write_paths(folder, split, again, bounds)
            told[0].files[dataset_name(split)] = dataset_name(split)
        self.report, self.left_out = told
        return {}

    def finish(self, folder: Path, tables: _Tables) -> None:
        """Refuse an empty export; else write the card and the report."""
        report = self.report
        report.left_out = {name: count for name, count in sorted(self.left_out.items()) if count}
        if not sum(report.rows.values()):
            why = ", ".join(f"{count} {name}" for name, count in report.left_out.items()) or "they hold no such rows"
            if not report.episodes:
                raise UsageError(f"data={str(self.data)!r}: holds no episodes")
            raise UsageError(
                f"data={str(self.data)!r}: no row of {self.format} is left of {report.episodes} episodes: {why}"
            )
        for name, (_, files) in tables.items():
            report.files |= dict.fromkeys(files.values(), name)
        report.bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        with writing(folder):
            if tables:
                title = f"rir-gym export: {self.format}"
                counts = ", ".join(f"{split}: {count} rows" for split, count in report.rows.items())
                (folder / "README.md").write_text(card(tables, title, counts), encoding="utf-8")
            (folder / "export.json").write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="ascii")


def _check(format: str, plan: Plan) -> None:
    if format not in FORMATS:
        raise UnknownName("format", format, FORMATS)
    rows = format not in _DATA
    for name, given, allowed in (
        ("placement", plan.placement is not None, rows),
        ("requests", plan.requests, format in ("sft", "kto", "tokens")),
        ("max_tokens", plan.max_tokens is not None, rows),
        ("escape", plan.escape is not None, rows and format != "tokens"),
        ("shape", plan.shape is not None, format in ("sft", "roles", "dpo", "kto")),
        ("truth", plan.truth is not None, format == "roles"),
        ("file", plan.file != "jsonl", rows),
        ("duplicates", plan.duplicates != "drop", rows),
    ):
        if given and not allowed:
            raise UsageError(f"{name}={getattr(plan, name)!r}: not for format={format!r}")
    if format == "tokens" and plan.encode is None:
        raise UsageError("encode=None: the format tokens needs a tokenizer")
    for name, value, values in (
        ("only", plan.only, (None, "success", "all")),
        ("placement", plan.placement, (None, "system", "tail")),
        ("duplicates", plan.duplicates, ("drop", "keep")),
        ("file", plan.file, ("jsonl", "parquet")),
    ):
        if value not in values:
            raise UsageError(f"{name}={value!r}: one of {', '.join(str(each) for each in values if each)}")
    if plan.max_tokens is not None:
        if isinstance(plan.max_tokens, bool) or not isinstance(plan.max_tokens, int) or plan.max_tokens < 1:
            raise UsageError(f"max_tokens={plan.max_tokens!r}: an int of at least 1")
        if plan.length is None and format != "tokens":
            raise UsageError("max_tokens without a tokenizer: a length needs one")

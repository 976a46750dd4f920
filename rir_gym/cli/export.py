"""``rir-gym export``: records as training data; wires prompts, tokenizer and oracle to ``rir_gym.data.exports``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rir_gym.cli.asked import Wanted
from rir_gym.data.exports import ExportReport, Plan, Shape, Split, export
from rir_gym.errors import RecordError, UnknownName, UsageError

__all__ = ["Wanted", "main", "plan_of"]

_LABELS = ("outcome", "oracle")


def main(wanted: Wanted, data: Path, *, out: Path, as_json: bool) -> None:
    """Export, then say what was done."""
    plan = plan_of(wanted)
    report = export(wanted.format, data, out, plan)
    for bad in report.bad:
        print(f"rir-gym: left out: {bad}", file=sys.stderr)
    if as_json:
        print(json.dumps({"out": str(out), **report.to_json()}))
    else:
        _tell(report, out)


def plan_of(wanted: Wanted) -> Plan:
    """The plan of a request; the tokenizer is loaded here.

    Raises:
        UsageError: a bad argument.
        ModelError, MissingDependency: the tokenizer cannot be loaded.
    """
    from rir_policies.prompts import load_prompts
    from rir_policies.rendering import Renderer

    for name, value, allowed in (
        ("split-by", wanted.split_by, (None, "task")),
        ("too-long", wanted.too_long, ("drop", "cut")),
        ("shape", wanted.shape, ("chat", "text")),
    ):
        if value not in allowed:
            raise UnknownName(name, value, [str(each) for each in allowed if each])
    if wanted.format == "tokens" and wanted.tokenizer is None:
        raise UsageError("tokenizer=None: the format tokens needs --tokenizer")
    if wanted.tokenizer is None and (wanted.max_tokens is not None or wanted.escape):
        raise UsageError("tokenizer=None: --max-tokens and --escape need --tokenizer")
    if wanted.too_long == "cut" and (wanted.format != "tokens" or wanted.max_tokens is None):
        raise UsageError(f"too-long='cut', format={wanted.format!r}: only tokens are cut, to --max-tokens")
    samples = _samples(wanted.tokenizer) if wanted.tokenizer is not None else None
    counts = samples is not None and wanted.format not in ("tokens", "parquet", "minari")
    return Plan(
        render=Renderer(load_prompts(wanted.prompts)),
        placement=wanted.placement,
        only=wanted.only,
        requests=wanted.requests,
        split=Split(wanted.test_share if wanted.split_by is not None else 0.0),
        length=samples.length if samples is not None and counts else None,
        max_tokens=wanted.max_tokens,
        encode=partial(samples.sample, limit=wanted.max_tokens, cut=wanted.too_long == "cut")
        if samples is not None and wanted.format == "tokens"
        else None,
        escape=samples.escape if samples is not None and wanted.escape else None,
        shape=_text_shape() if wanted.shape == "text" else None,
        truth=_truth(wanted.labels, wanted.format),
        with_oracle=wanted.with_oracle,
        duplicates=wanted.duplicates,
        file=wanted.file,
        errors=wanted.errors,
    )


def _samples(tokenizer: str) -> Any:
    from rir_policies.encoding import ChatEncoder
    from rir_policies.training import Samples, load_tokenizer

    return Samples(ChatEncoder(load_tokenizer(tokenizer)))


def _text_shape() -> Shape:
    from rir_policies.training import transcript

    def make(column: str, messages: Sequence[Mapping[str, Any]]) -> str:
        return transcript(messages) if column == "prompt" else str(messages[0]["content"])

    return Shape("string", make)


# --- ground truth -----------------------------------------------------------------------------------------------------

_Labels = Sequence[Mapping[str, Any]]


def _truth(labels: str, format: str) -> Callable[[Mapping[str, Any]], _Labels] | None:
    if labels == "outcome":
        return None
    if format != "roles":
        raise UsageError(f"labels={labels!r}: not for format={format!r}")
    if labels == "oracle":
        return _asked
    return _Sidecar(Path(labels))


def _asked(record: Mapping[str, Any]) -> _Labels:
    """The labels of a record, from the oracle of its environment."""
    from rir_gym.cli.worlds import make
    from rir_gym.labels import label_record

    env = make(record["header"]["env"]["id"], record["header"]["env"]["kwargs"])
    try:
        found: _Labels = label_record(record, env)["labels"]
        return found
    finally:
        env.close()


class _Sidecar:
    """Labels from a file of ``label_record`` lines, in the order of the episodes."""

    def __init__(self, file: Path) -> None:
        if not file.is_file():
            raise UsageError(f"labels={str(file)!r}: outcome, oracle, or a file of labels")
        self._file, self._lines = file, self._read(file)

    @staticmethod
    def _read(file: Path) -> Iterator[str]:
        with file.open(encoding="utf-8", errors="replace") as lines:  # what is no text is no JSON either
            yield from lines

    def __call__(self, record: Mapping[str, Any]) -> _Labels:
        """The next line that fits; those between belong to episodes that the export leaves out."""
        for line in self._lines:
            try:
                told = json.loads(line)
                seed, labels = told["seed"], told["labels"]
            except (ValueError, TypeError, KeyError) as error:
                raise RecordError(f"{self._file}: not a file of labels ({error})") from error
            if seed == record["header"]["seed"] and len(labels) == len(record["nodes"]):
                found: _Labels = labels
                return found
        raise RecordError(f"{self._file}: has no labels for the episode with seed {record['header']['seed']}")


def _tell(report: ExportReport, out: Path) -> None:
    rows = ", ".join(f"{split} {count} ({report.tasks.get(split, 0)} tasks)" for split, count in report.rows.items())
    unit = {"parquet": "nodes", "minari": "paths"}.get(report.format, "rows")
    print(f"{report.format}: {unit} {rows}; {report.episodes} episodes, {report.bytes / 1e6:.1f} MB in {out}")
    for reason, count in report.left_out.items():
        print(f"left out: {count} {reason}")
    for what, count in report.changed.items():
        print(f"changed: {count} texts, {what}")

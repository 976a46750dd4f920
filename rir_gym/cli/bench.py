"""``rir-gym bench SUITE``: plays what a run folder lacks of a suite, then looks up the truth about every episode."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rir_gym.bench.folder import RUN, store_config, write_run
from rir_gym.bench.plan import Plan, plan_of
from rir_gym.bench.suite import Suite
from rir_gym.bench.suite_file import load_suite, suite_names
from rir_gym.cli.asked import Bench
from rir_gym.cli.bar import bar, tell
from rir_gym.cli.bench_cell import check, job_of
from rir_gym.cli.bench_labels import fill_labels
from rir_gym.cli.settings import SETTINGS, keep_settings
from rir_gym.data import collect as engine
from rir_gym.data.keys import digest_of
from rir_gym.data.lines import check_compression
from rir_gym.data.store import Store, open_store
from rir_gym.errors import CollectError, StoreError, UnknownName, UsageError

__all__ = ["chosen", "main", "show_suites"]

_CHUNK = 8
_NEED_RULES = frozenset({"expel"})


def main(asked: Bench, *, as_json: bool) -> None:
    """Check everything, play what is missing, label what has none."""
    model, workers = asked.model, asked.workers
    if isinstance(workers, bool) or workers < 0:
        raise UsageError(f"workers={workers!r}: an int of at least 0")
    packing = check_compression(asked.compression)
    whole = load_suite(asked.suite or "")
    suite = chosen(whole, episodes=asked.episodes, sections=asked.sections, mechanisms=asked.mechanisms)
    told = _model(model) if any(each.needs_model for each in suite.reviewers) else None
    book = _rules(asked.rules)
    if told is not None and book is not None:
        told = {**told, "rules": digest_of(book)}
    suite, absent = _applicable(suite, rules=book is not None)
    plan = plan_of(suite, extra=told)
    check(list(plan.cells.values()), model=model, seed=suite.first_seed)
    folder = Path("runs") / suite.name if asked.out is None else asked.out
    jobs = [job_of(digest, plan.cells[digest], seed, model=model, rules=book) for digest, seed in plan.order()]
    with open_store(folder, store_config(suite, model=told), compression=packing) as store:
        for said in (*store.repairs, *store.faults):
            tell(said)
        try:
            revisions = write_run(folder, plan, model=told, absent=absent)
            if len(revisions) > 1:
                tell(f"{folder} was begun by revision {revisions[-2]}; this one is {revisions[-1]}")
            keep_settings(folder, asked, command="bench")
            _play(store, jobs, folder, workers=workers, quiet=as_json)
        except BaseException:
            if store.created and not store.keys:  # the store takes itself away, and a folder with only this is no store
                for name in (RUN, SETTINGS):
                    (folder / name).unlink(missing_ok=True)
            raise
        if suite.labels and asked.labels:
            fill_labels(folder, {job.key for job in jobs}, workers=workers, quiet=as_json)
    _end(plan, folder, as_json=as_json)


def chosen(
    suite: Suite, *, episodes: int | None = None, sections: Sequence[str] = (), mechanisms: Sequence[str] = ()
) -> Suite:
    """A part of a suite: fewer episodes a cell, some sections, some mechanisms.

    Raises:
        UnknownName: a section or mechanism that the suite has not.
        UsageError: a number of episodes below 1, or nothing is left.
    """
    if episodes is not None and (isinstance(episodes, bool) or episodes < 1):
        raise UsageError(f"episodes={episodes!r}: an int of at least 1")
    known = [section.name for section in suite.sections]
    if unknown := [name for name in sections if name not in known]:
        raise UnknownName("section", unknown[0], known)
    every = {name for section in suite.sections for name in section.mechanisms}
    if unknown := [name for name in mechanisms if name not in every]:
        raise UnknownName("mechanism", unknown[0], every)
    kept = []
    for section in suite.sections:
        rows = tuple([name for name in section.mechanisms if not mechanisms or name in mechanisms])
        if rows and (not sections or section.name in sections):
            kept.append(replace(section, mechanisms=rows, episodes=episodes or section.episodes))
    if not kept:
        raise UsageError(f"section={list(sections)!r}, mechanism={list(mechanisms)!r}: no table of the suite has both")
    return replace(suite, sections=tuple(kept))


def show_suites(*, as_json: bool) -> None:
    """Name every suite that comes along, and what it is."""
    listed = []
    for name in suite_names():
        suite = load_suite(name)
        plan = plan_of(suite)
        size = {"cells": len(plan.cells), "episodes": sum(plan.episodes.values())}
        listed.append({"suite": name, "about": suite.about, **size})
    if as_json:
        print(json.dumps(listed))
        return
    for row in listed:
        print("{suite}: {about} ({cells} cells, {episodes} episodes)".format_map(row))


# --- playing ----------------------------------------------------------------------------------------------------------


def _applicable(suite: Suite, *, rules: bool) -> tuple[Suite, dict[str, str]]:
    """The suite without the mechanisms that have no meaning where the expert acts, or lack rules; and why, by name."""
    from rir_policies import mechanisms as table

    acting = {reviewer.name for reviewer in suite.reviewers if reviewer.act == "model"}
    absent: dict[str, str] = {}
    kept = []
    for section in suite.sections:
        rows = section.mechanisms
        if not acting.issuperset(section.reviewers):
            out = [name for name in rows if name in table.NEEDS_MODEL]
            absent |= dict.fromkeys(out, "n/a: has no meaning without a language model")
            rows = tuple([name for name in rows if name not in out])
        elif not rules:
            out = [name for name in rows if name in _NEED_RULES]
            absent |= dict.fromkeys(out, "n/a: needs the rules of a training split (--rules)")
            rows = tuple([name for name in rows if name not in out])
        if rows:
            kept.append(replace(section, mechanisms=rows))
    if not kept:
        raise UsageError(f"suite={suite.name!r}: every mechanism in it needs a language model as the agent")
    return replace(suite, sections=tuple(kept)), absent


def _rules(file: Path | None) -> dict[str, Any] | None:
    """The content of a rule book of ExpeL, checked."""
    if file is None:
        return None
    from rir_policies.expel import RuleBook

    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"rules={str(file)!r}: cannot be read ({error})") from error
    return RuleBook.from_json(value).to_json()


def _model(model: str | None) -> dict[str, Any]:
    """What the data depend on of a model: its name and a digest of what is in it."""
    from rir_gym.cli.request import Request, config_of

    if model is None:
        raise UsageError("model=None: this suite has roles of a model; give --model")
    said = config_of(Request("", "", model=model, agent_calls=1))
    return {name: said[name] for name in ("model", "weights", "prompts")}


def _play(store: Store, jobs: list[engine.Job], folder: Path, *, workers: int, quiet: bool) -> None:
    had = sum(job.key in store.keys for job in jobs)
    if had:
        tell(f"{had} of {len(jobs)} episodes are in {folder} already")
    try:
        with bar("episodes", len(jobs), had, quiet=quiet) as advance:
            engine.collect(
                store, jobs, workers=workers, lockstep=_CHUNK, notify=lambda progress: advance(1), notice=tell
            )
    except (KeyboardInterrupt, CollectError, StoreError):
        kept = sum(job.key in store.keys for job in jobs)
        if kept:
            tell(f"{kept} of {len(jobs)} episodes are kept in {folder}; the same command goes on from there")
        raise


def _end(plan: Plan, folder: Path, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"out": str(folder), "suite": plan.suite.name, "episodes": sum(plan.episodes.values())}))
    else:
        print(f"{sum(plan.episodes.values())} episodes of {len(plan.cells)} cells: {folder}")
        print(f"tables and plots: rir-gym report {folder}")

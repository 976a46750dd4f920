"""``rir-gym collect``: a request played into a store, by one or more processes, and a summary of what is there."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rir_gym.bench.metrics import Row, row_of_record, summary_of
from rir_gym.cli.asked import Collect, Run
from rir_gym.cli.request import Request, budget_of, config_of, jobs_of
from rir_gym.cli.settings import SETTINGS, keep_settings
from rir_gym.cli.tables import summary_table
from rir_gym.cli.worlds import make, seeded_arguments
from rir_gym.data import collect as engine
from rir_gym.data.files import set_aside
from rir_gym.data.keys import Key, key_of
from rir_gym.data.lines import check_compression
from rir_gym.data.read import ReadReport, read_episodes
from rir_gym.data.store import Store, open_store
from rir_gym.errors import CollectError, StoreError

__all__ = ["Request", "main"]

_TOLD_EVERY_S = 60


def main(
    request: Request,
    *,
    out: Path,
    existing: Literal["resume", "overwrite"],
    workers: int,
    lockstep: int,
    compression: str,
    as_json: bool,
    command: Literal["run", "collect"] = "collect",
) -> None:
    """Play what is missing, then sum up what the store holds of this request.

    What was asked is kept as ``settings.toml``, with the budget that was resolved; ``command`` is whose it is.
    """
    whole = replace(request, agent_calls=budget_of(request).agent_calls)
    asked: Run | Collect = Run(out=out, request=whole)
    if command == "collect":
        asked = Collect(out=out, request=whole, workers=workers, lockstep=lockstep, compression=compression)
    packing = check_compression(compression)
    jobs = jobs_of(request)
    config = {**config_of(request), "first_seed": request.seed}
    old = set_aside(out) if existing == "overwrite" else nullcontext()
    with old, open_store(out, config, compression=packing) as store:
        for said in (*store.repairs, *store.faults):
            _tell(said)
        if any(job.key not in store.keys for job in jobs):
            # What is wrong with the environment shows before a model is loaded or a process started.
            make(request.env, seeded_arguments(request.env, request.env_args, request.seed)).close()
            keep_settings(out, asked, command=command)
        try:
            _fill(store, jobs, out=out, workers=workers, lockstep=lockstep, quiet=as_json)
        finally:
            if store.created and not store.keys:  # the store takes itself away, and a folder with only this is no store
                (out / SETTINGS).unlink(missing_ok=True)
    _sum_up(request, out, {job.key for job in jobs}, as_json=as_json)


def _fill(store: Store, jobs: list[engine.Job], *, out: Path, workers: int, lockstep: int, quiet: bool) -> None:
    had = sum(job.key in store.keys for job in jobs)
    if had:
        _tell(f"{had} of {len(jobs)} episodes are in {out} already")
    try:
        with _bar(len(jobs), had, quiet=quiet) as notify:
            engine.collect(store, jobs, workers=workers, lockstep=lockstep, notify=notify, notice=_tell)
    except (KeyboardInterrupt, CollectError, StoreError):
        kept = sum(job.key in store.keys for job in jobs)
        if kept:
            _tell(f"{kept} of {len(jobs)} episodes are kept in {out}; the same command goes on from there")
        raise


@contextmanager
def _bar(total: int, had: int, *, quiet: bool) -> Iterator[Callable[[engine.Progress], None]]:
    """A bar of episodes on standard error: how many, how fast, success so far, and how long it will take.

    Where that is no terminal, a line a minute.
    """
    columns = (
        TextColumn("episodes"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(),
    )
    started, successes, told_at = time.perf_counter(), 0, time.perf_counter()
    console = Console(stderr=True)
    shown = console.is_terminal and not quiet
    with Progress(*columns, console=console, disable=not shown, transient=True) as bar:
        task = bar.add_task("collect", total=total, completed=had, said="")

        def notify(progress: engine.Progress) -> None:
            nonlocal successes, told_at
            now = time.perf_counter()
            successes += progress.success
            rate = progress.done / max(now - started, 1e-9)
            said = f"{rate:.2g}/s" if rate < 10 else f"{rate:.0f}/s"
            said += f", success {successes / progress.done:.0%}"
            bar.update(task, completed=had + progress.done, said=said)
            if not shown and not quiet and now - told_at >= _TOLD_EVERY_S:
                told_at = now
                _tell(f"{had + progress.done} of {total} episodes, {said}")

        yield notify


def _sum_up(request: Request, out: Path, planned: set[Key], *, as_json: bool) -> None:
    rows: list[Row] = []
    oracle = False
    for record in read_episodes(out, errors="skip", report=ReadReport()):
        if (key := key_of(record)) in planned:
            planned.discard(key)
            rows.append(row_of_record(record))
            oracle = record["header"]["mechanism"]["uses_oracle"]
    summary, budget = summary_of(rows), budget_of(request)
    if as_json:
        print(json.dumps({"out": str(out), "mechanism": request.mechanism, **summary.to_json()}))
        return
    console = Console()
    title = f"{request.env}, B_agent = {budget.agent_calls}, B_rb = {budget.rollbacks}, {_player(request)}"
    console.print(title + ", uses_oracle" * oracle, markup=False, highlight=False)
    console.print(summary_table(summary, mechanism=request.mechanism))
    console.print(f"records: {out}", markup=False, highlight=False)


def _player(request: Request) -> str:
    return f"model {Path(request.model).name}" if request.model else f"scripted agent, reviewer {request.reviewer}"


def _tell(text: str) -> None:
    print(f"rir-gym: {text}", file=sys.stderr)

"""``rir-gym run``: episodes of one mechanism on one environment, their records and a summary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rir_gym.base import Decision, Mechanism, MemoryPosition, View
from rir_gym.bench.metrics import Row, row_of, summary_of
from rir_gym.cli.tables import summary_table
from rir_gym.cli.worlds import (
    MEMORY_POSITIONS,
    default_calls,
    make,
    model_mechanism,
    scripted_mechanism,
    seeded_arguments,
)
from rir_gym.data.files import new_folder, write_episodes
from rir_gym.data.records import episode_record, header_of, times_of
from rir_gym.episode import Episode
from rir_gym.errors import UnknownName, UsageError
from rir_gym.ledger import Budget
from rir_gym.loop import run
from rir_gym.rollback import RollbackWrapper

__all__ = ["Request", "main", "parse_arguments"]

_LOCKSTEP = 8


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for, field by field."""

    env: str
    mechanism: str
    model: str | None = None
    agent: str | None = None
    env_args: dict[str, Any] = field(default_factory=dict)
    reviewer: str = "evidence"
    episodes: int = 1
    seed: int = 0
    agent_calls: int | None = None
    rollbacks: int = 3
    review_terminal: bool = True
    memory_position: str = "system"
    thought_tokens: int = 0
    temperature: float = 0.0
    prompts: Path | None = None


def parse_arguments(pairs: Iterable[str]) -> dict[str, Any]:
    """``["level=2", "name=text"]`` → ``{"level": 2, "name": "text"}``: values are JSON, anything else is text.

    Raises:
        UsageError: no "=" in a pair.
    """
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name.isidentifier():
            raise UsageError(f"env-arg={pair!r}: name=value")
        try:
            arguments[name] = json.loads(value)
        except json.JSONDecodeError:
            arguments[name] = value
    return arguments


def main(request: Request, *, out: Path, existing: Literal["refuse", "overwrite"], as_json: bool) -> None:
    """Check everything, run, write the records as a whole, print the summary."""
    budget = _checked(request)
    with new_folder(out, existing=existing) as folder:
        make(request.env, seeded_arguments(request.env, request.env_args, request.seed)).close()
        mechanism, origin = _mechanism(request)
        rows: list[Row] = []
        times: list[dict[str, float]] = []

        def records() -> Iterator[dict[str, Any]]:
            for env, episode in _episodes(request, mechanism, budget, quiet=as_json):
                rows.append(row_of(episode))
                times.append(times_of(episode))
                yield episode_record(episode, header_of(env, mechanism, **origin))

        write_episodes(folder, records(), times)
    summary = summary_of(rows)
    if as_json:
        print(json.dumps({"out": str(out), "mechanism": mechanism.name, **summary.to_json()}))
        return
    console = Console()
    title = f"{request.env}, B_agent = {budget.agent_calls}, B_rb = {budget.rollbacks}, {_player(request)}"
    console.print(title + ", uses_oracle" * mechanism.uses_oracle, markup=False, highlight=False)
    console.print(summary_table(summary, mechanism=mechanism.name))
    console.print(f"records: {out}", markup=False, highlight=False)


def _checked(request: Request) -> Budget:
    """Every argument that can be wrong before anything heavy is loaded."""
    if (request.model is None) == (request.agent is None):
        raise UsageError(f"model={request.model!r}, agent={request.agent!r}: give one of --model and --agent scripted")
    if request.agent not in (None, "scripted"):
        raise UnknownName("agent", request.agent, ["scripted"])
    if request.memory_position not in MEMORY_POSITIONS:
        raise UnknownName("memory-position", request.memory_position, MEMORY_POSITIONS)
    for name, value, least in (
        ("episodes", request.episodes, 1),
        ("seed", request.seed, 0),
        ("thought-tokens", request.thought_tokens, 0),
        ("temperature", request.temperature, 0),
    ):
        if not value >= least:
            raise UsageError(f"{name}={value!r}: at least {least}")
    calls = default_calls(request.env) if request.agent_calls is None else request.agent_calls
    return Budget(calls, request.rollbacks)


def _player(request: Request) -> str:
    return f"model {Path(request.model).name}" if request.model else f"scripted agent, reviewer {request.reviewer}"


def _mechanism(request: Request) -> tuple[Mechanism, dict[str, Any]]:
    """The mechanism, and what the records say of who played it."""
    position: MemoryPosition = "tail" if request.memory_position == "tail" else "system"
    if request.model is None:
        mechanism = scripted_mechanism(
            request.env,
            request.mechanism,
            reviewer=request.reviewer,
            review_terminal=request.review_terminal,
            memory_position=position,
        )
        return mechanism, {"agent": "scripted"}
    return model_mechanism(
        request.mechanism,
        model=request.model,
        prompts=request.prompts,
        thought_tokens=request.thought_tokens,
        temperature=request.temperature,
        review_terminal=request.review_terminal,
        memory_position=position,
    )


def _episodes(
    request: Request, mechanism: Mechanism, budget: Budget, *, quiet: bool
) -> Iterator[tuple[RollbackWrapper, Episode]]:
    """The episodes in the order of their seeds, some in lockstep; the bar counts agent calls."""
    columns = (TextColumn("agent calls"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as bar:
        task = bar.add_task("run", total=request.episodes * budget.agent_calls)

        def act(views: Sequence[View]) -> Sequence[Decision]:
            decisions = mechanism.act(views)
            bar.advance(task, len(views))
            return decisions

        shown = replace(mechanism, act=act)
        for first in range(0, request.episodes, _LOCKSTEP):
            done = range(first, min(first + _LOCKSTEP, request.episodes))
            seeds = [request.seed + number for number in done]
            envs = [make(request.env, seeded_arguments(request.env, request.env_args, seed)) for seed in seeds]
            yield from zip(envs, run(envs, shown, budget=budget, seeds=seeds), strict=True)
            for env in envs:
                env.close()
            bar.update(task, completed=done.stop * budget.agent_calls)

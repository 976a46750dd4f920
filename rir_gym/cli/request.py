"""What a command line asked for: its fields, its budget, the configuration that its data depend on, and its jobs.

Nothing heavy is loaded here. This module knows names of environments and mechanisms, and makes neither.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rir_gym.cli import options
from rir_gym.cli.worlds import MEMORY_POSITIONS, default_calls, seeded_arguments
from rir_gym.data.desk import Cell, Job
from rir_gym.data.keys import Key, canonical, digest_of
from rir_gym.errors import UnknownName, UsageError
from rir_gym.ids import IDS, EnvId
from rir_gym.jsonable import encode
from rir_gym.ledger import Budget

__all__ = ["Request", "budget_of", "config_of", "jobs_of", "known_id", "task_of"]

_BLOCKS, _BLOCK = 64, 1 << 16


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line or a file of settings asked for; its fields are the options of ``run`` and ``collect``."""

    env: options.Env = "rir_gym/Apothecary-v0"
    mechanism: options.MechanismName = "rir"
    model: options.Model = None
    agent: options.Agent = None
    env_args: options.EnvArgs = field(default_factory=dict)
    reviewer: options.Reviewer = "evidence"
    episodes: options.Episodes = 1
    attempts: options.Attempts = 1
    seed: options.Seed = 0
    agent_calls: options.AgentCalls = None
    rollbacks: options.Rollbacks = 3
    review_terminal: options.ReviewTerminal = True
    memory_position: options.MemoryPositionName = "system"
    thought_tokens: options.ThoughtTokens = 0
    temperature: options.Temperature = 0.0
    prompts: options.Prompts = None


def budget_of(request: Request) -> Budget:
    """The budget of each episode, after every argument that can be wrong was checked. Nothing heavy is loaded.

    Raises:
        UsageError: a bad argument.
    """
    if (request.model is None) == (request.agent is None):
        raise UsageError(f"model={request.model!r}, agent={request.agent!r}: give one of --model and --agent scripted")
    if request.model is not None and not request.model.strip():
        raise UsageError(f"model={request.model!r}: a hub name, a folder, a GGUF file, or URL#NAME of a server")
    if request.agent not in (None, "scripted"):
        raise UnknownName("agent", request.agent, ["scripted"])
    if request.memory_position not in MEMORY_POSITIONS:
        raise UnknownName("memory-position", request.memory_position, MEMORY_POSITIONS)
    for name, value, least in (
        ("episodes", request.episodes, 1),
        ("attempts", request.attempts, 1),
        ("seed", request.seed, 0),
        ("thought-tokens", request.thought_tokens, 0),
        ("temperature", request.temperature, 0),
    ):
        if not value >= least:
            raise UsageError(f"{name}={value!r}: at least {least}")
    calls = default_calls(request.env) if request.agent_calls is None else request.agent_calls
    return Budget(calls, request.rollbacks)


def config_of(request: Request) -> dict[str, Any]:
    """All that an episode depends on besides its task, seed and attempt, in plain JSON values.

    Neither the number of episodes nor who plays them (workers, lockstep) is part of it. Local weights and prompts count
    by what is in them, not by where they lie; of weights, samples are read.
    """
    plain: dict[str, Any] = encode(
        {
            "env": request.env,
            "env_args": request.env_args,
            "mechanism": request.mechanism,
            "budget": asdict(budget_of(request)),
            "review_terminal": request.review_terminal,
            "memory_position": request.memory_position,
            **_player_config(request),
        }
    )
    return plain


def _player_config(request: Request) -> dict[str, Any]:
    if request.model is None:
        return {"agent": request.agent, "reviewer": request.reviewer}
    from rir_policies.opening import model_identity
    from rir_policies.prompts import load_prompts

    path = Path(request.model).expanduser()
    return {
        "model": path.absolute().name if path.exists() else model_identity(request.model),
        "weights": _sampled(path) if path.exists() else None,
        "prompts": load_prompts(request.prompts).digest,
        "thought_tokens": request.thought_tokens,
        "temperature": float(request.temperature),
    }


def task_of(env_id: str, arguments: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The task of an episode, for ``header.task``: its seed is null where an argument chooses the task."""
    known = known_id(env_id)
    by_argument = known is not None and known.seed_argument != ""
    task: dict[str, Any] = encode({"env": env_id, "arguments": arguments, "seed": None if by_argument else seed})
    return task


def jobs_of(request: Request) -> list[Job]:
    """The episodes that were asked for: every first attempt in the order of seeds, then the second ones, ..."""
    config = config_of(request)
    digest = digest_of(config)
    plain = {**asdict(request), "prompts": None if request.prompts is None else str(request.prompts)}
    cell = Cell("rir_gym.cli.cell:make_player", {"request": plain, "config": digest})
    jobs = []
    for attempt in range(request.attempts):
        for seed in range(request.seed, request.seed + request.episodes):
            task = canonical(task_of(request.env, seeded_arguments(request.env, request.env_args, seed), seed))
            jobs.append(Job(Key(digest, task, seed, attempt), cell, {"seed": seed, "attempt": attempt}))
    return jobs


def known_id(env_id: str) -> EnvId | None:
    """The entry of an id of this distribution, or of its ready-wrapped variant."""
    return next((known for known in IDS if env_id in (known.id, known.rollback_id)), None)


def _sampled(path: Path) -> str:
    """A digest of the files at a path: their sizes, and 64 blocks of 64 KiB spread over each."""
    digest = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file()):
        size = file.stat().st_size
        digest.update(f"{file.name} {size} ".encode())
        with file.open("rb") as content:
            for number in range(_BLOCKS):
                content.seek(max(0, size - _BLOCK) * number // (_BLOCKS - 1))
                digest.update(content.read(_BLOCK))
                if size <= _BLOCK:
                    break
    return digest.hexdigest()[:16]

"""The options that several commands share, as types for typer. Knows no command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rir_gym.cli import complete

__all__ = [
    "Agent",
    "AgentCalls",
    "Attempts",
    "Compression",
    "Env",
    "EnvArg",
    "EnvArgs",
    "Episodes",
    "Json",
    "Lockstep",
    "MechanismName",
    "MemoryPositionName",
    "Model",
    "Overwrite",
    "Prompts",
    "ReviewTerminal",
    "Reviewer",
    "Rollbacks",
    "Seed",
    "Store",
    "Temperature",
    "ThoughtTokens",
    "Workers",
]

_Option = typer.Option
_one_of = complete.one_of
_ARGUMENT = _Option("--env-arg", help="Argument of the environment, name=JSON; repeatable.", metavar="NAME=JSON")

Agent = Annotated[
    str | None,
    _Option(help="'scripted': an expert that belongs to the environment.", autocompletion=_one_of("scripted")),
]
AgentCalls = Annotated[int | None, _Option(help="B_agent; by default the environment's.")]
Attempts = Annotated[int, _Option(help="Attempts at each task, with other draws of the roles.")]
Compression = Annotated[str, _Option(help="none, or zstd (extra 'data').", autocompletion=_one_of("none", "zstd"))]
Env = Annotated[str, _Option(help="Environment id (rir-gym envs).", autocompletion=complete.env_ids)]
EnvArg = Annotated[list[str] | None, _ARGUMENT]
EnvArgs = Annotated[dict[str, Any], _ARGUMENT]
Episodes = Annotated[int, _Option(help="How many; a larger number goes on where a smaller one ended.")]
Json = Annotated[bool, _Option("--json", help="Print one JSON document instead of tables.")]
Lockstep = Annotated[int, _Option(min=1, help="Episodes a worker plays at once, for servers of models.")]
MechanismName = Annotated[
    str,
    _Option(
        help="react, reflection_only, rollback_only, restart, rir, or another of docs/mechanisms.md.",
        autocompletion=complete.mechanisms,
    ),
]
MemoryPositionName = Annotated[
    str,
    _Option(help="system (the paper) or tail (keeps the KV cache).", autocompletion=_one_of("system", "tail")),
]
Model = Annotated[str | None, _Option(help="Hub name, folder, GGUF file, or URL#NAME of a server; plays every role.")]
Overwrite = Annotated[bool, _Option("--overwrite", help="Replace the records that --out holds.")]
Prompts = Annotated[Path | None, _Option(help="Folder of prompt files that replace the packaged ones.")]
ReviewTerminal = Annotated[bool, _Option(help="Review once when the environment has ended.")]
Reviewer = Annotated[
    str,
    _Option(help="Of the scripted agent: evidence, or exact (an oracle).", autocompletion=_one_of("evidence", "exact")),
]
Rollbacks = Annotated[int, _Option(help="B_rb.")]
Seed = Annotated[int, _Option(help="Seed of the first episode; the others count up.")]
Store = Annotated[Path, _Option(help="Folder for the records; the same command goes on in it.")]
Temperature = Annotated[float, _Option(help="Of the agent; 0 is greedy.")]
ThoughtTokens = Annotated[int, _Option(help="Tokens of thought before each action; 0 is none.")]
Workers = Annotated[int, _Option(min=0, help="Processes; the data do not depend on it. 0: this one.")]

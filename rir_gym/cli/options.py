"""The options that several commands share, as types for typer. Knows no command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Agent",
    "AgentCalls",
    "Env",
    "EnvArg",
    "Episodes",
    "Json",
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
]

_Option = typer.Option

Agent = Annotated[str | None, _Option(help="'scripted': an expert that belongs to the environment.")]
AgentCalls = Annotated[int | None, _Option(help="B_agent; by default the environment's.")]
Env = Annotated[str, _Option(help="Environment id.")]
EnvArg = Annotated[list[str] | None, _Option(help="Argument of the environment, name=JSON; repeatable.")]
Episodes = Annotated[int, _Option(help="How many; a larger number goes on where a smaller one ended.")]
Json = Annotated[bool, _Option("--json", help="Print JSON for machines instead of tables.")]
MechanismName = Annotated[str, _Option(help="react, reflection_only, rollback_only, restart or rir.")]
MemoryPositionName = Annotated[str, _Option(help="system (the paper) or tail (keeps the KV cache).")]
Model = Annotated[str | None, _Option(help="Hub name, folder, GGUF file, or URL#NAME of a server; plays every role.")]
Overwrite = Annotated[bool, _Option("--overwrite", help="Replace the records that --out holds.")]
Prompts = Annotated[Path | None, _Option(help="Folder of prompt files that replace the packaged ones.")]
ReviewTerminal = Annotated[bool, _Option(help="Review once when the environment has ended.")]
Reviewer = Annotated[str, _Option(help="Of the scripted agent: evidence, or exact (an oracle).")]
Rollbacks = Annotated[int, _Option(help="B_rb.")]
Seed = Annotated[int, _Option(help="Seed of the first episode; the others count up.")]
Store = Annotated[Path, _Option(help="Folder for the records; the same command goes on in it.")]
Temperature = Annotated[float, _Option(help="Of the agent; 0 is greedy.")]
ThoughtTokens = Annotated[int, _Option(help="Tokens of thought before each action; 0 is none.")]

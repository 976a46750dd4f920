"""Records to export: Apothecary with many rollbacks, played by scripts or by a model that says what it is told to."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rir_envs import apothecary_policies as apothecary
from rir_gym.cli.request import task_of
from rir_gym.cli.worlds import make
from rir_gym.data.records import episode_record, header_of
from rir_gym.ledger import Budget
from rir_gym.loop import run
from rir_policies.mechanisms import MECHANISMS, model_roles
from rir_policies.model import FunctionModel, Prompt
from rir_policies.scripted import ScriptedPatch

__all__ = ["apothecary_records", "drawing_model", "write_records"]


def drawing_model(seed: int, *, request: float = 0.1) -> FunctionModel:
    """Draws every reply: choices at random, texts readable or not."""
    draw = random.Random(seed)
    texts = ("", "take lamp", "the tea was spoilt by the wrong leaf", "fact: the book lies in the attic\nhm", "42")

    def reply(prompt: Prompt) -> str:
        return draw.choice(texts)

    def choice(prompt: Prompt, options: Sequence[str]) -> int:
        if "rollback" in options and draw.random() < request:
            return list(options).index("rollback")
        return draw.randrange(len(options))

    return FunctionModel(reply, choice)


def apothecary_records(
    seeds: Sequence[int],
    *,
    mechanism: str = "rir",
    model: bool = False,
    position: Any = "system",
    thought_tokens: int = 0,
    agent_calls: int = 40,
) -> list[dict[str, Any]]:
    """One record a seed. The scripted agent trusts the rumour, which is wrong half the time, and slips."""
    records = []
    for seed in seeds:
        pieces: dict[str, Any] = {
            "act": apothecary.Expert(trust=1.0, slip=0.2),
            "reviewer": apothecary.evidence_reviewer,
            "where": apothecary.evidence_localizer,
            "what": ScriptedPatch(),
        }
        if model:
            pieces = dict(model_roles(drawing_model(seed), thought_tokens=thought_tokens))
        built = MECHANISMS[mechanism](**pieces, l_min=2, l_max=2, memory_position=position)
        env = make("rir_gym/Apothecary-v0", {})
        [episode] = run([env], built, budget=Budget(agent_calls, 4), seeds=[seed])
        header = header_of(env, built, agent="model" if model else "scripted", model="drawing" if model else None)
        header |= {"task": task_of("rir_gym/Apothecary-v0", {}, seed), "attempt": 0, "config": f"{int(model):016}"}
        records.append(episode_record(episode, header))
        env.close()
    return records


def write_records(folder: Path, records: Sequence[Mapping[str, Any]]) -> Path:
    """A folder of records."""
    folder.mkdir()
    lines = [json.dumps(record, ensure_ascii=True, allow_nan=False) + "\n" for record in records]
    (folder / "episodes.jsonl").write_text("".join(lines), encoding="ascii")
    return folder

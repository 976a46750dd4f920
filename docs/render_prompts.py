"""Writes docs/prompts.md: every prompt file as it is, and one request in which it was used.

    python docs/render_prompts.py

The requests are those of real episodes on the embedded environment, played by every mechanism with a model that draws
its choices and takes its sentences from a list; so they change where, and only where, a prompt or a role does.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

import gymnasium as gym

import rir_gym as rg
import rir_policies.prompts
from rir_envs.apothecary_policies import Expert
from rir_gym.base import Mechanism, Message
from rir_gym.episode import Episode
from rir_policies.expel import Experience, experience_of, learn_rules
from rir_policies.mechanisms import MECHANISMS, model_roles, react
from rir_policies.model import FunctionModel, Prompt
from rir_policies.prompts import load_prompts

PAGE = Path(__file__).with_name("prompts.md")
HEAD = """# Prompts

Every role asks in the words of a file in `policies/rir_policies/prompts/`. A file has a version and sections; `$name`
is filled in. To use your own words, put files of the same names with the same sections and placeholders into a folder
and give it as `--prompts FOLDER` or `load_prompts(FOLDER)`; what is not in the folder stays ours. Records and results
hold the versions and a digest of all texts.

All roles share the messages before the last one: the system turn (instructions, objective and, with
`memory_position="system"`, the memory), then observations as user turns and actions as assistant turns. The last turn
ends with the role's own instructions. Texts of an environment stand between observation tags and can be no control
token and no tag of ours.

Below is each file, and a request in which it was used, the shortest of those with the most of its sections. The
requests come from episodes on `rir_gym/Apothecary-v0`, played by a model that draws its choices and takes its sentences
from a list. This page is made by `python docs/render_prompts.py`; a test holds it to the files.
"""
_SENTENCES = (
    "The rumour was trusted before the book was read, and that spoilt the potion.",
    "The shelf should be looked at before anything is poured.",
    "fact: the book names another recipe than the rumour",
)
_DEEDS = ("take", "pour", "heat", "offer")
_SEEDS = range(3)
_ORDER = ("system", "status", "act", "review", "coarse", "fine", "patch")


def page() -> str:
    """The page's text."""
    asked = list(_requests())
    parts = [HEAD]
    for name, content in sorted(_files().items(), key=lambda item: (_place(item[0]), item[0])):
        example = _example(name, asked)
        parts.append(f"## {name}.txt\n\n{_block(content.strip())}")
        if example is not None:
            mechanism, messages = example
            parts.append(f"In an episode of `{mechanism}`:\n\n{_block(_shown(messages))}")
    return "\n".join(parts)


def _requests() -> Iterator[tuple[str, tuple[Message, ...]]]:
    """(mechanism, messages) of every request of the episodes, RIR's first."""
    seen: list[tuple[Message, ...]] = []

    def reply(prompt: Prompt) -> str:
        seen.append(prompt.messages)
        return random.Random(prompt.seed).choice(_SENTENCES)

    def choice(prompt: Prompt, options: Sequence[str]) -> int:
        seen.append(prompt.messages)
        deeds = [i for i, option in enumerate(options) if option.split()[0] in _DEEDS]
        return random.Random(prompt.seed).choice(deeds or range(len(options)))

    model = FunctionModel(reply, choice)
    roles = model_roles(model, thought_tokens=32)
    for name, build in sorted(MECHANISMS.items(), key=lambda item: (item[0] != "rir", item[0])):
        more = {"rules": learn_rules(_experiences(), model, load_prompts())} if name == "expel" else {}
        _play(build(**roles, **more), 30)
        yield from ((name, messages) for messages in seen)
        seen.clear()


def _experiences() -> list[Experience]:
    """The expert's, once trusting what it hears and once not."""
    experts = (react(act=Expert(trust=trust, slip=0.0)) for trust in (1.0, 0.0))
    return [experience_of(episode) for expert in experts for episode in _play(expert, 30)]


def _play(mechanism: Mechanism, calls: int) -> list[Episode]:
    envs = [rg.RollbackWrapper(gym.make("rir_gym/Apothecary-v0")) for _ in _SEEDS]
    episodes = rg.run(envs, mechanism, budget=rg.Budget(calls, rollbacks=2), seeds=_SEEDS)
    for env in envs:
        env.close()
    return episodes


def _example(name: str, asked: Sequence[tuple[str, tuple[Message, ...]]]) -> tuple[str, tuple[Message, ...]] | None:
    sections = [text for key, text in load_prompts().texts.items() if key.split(".")[0] == name]
    marks = [max(re.split(r"\$\w+", text), key=len) for text in sections]

    def worth(each: tuple[str, tuple[Message, ...]]) -> tuple[int, bool, int]:
        text = "\n".join(message.content for message in each[1])
        return sum(mark in text for mark in marks), each[0] == "rir", -len(text)

    best = max(asked, key=worth)
    return best if worth(best)[0] else None


def _files() -> dict[str, str]:
    found = [file for file in resources.files(rir_policies.prompts).iterdir() if file.name.endswith(".txt")]
    return {file.name.removesuffix(".txt"): file.read_text(encoding="utf-8") for file in found}


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _shown(messages: Sequence[Message]) -> str:
    return "\n".join(f"[{message.role}]\n{message.content}" for message in messages)


def _block(text: str) -> str:
    return f"````text\n{text}\n````\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

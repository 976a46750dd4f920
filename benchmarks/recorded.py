"""The requests of real episodes: what a model would be asked in every role while a scripted agent plays.

Each scripted role decides, and the model role in its place is asked the same view by a transport that writes down
every request. So the requests are those of episodes with rollbacks, and no model is needed to make them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import rir_gym
from rir_envs import apothecary_policies as apothecary
from rir_gym.cli.worlds import make
from rir_gym.ledger import Budget
from rir_policies.mechanisms import model_roles, rir
from rir_policies.model import FunctionModel, Prompt
from rir_policies.scripted import ScriptedPatch

__all__ = ["Request", "requests"]


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt, and the options to choose from; None where text is generated."""

    prompt: Prompt
    options: tuple[str, ...] | None


@dataclass(slots=True)
class _Writer:
    seen: list[Request] = field(default_factory=list)

    def reply(self, prompt: Prompt) -> str:
        self.seen.append(Request(prompt, None))
        return "the wrong ingredient was poured into the kettle"

    def choice(self, prompt: Prompt, options: Sequence[str]) -> int:
        self.seen.append(Request(prompt, tuple(options)))
        return 0


def requests(*, seeds: Iterable[int], agent_calls: int) -> list[list[Request]]:
    """Per episode its requests in order: tail memory, a review every second step, up to six rollbacks."""
    return [_recorded(seed, agent_calls) for seed in seeds]


def _recorded(seed: int, agent_calls: int) -> list[Request]:
    writer = _Writer()
    asked = model_roles(FunctionModel(writer.reply, writer.choice))

    def shadowed(scripted: Any, model: Any) -> Any:
        def role(*arguments: Any) -> Any:
            model(*arguments)
            return scripted(*arguments)

        return role

    mechanism = rir(
        act=shadowed(apothecary.Expert(trust=1.0, slip=0.3), asked["act"]),
        reviewer=shadowed(apothecary.evidence_reviewer, asked["reviewer"]),
        where=shadowed(apothecary.evidence_localizer, asked["where"]),
        what=shadowed(ScriptedPatch(), asked["what"]),
        l_min=2,
        l_max=2,
        memory_position="tail",
    )
    env = make("rir_gym/Apothecary-v0", {})
    rir_gym.run([env], mechanism, budget=Budget(agent_calls, 6), seeds=[seed])
    env.close()
    return writer.seen

"""The player of a cell: what a worker process makes of a request, and how it plays an episode.

``make_player`` builds the mechanism once and keeps environments where that is known to change nothing. This module
composes; it writes no file and knows no worker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from rir_gym.base import Mechanism, MemoryPosition, View
from rir_gym.cli.request import Request, budget_of, known_id, task_of
from rir_gym.cli.worlds import make, model_mechanism, scripted_mechanism, seeded_arguments
from rir_gym.data.desk import Played
from rir_gym.data.keys import canonical
from rir_gym.data.records import episode_record, header_of, times_of
from rir_gym.episode import Episode
from rir_gym.loop import run
from rir_gym.rollback import RollbackWrapper
from rir_gym.snapshot import process_rng

__all__ = ["CellPlayer", "make_player"]

_MOST = 16  # environments kept: enough for two lockstep groups


def make_player(settings: Mapping[str, Any]) -> CellPlayer:
    """The player of a cell: its mechanism is built here, and a model loaded."""
    given = dict(settings["request"])
    request = Request(**{**given, "prompts": None if given["prompts"] is None else Path(given["prompts"])})
    return CellPlayer(request, settings["config"], *_mechanism(request))


@dataclass(slots=True)
class CellPlayer:
    """Plays recipes {``seed``, ``attempt``} of one request; a ``rir_gym.data.desk.Player``.

    An episode depends on its recipe alone. So an environment is kept only where its id says that it is reusable, and
    only for episodes with the same arguments (the ``_MOST`` last used are). Episodes in lockstep are played again one
    by one where somebody drew from the generators of the process, which they share. Later attempts give the roles
    another seed; the environment's stays, so the task is the same.
    """

    request: Request
    config: str
    mechanism: Mechanism
    origin: dict[str, Any]
    _kept: list[tuple[str, RollbackWrapper]] = field(default_factory=list)

    def __call__(self, recipes: Sequence[Mapping[str, Any]]) -> list[Played]:
        """n recipes to n records, in lockstep within an attempt."""
        played: list[Played] = []
        for attempt, some in groupby(recipes, key=lambda recipe: int(recipe["attempt"])):
            seeds = [int(recipe["seed"]) for recipe in some]
            together, drew = self._seeded(seeds, attempt)
            if drew and len(seeds) > 1:
                together = [one for seed in seeds for one in self._seeded([seed], attempt)[0]]
            played += together
        return played

    def _seeded(self, seeds: list[int], attempt: int) -> tuple[list[Played], bool]:
        """The episodes, and whether anybody drew from the process's own generators, which they share.

        Those generators start in a state that follows from the first seed, and are left as they were found.
        """
        found = process_rng.read()
        start = process_rng.seeded(np.random.SeedSequence([seeds[0], attempt]))
        process_rng.write(start)
        try:
            played = self._play(seeds, attempt)
            return played, not process_rng.same(process_rng.read(), start)
        finally:
            process_rng.write(found)

    def _play(self, seeds: list[int], attempt: int) -> list[Played]:
        envs: list[RollbackWrapper] = []
        try:
            for seed in seeds:
                envs.append(self._take(self._place(seed)) or make(self.request.env, self._arguments(seed)))
            episodes = run(envs, _again(self.mechanism, attempt), budget=budget_of(self.request), seeds=seeds)
            played = [self._played(env, episode, attempt) for env, episode in zip(envs, episodes, strict=True)]
            if self._reuses():
                self._kept += [(self._place(seed), env) for seed, env in zip(seeds, envs, strict=True)]
                envs = []
                while len(self._kept) > _MOST:
                    self._kept.pop(0)[1].close()
            return played
        finally:
            for env in envs:
                env.close()

    def _played(self, env: RollbackWrapper, episode: Episode, attempt: int) -> Played:
        header = header_of(env, self.mechanism, **self.origin)
        header["task"] = task_of(self.request.env, self._arguments(episode.seed), episode.seed)
        header |= {"attempt": attempt, "config": self.config}
        return Played(episode_record(episode, header), times_of(episode))

    def _arguments(self, seed: int) -> dict[str, Any]:
        return seeded_arguments(self.request.env, self.request.env_args, seed)

    def _place(self, seed: int) -> str:
        return canonical([self.request.env, self._arguments(seed)])

    def _take(self, place: str) -> RollbackWrapper | None:
        """The environment that was last played with this id and these arguments, if it is kept."""
        for index in reversed(range(len(self._kept))):
            if self._kept[index][0] == place:
                return self._kept.pop(index)[1]
        return None

    def _reuses(self) -> bool:
        """Whether another episode may have the same instance: tested for its id."""
        known = known_id(self.request.env)
        return known is not None and known.reusable

    def close(self) -> None:
        """Close what was kept."""
        while self._kept:
            self._kept.pop()[1].close()


def _mechanism(request: Request) -> tuple[Mechanism, dict[str, Any]]:
    """The mechanism, and what the records say of who played it."""
    position: MemoryPosition = "tail" if request.memory_position == "tail" else "system"
    known = known_id(request.env)
    extras = [known.extra] if known is not None and known.extra else []
    if request.model is None:
        mechanism = scripted_mechanism(
            request.env,
            request.mechanism,
            reviewer=request.reviewer,
            review_terminal=request.review_terminal,
            memory_position=position,
        )
        return mechanism, {"agent": "scripted", "packages": extras}
    mechanism, origin = model_mechanism(
        request.mechanism,
        model=request.model,
        prompts=request.prompts,
        thought_tokens=request.thought_tokens,
        temperature=request.temperature,
        review_terminal=request.review_terminal,
        memory_position=position,
    )
    loaded = [] if request.model.startswith(("http://", "https://")) else ["transformers", "torch"]
    return mechanism, {**origin, "packages": [*loaded, *extras]}


def _again(mechanism: Mechanism, attempt: int) -> Mechanism:
    """The mechanism with the seeds of a later attempt."""
    if attempt == 0:
        return mechanism

    def salted(role: Callable[..., Any]) -> Callable[..., Any]:
        return lambda views, *answers: role([_salted(view, attempt) for view in views], *answers)

    return replace(
        mechanism,
        act=salted(mechanism.act),
        when=salted(mechanism.when),
        where=salted(mechanism.where),
        what=salted(mechanism.what),
    )


def _salted(view: View, attempt: int) -> View:
    digest = hashlib.sha256(f"{view.seed} {attempt}".encode()).digest()
    return replace(view, seed=int.from_bytes(digest[:8], "big") >> 1)

"""The cells of a suite brought to life: mechanisms from names and instruments, and players.

A player plays all cells of one world, so that environments that may be used again are. This module composes; it writes
no file.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from rir_gym.base import Mechanism
from rir_gym.bench.plan import BenchCell
from rir_gym.bench.suite import Reviewer, World
from rir_gym.cli.cell import CellPlayer
from rir_gym.cli.request import Request, known_id, task_of
from rir_gym.cli.worlds import make, seeded_arguments
from rir_gym.data.desk import Cell, Job, Played
from rir_gym.data.keys import Key, canonical
from rir_gym.errors import UnknownName, UsageError

__all__ = ["build", "check", "job_of", "make_player", "policies_of"]


def job_of(
    digest: str, cell: BenchCell, seed: int, *, model: str | None, rules: Mapping[str, Any] | None = None
) -> Job:
    """The episode of one cell and seed. ``rules`` are those of ExpeL, as JSON."""
    arguments = seeded_arguments(cell.world.env, cell.world.arguments, seed)
    task = canonical(task_of(cell.world.env, arguments, seed))
    world = {"env": cell.world.env, "arguments": dict(cell.world.arguments), "model": model, "rules": rules}
    recipe = {"seed": seed, "digest": digest, "cell": cell}
    return Job(Key(digest, task, seed), Cell("rir_gym.cli.bench_cell:make_player", world), recipe)


def make_player(settings: Mapping[str, Any]) -> BenchPlayer:
    """The player of a world; a model is loaded when a cell first needs it."""
    return BenchPlayer(settings["model"], settings["rules"])


@dataclass(slots=True)
class BenchPlayer:
    """Plays recipes {``seed``, ``digest``, ``cell``}; a ``rir_gym.data.desk.Player``."""

    model: str | None
    rules: Mapping[str, Any] | None = None
    _built: dict[str, tuple[Mechanism, dict[str, Any]]] = field(default_factory=dict)
    _player: CellPlayer | None = None

    def __call__(self, recipes: Sequence[Mapping[str, Any]]) -> list[Played]:
        """n recipes to n records; those of one cell that follow each other are played in lockstep."""
        played: list[Played] = []
        for digest, some in groupby(recipes, key=lambda recipe: str(recipe["digest"])):
            together = list(some)
            cell: BenchCell = together[0]["cell"]
            if digest not in self._built:
                self._built[digest] = build(cell, model=self.model, rules=self.rules)
            mechanism, origin = self._built[digest]
            request = _request(cell)
            if self._player is None:
                self._player = CellPlayer(request, digest, mechanism, origin)
            player = self._player
            player.request, player.config, player.mechanism, player.origin = request, digest, mechanism, origin
            played += player([{"seed": recipe["seed"], "attempt": 0} for recipe in together])
        return played

    def close(self) -> None:
        """Close the environments that were kept."""
        if self._player is not None:
            self._player.close()


def build(
    cell: BenchCell, *, model: str | None, rules: Mapping[str, Any] | None = None
) -> tuple[Mechanism, dict[str, Any]]:
    """The mechanism of a cell, and what its records say of who played.

    Raises:
        UnknownName: no such mechanism.
        UsageError: no expert for the environment, or a model is needed and none was given.
        ModelError, MissingDependency: the model cannot be loaded.
    """
    from rir_policies.instruments import instruments
    from rir_policies.mechanisms import MECHANISMS
    from rir_policies.scripted import ScriptedPatch

    if cell.mechanism not in MECHANISMS:
        raise UnknownName("mechanism", cell.mechanism, MECHANISMS)
    crew, policies, known = cell.reviewer, policies_of(cell), known_id(cell.world.env)
    reviewer, localizer = instruments(
        learn=policies.observed_facts,
        recall=crew.recall,
        false_alarm=crew.false_alarm,
        delay=crew.delay,
        exactness=crew.exactness,
    )
    extras = [known.extra] if known is not None and known.extra else []
    origin: dict[str, Any] = {"agent": _said(cell), "packages": extras}
    roles: dict[str, Any] = {}
    if crew.needs_model:
        roles, said = _model_roles(crew, model)
        local = [] if str(model).startswith(("http://", "https://")) else ["transformers", "torch"]
        origin |= {**said, "packages": [*local, *extras]}
    pieces: dict[str, Any] = {
        "act": roles["act"] if crew.act == "model" else policies.Expert(trust=cell.trust, slip=cell.slip),
        "reviewer": {"oracle": reviewer, "evidence": policies.evidence_reviewer}.get(crew.review) or roles["reviewer"],
        "where": {"oracle": localizer, "evidence": policies.evidence_localizer}.get(crew.where) or roles["where"],
        "what": ScriptedPatch() if crew.what == "scripted" else roles["what"],
    }
    if rules is not None and crew.act == "model":
        from rir_policies.expel import RuleBook

        pieces["rules"] = RuleBook.from_json(rules)
    mechanism = MECHANISMS[cell.mechanism](
        **pieces,
        l_min=cell.l_min,
        l_max=cell.l_max,
        uses_oracle=crew.reads_oracle,
        review_terminal=cell.review_terminal,
        memory_position=cell.memory_position,
    )
    return mechanism, origin


def check(cells: Sequence[BenchCell], *, model: str | None, seed: int) -> None:
    """Whether every cell can be played: names, experts, oracles. Loads no model; makes each world once, with ``seed``.

    Raises:
        UnknownName, UsageError, MissingDependency: what cannot.
    """
    from rir_policies.mechanisms import MECHANISMS

    worlds: dict[str, tuple[bool, bool]] = {}
    for cell in cells:
        if cell.mechanism not in MECHANISMS:
            raise UnknownName("mechanism", cell.mechanism, MECHANISMS)
        if cell.reviewer.needs_model and model is None:
            raise UsageError(f"model=None: reviewer {cell.reviewer.name!r} has roles of a model; give --model")
        name = cell.world.name
        if name not in worlds:
            worlds[name] = _knows(cell.world, seed)
        distances, flags = worlds[name]
        if cell.reviewer.reads_oracle and not distances:
            raise UsageError(
                f"reviewer={cell.reviewer.name!r}, env={cell.world.env!r}: reads an oracle, and there is none"
            )
        if cell.reviewer.needs_model:
            policies_of(cell)
            continue
        mechanism, _ = build(cell, model=None)
        if mechanism.uses_oracle and not (distances or flags):
            raise UsageError(
                f"mechanism={cell.mechanism!r}, env={cell.world.env!r}: uses_oracle, and there is no oracle"
            )


def policies_of(cell: BenchCell) -> Any:
    """The module beside the environment with ``Expert``, the evidence-only roles and ``observed_facts``.

    Raises:
        UsageError: there is none.
    """
    known = known_id(cell.world.env)
    if known is None or not known.policies:
        raise UsageError(f"env={cell.world.env!r}: has no expert; a suite needs one (rir-gym envs lists them)")
    return importlib.import_module(known.policies)


# --- what the above share ---------------------------------------------------------------------------------------------


def _request(cell: BenchCell) -> Request:
    return Request(
        cell.world.env,
        cell.mechanism,
        agent="scripted",
        env_args=dict(cell.world.arguments),
        agent_calls=cell.agent_calls,
        rollbacks=cell.rollbacks,
        review_terminal=cell.review_terminal,
        memory_position=cell.memory_position,
    )


def _said(cell: BenchCell) -> dict[str, Any]:
    """Who played, for the header of a record."""
    crew = cell.reviewer
    said: dict[str, Any] = {"act": crew.act, "review": crew.review, "where": crew.where, "what": crew.what}
    if crew.act == "expert":
        said |= {"trust": cell.trust, "slip": cell.slip}
    if crew.reads_oracle:
        said |= {name: getattr(crew, name) for name in ("recall", "false_alarm", "delay", "exactness")}
    return said


def _model_roles(crew: Reviewer, model: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    if model is None:
        raise UsageError(f"model=None: reviewer {crew.name!r} has roles of a model; give --model")
    from rir_policies.mechanisms import model_roles
    from rir_policies.opening import open_model
    from rir_policies.prompts import load_prompts

    texts, loaded = load_prompts(None), _loaded.get(model) or open_model(model)
    _loaded[model] = loaded
    said = {"model": loaded.name, "prompts": f"{texts.version} sha256:{texts.digest}"}
    return dict(model_roles(loaded, prompts=texts)), said


_loaded: dict[str, Any] = {}


def _knows(world: World, seed: int) -> tuple[bool, bool]:
    """(whether the world has an oracle that knows distances, whether it says success and failure)."""
    env = make(world.env, seeded_arguments(world.env, world.arguments, seed))
    try:
        env.reset(seed=seed)
        oracle = env.get_wrapper_attr("oracle") if env.has_wrapper_attr("oracle") else None
        return oracle is not None and oracle.distance() is not None, env.node.step.oracle is not None
    finally:
        env.close()

"""What an episode and its record have in common: the tree of actions and observations, and a replay that checks it.

A record on disk has no environment any more; its actions, done again in another instance, lead to every node of it,
if that instance is the same world. Each observation is compared with the recorded one, so that nothing is said about
another world. This module knows no environment, no oracle and no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym

from rir_gym.base import Decision
from rir_gym.episode import Episode
from rir_gym.errors import RecordError, ReplayMismatch
from rir_gym.jsonable import Opaque, decode, encode
from rir_gym.rollback import RollbackWrapper

__all__ = ["Place", "Source", "Trace", "replay", "trace_of"]

Source = Episode | Mapping[str, Any]
"""An episode of ``run``, or a record of one (schema 1)."""

Ended = Literal["", "terminated", "truncated"]


@dataclass(frozen=True, slots=True)
class Place:
    """One node of the tree.

    Args:
        parent: node id; None at the root.
        t: actions on the way from the root.
        action: as it was taken; None at the root.
        observation: in JSON terms (``rir_gym.jsonable.encode``).
        ended: how the environment ended here, "" where it did not.
        won: the environment's own success flag; None where it has none.
        committed: an effect outside that bars every earlier restore point.
        calls_left: B_agent − N_agent when the node was reached.
    """

    parent: int | None
    t: int
    action: Any
    observation: Any
    ended: Ended
    won: bool | None
    committed: bool
    calls_left: int


@dataclass(frozen=True, slots=True)
class Trace:
    """The reset seed, the places by node id, and the node where the run stopped."""

    seed: int
    places: tuple[Place, ...]
    last: int

    def branch(self, at: int) -> tuple[int, ...]:
        """Node ids from the root to ``at``."""
        ids: list[int] = []
        node: int | None = at
        while node is not None:
            ids.append(node)
            node = self.places[node].parent
        return tuple(reversed(ids))


def trace_of(source: Source) -> Trace:
    """The trace of an episode or of its record.

    Raises:
        RecordError: a field is missing, or the events are not those that made the nodes.
    """
    if isinstance(source, Episode):
        return _of_episode(source)
    try:
        return _of_record(source)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise RecordError(f"not an episode record of schema 1 ({type(error).__name__}: {error})") from error


def replay(env: gym.Env[Any, Any], trace: Trace) -> Iterator[int]:
    """Do every branch again in ``env``; each node id once, while ``env`` stands there.

    Args:
        env: an instance of the same world, in a RollbackWrapper or not; it is reset and stepped.

    Raises:
        ReplayMismatch: the first node whose observation or end is not the recorded one, or whose action cannot be
            done. What an environment draws from the global generators is not repeated by a reset.
    """
    parents = {place.parent for place in trace.places}
    seen: set[int] = set()
    for leaf in [at for at in range(len(trace.places)) if at not in parents]:
        for at in trace.branch(leaf):
            place = trace.places[at]
            try:
                observation, ended = _reached(env, place, trace.seed)
            except Exception as error:  # foreign code
                raise ReplayMismatch(f"{_where(env, trace, at)}: {type(error).__name__}: {error}") from error
            for what, recorded, now in (
                ("observation", place.observation, encode(observation)),
                ("end", place.ended, ended),
            ):
                if recorded != now:
                    told = f"the {what} was {decode(recorded)!r:.300}, replayed it is {decode(now)!r:.300}"
                    raise ReplayMismatch(f"{_where(env, trace, at)}: {told}")
            if at not in seen:
                seen.add(at)
                yield at


def _reached(env: gym.Env[Any, Any], place: Place, seed: int) -> tuple[Any, Ended]:
    if place.parent is None:
        return env.reset(seed=seed)[0], ""
    if isinstance(place.action, Opaque):
        raise RecordError(f"action={place.action.text!r}: only its text was kept")
    inner = isinstance(env, RollbackWrapper) and isinstance(env.action_space, gym.spaces.OneOf)
    observation, _, terminated, truncated, _ = env.step((0, place.action) if inner else place.action)
    return observation, _ended(bool(terminated), bool(truncated))


def _where(env: gym.Env[Any, Any], trace: Trace, at: int) -> str:
    place = trace.places[at]
    return f"{env}, seed={trace.seed}, node {at} (step {place.t}, action {place.action!r})"


def _ended(terminated: bool, truncated: bool) -> Ended:
    return "terminated" if terminated else "truncated" if truncated else ""


def _of_episode(episode: Episode) -> Trace:
    acts = [
        (event.node, event.outcome, event.value.agent_calls)
        for event in episode.events
        if isinstance(event.value, Decision)
    ]
    parents = [node.parent.id if node.parent is not None else None for node in episode.nodes]
    calls_left = _calls_left(acts, parents, episode.budget.agent_calls, episode.final_response)
    places = [
        Place(
            parent=parent,
            t=node.t,
            action=node.step.action,
            observation=encode(node.step.observation),
            ended=_ended(node.step.terminated, node.step.truncated),
            won=_won(node.step.oracle),
            committed=bool(node.step.info.get("committed")),
            calls_left=left,
        )
        for node, parent, left in zip(episode.nodes, parents, calls_left, strict=True)
    ]
    return Trace(episode.seed, tuple(places), episode.last.id)


def _of_record(record: Mapping[str, Any]) -> Trace:
    nodes, result, header = record["nodes"], record["result"], record["header"]
    acts = [
        (event["node"], event["outcome"], event.get("agent_calls", 1))
        for event in record["events"]
        if event["kind"] == "act"
    ]
    parents = [node["parent"] for node in nodes]
    calls_left = _calls_left(acts, parents, header["budget"]["agent_calls"], result["final_response"])
    places = [
        Place(
            parent=node["parent"],
            t=node["step"],
            action=decode(node["action"]),
            observation=node["observation"],
            ended=_ended(node["terminated"], node["truncated"]),
            won=_won(node["oracle"]),
            committed=bool(node["info"].get("committed")),
            calls_left=left,
        )
        for node, left in zip(nodes, calls_left, strict=True)
    ]
    return Trace(header["seed"], tuple(places), result["last"])


def _won(oracle: Mapping[str, Any] | None) -> bool | None:
    return bool(oracle["success"]) if oracle is not None and "success" in oracle else None


def _calls_left(
    acts: Sequence[tuple[int, str, int]], parents: Sequence[int | None], budget: int, final_response: object
) -> list[int]:
    """b(v) by node id: every agent call counts, also one that made no step; an unstepped final response made none."""
    stepping = ("executed", "submitted") if final_response is None else ("executed",)
    left, sources = [budget], list[int | None]([None])
    spent = 0
    for node, outcome, calls in acts:
        spent += calls
        if outcome in stepping:
            left.append(budget - spent)
            sources.append(node)
    if sources != list(parents):
        raise RecordError(f"events: {len(sources) - 1} steps of the agent do not make the {len(parents) - 1} nodes")
    return left

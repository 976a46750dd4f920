"""One episode as one JSON object: schema 1. Strict JSON; values of the environment as in ``rir_gym.jsonable``.

- ``schema``: 1.
- ``header``: ``env`` {``id``, ``kwargs``, ``max_episode_steps``, ``wrappers``: [{``name``, ``kwargs``}] outside it,
  the rollback wrapper's settings among them}; ``seed``; ``mechanism`` {``name``, ``restriction``, ``nodes``,
  ``uses_oracle``, ``review_terminal``, ``memory_position``, ``settings``}; ``agent`` and ``prompts`` as the caller
  names them; ``model`` (null without one); ``budget`` {``agent_calls``, ``rollbacks``}; ``snapshot`` (the mechanism
  that was chosen); ``versions`` by package. What is collected also has ``task`` {``env``, ``arguments``, ``seed``: null
  where an argument chooses the task}, ``attempt`` and ``config`` (a digest); see ``rir_gym.data.keys``.
- ``objective``: g.
- ``nodes``: the tree, ``nodes[i].id == i`` in the order of real steps: ``id``, ``parent`` (null at the root), ``step``
  (index on its branch), ``action`` (null at the root), ``observation``, ``reward``, ``terminated``, ``truncated``,
  ``info`` (without oracle), ``oracle`` (null where there is none), ``summary`` (σ), ``surviving``.
- ``events``: what the roles said, in order: ``node`` and ``step`` where it happened, ``kind``, ``outcome``, ``calls``,
  and by kind
    - ``act``: ``decision`` ("action", "request", "final", "unparsed"), ``action``, ``thought``, ``target``,
      ``agent_calls`` (1 where it is missing); outcome "executed", "dropped", "submitted", "declined" or "unparsed".
    - ``review``: ``verdict`` ("continue", "rollback", "unparsed"), ``urgency``, ``diagnosis``, ``learned`` (facts);
      outcome "continue", "rollback", "correction", "refused", "abandoned" or "unparsed".
    - ``where``: ``point`` {``node``, ``step``} or null, ``interval`` [l, u] or null, ``interval_unread``,
      ``justification``, ``confidence``, ``stages``.
    - ``patch``: ``memory`` after it, ``invoked``, ``unread``.
  A call: ``role``, ``messages`` [{``role``, ``content``}], ``text``, ``kind`` ("first", "sub", "reask"), ``options``,
  ``scores``, ``prompt_tokens``, ``reused_tokens``, ``generated_tokens``, ``cut_tokens``.
- ``ledger``: all counts and ``auxiliary``. ``memory``: M at the end.
- ``result``: ``success``, ``score``, ``stopped``, ``final_response``, ``last`` (node id), ``steps`` and ``return`` of
  the surviving branch.

There are no clocks: ``times_of`` goes into a file beside. This module knows no environment, model or mechanism.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from importlib import metadata
from typing import Any

from rir_gym.base import Call, Decision, Mechanism, Node, Restore, Verdict
from rir_gym.data.check import SCHEMA, check_record
from rir_gym.data.files import new_folder, read_episodes, write_episodes
from rir_gym.episode import Episode, Event
from rir_gym.errors import UsageError
from rir_gym.jsonable import decode, encode
from rir_gym.rollback import RollbackWrapper

__all__ = [
    "SCHEMA",
    "check_record",
    "decode",
    "encode",
    "episode_record",
    "header_of",
    "new_folder",
    "read_episodes",
    "times_of",
    "versions",
    "write_episodes",
]

_ROLES = ("act", "review", "coarse", "fine", "patch")


def header_of(
    env: RollbackWrapper,
    mechanism: Mechanism,
    *,
    agent: Any,
    model: str | None = None,
    prompts: str | None = None,
    packages: Iterable[str] | None = None,
) -> dict[str, Any]:
    """What the episodes of one environment and mechanism have in common; ``episode_record`` adds seed and budget.

    Args:
        env: the wrapped environment. Without a spec (not made by ``gym.make``) its class stands for its id.
        agent: a name, or plain JSON values, of whoever acts.
        model: name or path of the model; None without one.
        prompts: version or hash of the prompt texts; None without any.
        packages: optional packages whose versions matter; None is those that this process has loaded.
    """
    spec = env.spec
    own = {"name": type(env).__name__, "kwargs": env._saved_kwargs}
    kind = type(env.unwrapped)
    return _plain(
        {
            "env": {
                "id": spec.id if spec is not None else f"{kind.__module__}:{kind.__qualname__}",
                "kwargs": spec.kwargs if spec is not None else {},
                "max_episode_steps": spec.max_episode_steps if spec is not None else None,
                "wrappers": [{"name": layer.name, "kwargs": layer.kwargs or {}} for layer in spec.additional_wrappers]
                if spec is not None
                else [own],
            },
            "mechanism": {
                "name": mechanism.name,
                "restriction": str(mechanism.restriction),
                "nodes": mechanism.nodes,
                "uses_oracle": mechanism.uses_oracle,
                "review_terminal": mechanism.review_terminal,
                "memory_position": mechanism.memory_position,
                "settings": mechanism.settings,
            },
            "agent": agent,
            "model": model,
            "prompts": prompts,
            "snapshot": env.snapshot_report.chosen,
            "versions": versions(packages),
        }
    )


def versions(packages: Iterable[str] | None = None) -> dict[str, str]:
    """Versions of Python and of the packages that matter here.

    Args:
        packages: optional ones to name where they are installed; None is those that this process has loaded.
    """
    if packages is None:
        named: list[str] = [name for name in ("transformers", "torch", "textworld") if name in sys.modules]
    else:
        named = [name for name in packages if _version(name) != "unknown"]
    always = {"rir_gym": "rir-gym", "gymnasium": "gymnasium", "numpy": "numpy"}
    return {
        "python": platform.python_version(),
        **{name: _version(project) for name, project in always.items()},
        **{name: _version(name) for name in named},
    }


def episode_record(episode: Episode, header: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a finished episode, in plain JSON values only. The same episode gives the same record.

    Args:
        header: what ``header_of`` gave (it is not encoded again).

    Raises:
        UsageError: the header is another mechanism's.
    """
    if (name := header["mechanism"]["name"]) != episode.mechanism:
        raise UsageError(f"header.mechanism.name={name!r}: the episode was run by {episode.mechanism!r}")
    surviving = {node.id for node in episode.last.branch()}
    record = {
        "objective": episode.objective,
        "nodes": [{**_node(node), "surviving": node.id in surviving} for node in episode.nodes],
        "events": [_event(event) for event in episode.events],
        "ledger": episode.ledger.to_json(),
        "memory": episode.memory.to_json(),
        "result": {
            "success": episode.success,
            "score": episode.score,
            "stopped": episode.stopped,
            "final_response": episode.final_response,
            "last": episode.last.id,
            "steps": episode.last.t,
            "return": episode.last.ret,
        },
    }
    whole = {**header, "seed": episode.seed, "budget": asdict(episode.budget)}
    return {"schema": SCHEMA, "header": whole, **_plain(record)}


def times_of(episode: Episode) -> dict[str, float]:
    """Seconds that the model calls of each role took, for the file of times."""
    seconds = dict.fromkeys(_ROLES, 0.0)
    for event in episode.events:
        for call in event.value.calls:
            seconds[call.role] += call.seconds
    return seconds


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    encoded: dict[str, Any] = encode(value)
    return encoded


@cache
def _version(project: str) -> str:
    try:
        return metadata.version(project)
    except metadata.PackageNotFoundError:
        return "unknown"


def _node(node: Node) -> dict[str, Any]:
    step = node.step
    return {
        "id": node.id,
        "parent": node.parent.id if node.parent is not None else None,
        "step": node.t,
        "action": step.action,
        "observation": step.observation,
        "reward": step.reward,
        "terminated": step.terminated,
        "truncated": step.truncated,
        "info": step.info,
        "oracle": step.oracle,
        "summary": node.summary,
    }


def _event(event: Event) -> dict[str, Any]:
    value = event.value
    said: dict[str, Any]
    if isinstance(value, Decision):
        kind = "act"
        said = {
            "decision": value.kind.value,
            "action": value.action,
            "thought": value.thought,
            "target": value.target,
            "agent_calls": value.agent_calls,
        }
    elif isinstance(value, Verdict):
        kind = "review"
        said = {
            "verdict": value.kind.value,
            "urgency": value.urgency,
            "diagnosis": value.diagnosis,
            "learned": [asdict(fact) for fact in value.learned],
        }
    elif isinstance(value, Restore):
        kind = "where"
        said = {
            "point": {"node": value.point.node, "step": value.point.t} if value.point is not None else None,
            "interval": value.interval,
            "interval_unread": value.interval_unread,
            "justification": value.justification,
            "confidence": value.confidence,
            "stages": value.stages,
        }
    else:
        kind = "patch"
        said = {"memory": value.memory.to_json(), "invoked": value.invoked, "unread": value.unread}
    calls = [_call(call) for call in value.calls]
    return {"node": event.node, "step": event.t, "kind": kind, "outcome": event.outcome, **said, "calls": calls}


def _call(call: Call) -> dict[str, Any]:
    """All that a call says but its clock."""
    said = asdict(call)
    del said["seconds"]
    return said

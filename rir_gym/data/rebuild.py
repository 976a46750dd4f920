"""A world rebuilt from a recorded episode: a fresh instance, the recorded reset, and the actions that lead to a node.

Every observation, reward and flag is compared with the record; nothing that the file holds is unpickled or evaluated.
From then on the wrapper is one like any other: its steps, restore points and history go on from the node. This module
knows records and wrappers, no environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym

from rir_gym.base import Node
from rir_gym.errors import RecordError, ReplayMismatch, SnapshotError, UsageError
from rir_gym.jsonable import Opaque, decode, encode
from rir_gym.rollback import RollbackWrapper

__all__ = ["from_record"]

_Make = Callable[[], gym.Env[Any, Any]]


def from_record(
    record: Mapping[str, Any], node: int | None = None, *, make: _Make | None = None, **settings: Any
) -> RollbackWrapper:
    """The world at a node of a recorded episode, in whichever process.

    Args:
        record: one record, as ``read_episodes`` gives it.
        node: the id of the node; None is the one where the episode stopped.
        make: makes the environment without its ``RollbackWrapper``; None is ``gym.make`` with the recorded id and
            arguments (the id's module has to be imported).
        settings: of the wrapper; what is not given is as recorded.

    Raises:
        UsageError: no such node, or the record's id is none that Gymnasium knows and there is no ``make``.
        RecordError: the record holds an action only as text (``$repr``), or lacks what is needed.
        SnapshotError: a step on the way had an effect outside, which doing it again would repeat; or the episode was
            recorded with ``rng="resample"`` and the node lies behind a rollback, whose new future is in no record.
        ReplayMismatch: step, expected and seen of the first difference.
    """
    try:
        header, nodes = record["header"], record["nodes"]
        wanted = record["result"]["last"] if node is None else node
        recorded = [dict(each["kwargs"]) for each in header["env"]["wrappers"] if each["name"] == "RollbackWrapper"]
        seed = header["seed"]
    except (KeyError, TypeError) as error:
        raise RecordError(f"record: no header, nodes or result as in schema 1 ({error!r})") from error
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 0 <= wanted < len(nodes):
        raise UsageError(f"node={wanted!r}: the ids of this record are 0 to {len(nodes) - 1}")
    path = _path(nodes, wanted)
    chosen = {**decode(recorded[-1] if recorded else {}), **settings}
    _check(path, nodes, chosen)
    env = RollbackWrapper(_made(header["env"]), **chosen) if make is None else _wrapped(make, chosen)
    try:
        env.reset(seed=seed)
        _compare(path[0], env.node)
        for step in path[1:]:
            env.step(_encoded(env, decode(step["action"])))
            _compare(step, env.node)
    except BaseException:
        env.close()
        raise
    return env


def _path(nodes: Any, wanted: int) -> list[Any]:
    path = [nodes[wanted]]
    while (parent := path[-1]["parent"]) is not None:
        if not 0 <= parent < path[-1]["id"]:
            raise RecordError(f"nodes[{path[-1]['id']}].parent={parent!r}: an earlier node")
        path.append(nodes[parent])
    return path[::-1]


def _check(path: list[Any], nodes: Any, settings: Mapping[str, Any]) -> None:
    """Before anything is made: whether these steps can be done again at all."""
    for step in path[1:]:
        if step["info"].get("committed"):
            raise SnapshotError(f"record: step {step['step']} had an effect outside, which doing it again would repeat")
        if step["info"].get("timeout"):
            raise SnapshotError(f"record: step {step['step']} did not return when it was recorded")
        if _opaque(decode(step["action"])):
            raise RecordError(f"nodes[{step['id']}].action={step['action']!r}: kept as text only")
    if settings.get("rng") == "resample" and [each["id"] for each in path] != list(range(path[-1]["id"] + 1)):
        raise SnapshotError("record: rng='resample': the new futures after its rollbacks are in no record")


def _made(told: Mapping[str, Any]) -> gym.Env[Any, Any]:
    if told["id"] not in gym.registry:
        raise UsageError(f"env={told['id']!r}: Gymnasium does not know it; import its module, or give make=")
    inside = [each["name"] for each in told["wrappers"] if each["name"] != "RollbackWrapper"]
    if inside:
        raise UsageError(f"env={told['id']!r}: it was wrapped in {inside[0]}; give make=")
    made = gym.make(told["id"], max_episode_steps=told["max_episode_steps"], **decode(told["kwargs"]))
    while isinstance(made, RollbackWrapper):  # a ready-wrapped id
        made = made.env
    return made


def _wrapped(make: _Make, settings: Mapping[str, Any]) -> RollbackWrapper:
    return RollbackWrapper.from_factory(make, **settings)


def _encoded(env: RollbackWrapper, action: Any) -> Any:
    return (0, action) if isinstance(env.action_space, gym.spaces.OneOf) else action


def _compare(told: Mapping[str, Any], node: Node) -> None:
    """In the terms of the record, where a tuple and a list are one."""
    step = node.step
    for what in ("observation", "reward", "terminated", "truncated"):
        if (seen := encode(getattr(step, what))) != told[what]:
            expected = repr(told[what])[:120]
            raise ReplayMismatch(f"record: step={told['step']}: {what} was {expected} and is now {repr(seen)[:120]}")


def _opaque(value: Any) -> bool:
    if isinstance(value, Opaque):
        return True
    if isinstance(value, Mapping):
        return any(map(_opaque, value.values()))
    return isinstance(value, list | tuple) and any(map(_opaque, value))

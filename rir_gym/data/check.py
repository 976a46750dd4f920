"""Whether a parsed line is an episode record of schema 1: fields, types, and the laws of its tree.

Further fields are allowed, so that a later version may add some. This module knows no files and makes no records.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rir_gym.errors import RecordError

__all__ = ["SCHEMA", "check_record"]

SCHEMA = 1

_Fields = Mapping[str, tuple[type, ...]]
_NONE = type(None)
_ANY = (object,)
_RECORD: _Fields = MappingProxyType(
    {
        "header": (dict,),
        "objective": (str, dict),
        "nodes": (list,),
        "events": (list,),
        "ledger": (dict,),
        "memory": (dict,),
        "result": (dict,),
    }
)
_HEADER: _Fields = MappingProxyType(
    {
        "env": (dict,),
        "seed": (int,),
        "mechanism": (dict,),
        "agent": _ANY,
        "model": _ANY,
        "prompts": _ANY,
        "budget": (dict,),
        "snapshot": (str,),
        "versions": (dict,),
    }
)
_HEADER_MAY: _Fields = MappingProxyType({"task": (dict,), "attempt": (int,), "config": (str,)})
_NODE: _Fields = MappingProxyType(
    {
        "id": (int,),
        "parent": (int, _NONE),
        "step": (int,),
        "action": _ANY,
        "observation": _ANY,
        "reward": (int, float, dict),
        "terminated": (bool,),
        "truncated": (bool,),
        "info": (dict,),
        "oracle": (dict, _NONE),
        "summary": (str, dict),
        "surviving": (bool,),
    }
)
_EVENT: _Fields = MappingProxyType(
    {"node": (int,), "step": (int,), "kind": (str,), "outcome": (str,), "calls": (list,)}
)
_BY_KIND: Mapping[str, _Fields] = MappingProxyType(
    {
        "act": {"decision": (str,), "action": _ANY, "thought": (str, dict), "target": (int, _NONE)},
        "review": {"verdict": (str,), "urgency": (int, float, dict), "diagnosis": (str, dict), "learned": (list,)},
        "where": {"point": (dict, _NONE), "stages": (list,)},
        "patch": {"memory": (dict,), "invoked": (bool,), "unread": (bool,)},
    }
)
_CALL: _Fields = MappingProxyType({"role": (str,), "kind": (str,), "messages": (list,), "text": (str, dict)})
_RESULT: _Fields = MappingProxyType(
    {
        "success": (bool,),
        "score": (int, float, dict),
        "stopped": (str,),
        "final_response": _ANY,
        "last": (int,),
        "steps": (int,),
        "return": (int, float, dict),
    }
)
_ENV: _Fields = MappingProxyType({"id": (str,), "kwargs": (dict,)})
_MECHANISM: _Fields = MappingProxyType({"name": (str,), "settings": (dict,), "uses_oracle": (bool,)})
_BUDGET: _Fields = MappingProxyType({"agent_calls": (int,), "rollbacks": (int,)})
_COUNTED = ("agent_calls", "steps", "reviews", "rollbacks", "corrections", "auxiliary")
_LEDGER: _Fields = MappingProxyType(
    dict.fromkeys((*_COUNTED, "prompt_tokens", "reused_tokens", "generated_tokens"), (int,))
)


def check_record(value: Any) -> dict[str, Any]:
    """The value, if it is a record of schema 1.

    Raises:
        RecordError: it is no object, of another schema, lacks a field, has one of another type, or is no tree.
    """
    if not isinstance(value, dict):
        raise RecordError(f"a {type(value).__name__}: an episode record is an object")
    schema = value.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        newer = isinstance(schema, int) and not isinstance(schema, bool) and schema > SCHEMA
        hint = "; a newer rir-gym wrote this record: upgrade to read it" if newer else ""
        raise RecordError(f"schema={schema!r}: this version reads schema {SCHEMA}{hint}")
    _has(value, _RECORD, "record")
    _has(value["header"], _HEADER, "header")
    _has(value["header"], {name: kinds for name, kinds in _HEADER_MAY.items() if name in value["header"]}, "header")
    _has(value["header"]["env"], _ENV, "header.env")
    _has(value["header"]["mechanism"], _MECHANISM, "header.mechanism")
    _has(value["header"]["budget"], _BUDGET, "header.budget")
    _has(value["ledger"], _LEDGER, "ledger")
    _has(value["result"], _RESULT, "result")
    _check_tree(value["nodes"], value["result"]["last"])
    for number, event in enumerate(value["events"]):
        _check_event(event, f"events[{number}]", value["nodes"])
    return value


def _check_tree(nodes: list[Any], last: int) -> None:
    """Ids count up from 0, a parent comes before its child, steps count from the root, one branch survives."""
    for number, node in enumerate(nodes):
        name = f"nodes[{number}]"
        _has(node, _NODE, name)
        parent = node["parent"]
        if node["id"] != number or (parent is None) != (number == 0) or (parent or 0) not in range(max(number, 1)):
            raise RecordError(f"{name}: id={node['id']!r}, parent={parent!r}: no tree in the order of its ids")
        if node["step"] != (0 if parent is None else nodes[parent]["step"] + 1):
            raise RecordError(f"{name}.step={node['step']!r}: one more than its parent's")
        if parent is not None and (nodes[parent]["terminated"] or nodes[parent]["truncated"]):
            raise RecordError(f"{name}: follows nodes[{parent}], where the episode was over")
    if last not in range(len(nodes)):
        raise RecordError(f"result.last={last!r}: one of {len(nodes)} nodes")
    surviving: set[int] = set()
    at: int | None = last
    while at is not None:
        surviving.add(at)
        at = nodes[at]["parent"]
    for node in nodes:
        if node["surviving"] != (node["id"] in surviving):
            raise RecordError(
                f"nodes[{node['id']}].surviving={node['surviving']!r}: the branch of result.last survives"
            )


def _check_event(event: Any, name: str, nodes: list[Any]) -> None:
    _has(event, _EVENT, name)
    if event["kind"] not in _BY_KIND:
        raise RecordError(f"{name}.kind={event['kind']!r}: one of {', '.join(_BY_KIND)}")
    _has(event, _BY_KIND[event["kind"]], name)
    if event["node"] not in range(len(nodes)) or event["step"] != nodes[event["node"]]["step"]:
        raise RecordError(f"{name}: node={event['node']!r}, step={event['step']!r}: a node of the record and its step")
    if event["kind"] == "where" and event["point"] is not None:
        _has(event["point"], {"node": (int,), "step": (int,)}, f"{name}.point")
        if event["point"]["node"] not in range(len(nodes)):
            raise RecordError(f"{name}.point.node={event['point']['node']!r}: one of {len(nodes)} nodes")
    for number, call in enumerate(event["calls"]):
        _has(call, _CALL, f"{name}.calls[{number}]")


def _has(value: Any, fields: _Fields, name: str) -> None:
    if not isinstance(value, dict):
        raise RecordError(f"{name}: an object is required, not a {type(value).__name__}")
    for field, kinds in fields.items():
        if field not in value:
            raise RecordError(f"{name}.{field}: missing")
        item = value[field]
        if not isinstance(item, kinds) or (isinstance(item, bool) and bool not in kinds and object not in kinds):
            allowed = " or ".join("null" if kind is _NONE else kind.__name__ for kind in kinds)
            raise RecordError(f"{name}.{field}: {allowed} is required, not {type(item).__name__}")

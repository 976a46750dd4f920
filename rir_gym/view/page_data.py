"""What a page holds of a record, as plain JSON values: its tree, its events, and a line of the list of episodes.

Every text is an index into a table of texts; counts of the ledger stand where they change. ``page_files/data.js`` reads
this. This module knows records (schema 1), no files and no HTML.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rir_gym.view.layout import Layout, layout_of
from rir_gym.view.story import Return, memory_text, moments, returns, shown
from rir_gym.view.texts import Texts

__all__ = ["episode_of", "head_of"]

_FLAGS = ("terminated", "truncated", "success", "failed", "committed")
_TOKENS = ("prompt_tokens", "reused_tokens", "generated_tokens", "cut_tokens")
_MINI = 60  # branches of the small picture in the list


def head_of(record: Mapping[str, Any], source: str, texts: Texts, tree: Layout) -> dict[str, Any]:
    """The line of an episode in the list, with what its summary says; its texts go into ``texts``."""
    header, result, ledger = record["header"], record["result"], record["ledger"]
    mechanism = header["mechanism"]
    about = {
        "environment": {**header["env"]},
        "mechanism": mechanism,
        "prompts": header["prompts"],
        "snapshot": header["snapshot"],
        "versions": header["versions"],
    }
    mini = [
        [branch.lane, record["nodes"][branch.nodes[0]]["step"], record["nodes"][branch.nodes[-1]]["step"]]
        for branch in tree.branches[:_MINI]
    ]
    return {
        "source": texts.add(source),
        "env": texts.add(shown(header["env"]["id"])),
        "kwargs": texts.add(_pairs(header["env"]["kwargs"])),
        "seed": str(header["seed"]),
        "attempt": header.get("attempt", 0),
        "mechanism": texts.add(shown(mechanism["name"])),
        "oracle": bool(mechanism["uses_oracle"]),
        "who": texts.add(shown(header["model"] if header["model"] is not None else header["agent"])),
        "about": texts.add(json.dumps(about, indent=2)),
        "objective": texts.add(shown(record["objective"])),
        "success": result["success"],
        "score": _number(result["score"]),
        "return": _number(result["return"]),
        "stopped": shown(result["stopped"]),
        "final": None if result["final_response"] is None else texts.add(shown(result["final_response"])),
        "steps": result["steps"],
        "nodes": len(record["nodes"]),
        "branches": len(tree.branches),
        "budget": [header["budget"]["agent_calls"], header["budget"]["rollbacks"]],
        "ledger": {name: count for name, count in ledger.items() if isinstance(count, int)},
        "mini": mini,
    }


def episode_of(record: Mapping[str, Any], texts: Texts) -> tuple[dict[str, Any], Layout]:
    """The block of an episode, and its layout; its texts go into ``texts``."""
    nodes, result = record["nodes"], record["result"]
    backs = list(returns(record))
    tree = layout_of(nodes, last=result["last"], returns=backs)
    told = moments(record)
    names = list(told[0].ledger) if told else []
    before: Mapping[str, int] = dict.fromkeys(names, 0)
    events = []
    for moment in told:
        event = _event(moment.event, texts)
        if moment.made is not None:
            event["made"] = moment.made
        if moment.after != moment.before:
            event["memory"] = None if moment.after is None else texts.add(moment.after, "memory")
        changed = [at for at, name in enumerate(names) if moment.ledger[name] != before[name]]
        event["counts"] = [item for at in changed for item in (at, moment.ledger[names[at]])]
        before = moment.ledger
        events.append(event)
    first = told[0].before if told else memory_text(record["memory"])
    return {
        "nodes": [_node(node, texts) for node in nodes],
        "branches": [[branch.lane, branch.fork, branch.nodes[0], branch.nodes[-1]] for branch in tree.branches],
        "branch_of": list(tree.branch_of),
        "steps": tree.steps,
        "lanes": tree.lanes,
        "last": result["last"],
        "events": events,
        "returns": [_return(back) for back in backs],
        "counts": names,
        "memory": None if first is None else texts.add(first, "memory"),
        "texts": texts.entries,
    }, tree


def _node(node: Mapping[str, Any], texts: Texts) -> list[Any]:
    oracle = node["oracle"] or {}
    truths = (
        node["terminated"],
        node["truncated"],
        oracle.get("success") is True,
        oracle.get("failed") is True,
        bool(node["info"].get("committed")),
    )
    return [
        node["parent"],
        node["step"],
        sum(1 << place for place, truth in enumerate(truths) if truth),
        None if node["parent"] is None else texts.add(shown(node["action"])),
        texts.add(shown(node["observation"]), "observation"),
        _number(node["reward"]),
        texts.add(_lines(node["info"]), "info"),
        None if node["oracle"] is None else texts.add(_lines(node["oracle"])),
        texts.add(shown(node["summary"])),
    ]


def _event(event: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    kind = event["kind"]
    said: dict[str, Any] = {"kind": kind, "node": event["node"], "outcome": shown(event["outcome"])}
    if kind == "act":
        said |= {"decision": shown(event["decision"]), "agent_calls": event.get("agent_calls", 1)}
        said |= {"action": texts.add(shown(event["action"])), "thought": texts.add(shown(event["thought"]))}
        said["target"] = event["target"]
    elif kind == "review":
        said |= {"verdict": shown(event["verdict"]), "urgency": _number(event["urgency"])}
        said |= {"diagnosis": texts.add(shown(event["diagnosis"]))}
        said["learned"] = [texts.add(_learned(fact)) for fact in event["learned"]]
    elif kind == "where":
        point = event["point"]
        said |= {"point": None if point is None else [point["node"], point["step"]], "stages": event["stages"]}
        said |= {"interval": _pair(event.get("interval")), "interval_unread": bool(event.get("interval_unread"))}
        said |= {"justification": texts.add(shown(event.get("justification") or ""))}
        said["confidence"] = _number(event.get("confidence"))
    else:
        said |= {"invoked": event["invoked"], "unread": event["unread"]}
    if event["calls"]:
        said["calls"] = [_call(call, kind, texts) for call in event["calls"]]
    return said


def _call(call: Mapping[str, Any], kind: str, texts: Texts) -> dict[str, Any]:
    messages = []
    for place, message in enumerate(call["messages"]):
        role = shown(message.get("role")) if isinstance(message, Mapping) else "?"
        content = shown(message.get("content") if isinstance(message, Mapping) else message)
        messages.append([role, texts.add(content, f"{kind} {call['role']} {place if place < 2 else ''}")])
    said = {"role": call["role"], "kind": call["kind"], "messages": messages, "text": texts.add(shown(call["text"]))}
    if any(tokens := [call.get(name, 0) for name in _TOKENS]):
        said["tokens"] = tokens
    options, scores = call.get("options"), call.get("scores")
    if isinstance(options, list) and options:
        told = scores if isinstance(scores, list) and len(scores) == len(options) else [""] * len(options)
        lines = (f"{_number(score)}\t{shown(option)}" for option, score in zip(options, told, strict=True))
        said["options"] = texts.add("\n".join(lines))
    return said


# --- values as text -------------------------------------------------------------------------------------------------


def _return(back: Return) -> list[int | None]:
    return [back.index, back.source, back.target, back.depth]


def _learned(fact: Any) -> str:
    if not isinstance(fact, Mapping):
        return shown(fact)
    return f"{shown(fact.get('channel', 'fact'))}: {shown(fact.get('text', ''))}"


def _pair(value: Any) -> list[int] | None:
    return value if isinstance(value, list) and len(value) == 2 else None


def _number(value: Any) -> str:
    """Short text of a number; empty for None."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, int | float) and not isinstance(value, bool) else shown(value)


def _pairs(value: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={shown(item)!r}" for key, item in value.items())


def _lines(value: Mapping[str, Any]) -> str:
    return "\n".join(f"{key}: {shown(item)}" for key, item in value.items())

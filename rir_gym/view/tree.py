"""A recorded episode as a tree in the terminal: what was tried, what was reviewed, what was taken back.

A branch is a flat list; only an abandoned branch hangs one level deeper, under the line where the world was put back.
Lines are made for a width. All text of the environment and the model stays text: no markup, no control characters.
This module knows records (schema 1) only, no live episode, and prints nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from rich.cells import cell_len
from rich.text import Text
from rich.tree import Tree

from rir_gym.jsonable import decode
from rir_gym.view.story import returns

__all__ = ["episode_summary", "episode_tree"]

_DEEPEST = 8
_INDENT = 4
_LEAST = 16
_SHOWN = 400
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_JOINERS = "\u200c\u200d"
_COUNTED = ("step", "review", "correction", "prompt token", "reused token", "generated token")


def episode_tree(record: Mapping[str, Any], *, width: int = 80) -> Tree:
    """The tree of one episode record, to be printed by a rich console of at least ``width`` columns.

    The surviving branch is bold, abandoned ones are dim and nested; reviews, corrections, rollbacks, requests and
    unreadable replies stand in the order in which they happened. Branches nested deeper than 8 are counted, not shown.
    """
    nodes = record["nodes"]
    children: dict[int, list[int]] = defaultdict(list)
    for node in nodes[1:]:
        children[node["parent"]].append(node["id"])
    events: dict[int, list[Text | None]] = defaultdict(list)
    jumps = {back.index for back in returns(record) if back.depth is None}
    for place, line in _lines(record["events"], jumps):
        events[place].append(line)
    header = record["header"]
    root = Tree(_fit(Text(f"{_shown(header['mechanism']['name'])}, seed {header['seed']}"), width), guide_style="dim")
    todo: deque[tuple[Tree, int, int]] = deque([(root, 0, 1)])
    while todo:
        branch, at, depth = todo.popleft()
        going: int | None = at
        while going is not None:
            node, anchor = nodes[going], branch.add(_node_line(nodes[going], width - _INDENT * depth))
            waiting = deque(children[going])
            following = _continues(children[going], nodes, events[going])
            for line in [*events[going], *[None] * len(waiting)]:
                if line is not None:
                    anchor = branch.add(_fit(line, width - _INDENT * depth))
                elif waiting and (child := waiting.popleft()) != following:
                    if depth < _DEEPEST:
                        todo.append((anchor, child, depth + 1))
                    else:
                        anchor.add(Text(f"{_size(child, children)} more", style="dim"))
            if node["id"] == record["result"]["last"]:
                branch.add(_fit(_end_line(record["result"]), width - _INDENT * depth))
            going = following
    return root


def episode_summary(record: Mapping[str, Any]) -> Text:
    """One paragraph: environment, mechanism, who acted, seed, objective, result, ledger."""
    header, result, ledger = record["header"], record["result"], record["ledger"]
    kwargs = ", ".join(f"{name}={value!r}" for name, value in decode(header["env"]["kwargs"]).items())
    oracle = " (uses the oracle)" if header["mechanism"].get("uses_oracle") else ""
    who = header["model"] if header["model"] is not None else header["agent"]
    budget = header["budget"]
    counts = [
        f"{ledger['agent_calls']} of {budget['agent_calls']} agent calls",
        f"{ledger['rollbacks']} of {budget['rollbacks']} rollbacks",
        *(_count(ledger[f"{name.replace(' ', '_')}s"], name) for name in _COUNTED),
        _count(ledger["auxiliary"], "auxiliary call"),
        _count(sum(count for name, count in ledger.items() if name.startswith("unreadable_")), "unreadable reply"),
    ]
    text = Text()
    text.append(_shown(header["env"]["id"]), style="bold")
    text.append(f"({_shown(kwargs)}) " if kwargs else " ")
    text.append(f"· {_shown(header['mechanism']['name'])}{oracle} · {_shown(who)} · seed {header['seed']}\n")
    if record["objective"]:
        text.append(f"{_shown(record['objective'])}\n", style="italic")
    text.append(_outcome(result), style="bold green" if result["success"] else "bold red")
    text.append(
        f" after {_count(result['steps'], 'surviving step') or 'no step'}, return {_number(result['return'])}; "
    )
    text.append(", ".join(filter(None, counts)))
    return text


# --- which line where -----------------------------------------------------------------------------------------------


def _lines(events: Sequence[Mapping[str, Any]], jumps: Set[int]) -> Iterator[tuple[int, Text | None]]:
    """(node, line) in order; None stands where a real step was taken from that node, after the review of it.

    ``jumps`` are the indices of rollbacks to another branch.
    """
    review: Mapping[str, Any] | None = None
    stepping: list[int] = []
    for number, event in enumerate(events):
        place, kind, outcome = event["node"], event["kind"], event["outcome"]
        if kind == "act":
            yield from ((source, None) for source in stepping)
            stepping = [place] if outcome in ("executed", "submitted") else []
            if (line := _act_line(event)) is not None:
                yield place, line
        elif kind == "review":
            review = event
            yield place, _review_line(event)
        elif kind == "where":
            patch = next((later for later in events[number + 1 : number + 2] if later["kind"] == "patch"), None)
            if (line := _where_line(event, review, patch, jump=number in jumps)) is not None:
                yield place, line
    yield from ((source, None) for source in stepping)


def _continues(
    children: Sequence[int], nodes: Sequence[Mapping[str, Any]], events: Sequence[Text | None]
) -> int | None:
    """The child that goes on in the same list: the surviving one; else the last, where nothing came back from it."""
    surviving = next((child for child in children if nodes[child]["surviving"]), None)
    if surviving is not None or not children or nodes[nodes[children[-1]]["parent"]]["surviving"]:
        return surviving
    return children[-1] if events and events[-1] is None else None


def _size(child: int, children: Mapping[int, Sequence[int]]) -> str:
    count, todo = 0, [child]
    while todo:
        at = todo.pop()
        count += 1
        todo += children.get(at, ())
    return _count(count, "step")


def _count(count: int, what: str) -> str:
    """Nothing where there is none, else the count and the noun in its number."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return "" if not count else f"{count} {what if count == 1 else many}"


# --- what a line says -----------------------------------------------------------------------------------------------


def _node_line(node: Mapping[str, Any], width: int) -> Text:
    style = "bold" if node["surviving"] else "dim"
    line = Text(style=style, no_wrap=True, overflow="ellipsis")
    line.append(f"step {node['step']}  ", style="cyan")
    tail = _tail(node)
    room = max(_LEAST, width - cell_len(line.plain) - cell_len(tail))
    if node["parent"] is not None:
        action = Text(_shown(node["action"]))
        action.truncate(max(_LEAST // 2, room // 2 - 3), overflow="ellipsis")
        line.append_text(action).append(" → ")
        room -= cell_len(action.plain) + 3
    observation = Text(_shown(node["observation"]))
    observation.truncate(max(1, room), overflow="ellipsis")
    return line.append_text(observation).append(tail, style="magenta")


def _tail(node: Mapping[str, Any]) -> str:
    reward, oracle = node["reward"], node["oracle"] or {}
    flags = [name for name in ("terminated", "truncated") if node[name]]
    flags += [name for name in ("success", "failed") if oracle.get(name) is True]
    flags += ["committed"] if node["info"].get("committed") else []
    return (f"  [{_number(reward)}]" if reward != 0 else "") + "".join(f" {flag}" for flag in flags)


def _act_line(event: Mapping[str, Any]) -> Text | None:
    if event["decision"] == "request":
        wanted = f" to step {event['target']}" if event["target"] is not None else ""
        declined = ", declined" if event["outcome"] == "declined" else ""
        return Text(f"? asks to go back{wanted}{declined}", style="yellow")
    if event["decision"] == "unparsed":
        return Text("✗ unreadable reply, nothing was done", style="red")
    if event["decision"] == "final":
        return Text(f"! final response: {_shown(event['action'])}", style="green")
    return None


def _review_line(event: Mapping[str, Any]) -> Text:
    outcome = f", {event['outcome']}" if event["outcome"] in ("refused", "abandoned") else ""
    said = f": {_shown(event['diagnosis'])}" if event["diagnosis"] else ""
    if event["verdict"] == "unparsed":
        return Text("✗ review: unreadable verdict", style="red")
    return Text(f"◆ review: {event['verdict']}, urgency {_number(event['urgency'])}{outcome}{said}", style="yellow")


def _where_line(
    event: Mapping[str, Any], review: Mapping[str, Any] | None, patch: Mapping[str, Any] | None, *, jump: bool
) -> Text | None:
    if event["point"] is None:
        return Text("✗ unreadable restore point, the rollback was given up", style="red")
    outcome = review["outcome"] if review is not None else ""
    failure = (patch["memory"].get("failure") or {}) if patch is not None else {}
    why = failure.get("cause") if isinstance(failure, Mapping) else None
    said = f": {_shown(why)}" if why else ""
    source, target = event["step"], event["point"]["step"]
    if outcome == "correction":
        return Text(f"✎ corrected at step {source} (k=0){said}", style="bold yellow")
    if outcome == "rollback" and jump:
        return Text(f"↪ from step {source} to step {target} of another branch{said}", style="bold yellow")
    if outcome == "rollback":
        return Text(f"↩ from step {source} to {target} (k={source - target}){said}", style="bold yellow")
    return None


def _end_line(result: Mapping[str, Any]) -> Text:
    final = f", final response: {_shown(result['final_response'])}" if result["final_response"] is not None else ""
    return Text(f"■ {_outcome(result)}{final}", style="bold green" if result["success"] else "bold red")


def _outcome(result: Mapping[str, Any]) -> str:
    stopped = {"agent_calls": "agent calls spent", "final": "final response"}.get(result["stopped"], result["stopped"])
    return f"{'success' if result['success'] else 'no success'}, score {_number(result['score'])} ({_shown(stopped)})"


def _fit(line: Text, width: int) -> Text:
    line.no_wrap, line.overflow = True, "ellipsis"
    line.truncate(max(_LEAST, width), overflow="ellipsis")
    return line


def _number(value: Any) -> str:
    value = decode(value)
    return f"{value:.3g}" if isinstance(value, int | float) else _shown(value)


def _shown(value: Any) -> str:
    """A value as one line of printable text: its first words, whitespace run together."""
    value = decode(value)
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(_ESCAPE_SEQUENCE.sub("", text[: 4 * _SHOWN]).split())
    text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    return "".join(map(_printable, text))


def _printable(character: str) -> str:
    kind = unicodedata.category(character)
    if kind == "Cs":
        return "\ufffd"
    return "" if kind in ("Cc", "Cf") and character not in _JOINERS else character

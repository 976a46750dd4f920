"""The format ``minari``: a tree as one linear Minari episode for each path from the root to a leaf.

A path that leaves an earlier one says so in its metadata: ``parent`` (the number of that episode in the data set, -1
for none) and ``fork_step`` (how many actions both have in common, -1 for none). Observations and actions are text under
a ``Text`` space of this set's own: its characters are those that occur, its length the longest. Lone surrogates become
"?"; the exact values stand in ``infos``. This module knows no prompt.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rir_gym.data.exports.rows import player_of
from rir_gym.data.exports.sieve import plain_text
from rir_gym.data.keys import canonical, digest_of, key_of
from rir_gym.errors import MissingDependency, UsageError
from rir_gym.jsonable import decode

__all__ = ["Route", "TextBounds", "dataset_name", "needs_minari", "paths_of", "write_paths"]


@dataclass(frozen=True, slots=True)
class Route:
    """One path: its nodes from the root to a leaf, and the earlier path of the same episode that it leaves."""

    nodes: tuple[int, ...]
    parent: int | None
    fork_step: int | None


@dataclass(slots=True)
class TextBounds:
    """The characters and the longest text of a set, found while it is read once."""

    characters: set[str] = field(default_factory=set)
    longest: int = 1

    def take(self, record: Mapping[str, Any]) -> None:
        """Widen the bounds by one record."""
        for node in record["nodes"]:
            for text in (_text(node["observation"]), _text(node["action"])):
                self.characters.update(text)
                self.longest = max(self.longest, len(text))

    def space(self) -> Any:
        """The ``Text`` space."""
        import gymnasium as gym

        return gym.spaces.Text(self.longest, min_length=0, charset="".join(sorted(self.characters)) or " ")


def paths_of(record: Mapping[str, Any]) -> list[Route]:
    """The paths of a record in the order of their leaves; a root without a step is none."""
    nodes = record["nodes"]
    parents = {node["parent"] for node in nodes}
    found: list[Route] = []
    owner: dict[int, int] = {}
    for leaf in [node["id"] for node in nodes if node["id"] not in parents]:
        path: list[int] = []
        at: int | None = leaf
        while at is not None:
            path.insert(0, at)
            at = nodes[at]["parent"]
        if len(path) < 2:
            continue
        shared = sum(node in owner for node in path)
        parent = owner[path[shared - 1]] if shared else None
        for node in path[shared:]:
            owner[node] = len(found)
        found.append(Route(tuple(path), parent, shared - 1 if shared else None))
    return found


def dataset_name(split: str) -> str:
    """The Minari id of a split."""
    return f"rir_gym/{split}-v0"


def needs_minari() -> None:
    """Find out at once whether Minari can be used.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        import minari  # noqa: F401
        import PIL  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingDependency("Minari data sets", "minari") from error


def write_paths(folder: Path, split: str, records: Iterable[Mapping[str, Any]], bounds: TextBounds) -> tuple[int, int]:
    """Write the paths of all records as one Minari data set below ``folder``; how many, and how many steps.

    Raises:
        UsageError: it cannot be written.
    """
    import minari
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    place = folder / dataset_name(split) / "data"
    space = bounds.space()
    try:
        place.mkdir(parents=True)
        storage = MinariStorage.new(place, observation_space=space, action_space=space, data_format="arrow")
        storage.update_metadata(
            {
                "dataset_id": dataset_name(split),
                "minari_version": minari.__version__,
                "description": "Every path of every episode, abandoned ones too; see parent and fork_step.",
            }
        )
        # Minari measures its whole folder after every episode, which makes n episodes cost n²: here once, at the end.
        storage.get_size = lambda: 0.0
        first = steps = 0
        for record in records:
            paths = paths_of(record)
            storage.update_episodes(EpisodeBuffer(**_buffer(record, path)) for path in paths)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                told = [_metadata(record, path, first) for path in paths]
                storage.update_episode_metadata(told, range(first, first + len(paths)))
            first += len(paths)
            steps += sum(len(path.nodes) - 1 for path in paths)
        del storage.get_size
        storage.update_metadata({"dataset_size": storage.get_size()})
    except OSError as error:
        raise UsageError(f"path={str(place)!r}: cannot be written ({error.strerror or error})") from error
    return first, steps


def _buffer(record: Mapping[str, Any], path: Route) -> dict[str, Any]:
    nodes = [record["nodes"][at] for at in path.nodes]
    return {
        "seed": record["header"]["seed"],
        "observations": [_text(node["observation"]) for node in nodes],
        "actions": [_text(node["action"]) for node in nodes[1:]],
        "rewards": [_number(node["reward"]) for node in nodes[1:]],
        "terminations": [node["terminated"] for node in nodes[1:]],
        "truncations": [node["truncated"] for node in nodes[1:]],
        "infos": {
            "node": [node["id"] for node in nodes],
            "exact": [
                canonical({name: node[name] for name in ("action", "observation", "reward", "info", "summary")})
                for node in nodes
            ],
        },
    }


def _metadata(record: Mapping[str, Any], path: Route, first: int) -> dict[str, Any]:
    header, key = record["header"], key_of(record)
    leaf = record["nodes"][path.nodes[-1]]
    survives = path.nodes[-1] == record["result"]["last"]
    return {
        "parent": -1 if path.parent is None else first + path.parent,
        "fork_step": -1 if path.fork_step is None else path.fork_step,
        "surviving": survives,
        "success": bool(record["result"]["success"]) and survives,
        "last_node": leaf["id"],
        "episode": digest_of(list(key)),
        "task": key.task,
        "attempt": key.attempt,
        "mechanism": header["mechanism"]["name"],
        "player": plain_text(player_of(header)),
        "objective": _text(record["objective"]),
    }


def _text(value: Any) -> str:
    return "" if value is None else plain_text(str(decode(value)))


def _number(value: Any) -> float:
    number = decode(value)
    return float(number) if isinstance(number, int | float) else math.nan

"""``rir-gym view``: recorded episodes as trees in the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from rir_gym.data.files import read_episodes
from rir_gym.errors import UsageError
from rir_gym.view.tree import episode_summary, episode_tree

__all__ = ["main"]


def main(file: Path, *, episode: int | None) -> None:
    """Print every episode of a file or folder, or the one that is asked for."""
    console = Console()
    shown = count = 0
    for count, record in enumerate(read_episodes(file), 1):
        if episode is None or count == episode + 1:
            console.print(episode_summary(record))
            console.print(episode_tree(record, width=console.width))
            shown += 1
    if not shown:
        raise UsageError(f"episode={episode!r}: {file} has {count} episodes, counted from 0")

"""``rir-gym view``: recorded episodes as trees in the terminal, as one HTML page, or as a picture."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from rir_gym.data.files import read_episodes
from rir_gym.errors import StoreError, UsageError
from rir_gym.view.tree import episode_summary, episode_tree

__all__ = ["main"]


def main(
    places: Sequence[Path],
    *,
    episode: int | None,
    compare: tuple[int, int] | None,
    html: Path | None,
    svg: Path | None,
    png: Path | None = None,
) -> None:
    """Show every episode of the files or folders, or the one or two that are asked for.

    Raises:
        UsageError: no such episode; two that are not of one environment and seed; a picture of more than one episode.
        StoreError: the page or the picture cannot be written.
        MissingDependency: ``png`` without the extra ``plots``.
        RecordError: as ``read_episodes``.
    """
    if compare is not None and (episode is not None or html is None):
        raise UsageError(f"compare={compare!r}: two episodes stand side by side in a page; give --html, no --episode")
    if svg is not None or png is not None:
        _write_pictures(svg, png, places, episode)
    if html is not None:
        _write_page(html, places, episode, compare)
    if html is None and svg is None and png is None:
        _print(places, episode)


def _records(places: Sequence[Path], wanted: Sequence[int] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where it came from, record), in order; episodes are counted from 0 over all places.

    Raises:
        UsageError: a number beyond the last episode.
    """
    count, last = 0, None if wanted is None else max(wanted)
    for place in places:
        for record in read_episodes(place):
            if wanted is None or count in wanted:
                yield str(place), record
            count += 1
            if last is not None and count > last:
                return
    if wanted is not None or not count:
        shown = "none" if wanted is None else max(wanted)
        raise UsageError(f"episode={shown!r}: {', '.join(map(str, places))} has {count} episodes, counted from 0")


def _print(places: Sequence[Path], episode: int | None) -> None:
    console = Console()
    for _, record in _records(places, None if episode is None else _number(episode)):
        console.print(episode_summary(record))
        console.print(episode_tree(record, width=console.width))


def _write_page(html: Path, places: Sequence[Path], episode: int | None, compare: tuple[int, int] | None) -> None:
    from rir_gym.view.page import write_page

    title = ", ".join(map(str, places))
    if compare is not None:
        pair = _pair(places, compare)
        count = write_page(html, pair, title=title, opened=(0, 1))
    else:
        wanted = None if episode is None else _number(episode)
        count = write_page(html, _records(places, wanted), title=title)
    print(f"{html}: {count} episode{'' if count == 1 else 's'}")


def _pair(places: Sequence[Path], compare: tuple[int, int]) -> list[tuple[str, dict[str, Any]]]:
    if compare[0] == compare[1] or min(compare) < 0:
        raise UsageError(f"compare={compare!r}: two different episodes, counted from 0")
    found = dict(zip(sorted(compare), _records(places, compare), strict=True))
    pair = [found[number] for number in compare]
    headers = [record["header"] for _, record in pair]
    places_of = [(header["env"]["id"], header["env"]["kwargs"], header["seed"]) for header in headers]
    if places_of[0] != places_of[1]:
        said = " and ".join(f"{header['env']['id']} seed {header['seed']}" for header in headers)
        raise UsageError(f"compare={compare!r}: episodes of one environment and seed, not {said}")
    return pair


def _write_pictures(svg: Path | None, png: Path | None, places: Sequence[Path], episode: int | None) -> None:
    from rir_gym.view.picture import tree_svg

    found = []
    for _, record in _records(places, None if episode is None else _number(episode)):
        found.append(record)
        if len(found) > 1:
            raise UsageError(f"picture={str(svg or png)!r}: holds one episode; choose it with --episode")
    picture, files = tree_svg(found[0]), dict[Path, bytes]()
    if svg is not None:
        files[svg] = picture.encode()
    if png is not None:
        from rir_gym.view.png import png_of

        files[png] = png_of(picture)
    for path, content in files.items():
        _write(path, content)
        print(f"{path}: 1 episode")


def _write(path: Path, content: bytes) -> None:
    work = path.parent / f".{path.name}.{os.getpid()}.partial"
    try:
        work.write_bytes(content)
        os.replace(work, path)
    except OSError as error:
        raise StoreError(f"path={str(path)!r}: cannot be written ({error.strerror or error})") from error
    finally:
        work.unlink(missing_ok=True)


def _number(episode: int) -> tuple[int]:
    if episode < 0:
        raise UsageError(f"episode={episode!r}: counted from 0")
    return (episode,)

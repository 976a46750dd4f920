"""Recorded episodes as one HTML page that needs nothing else: no network, no fonts, no server.

The page holds its data as JSON in elements that are never run; ``<``, ``>`` and ``&`` are escaped in it, and the script
writes text by ``textContent`` alone. A Content-Security-Policy admits this page's own script and style, by their
digests, and nothing from anywhere else. Each episode is a block of its own, read when it is opened. The same records
give the same page. This module knows records and the packaged files, no environment.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from rir_gym.errors import StoreError, UsageError
from rir_gym.view.page_data import episode_of, head_of
from rir_gym.view.texts import Texts

__all__ = ["MAX_BYTES", "page_chunks", "write_page"]

MAX_BYTES = 256 * 2**20
_SCRIPTS = ("data.js", "draw.js", "tree.js", "details.js", "episode.js", "list.js", "app.js")
_EPISODE = b"<script type='application/json' class='episode'"


def write_page(
    path: str | Path, records: Iterable[tuple[str, Mapping[str, Any]]], *, title: str, opened: Sequence[int] = ()
) -> int:
    """Write the page; it appears when it is whole, and replaces an earlier one. How many episodes it holds.

    Args:
        records: (where it came from, a checked record), one at a time.
        opened: numbers of one or two episodes that the page opens with; none: the list, or the only episode.

    Raises:
        UsageError: no record, or a page of more than ``MAX_BYTES``.
        StoreError: the file cannot be written.
    """
    path, size, count = Path(path), 0, 0
    work = path.parent / f".{path.name}.{os.getpid()}.partial"
    try:
        with work.open("wb") as file:
            for chunk in page_chunks(records, title=title, opened=opened):
                size += file.write(chunk)
                count += chunk.startswith(_EPISODE)
                if size > MAX_BYTES:
                    raise UsageError(
                        f"records={title!r}: the page would exceed {MAX_BYTES >> 20} MiB; choose with --episode"
                    )
        os.replace(work, path)
    except OSError as error:
        raise StoreError(f"path={str(path)!r}: cannot be written ({error.strerror or error})") from error
    finally:
        work.unlink(missing_ok=True)
    return count


def page_chunks(
    records: Iterable[tuple[str, Mapping[str, Any]]], *, title: str, opened: Sequence[int] = ()
) -> Iterator[bytes]:
    """The page in pieces, ASCII.

    Raises:
        UsageError: no record.
    """
    style = "\n" + _file("page.css")
    script = "\n(() => {\n'use strict';\n" + "\n".join(map(_file, _SCRIPTS)) + "\n})();\n"
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    yield _ascii(
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f"<meta http-equiv='Content-Security-Policy' content=\"{policy}\">\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        "<meta name='color-scheme' content='light dark'>\n<meta name='referrer' content='no-referrer'>\n"
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        "<noscript>This page draws its records with a script of its own; please allow it.</noscript>\n"
    )
    heads, seen, rows = Texts(0), dict[str, tuple[int, int]](), list[dict[str, Any]]()
    for number, (source, record) in enumerate(records):
        texts = Texts(number, seen)
        block, tree = episode_of(record, texts)
        rows.append(head_of(record, source, heads, tree))
        yield _EPISODE + b" id='episode-%d'>" % number + _json(block) + b"</script>\n"
    if not rows:
        raise UsageError(f"records={title!r}: there is no episode to show")
    index = {"title": title, "opened": list(opened), "texts": heads.entries, "episodes": rows}
    yield b"<script type='application/json' id='index'>" + _json(index) + b"</script>\n"
    yield _ascii(f"<script>{script}</script>\n</body>\n</html>\n")


def _json(value: Any) -> bytes:
    """Strict JSON that no HTML parser reads as markup."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e").encode("ascii")


def _ascii(text: str) -> bytes:
    return text.encode("ascii", "xmlcharrefreplace")


def _file(name: str) -> str:
    return files("rir_gym.view").joinpath("page_files", name).read_text("ascii")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("ascii")).digest()).decode("ascii")

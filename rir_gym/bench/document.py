"""A report as a value (headings, paragraphs, tables, plots in order), and that as Markdown and as one HTML page.

All text is escaped in either form. The page loads nothing: its plots are inside it. This module knows no run and no
figure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Block", "Heading", "Plot", "Table", "Text", "html_page", "markdown_text"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of level 1, 2 or 3."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; ``code`` sets it as a command."""

    text: str
    code: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A head and rows of equal length; the first column is left-aligned. ``folded`` is shown on demand (HTML)."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """An SVG, also saved as ``plots/<name>.svg``."""

    name: str
    title: str
    svg: str


Block = Heading | Text | Table | Plot

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 76rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.3rem; margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1rem; }
h3 { font-size: 1.05rem; margin-top: 1.6rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; margin: .4rem 0 1rem; }
caption { text-align: left; color: #555; padding-bottom: .3rem; }
th, td { padding: .18rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #eee; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff; }
thead th { border-bottom: 2px solid #999; }
pre { background: #f6f6f6; padding: .5rem .8rem; overflow-x: auto; }
svg { max-width: 100%; height: auto; } summary { cursor: pointer; color: #0057a8; }
""".strip()


def html_page(title: str, blocks: Sequence[Block]) -> str:
    """One self-contained page."""
    body = "\n".join(_html(block) for block in blocks)
    head = (
        "<meta charset='utf-8'><meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    )
    return (
        f"<!doctype html>\n<html lang='en'>\n<head>{head}<title>{_escaped(title)}</title>\n<style>{_STYLE}</style>"
        f"</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def markdown_text(blocks: Sequence[Block]) -> str:
    """The same as Markdown; plots are links to their files. Folded tables are left out."""
    parts = [_markdown(block) for block in blocks]
    return "\n\n".join(part for part in parts if part) + "\n"


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{_escaped(block.text)}</h{block.level}>"
    if isinstance(block, Text):
        return f"<pre>{_escaped(block.text)}</pre>" if block.code else f"<p>{_escaped(block.text)}</p>"
    if isinstance(block, Plot):
        return f"<figure>{block.svg}</figure>"
    head = "".join(f"<th scope='col'>{_escaped(name)}</th>" for name in block.head)
    rows = "\n".join("<tr>" + "".join(f"<td>{_escaped(cell)}</td>" for cell in row) + "</tr>" for row in block.rows)
    caption = "" if block.folded else f"<caption>{_escaped(block.caption)}</caption>"
    inside = f"{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>"
    table = f"<div class='scroll'><table>{inside}</table></div>"
    return f"<details><summary>{_escaped(block.caption)}</summary>{table}</details>" if block.folded else table


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_plain(block.text)}"
    if isinstance(block, Text):
        return f"```bash\n{_printable(block.text).replace('```', '')}\n```" if block.code else _plain(block.text)
    if isinstance(block, Plot):
        return f"![{_plain(block.title)}](plots/{block.name}.svg)"
    if block.folded:
        return ""
    rule = "| --- |" + " ---: |" * (len(block.head) - 1)
    head, *rows = ["| " + " | ".join(map(_plain, row)) + " |" for row in (block.head, *block.rows)]
    cells = [head, rule, *rows]
    return f"{_plain(block.caption)}\n\n" + "\n".join(cells)


def _escaped(text: str) -> str:
    """For HTML."""
    return escape(_printable(text), quote=True)


def _printable(text: str) -> str:
    """Control characters and lone surrogates become "?"."""
    return re.sub("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", "?", text)


def _plain(text: str) -> str:
    """For one line of Markdown: nothing in it is markup."""
    shown = re.sub("[\x00-\x1f\x7f\ud800-\udfff]", " ", text)
    return re.sub(r"([\\`*_{}<>#|!\[\]])", r"\\\1", shown)

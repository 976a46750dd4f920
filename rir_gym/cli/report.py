"""``rir-gym report RUN``: tables and plots of a run folder as Markdown, one HTML page, SVG files and JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

from rir_gym.bench.document import Plot, html_page, markdown_text
from rir_gym.bench.folder import read_run
from rir_gym.bench.report import figures_json, report_blocks
from rir_gym.errors import OutputExists, StoreError
from rir_gym.view.png import png_of

__all__ = ["main"]

PAGE, MARKDOWN, FIGURES = "index.html", "report.md", "figures.json"
_OURS = frozenset((PAGE, MARKDOWN, FIGURES, "plots"))


def main(folder: Path, *, out: Path | None, as_json: bool, png: bool = False) -> None:
    """Read, arrange, write; an earlier report in the same place is replaced. ``png``: each plot as PNG, too.

    Raises:
        MissingDependency: PNG without the extra ``plots``.
        OutputExists: ``out`` holds something else than a report.
        StoreError: it cannot be written.
        UsageError, RecordError: as ``read_run``.
    """
    place = folder / "report" if out is None else out
    _check_free(place)
    run = read_run(folder)
    blocks = report_blocks(run, folder=str(folder))
    figures = figures_json(run)
    plots = {f"plots/{block.name}": block.svg for block in blocks if isinstance(block, Plot)}
    files = {PAGE: html_page(f"rir-gym: {run.plan.suite.name}", blocks), MARKDOWN: markdown_text(blocks)}
    files[FIGURES] = json.dumps(figures, indent=1, allow_nan=False) + "\n"
    files |= {f"{name}.svg": svg for name, svg in plots.items()}
    contents = {name: text.encode() for name, text in files.items()}
    if png:
        contents |= {f"{name}.png": png_of(svg) for name, svg in plots.items()}
    try:
        (place / "plots").mkdir(parents=True, exist_ok=True)
        for old in [*(place / "plots").glob("*.svg"), *(place / "plots").glob("*.png")]:
            old.unlink()
        for name, content in contents.items():
            work = place / f"{name}.partial"
            work.write_bytes(content)
            os.replace(work, place / name)
    except OSError as error:
        raise StoreError(f"path={str(place)!r}: cannot be written ({error.strerror or error})") from error
    if as_json:
        print(json.dumps(figures))
        return
    for note in run.notes:
        print(note)
    print(f"{place / PAGE}, {place / MARKDOWN}, {len(plots)} plots")


def _check_free(place: Path) -> None:
    try:
        inside = {item.name for item in place.iterdir()} if place.exists() else set()
    except OSError as error:
        raise OutputExists(f"out={str(place)!r}: is no folder ({error.strerror})") from error
    if other := sorted(inside - _OURS):
        raise OutputExists(f"out={str(place)!r}: holds {other[0]!r}, no part of a report; choose another folder")

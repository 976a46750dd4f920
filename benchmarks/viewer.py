"""The viewer's page in a headless Chromium: how large it is, how long it takes to write and to open.

    python benchmarks/viewer.py [--quick] [--json PATH]

Records come from the real loop on a wandering walk: 1,000 and 2,000 nodes, and 200 episodes of 60 nodes (with --quick
200 nodes and 20 episodes). ``write_s``: seconds of the processor to write the page. ``open_ms``: from the start of the
navigation until the tree stands and the first node is shown, by the page's own clock, the median of five. ``move_ms``:
one step by key, with its details. ``search_ms``: one search over every text. Needs Chromium, its driver and Selenium
(extra ``test``).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from chromium import browser
from wandering import wandering_record

from rir_gym.view.page import write_page

_READY = "return Number(document.documentElement.dataset.ready)"
_MOVE = """
const started = performance.now();
for (let i = 0; i < 50; i++) document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'j', bubbles: true }));
document.body.getBoundingClientRect();
return (performance.now() - started) / 50;
"""
_SEARCH = """
const box = document.querySelector('input[type=search]'), started = performance.now();
box.value = 'iron key';
box.dispatchEvent(new Event('input'));
document.body.getBoundingClientRect();
return performance.now() - started;
"""


def measured(driver: Any, folder: Path, records: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """One row: sizes and times of the page of these records."""
    path = folder / "page.html"
    started = time.process_time()
    write_page(path, [(name, record) for record in records], title=name)
    row: dict[str, Any] = {"page": name, "nodes": sum(len(record["nodes"]) for record in records)}
    row |= {"mb": round(path.stat().st_size / 1e6, 2), "write_s": round(time.process_time() - started, 2)}
    opened = []
    for _ in range(5):
        driver.get("about:blank")
        driver.get(path.as_uri())
        opened.append(driver.execute_script(_READY))
    row["open_ms"] = round(statistics.median(opened))
    if len(records) == 1:
        row["move_ms"] = round(driver.execute_script(_MOVE), 1)
        row["search_ms"] = round(driver.execute_script(_SEARCH))
    return row


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure, print, and with --json keep."""
    parser = argparse.ArgumentParser(description="The viewer's page in a headless Chromium.")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(argv)
    walks = [(230, 20)] if asked.quick else [(1100, 50), (2350, 200)]
    depths = (0, 8, 20, 60)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with browser(folder / "profile") as driver:
            rows = []
            for calls, branches in walks:
                record = wandering_record(calls, branches, depths=depths)
                name = f"one episode, {len(record['nodes'])} nodes, {record['ledger']['rollbacks']} rollbacks"
                rows.append(measured(driver, folder, [record], name))
            some = [wandering_record(66, 5, seed=seed) for seed in range(20 if asked.quick else 200)]
            rows.append(measured(driver, folder, some, f"a run of {len(some)} episodes"))
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n", "ascii")
    return rows


if __name__ == "__main__":
    main()

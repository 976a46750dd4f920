"""The figures of the small agent's runs, and their page in Markdown. Reads run folders; plays and trains nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rir_gym.bench.bootstrap import Figure
from rir_gym.bench.figures import CellFigures, margin
from rir_gym.bench.folder import Run, read_run
from rir_gym.bench.rows import said

__all__ = ["figures_of", "page"]

COLUMNS = {
    "success": "success %",
    "agreement_before": "agreement before %",
    "agreement_after": "after %",
    "agreement_at": "at the first decision %",
    "repeats": "repeats %",
    "recorded_repeats": "recorded repeats %",
    "rollbacks": "rollbacks",
    "reviews": "reviews",
    "auxiliary": "auxiliary calls",
    "agent_calls": "agent calls",
}
KNOWN = {
    "recall_lost": "review recall, lost %",
    "false_alarm_lost": "false alarms %",
    "localization_exact": "r = r* %",
    "localization_within_1": "within 1 %",
    "rescue": "rescue %",
    "saved": "saved %",
    "contradicted": "facts contradicted %",
}
DIFFERENCES = (
    ("rir", "restart"),
    ("rir", "rollback_only"),
    ("rir", "react"),
    ("rir_away", "rir"),
    ("restart_away", "restart"),
)
COMMAND = "python benchmarks/small_agent.py --out FOLDER --markdown docs/results/small_agent.md"
_TITLES = {
    "half": "recovered branches drawn half of the time, memory in the tail",
    "natural": "recovered branches as often as they are, memory in the tail",
    "none": "nothing after a rollback in the data, memory in the tail",
    "system": "as half, memory in the system prompt",
    "own": "half, trained on with its own successes",
}

Cells = dict[tuple[str, str], CellFigures]


def figures_of(out: Path, variants: Sequence[str]) -> dict[str, Any]:
    """Everything that the page says, as plain JSON values."""
    runs = {name: read_run(out / "runs" / name) for name in variants}
    cells = {name: _cells(run) for name, run in runs.items()}
    return {
        "variants": {
            name: {
                "training": json.loads((out / "models" / name / "training.json").read_text()),
                "seconds_per_episode": _seconds(out / "runs" / name),
                "notes": list(run.notes),
                "cells": [_told(key, cell) for key, cell in cells[name].items()],
                "differences": _differences(cells[name]),
            }
            for name, run in runs.items()
        },
        "between": _between(cells),
    }


def _cells(run: Run) -> Cells:
    """By (section, mechanism)."""
    return {
        (section, mechanism): run.cells[digest]
        for (section, _, mechanism), digest in run.plan.places.items()
        if digest in run.cells
    }


def _told(key: tuple[str, str], cell: CellFigures) -> dict[str, Any]:
    figures = {name: figure.to_json() for name, figure in cell.figures.items()}
    return {"section": key[0], "mechanism": key[1], "n": cell.n, "figures": figures}


def _differences(cells: Cells) -> list[dict[str, Any]]:
    found = []
    for section in dict.fromkeys(section for section, _ in cells):
        for ours, other in DIFFERENCES:
            a, b = cells.get((section, ours)), cells.get((section, other))
            if a is not None and b is not None:
                found.append({"section": section, "of": ours, "over": other, **margin(a, b).to_json()})
    return found


def _between(cells: Mapping[str, Cells]) -> list[dict[str, Any]]:
    """Success of the first variant minus that of each other, in the same cell and on the same seeds."""
    first, *others = cells
    return [
        {"section": key[0], "mechanism": key[1], "of": first, "over": name, **margin(cells[first][key], cell).to_json()}
        for name in others
        for key, cell in cells[name].items()
        if key in cells[first]
    ]


def _seconds(folder: Path) -> float | None:
    """Of the clock, in calls of the model, while as many processes played as were asked for."""
    seconds = []
    for file in sorted(folder.glob("times*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            seconds.append(sum(json.loads(line)["seconds"].values()))
    return round(fmean(seconds), 3) if seconds else None


# --- the page ---------------------------------------------------------------------------------------------------------


def page(figures: Mapping[str, Any]) -> str:
    """Markdown."""
    lines = ["# A small trained agent on Apothecary", "", "```bash", COMMAND, "```", "", _ABOUT]
    variants = figures["variants"]
    lines += ["", "## The models", "", *_models(variants)]
    for name, variant in variants.items():
        lines += ["", f"## {name}: {_TITLES.get(name, name)}"]
        for note in variant["notes"]:
            lines += ["", f"*{note}*"]
        for section in dict.fromkeys(cell["section"] for cell in variant["cells"]):
            cells = [cell for cell in variant["cells"] if cell["section"] == section]
            lines += ["", f"### {_SECTIONS.get(section, section)}", "", *_table(cells, COLUMNS)]
            lines += ["", *_table([cell for cell in cells if _reviewed(cell)], _known(cells))]
            told = [each for each in variant["differences"] if each["section"] == section]
            lines += ["", *[_difference(each, f"{each['of']} − {each['over']}") for each in told]]
    lines += ["", "## What makes it heed its memory", "", _HEED, "", *_heeded(figures)]
    if figures["between"]:
        lines += ["", "## Between models", "", "Success on the same seeds, in percentage points.", ""]
        lines += [
            _difference(each, f"{each['section']}, {each['mechanism']}: {each['of']} − {each['over']}")
            for each in figures["between"]
            if each["mechanism"] in ("react", "restart", "rir")
        ]
    return "\n".join(lines).rstrip() + "\n"


_ABOUT = """\
Test seeds from 50000, training seeds below 20000, B_agent = 29 for every mechanism, B_rb = 3, (L_min, L_max) = (4, 8).
Values stand with their 95 % interval (success: Wilson; others: bootstrap over episodes) and, where it is not the number
of episodes, their n. Agreement is with the environment's expert that trusts no rumour, in the same view; the model was
trained on one that trusts it in every second episode, so before a rollback it cannot be 100. *Repeats*: after a
rollback the undone action is done again at once. `rir_away` and `restart_away` have a rule of decoding beside the
model: an action that the memory blames under the same conditions is not chosen.

Left out are mechanisms whose questions or notes stand in no training row: ReflAct's thoughts, Self-Refine, Reflexion,
LATS, GA-Rollback, SRC, WebRollback, AgentRewind, restart with attribution, ExpeL; and, in all roles, direct selection,
whose one question is not trained either (beside an instrument it is played)."""

_HEED = """\
One change a row, in one column: success with and without it, and the difference on the same seeds in percentage points;
then agreement with the expert after the first rollback, and repeats, with and without it."""

# (change, mechanism and model with it, mechanism and model without it)
_CHANGES = (
    ("recovered branches in the data", ("rir", "half"), ("rir", "none")),
    ("recovered branches drawn half of the time", ("rir", "half"), ("rir", "natural")),
    ("memory in the tail instead of the system prompt", ("rir", "half"), ("rir", "system")),
    ("its own successes in the data", ("rir", "own"), ("rir", "half")),
    ("rule: not what the memory blames", ("rir_away", "half"), ("rir", "half")),
    ("rule, without recovered branches in the data", ("rir_away", "none"), ("rir", "none")),
    ("resuming at the rescue point instead of the start", ("rir", "half"), ("restart", "half")),
    ("the memory, after the same rollbacks", ("rir", "half"), ("rollback_only", "half")),
)

_SECTIONS = {
    "all": "The model in all roles",
    "evidence": "The model acts; review and localization by evidence",
    "exact": "The model acts; review and localization are exact (they read the oracle †)",
}


def _heeded(figures: Mapping[str, Any]) -> list[str]:
    """The rows of ``_CHANGES`` whose two cells are there."""
    cells = {
        (name, cell["section"], cell["mechanism"]): cell
        for name, variant in figures["variants"].items()
        for cell in variant["cells"]
    }
    gaps = {
        (each["section"], (each["of"], name), (each["over"], name)): each
        for name, variant in figures["variants"].items()
        for each in variant["differences"]
    }
    gaps |= {
        (each["section"], (each["mechanism"], each["of"]), (each["mechanism"], each["over"])): each
        for each in figures["between"]
    }
    for (section, ours, other), told in list(gaps.items()):
        gaps.setdefault((section, other, ours), _reversed(told))
    rows = [["change", "column", "n", "with %", "without %", "difference", "agreement after %", "repeats %"]]
    for change, (with_, a), (without, b) in _CHANGES:
        for section in _SECTIONS:
            ours, other = cells.get((a, section, with_)), cells.get((b, section, without))
            gap = gaps.get((section, (with_, a), (without, b)))
            if ours is None or other is None or gap is None:
                continue
            pairs = [
                f"{_shown(name, ours['figures'][name], ours['n'])}; {_shown(name, other['figures'][name], other['n'])}"
                for name in ("agreement_after", "repeats")
            ]
            shown = [_shown("success", each["figures"]["success"], each["n"]) for each in (ours, other)]
            rows.append([change, section, str(gap["n"]), *shown, _shown("success", gap, gap["n"]), *pairs])
    return _markdown(rows)


def _reversed(told: Mapping[str, Any]) -> dict[str, Any]:
    turned = {**told, "low": told["high"], "high": told["low"]}
    return turned | {name: 0.0 - turned[name] for name in ("value", "low", "high") if turned[name] is not None}


def _models(variants: Mapping[str, Any]) -> list[str]:
    names = [
        "parameters",
        "cpu_seconds",
        "seconds",
        "threads",
        "steps",
        "replies",
        "rows",
        "recovered_rows",
        "vocabulary",
    ]
    names += ["mean_prompt_tokens"]
    rows = [["", *variants]]
    trained = [variant["training"] for variant in variants.values()]
    rows += [[name.replace("_", " "), *[str(each.get(name, "–")) for each in trained]] for name in names]
    rows.append(["seconds an episode", *[str(each["seconds_per_episode"]) for each in variants.values()]])
    kinds = sorted({kind for each in trained for kind in each["held_out"]})
    for kind in kinds:
        found = [each["held_out"].get(kind) for each in trained]
        rows.append([f"held out, {kind}", *[f"{100 * pair[0]:.1f} % ({pair[1]})" if pair else "–" for pair in found]])
    return _markdown(rows)


def _reviewed(cell: Mapping[str, Any]) -> bool:
    return bool((cell["figures"]["reviews"]["value"] or 0) > 0)


def _known(cells: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {name: title for name, title in KNOWN.items() if all(name in cell["figures"] for cell in cells)}


def _table(cells: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> list[str]:
    rows = [["mechanism", "n", *columns.values()]]
    for cell in cells:
        shown = [_shown(name, cell["figures"][name], cell["n"]) for name in columns]
        rows.append([cell["mechanism"], str(cell["n"]), *shown])
    return _markdown(rows) if cells and columns else []


def _shown(name: str, told: Mapping[str, Any], n: int) -> str:
    figure = Figure(told["value"], told["low"], told["high"], told["n"])
    return said(name, figure, n=figure.n != n)


def _difference(told: Mapping[str, Any], title: str) -> str:
    figure = Figure(told["value"], told["low"], told["high"], told["n"])
    return f"- {title}: {said('success', figure)}"


def _markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = rows
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body)]

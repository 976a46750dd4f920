"""``rir-gym doctor``: what is here, what is missing and how to get it. No probe that fails ends it.

It arranges what ``rir_gym.cli.probes`` find, as tables or as one JSON document.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rir_gym.cli import probes
from rir_gym.cli.envs import rows
from rir_gym.cli.faults import FOUND

__all__ = ["PROBES", "examined", "main"]

_Lines = Sequence[tuple[str, ...]]

PROBES: Mapping[str, Callable[[], Any]] = {
    "versions": probes.versions,
    "extras": probes.extras,
    "java": probes.java,
    "accelerators": probes.accelerators,
    "machine": probes.machine,
    "caches": probes.caches,
    "models": probes.models,
    "environments": rows,
}


def main(*, deep: bool, limit_s: float, as_json: bool) -> int:
    """Look at everything, print it; 1 where an environment that has all it needs was tried and cannot be made."""
    found = examined(PROBES)
    environments = found["environments"]
    if deep and isinstance(environments, list):
        for row in environments:
            if row["installed"]:
                print(f"rir-gym: trying {row['id']}", file=sys.stderr)
                row["tried"] = _guarded(partial(probes.environment, row["id"], limit_s))
    if as_json:
        print(json.dumps(found))
    else:
        _show(found)
    here = {"", "Java"} if found.get("java", {}).get("installed") else {""}
    tried = [row for row in environments if "tried" in row] if isinstance(environments, list) else []
    return FOUND if any(row["needs"] in here and not row["tried"].get("works") for row in tried) else 0


def examined(looks: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """What each probe gives by its name; {"error": why} of one that failed."""
    return {name: _guarded(look) for name, look in looks.items()}


def _guarded(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except Exception as error:  # whatever it is, the next probe may still say something
        return {"error": " ".join(f"{type(error).__name__}: {error}".split())}


# --- tables -----------------------------------------------------------------------------------------------------------


def _show(found: Mapping[str, Any]) -> None:
    tables: Mapping[str, Callable[[Any], _Lines]] = {
        "versions": lambda value: [(name, str(one or "missing")) for name, one in value.items()],
        "extras": _extras,
        "java": lambda value: [("java", value["version"] or "missing", value["path"] or value["install"] or "")],
        "accelerators": _accelerators,
        "machine": _machine,
        "caches": lambda value: [(each["what"], _cache(each), each["path"]) for each in value],
        "models": lambda value: (
            [(each["model"], each["kind"], _bytes(each["bytes"])) for each in value]
            or [("none found", "--model takes a folder, a .gguf file, a hub name or URL#NAME", "")]
        ),
        "environments": _environments,
    }
    console = Console()
    for name, make in tables.items():
        value = found[name]
        failed = isinstance(value, Mapping) and "error" in value
        _table(console, name, [("not known", value["error"])] if failed else make(value))


def _table(console: Console, title: str, lines: _Lines) -> None:
    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        collapse_padding=True,
        pad_edge=False,
        show_header=False,
    )
    for number in range(max(map(len, lines))):
        table.add_column(overflow="fold", no_wrap=number == 0)
    for line in lines:
        table.add_row(*map(Text, line))
    whole = console.measure(table, options=console.options.update(max_width=1000)).maximum
    Console(width=max(console.width, whole)).print(table)  # a path cut into lines cannot be copied


def _extras(value: Mapping[str, Any]) -> _Lines:
    lines = []
    for name, extra in value.items():
        packages = ", ".join(f"{package} {version or 'missing'}" for package, version in extra["packages"].items())
        lines.append((name, "yes" if extra["installed"] else extra["install"], packages))
    return lines


def _accelerators(value: Mapping[str, Any]) -> _Lines:
    if value["torch"] is None:
        return [("torch", "missing", value["install"])]
    gpus = [(f"GPU {at}", each["name"], _bytes(each["bytes"])) for at, each in enumerate(value["gpus"])]
    cuda = f"yes, {value['cuda_version']}" if value["cuda"] else "no"
    return [("torch", str(value["torch"])), ("CUDA", cuda), ("MPS", "yes" if value["mps"] else "no"), *gpus]


def _machine(value: Mapping[str, Any]) -> _Lines:
    memory = f"{_bytes(value['memory_bytes'])}, {_bytes(value['available_bytes'])} available"
    return [
        ("CPUs", f"{value['cpus']}, {value['usable_cpus']} for this process"),
        ("memory", memory),
        ("disk", f"{_bytes(value['free_disk_bytes'])} free here"),
    ]


def _cache(each: Mapping[str, Any]) -> str:
    if not each["exists"]:
        return "not there yet"
    return f"{'' if each['complete'] else 'more than '}{_bytes(each['bytes'])}"


def _environments(value: list[Mapping[str, Any]]) -> _Lines:
    lines = []
    for row in value:
        state = "installed" if row["installed"] else str(row["install"])
        tried = row.get("tried")
        if tried is not None:
            works = tried.get("works")
            state = f"made and reset in {tried['seconds']} s" if works else tried.get("why") or tried.get("error", "")
        needs = ", ".join(each for each in (f"[{row['extra']}]" if row["extra"] else "", row["needs"]) if each)
        lines.append((row["id"], f"needs {needs or 'nothing'}", state))
    return lines


def _bytes(number: int | None) -> str:
    if number is None:
        return "?"
    size = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"

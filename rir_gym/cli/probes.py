"""What this machine has: each function looks at one thing, and none of them imports anything heavy into this process.

A library that could take the process with it (torch) and a program (Java) are asked in another one, with a time limit.
A function may raise; ``rir_gym.cli.doctor`` says so beside its name and goes on. This module knows no command.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["accelerators", "caches", "environment", "extras", "java", "machine", "models", "versions"]

_DISTRIBUTION = "rir-gym"
_NEED = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?", re.DOTALL)
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_JAVA_S, _TORCH_S, _WALK_S = 10, 120, 5
_TORCH = """
import json, torch
mps = getattr(torch.backends, "mps", None)
names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
memory = [torch.cuda.get_device_properties(number).total_memory for number in range(torch.cuda.device_count())]
print(json.dumps({"torch": torch.__version__, "cuda": torch.cuda.is_available(), "cuda_version": torch.version.cuda,
                  "gpus": [{"name": name, "bytes": size} for name, size in zip(names, memory)],
                  "mps": bool(mps and mps.is_available())}))
"""


def versions() -> dict[str, Any]:
    """Of Python, this package and what its core needs; and where they lie."""
    from rir_gym import __version__

    core = ("gymnasium", "numpy", "cloudpickle", "typer", "rich")
    return {
        "rir_gym": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in core},
        "executable": sys.executable,
        "platform": platform.platform(),
    }


def extras() -> dict[str, Any]:
    """Every extra: whether it is installed, the versions of its packages (None: missing), and the command for it.

    "all" and those for tests are left out.
    """
    needs: dict[str, list[str]] = {}
    for line in metadata.requires(_DISTRIBUTION) or []:
        match = _NEED.fullmatch(line)
        if match is None:
            continue
        name, inner, marker = match.groups()
        for extra in _EXTRA.findall(marker or ""):
            own = name.replace("_", "-").lower() == _DISTRIBUTION
            needs.setdefault(extra, []).extend([f"[{each.strip()}]" for each in inner.split(",")] if own else [name])
    found = {}
    for extra in sorted(needs.keys() - {"all", "test", "docs"}):
        packages = {name: _version(name) for name in dict.fromkeys(_resolved(extra, needs, set()))}
        found[extra] = {
            "installed": all(packages.values()),
            "packages": packages,
            "install": f'pip install "{_DISTRIBUTION}[{extra}]"',
        }
    return found


def _resolved(extra: str, needs: dict[str, list[str]], seen: set[str]) -> Iterator[str]:
    if extra in seen:
        return
    seen.add(extra)
    for name in needs.get(extra, []):
        if name.startswith("["):
            yield from _resolved(name.strip("[]"), needs, seen)
        else:
            yield name


def _version(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def machine() -> dict[str, Any]:
    """Cores, and memory in bytes; what a container allows where it allows less."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    total = available = None
    with suppress(OSError, ValueError, AttributeError):
        page = os.sysconf("SC_PAGE_SIZE")
        total, available = page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES")
    with suppress(OSError, ValueError):
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text("ascii").splitlines())
        available = 1024 * int(lines["MemAvailable"].split()[0])
    with suppress(OSError, ValueError):
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text("ascii"))
        total = limit if total is None else min(total, limit)
    return {
        "cpus": os.cpu_count(),
        "usable_cpus": usable,
        "memory_bytes": total,
        "available_bytes": available,
        "free_disk_bytes": shutil.disk_usage(".").free,
    }


def java() -> dict[str, Any]:
    """The Java that would be found: JAVA_HOME's, else the one of the path; its first line of ``-version``."""
    home = os.environ.get("JAVA_HOME")
    at_home = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    path = at_home or shutil.which("java")
    if path is None:
        return {"installed": False, "path": None, "version": None, "install": "install a JRE, or set JAVA_HOME"}
    done = subprocess.run([path, "-version"], capture_output=True, text=True, errors="replace", timeout=_JAVA_S)
    said = (done.stderr or done.stdout).strip().splitlines()
    return {"installed": done.returncode == 0, "path": path, "version": said[0] if said else None, "install": None}


def accelerators() -> dict[str, Any]:
    """What torch sees, asked in another process; ``torch`` is None where it is not installed."""
    if _version("torch") is None:
        return {"torch": None, "install": f'pip install "{_DISTRIBUTION}[hf]"'}
    done = subprocess.run(
        [sys.executable, "-c", _TORCH], capture_output=True, text=True, errors="replace", timeout=_TORCH_S
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def caches() -> list[dict[str, Any]]:
    """The folders of generated games and of models: where they are, and how large ("complete": all was counted)."""
    from rir_envs.cache import cache_root

    places = {"games and worlds of rir-gym": cache_root(), "models of the hub": hub_cache()}
    return [{"what": what, "path": str(path), **_size(path)} for what, path in places.items()]


def hub_cache() -> Path:
    """Where Hugging Face's libraries keep models."""
    if chosen := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(chosen).expanduser()
    general = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(os.environ.get("HF_HOME") or general).expanduser() / "hub"


def _size(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        return {"exists": False, "bytes": 0, "complete": True}
    size, end = 0, time.monotonic() + _WALK_S
    for place, _, names in os.walk(folder):
        if time.monotonic() > end:
            return {"exists": True, "bytes": size, "complete": False}
        for name in names:
            with suppress(OSError):
                found = os.lstat(os.path.join(place, name))  # of links, the link: each blob of the hub counts once
                size += found.st_size
    return {"exists": True, "bytes": size, "complete": True}


def models() -> list[dict[str, Any]]:
    """Models that need no download: whole ones in the cache of the hub, and GGUF files that came as packages.

    ``model`` is what ``--model`` takes.
    """
    found: list[dict[str, Any]] = []
    hub = hub_cache()
    for folder in sorted(hub.glob("models--*--*")) if hub.is_dir() else []:
        kinds = {file.suffix for file in folder.glob("snapshots/*/*")} & {".safetensors", ".gguf"}
        if kinds:
            name = "/".join(folder.name.split("--")[1:])
            found.append({"model": name, "kind": "hub cache", "bytes": _size(folder)["bytes"]})
    for place in dict.fromkeys(Path(each) for each in sys.path if each.endswith(("site-packages", "dist-packages"))):
        for pattern in ("*/*.gguf", "*/*/*.gguf"):
            for file in sorted(place.glob(pattern)):
                with suppress(OSError):
                    found.append({"model": str(file), "kind": "package", "bytes": file.stat().st_size})
    return found


def environment(name: str, limit_s: float) -> dict[str, Any]:
    """Make and reset an id in another process: whether it can be, in how many seconds, and else why not in one line."""
    code = (
        "import sys\n"
        "from rir_gym.cli.faults import line_of\n"
        "from rir_gym.cli.worlds import make, seeded_arguments\n"
        "try:\n"
        "    env = make(sys.argv[1], seeded_arguments(sys.argv[1], {}, 0))\n"
        "    env.reset(seed=0)\n"
        "    env.close()\n"
        "except Exception as error:\n"
        "    sys.exit('\\nrir-gym: ' + line_of(error)[0])\n"
    )
    started = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        return {"works": False, "seconds": round(limit_s, 2), "why": f"not made and reset in {limit_s:g} s"}
    why = None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        why = said[-1].removeprefix("rir-gym: ") if said else f"exit code {done.returncode}"
    return {"works": done.returncode == 0, "seconds": round(time.perf_counter() - started, 2), "why": why}

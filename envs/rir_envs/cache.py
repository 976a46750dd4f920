"""Files that are made once, in a child process, and kept in a folder on disk.

``kept`` gives the folder of a product and makes it where it is missing, torn or changed; ``in_child`` runs a function
of this distribution in a fresh interpreter with a fixed hash seed, so that neither the caller's generators, hash seed,
warnings filters nor working directory matter. This module knows nothing of games.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rir_gym.errors import RirError, UsageError

__all__ = ["cache_root", "in_child", "kept"]

_DIGESTS = "digests.json"
_CHILD = "import importlib, sys; getattr(importlib.import_module(sys.argv[1]), sys.argv[2])(*sys.argv[3:])"


def cache_root() -> Path:
    """The folder of everything kept: ``RIR_GYM_CACHE``, or else ``rir_gym`` in the user's cache folder."""
    if chosen := os.environ.get("RIR_GYM_CACHE"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "rir_gym"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rir_gym"


def kept(name: str, files: Sequence[str], make: Callable[[Path], None]) -> Path:
    """The folder ``name`` of the cache with all of ``files`` whole; ``make(scratch)`` writes them where they are not.

    Any number of processes may ask at once, and whatever ``make`` leaves beside ``files`` is dropped. Files are moved
    into place one by one and their digests last, so a reader never takes a mixed or torn set for whole.

    Raises:
        UsageError: the cache folder cannot be written.
        RirError: ``make`` did not write every file.
    """
    root = cache_root()
    folder = root / name
    if _whole(folder, files):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as scratch:
            made = Path(scratch)
            make(made)
            if missing := [file for file in files if not (made / file).is_file()]:
                raise RirError(f"name={name!r}: {', '.join(missing)} not made")
            (made / _DIGESTS).write_text(json.dumps({file: _digest(made / file) for file in files}), "utf-8")
            for file in (*files, _DIGESTS):
                os.replace(made / file, folder / file)
    except OSError as error:
        raise UsageError(f"RIR_GYM_CACHE={str(root)!r}: a folder that can be written ({error})") from error
    return folder


def in_child(
    module: str, function: str, arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], timeout_s: float
) -> None:
    """Run ``module.function(*arguments)`` in a new interpreter with hash seed 0, in ``cwd``, quietly.

    Raises:
        RirError: it failed, with the last line that it said, or took longer than ``timeout_s`` seconds.
    """
    fixed = {
        "PYTHONHASHSEED": "0",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
    call = f"{module}.{function}"
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, module, function, *arguments],
            cwd=cwd,
            env={**os.environ, **fixed, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise RirError(f"call={call!r}: not done in {timeout_s:.0f} s") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        raise RirError(f"call={call!r}: {said[-1]}")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _whole(folder: Path, files: Sequence[str]) -> bool:
    try:
        digests = json.loads((folder / _DIGESTS).read_text("utf-8"))
        return bool(digests == {file: _digest(folder / file) for file in files})
    except (OSError, ValueError):
        return False

"""The config.json of a store: what all its episodes have in common, its digest, the schema and the package's version.

This module knows no records and no environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rir_gym.data.append import sync_folder
from rir_gym.data.check import SCHEMA
from rir_gym.data.keys import digest_of
from rir_gym.errors import RecordError, StoreError

__all__ = ["config_text", "read_config", "settle_config"]

_SHOWN = 5


def read_config(path: str | Path) -> dict[str, Any] | None:
    """The content of a store's config.json; None for a folder or file without one.

    Raises:
        RecordError: it is damaged or of another schema.
    """
    file = Path(path) / "config.json"
    if not file.is_file():
        return None
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{file}: cannot be read ({error})") from error
    if not isinstance(value, dict) or not isinstance(value.get("config"), dict) or "digest" not in value:
        raise RecordError(f"{file}: not the configuration of a store")
    if value.get("schema") != SCHEMA:
        raise RecordError(f"{file}: schema={value.get('schema')!r}: this version reads schema {SCHEMA}")
    return value


def config_text(config: Mapping[str, Any]) -> bytes:
    """What stands in config.json for a configuration in plain JSON values."""
    from rir_gym import __version__

    content = {"schema": SCHEMA, "rir_gym": __version__, "digest": digest_of(config), "config": config}
    return json.dumps(content, indent=1, allow_nan=False).encode("ascii") + b"\n"


def settle_config(folder: Path, fd: int, config: dict[str, Any], *, empty: bool) -> bool:
    """Write the configuration of a new store (True), or compare it with that of an old one (False).

    Args:
        fd: the open and locked config.json.
        config: plain JSON values.
        empty: whether the folder has no records; what a killed process left of a config.json is then replaced.

    Raises:
        StoreError: it cannot be written, or the configurations differ (the message says in what).
        RecordError: as ``read_config``.
    """
    if empty and not _is_whole(folder):
        os.ftruncate(fd, 0)  # nothing there, or a process was killed right here
        text = config_text(config)
        try:
            if os.write(fd, text) != len(text):
                raise OSError("no space for config.json")
            os.fsync(fd)
        except OSError as error:
            (folder / "config.json").unlink(missing_ok=True)
            raise StoreError(f"path={str(folder)!r}: cannot be written ({error.strerror or error})") from error
        sync_folder(folder)
        return True
    there = read_config(folder)
    assert there is not None
    if differences := list(_differences(there["config"], config, "")):
        more = f" and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
        said = "; ".join(differences[:_SHOWN])
        raise StoreError(f"path={str(folder)!r}: was made with another configuration: {said}{more}")
    return False


def _is_whole(folder: Path) -> bool:
    try:
        return read_config(folder) is not None
    except RecordError:
        text = (folder / "config.json").read_bytes()
        return text.endswith(b"}\n")  # whole, but of another kind: to be refused, not replaced


def _differences(there: Any, here: Any, name: str) -> Iterator[str]:
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted({*there, *here}):
            inner = f"{name}.{key}" if name else key
            if key not in there or key not in here:
                where, value = ("there", there[key]) if key in there else ("here", here[key])
                yield f"{inner}={value!r} only {where}"
            else:
                yield from _differences(there[key], here[key], inner)
    elif there != here or type(there) is not type(here):
        yield f"{name}={there!r} there, {here!r} here"

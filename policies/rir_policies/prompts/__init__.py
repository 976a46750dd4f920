"""The prompt texts, one file a role, and their loader.

A file starts with a line ``version: <text>`` and goes on with sections, each a line ``[name]`` and its text. ``$name``
in a text is a placeholder. This package knows nothing of views, models or environments; ``chat`` fills the texts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template

from rir_gym.errors import UsageError

__all__ = ["Prompts", "load_prompts"]

_SECTION = re.compile(r"^\[(\w+)\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Prompts:
    """All texts by "role.section".

    Args:
        version: the version line of every file, as "act=1 coarse=1 ...", for the record.
        digest: the first 12 hex digits of the SHA-256 of all texts, for the record.
        texts: the templates.
    """

    version: str
    digest: str
    texts: Mapping[str, str] = field(repr=False, hash=False)

    def fill(self, name: str, **values: object) -> str:
        """The text ``name`` with its placeholders replaced; what stands in the values is never expanded again."""
        return Template(self.texts[name]).substitute(values)


def load_prompts(folder: str | Path | None = None) -> Prompts:
    """The packaged texts; with ``folder``, the files that lie there (``act.txt``, ...) in the place of ours.

    Raises:
        UsageError: no such folder, a file that is not one of ours, or one whose sections or placeholders differ.
    """
    ours = _packaged()
    if folder is None:
        return _prompts(ours)
    if not Path(folder).is_dir():
        raise UsageError(f"folder={str(folder)!r}: a folder of prompt files")
    used = dict(ours)
    for path in sorted(Path(folder).glob("*.txt")):
        if path.name not in ours:
            raise UsageError(f"prompt file={path.name!r}: known are {', '.join(sorted(ours))}")
        used[path.name] = path.read_text(encoding="utf-8")
    for name, content in used.items():
        expected = _shape(_parse(name, ours[name])[1])
        sections = _parse(name, content)[1]
        if _shape(sections) != expected or not all(Template(text).is_valid() for text in sections.values()):
            raise UsageError(f"prompt file={name!r}: its sections and their placeholders must be {expected}")
    return _prompts(used)


@cache
def _packaged() -> Mapping[str, str]:
    files = [file for file in resources.files(__name__).iterdir() if file.name.endswith(".txt")]
    return {file.name: file.read_text(encoding="utf-8") for file in files}


def _prompts(files: Mapping[str, str]) -> Prompts:
    versions: list[str] = []
    texts: dict[str, str] = {}
    for name, content in sorted(files.items()):
        role = name.removesuffix(".txt")
        version, sections = _parse(name, content)
        versions.append(f"{role}={version}")
        texts |= {f"{role}.{section}": text for section, text in sections.items()}
    whole = "\0".join(f"{key}\0{text}" for key, text in sorted(texts.items()))
    return Prompts(" ".join(versions), hashlib.sha256(whole.encode()).hexdigest()[:12], texts)


def _parse(name: str, content: str) -> tuple[str, dict[str, str]]:
    head, _, body = content.partition("\n")
    label, colon, version = head.partition(":")
    if label.strip() != "version" or not colon or not version.strip():
        raise UsageError(f"prompt file={name!r}: its first line is 'version: <text>'")
    parts = _SECTION.split(body)
    return version.strip(), {key: text.strip() for key, text in zip(parts[1::2], parts[2::2], strict=True)}


def _shape(sections: Mapping[str, str]) -> dict[str, list[str]]:
    return {key: sorted(Template(text).get_identifiers()) for key, text in sorted(sections.items())}

"""What differs between a directory as it is and as it is to be; nothing else will be touched. Nothing is done here."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.files.descriptors import Path, parent_of
from rir_gym.snapshot.files.tree import File, Folder, Node, Other

__all__ = ["Plan", "planned"]


@dataclass(slots=True)
class Plan:
    """What differs: what goes, what comes, whose mode, owner or time is set; and the folders in which that happens.

    A folder comes after those inside it, which may need its present mode to be reached.
    """

    remove: list[Path] = field(default_factory=list)
    build: list[tuple[Path, Node]] = field(default_factory=list)
    adjust: list[tuple[Path, Node, Node]] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)


def planned(root: int, current: Folder, wanted: Folder) -> Plan | None:
    """What is to be done in the open folder ``root``; None where nothing differs but its own mode, owner or time.

    Raises:
        SnapshotError: something would have to go that lies on another file system.
    """
    plan = Plan()
    _compare(root, (), current, wanted, plan)
    return plan if plan.build or plan.remove or plan.adjust else None


def _compare(root: int, path: Path, current: Folder, wanted: Folder, plan: Plan) -> None:
    before = len(plan.remove), len(plan.build)
    for name in sorted(current.children.keys() | wanted.children.keys()):
        here, old, new = (*path, name), current.children.get(name), wanted.children.get(name)
        if old is new or old == new:
            continue
        if isinstance(old, Folder) and isinstance(new, Folder):
            _compare(root, here, old, new, plan)
        elif isinstance(old, File) and isinstance(new, File) and _only_meta(old, new) and _ours(root, here, old):
            plan.adjust.append((here, old, new))
        else:
            if old is not None:
                _check_removable(here, old)
                plan.remove.append(here)
            if new is not None:
                plan.build.append((here, new))
    if path and (before != (len(plan.remove), len(plan.build)) or _own(current) != _own(wanted)):
        plan.folders.append(path)
        plan.adjust.append((path, current, wanted))


def _only_meta(old: File, new: File) -> bool:
    return old.blob is not None and old.blob is new.blob and old.links == new.links


def _ours(root: int, path: Path, old: File) -> bool:
    """Whether no link outside of the directory would see a change of this file."""
    with parent_of(root, path) as (parent, name):
        return os.stat(name, dir_fd=parent, follow_symlinks=False).st_nlink <= max(1, len(old.links))


def _check_removable(path: Path, node: Node) -> None:
    if isinstance(node, Other) and node.elsewhere:
        raise SnapshotError(f"{'/'.join(path)!r} {node.why}, and is not removed")
    if isinstance(node, Folder):
        for name, below in node.children.items():
            _check_removable((*path, name), below)


def _own(folder: Folder) -> tuple[int, int, int, int]:
    return folder.mode, folder.uid, folder.gid, folder.mtime_ns

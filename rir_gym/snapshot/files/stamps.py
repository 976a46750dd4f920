"""How finely a file system stamps its files: how long after a change another one may bear the same time.

A local file system takes its times from the kernel's own clock, which advances by ticks of at most 10 ms. Another
machine's clock, or a driver's, is not known: there, and where nobody can say what a file system is, much more is
assumed. This module knows no trees.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

__all__ = ["resolution_ns", "tick_ns"]

_LOCAL = frozenset(("ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs", "ramfs", "overlay", "rootfs"))
_LOCAL_NS, _ANY_NS, _WHOLE_SECONDS_NS, _SECOND_NS = 20_000_000, 100_000_000, 2_100_000_000, 1_000_000_000


def resolution_ns(device: int, folder: int, stamp_ns: int) -> int:
    """A change that is more than this older than a look at the file shows in any later time stamp.

    Args:
        device, folder: of the working directory, as ``os.stat`` gives them (``st_dev``, ``st_ino``).
        stamp_ns: the time stamp of the file; one of whole seconds may be of a file system that knows no other.
    """
    return _ticks_ns(device, folder) if stamp_ns % _SECOND_NS else _WHOLE_SECONDS_NS


@cache
def _ticks_ns(device: int, folder: int) -> int:
    """``folder``: the number of a device that was unmounted may come again."""
    try:
        return tick_ns(Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace"), device)
    except OSError:
        return _ANY_NS


def tick_ns(mounts: str, device: int) -> int:
    """By the kind of file system on a device, as ``/proc/self/mountinfo`` lists them."""
    numbers = f"{os.major(device)}:{os.minor(device)}"
    for mount in mounts.splitlines():
        before, _, after = mount.partition(" - ")
        if before.split()[2] == numbers:
            return _LOCAL_NS if after.split()[0] in _LOCAL else _ANY_NS
    return _ANY_NS

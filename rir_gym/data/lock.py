"""A lock on an open file that dies with its process, so that a killed writer never bars the next one."""

from __future__ import annotations

import sys

__all__ = ["lock"]

if sys.platform == "win32":
    import msvcrt
    import os

    _FAR = 1 << 30  # a byte beyond any content: locks bar readers of that byte on Windows

    def lock(fd: int) -> bool:
        """Take the lock without waiting; False where another process holds it. Closing the file gives it back."""
        os.lseek(fd, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(fd, 0, os.SEEK_SET)
        return True
else:
    import fcntl

    def lock(fd: int) -> bool:
        """Take the lock without waiting; False where another process holds it. Closing the file gives it back."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

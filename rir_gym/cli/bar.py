"""What a long command shows on standard error while it works: a bar where that is a terminal, else a line a minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["bar", "tell"]

_TOLD_EVERY_S = 60


@contextmanager
def bar(what: str, total: int, had: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar on standard error; where that is no terminal, a line a minute."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    console, started = Console(stderr=True), time.perf_counter()
    shown = console.is_terminal and not quiet
    done, told_at = 0, started
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not shown, transient=True) as shown_bar:
        task = shown_bar.add_task(what, total=total, completed=had, rate="")

        def advance(number: int) -> None:
            nonlocal done, told_at
            done += number
            now = time.perf_counter()
            rate = f"{done / max(now - started, 1e-9):.3g}/s"
            shown_bar.update(task, completed=had + done, rate=rate)
            if not shown and not quiet and now - told_at >= _TOLD_EVERY_S:
                told_at = now
                tell(f"{had + done} of {total} {what}, {rate}")

        yield advance


def tell(text: str) -> None:
    """One line on standard error."""
    print(f"rir-gym: {text}", file=sys.stderr)

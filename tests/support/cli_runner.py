"""``rir-gym`` in this process, as a shell would run it: arguments in, exit code and both outputs out."""

from __future__ import annotations

import io
import re
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest

from rir_gym.cli import main

__all__ = ["Said", "examples_of", "rir_gym"]


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def rir_gym(*arguments: object, stdin: str = "") -> Said:
    """Run the command in the current folder."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["rir-gym", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as stopped:
            main()
    code = stopped.value.code
    assert isinstance(code, int)
    return Said(code, out.getvalue(), err.getvalue())


def examples_of(help_text: str) -> list[list[str]]:
    """The arguments of each example at the end of a help text, as a shell would split them."""
    _, found, examples = help_text.partition("Examples:\n")
    assert found, help_text
    lines = re.findall(r"^ +rir-gym (.*)$", examples, re.MULTILINE)
    assert len(lines) == len(examples.strip().splitlines()), examples
    return [shlex.split(line) for line in lines]

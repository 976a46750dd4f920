"""The examples at the end of every help text, and the README's commands, run as printed, one after the other."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from cli_runner import Said, examples_of, rir_gym

COMMANDS = ["run", "collect", "bench", "report", "export", "view", "envs", "play", "data check", "data merge", "data"]
COMMANDS += ["demo", "doctor"]
README = Path(__file__).parents[2] / "README.md"
_PLAYED = "/actions\n/quit\n"


def shown(*words: str) -> str:
    said = rir_gym(*words, "--help")
    assert (said.code, said.err) == (0, "")
    return said.out


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples: what an earlier one wrote, a later one reads."""
    return tmp_path_factory.mktemp("examples")


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(place)

    def run(words: list[str]) -> Said:
        if "--model" in words:
            pytest.skip("needs a model, and the network or its files")
        said = rir_gym(*words, stdin=_PLAYED)
        if said.code == 2 and "pip install" in said.err:
            pytest.skip(f"needs an extra: {said.err}")
        return said

    return run


def test_every_command_is_in_the_list_and_no_other() -> None:
    listed = {line.split()[0] for line in shown().partition("Commands:\n")[2].splitlines() if line.startswith("  ")}
    assert {word.split()[0] for word in COMMANDS} == listed - {"Examples:", "rir-gym"}
    assert "..." not in shown().partition("Commands:")[2]  # what a command does is said whole


EXAMPLES = [shlex.join(words) for command in [*COMMANDS, ""] for words in examples_of(shown(*command.split()))]


@pytest.mark.parametrize("example", list(dict.fromkeys(EXAMPLES)))
def test_an_example_runs_as_printed(run, place: Path, example: str) -> None:
    words = shlex.split(example)
    said = run(words)
    assert said.code == 0, said.err
    assert "Traceback" not in said.err
    if "--json" in words:
        json.loads(said.out)
    for option in ("--out", "--html", "--svg"):
        if option in words:
            assert (place / words[words.index(option) + 1]).exists()


def test_a_help_text_fits_a_terminal_and_says_what_each_option_is_for() -> None:
    for command in COMMANDS:
        text, _, examples = shown(*command.split()).partition("Examples:\n")
        assert max(map(len, text.splitlines())) <= 80
        assert max(map(len, examples.splitlines())) <= 100
        options = text.partition("Options:\n")[2]
        for line, after in pairwise([*options.splitlines(), ""]):
            if line.startswith("  -"):
                assert "  " in line.strip() or after.startswith(" " * 20), line


def test_the_page_about_it_shows_examples_of_the_help() -> None:
    page = (README.parent / "docs" / "cli.md").read_text("utf-8")
    shown_there = re.findall(r"^\|.*\| `rir-gym (.*)` \|$", page, re.MULTILINE)
    assert len(shown_there) == len({command.split()[0] for command in COMMANDS})
    assert set(shown_there) <= set(EXAMPLES)


def _of_readme() -> list[str]:
    """Its commands of rir-gym, from the blocks that are for a shell."""
    blocks = re.findall(r"```bash\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    lines = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("rir-gym ")]


@pytest.fixture(scope="module")
def other_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readme")


@pytest.mark.parametrize("line", _of_readme())
def test_a_command_of_the_readme_runs_as_printed(
    run, other_place: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(other_place)
    said = run(shlex.split(line)[1:])
    assert said.code == 0, said.err

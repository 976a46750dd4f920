"""Settings: dataclass, options and TOML file say the same thing; the file of a run does the run again."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import hypothesis
import pytest
import typer
from cli_runner import rir_gym
from hypothesis import given
from hypothesis import strategies as st

from rir_gym.cli.asked import Bench, Collect, Demo, Export, Run, Wanted
from rir_gym.cli.request import Request
from rir_gym.cli.settings import (
    SETTINGS,
    from_values,
    parse_arguments,
    read_settings,
    settings_of,
    toml_text,
    values_of,
)
from rir_gym.data.survey import survey
from rir_gym.errors import UsageError

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True)
REQUESTS = st.builds(
    Request,
    env=TEXT,
    mechanism=TEXT,
    model=st.none() | TEXT,
    env_args=st.dictionaries(NAMES, JSON, max_size=4),
    episodes=st.integers(),
    review_terminal=st.booleans(),
    agent_calls=st.none() | st.integers(),
    temperature=st.floats(allow_nan=False),
    prompts=st.none() | st.just(Path("a dir/übung")),
)
ASKED = [
    (Run, st.builds(Run, out=st.just(Path("o")), request=REQUESTS, overwrite=st.booleans())),
    (Collect, st.builds(Collect, out=st.just(Path("o")), request=REQUESTS, workers=st.integers(0, 9))),
    (Bench, st.builds(Bench, suite=TEXT, sections=st.lists(TEXT, max_size=3).map(tuple), labels=st.booleans())),
    (
        Export,
        st.builds(
            Export,
            wanted=st.builds(Wanted, TEXT, duplicates=st.sampled_from(["drop", "keep"]), test_share=st.floats(0, 1)),
            data=st.just(Path("d")),
            out=st.just(Path("o")),
        ),
    ),
    (Demo, st.builds(Demo, episodes=st.integers(), out=st.none() | st.just(Path("x")))),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("settings") / SETTINGS


@pytest.mark.parametrize(("cls", "asked"), ASKED, ids=lambda one: getattr(one, "__name__", ""))
def test_settings_come_back_from_their_file(file: Path, cls: type[Any], asked: st.SearchStrategy[Any]) -> None:
    @hypothesis.settings(max_examples=40)
    @given(asked)
    def check(settings: Any) -> None:
        file.write_text(toml_text(settings, command="x"), "utf-8", newline="\n")
        values = read_settings(cls, file, command="x")
        assert from_values(cls, values) == settings
        assert values == {name: one for name, one in values_of(settings).items() if one is not None}

    check()


@pytest.mark.parametrize("cls", [Run, Collect, Bench, Export, Demo])
def test_every_field_can_be_set_and_no_name_means_two(cls: type[Any]) -> None:
    names = [setting.name for setting in settings_of(cls)]
    assert len(set(names)) == len(names)
    inner = {name for each in fields(cls) for name in ([each.name] if each.name not in ("request", "wanted") else [])}
    inner |= {each.name for part in (Request, Wanted) for each in fields(part)} if inner != set(names) else set()
    assert set(names) <= inner
    assert all(setting.allowed for setting in settings_of(cls))


def test_the_file_of_a_run_does_it_again_and_options_come_first(tmp_path: Path) -> None:
    first = ["run", "--agent", "scripted", "--episodes", 3, "--seed", 4, "--env-arg", "stores=4", "--rollbacks", 2]
    assert rir_gym(*first, "--memory-position", "tail", "--out", tmp_path / "a").code == 0
    settings = tmp_path / "a" / SETTINGS
    assert rir_gym("run", "--config", settings, "--out", tmp_path / "b").code == 0
    assert survey(tmp_path / "a").records_sha256 == survey(tmp_path / "b").records_sha256
    for name in ("config.json", "episodes.jsonl", SETTINGS):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    table = tomllib.loads(settings.read_text("utf-8"))
    assert table["agent_calls"] == 28  # what the environment's default was
    assert not table.keys() & {"out", "overwrite", "as_json", "config"}
    said = rir_gym(
        "run", "--config", settings, "--mechanism", "react", "--env-arg", "stores=5", "--episodes", 1, "--json",
        "--out", tmp_path / "c",
    )  # fmt: skip
    assert (said.code, json.loads(said.out)["n"], json.loads(said.out)["mechanism"]) == (0, 1, "react")
    config = json.loads((tmp_path / "c" / "config.json").read_bytes())["config"]
    assert (config["env_args"], config["budget"]["rollbacks"], config["first_seed"]) == ({"stores": 5}, 2, 4)


def test_the_file_of_a_collection_goes_on_with_it(tmp_path: Path) -> None:
    out = tmp_path / "data"
    assert rir_gym("collect", "--agent", "scripted", "--episodes", 2, "--workers", 0, "--out", out).code == 0
    said = rir_gym("collect", "--config", out / SETTINGS, "--episodes", 4, "--json", "--out", out)
    assert (said.code, json.loads(said.out)["n"]) == (0, 4)
    assert tomllib.loads((out / SETTINGS).read_text("utf-8"))["episodes"] == 4
    assert rir_gym("collect", "--config", out / SETTINGS, "--overwrite", "--seed", 9, "--out", out).code == 0
    assert tomllib.loads((out / SETTINGS).read_text("utf-8"))["seed"] == 9


def test_the_file_of_a_bench_run_plays_it_again(tmp_path: Path) -> None:
    small = ["--section", "main", "--mechanism", "rir", "--mechanism", "react", "--episodes", 1, "--workers", 0]
    assert rir_gym("bench", "smoke", *small, "--out", tmp_path / "a").code == 0
    assert rir_gym("bench", "--config", tmp_path / "a" / SETTINGS, "--out", tmp_path / "b").code == 0
    assert survey(tmp_path / "a").records_sha256 == survey(tmp_path / "b").records_sha256


def test_what_a_killed_process_left_of_the_file_hinders_nobody(tmp_path: Path) -> None:
    run = ["run", "--agent", "scripted", "--out", tmp_path / "a"]
    assert rir_gym(*run).code == 0
    (tmp_path / "a" / f"{SETTINGS}.partial").write_text("seed =")
    assert rir_gym(*run, "--episodes", 2).code == 0
    (tmp_path / "a" / f"{SETTINGS}.partial").write_text("seed =")
    assert rir_gym(*run, "--seed", 3, "--overwrite").code == 0
    assert sorted(file.name for file in (tmp_path / "a").glob("settings*")) == [SETTINGS]


def test_a_run_that_never_began_leaves_no_settings(tmp_path: Path) -> None:
    said = rir_gym("run", "--agent", "scripted", "--mechanism", "nope", "--out", tmp_path / "a" / "b")
    assert said.code == 2
    assert list(tmp_path.iterdir()) == []


def test_positional_arguments_can_stand_in_a_file(tmp_path: Path) -> None:
    assert rir_gym("run", "--agent", "scripted", "--episodes", 2, "--out", tmp_path / "a").code == 0
    (tmp_path / "x.toml").write_text(f'format = "sft"\ndata = "{tmp_path / "a"}"\nout = "{tmp_path / "o"}"\n')
    said = rir_gym("export", "--config", tmp_path / "x.toml", "--json")
    assert (said.code, json.loads(said.out)["format"]) == (0, "sft")


BAD = {
    "unknown key": ("agent-calls = 3", "agent-calls=3: unknown key; did you mean 'agent_calls'? known are agent,"),
    "text for a number": ("episodes = 'many'", "episodes='many': a whole number is required"),
    "broken number": ("episodes = 2.5", "episodes=2.5: a whole number is required"),
    "boolean for a number": ("episodes = true", "episodes=True: a whole number is required"),
    "number for a text": ("env = 3", "env=3: a text is required"),
    "text for a boolean": ("overwrite = 'yes'", "overwrite='yes': true or false is required"),
    "list for a text": ("model = ['a']", "model=['a']: a text is required"),
    "number for a path": ("prompts = 1", "prompts=1: a text (a path) is required"),
    "number for a table": ("env_args = 1", "env_args=1: a table, or a list of texts 'name=JSON' is required"),
    "list that is no table": ("env_args = ['a']", "env_args=['a']: a table, or a list of texts"),
    "a date": ("env_args = { a = 2020-01-01 }", "a table, or a list of texts"),
    "a table of its own": ("[request]\nepisodes = 1", "request={'episodes': 1}: unknown key"),
    "another command's": ("command = 'collect'", "command='collect': these are no settings of rir-gym run"),
    "no TOML": ("a = = 2", "not TOML"),
    "a key twice": ("seed = 1\nseed = 2", "not TOML"),
    "nested too deep": (f"a = {'[' * 5000}", "not TOML"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line_with_file_key_and_what_is_allowed(tmp_path: Path, name: str) -> None:
    text, said = BAD[name]
    (tmp_path / "x.toml").write_text(text, "utf-8")
    ended = rir_gym("run", "--agent", "scripted", "--config", tmp_path / "x.toml", "--out", tmp_path / "o")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err
    assert str(tmp_path / "x.toml") in ended.err
    assert not (tmp_path / "o").exists()


def test_a_choice_in_a_file_is_checked_there(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("duplicates = 'some'")
    with pytest.raises(UsageError, match="duplicates='some': one of drop, keep is required"):
        read_settings(Export, tmp_path / "x.toml", command="export")


def test_what_is_out_of_range_in_a_file_names_its_value(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("episodes = 1")
    said = rir_gym("demo", "--config", tmp_path / "x.toml")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "--episodes" in said.err
    assert "1" in said.err


@dataclass(frozen=True)
class Inner:
    name: Annotated[str, typer.Option()] = "a"
    private: int = 3


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    many: Annotated[tuple[str, ...], typer.Option()] = ()


def test_inner_dataclasses_are_flat_in_the_file_and_plain_fields_are_left_alone(tmp_path: Path) -> None:
    assert [setting.name for setting in settings_of(Outer)] == ["name", "many"]
    settings = Outer(Inner("é\x7f\"\\\n'''"), ("x", ""))
    (tmp_path / "x.toml").write_text(toml_text(settings, command="x", without=["many"]), "utf-8", newline="\n")
    read = read_settings(Outer, tmp_path / "x.toml", command="x")
    assert from_values(Outer, read) == replace(settings, many=())


def test_a_file_without_a_command_or_of_nothing_is_fine(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"# nothing\r\n\r\nseed = 5\r\n")
    assert read_settings(Run, tmp_path / "x.toml", command="run") == {"seed": 5}
    (tmp_path / "x.toml").write_bytes(b"")
    assert read_settings(Run, tmp_path / "x.toml", command="run") == {}


def test_a_path_of_any_bytes_comes_back(tmp_path: Path) -> None:
    from rir_gym.cli.settings import keep_settings

    asked = Run(out=Path("o"), request=Request(model="m\udcff"))
    keep_settings(tmp_path, asked, command="run")
    assert read_settings(Run, tmp_path / SETTINGS, command="run")["model"] == "m\udcff"


def test_the_page_about_it_says_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings and the Python of docs/cli.md."""
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
    [table] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    [code] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(table)
    assert rir_gym("run", "--config", "mine.toml", "--episodes", 1, "--out", "runs/first").code == 0
    exec(compile(code, "docs/cli.md", "exec"), {})


def test_arguments_are_json_or_text() -> None:
    assert parse_arguments(["a=[1", "b==", "c=null", "d="]) == {"a": "[1", "b": "=", "c": None, "d": ""}

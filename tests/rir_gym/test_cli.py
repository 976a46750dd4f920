"""The command line as a user meets it: what runs, what is written, and one line for every fault."""

import json
import subprocess
import sys

import pytest

from rir_gym.cli import main
from rir_gym.cli.run import parse_arguments
from rir_gym.data.records import read_episodes
from rir_gym.errors import UsageError


@pytest.fixture
def cli(monkeypatch, capsys):
    """Run ``rir-gym`` with arguments: (exit code, standard output, standard error)."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["rir-gym", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return call


def scripted(out, *more):
    return ("run", "--agent", "scripted", "--episodes", 3, "--out", out, *more)


def test_importing_the_package_and_the_command_line_loads_nothing_heavy():
    code = (
        "import sys, rir_gym, rir_gym.cli, rir_envs, rir_policies, gymnasium as gym\n"
        "gym.make('rir_gym/Apothecary-v0')\n"
        "heavy = {'torch', 'transformers', 'textworld', 'jericho', 'py4j', 'datasets'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_run_writes_one_record_an_episode_and_prints_a_summary(cli, tmp_path):
    code, out, _ = cli(*scripted(tmp_path / "run", "--seed", 5, "--mechanism", "restart", "--agent-calls", 30))
    assert code == 0
    assert "restart, n = 3" in out
    records = list(read_episodes(tmp_path / "run"))
    assert [record["header"]["seed"] for record in records] == [5, 6, 7]
    assert {record["header"]["mechanism"]["name"] for record in records} == {"restart"}
    assert all(record["header"]["budget"] == {"agent_calls": 30, "rollbacks": 3} for record in records)
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == [
        "config.json",
        "episodes.jsonl",
        "settings.toml",
        "times.jsonl",
    ]


def test_the_json_summary_is_one_line_for_machines(cli, tmp_path):
    code, out, _ = cli(*scripted(tmp_path / "run", "--json"))
    assert code == 0
    summary = json.loads(out)
    assert (summary["n"], summary["mechanism"]) == (3, "rir")
    assert len(summary["success"]) == 3


def test_the_same_command_writes_the_same_bytes(cli, tmp_path):
    for name in ("a", "b"):
        assert cli(*scripted(tmp_path / name))[0] == 0
    assert (tmp_path / "a/episodes.jsonl").read_bytes() == (tmp_path / "b/episodes.jsonl").read_bytes()


def test_settings_reach_the_records(cli, tmp_path):
    more = ("--no-review-terminal", "--memory-position", "tail", "--env-arg", "stores=4", "--reviewer", "exact")
    assert cli(*scripted(tmp_path / "run", *more))[0] == 0
    header = next(read_episodes(tmp_path / "run"))["header"]
    assert header["env"]["kwargs"] == {"stores": 4}
    mechanism = header["mechanism"]
    assert (mechanism["review_terminal"], mechanism["memory_position"], mechanism["uses_oracle"]) == (
        False,
        "tail",
        True,
    )


def test_view_shows_the_tree_of_one_episode(cli, tmp_path):
    cli(*scripted(tmp_path / "run"))
    code, out, _ = cli("view", tmp_path / "run", "--episode", 1)
    assert code == 0
    assert "seed 1" in out
    assert "step 1" in out
    assert "seed 2" not in out


def test_the_demo_does_not_depend_on_the_number_of_workers(cli, tmp_path):
    tables = []
    for workers in (1, 2):
        small = ("--episodes", 4, "--sweep-episodes", 2, "--workers", workers)
        code, out, err = cli("demo", *small, "--out", tmp_path / f"w{workers}", "--json")
        assert (code, err) == (0, "")
        tables.append(json.loads(out)["cells"])
        assert json.loads(out)["page"] == str(tmp_path / f"w{workers}" / "index.html")
        assert json.loads((tmp_path / f"w{workers}" / "figures.json").read_bytes()) == tables[-1]
    assert tables[0] == tables[1]
    for name in ("index.html", "episode.html", "figures.json", "episodes.jsonl"):
        assert (tmp_path / "w1" / name).read_bytes() == (tmp_path / "w2" / name).read_bytes()
    assert {row["mechanism"] for row in tables[0]} == {"react", "reflection_only", "rollback_only", "restart", "rir"}
    assert {row["agent_calls_budget"] for row in tables[0]} == {24, 28, 36, 60}
    assert {row["reviewer"]: row["uses_oracle"] for row in tables[0]} == {"evidence": False, "exact": True}


def test_the_demo_prints_tables_intervals_and_a_tree_and_names_the_page_to_open(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rir-demo").mkdir()
    code, out, err = cli("demo", "--episodes", 20, "--sweep-episodes", 2, "--workers", 1)
    assert (code, err) == (0, "")
    for part in ("evidence only", "uses_oracle", "Nothing to learn", "B = 60", "same seeds", "↩ from step"):
        assert part in out
    assert "open rir-demo-2/index.html" in out
    assert list((tmp_path / "rir-demo").iterdir()) == []
    page = (tmp_path / "rir-demo-2" / "index.html").read_text("utf-8")
    assert page.count("<svg") == 2
    assert page.count("<table>") == 8
    for line in ("95 % Wilson interval", "rir-gym demo --episodes 20 --sweep-episodes 2", "rollback_only"):
        assert line in page
    [shown] = read_episodes(tmp_path / "rir-demo-2")
    assert shown["result"]["success"]
    assert shown["ledger"]["rollbacks"] > 0
    assert "application/json" in (tmp_path / "rir-demo-2" / "episode.html").read_text("utf-8")


def test_a_demo_that_stops_leaves_no_folder(cli, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("rir_gym.cli.demo._results", stop)
    code, _, err = cli("demo", "--out", tmp_path / "x" / "y")
    assert (code, err.strip()) == (130, "rir-gym: interrupted")
    assert list(tmp_path.iterdir()) == []


FAULTS = {
    "unknown id": (("--env", "rir_gym/Nope-v0"), "env='rir_gym/Nope-v0': unknown; known are rir_gym/"),
    "unknown mechanism": (("--mechanism", "nope"), "mechanism='nope': unknown; known are agent_only"),
    "unknown reviewer": (("--reviewer", "nope"), "reviewer='nope': unknown"),
    "no expert": (("--env", "FrozenLake-v1"), "experts are those of rir_gym/"),
    "agent calls": (("--agent-calls", "0"), "agent_calls=0: a budget is an int of at least 1"),
    "rollbacks": (("--rollbacks", "0"), "rollbacks=0: a budget"),
    "episodes": (("--episodes", "0"), "episodes=0: at least 1"),
    "no number": (("--episodes", "x"), "--episodes"),
    "seed": (("--seed", "-1"), "seed=-1: at least 0"),
    "memory position": (("--memory-position", "top"), "memory-position='top': unknown; known are system, tail"),
    "environment argument": (("--env-arg", "stores=99"), "stores=99: an int from 1 to 12"),
    "unknown environment argument": (("--env-arg", "foo=1"), "foo"),
    "no pair": (("--env-arg", "foo"), "env-arg='foo': name=value"),
    "both players": (("--model", "somewhere"), "give one of --model and --agent"),
    "option": (("--bogus", "1"), "--bogus"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_of_a_run_is_one_line_and_writes_nothing(cli, tmp_path, name):
    arguments, said = FAULTS[name]
    code, out, err = cli(*scripted(tmp_path / "run", *arguments))
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert said in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--out", "x"), "give one of --model and --agent"),
        (("run", "--agent", "somebody", "--out", "x"), "agent='somebody': unknown; known are scripted"),
        (("run", "--agent", "scripted"), "--out"),
        (("view", "nowhere"), "no such file"),
        (("nonsense",), "nonsense"),
        (("demo", "--episodes", "1"), "--episodes"),
    ],
)
def test_other_faults_are_one_line_too(cli, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    code, _, err = cli(*arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_a_model_folder_without_weights_is_one_line(cli, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "empty").mkdir()
    code, _, err = cli("run", "--model", tmp_path / "empty", "--out", tmp_path / "run")
    assert code == 2
    assert err.count("\n") == 1
    assert str(tmp_path / "empty") in err
    assert not (tmp_path / "run").exists()


def test_an_output_that_exists_is_kept_unless_overwritten(cli, tmp_path):
    cli(*scripted(tmp_path / "run"))
    before = (tmp_path / "run/episodes.jsonl").read_bytes()
    code, _, err = cli(*scripted(tmp_path / "run", "--seed", 9))
    assert (code, err.count("\n")) == (2, 1)
    assert (tmp_path / "run/episodes.jsonl").read_bytes() == before
    assert cli(*scripted(tmp_path / "run", "--seed", 9, "--overwrite"))[0] == 0
    assert (tmp_path / "run/episodes.jsonl").read_bytes() != before


def test_a_missing_extra_is_named(cli, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "textworld", None)
    code, _, err = cli("run", "--env", "rir_gym/TextWorld-Simple-v0", "--model", "x/y", "--out", tmp_path / "run")
    assert code == 2
    assert "pip install 'rir-gym[textworld]'" in err
    assert list(tmp_path.iterdir()) == []


def test_environment_arguments_are_json_or_text():
    assert parse_arguments(["level=2", "split=train", "deep=null"]) == {"level": 2, "split": "train", "deep": None}
    with pytest.raises(UsageError, match="name=value"):
        parse_arguments(["2=level"])


def test_help_shows_every_command(cli):
    code, out, _ = cli("--help")
    assert code == 0
    assert all(command in out for command in ("demo", "run", "view"))

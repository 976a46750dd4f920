"""``rir-gym bench`` and ``rir-gym report`` as a user meets them: the same data, however played, and clear refusals."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from rir_gym.bench import folder as run_folder
from rir_gym.bench.folder import RUN, read_run, revision
from rir_gym.bench.sidecar import LABELS, labelled_keys
from rir_gym.bench.suite_file import load_suite, suite_of
from rir_gym.cli import bench_cell, main
from rir_gym.cli.bench import chosen
from rir_gym.data import read_episodes
from rir_gym.data.keys import key_of
from rir_gym.data.survey import survey
from rir_gym.errors import UnknownName, UsageError

SMOKE = files("rir_gym.bench").joinpath("suites", "smoke.toml").read_text("utf-8")
COMMAND = [sys.executable, "-c", "import sys; sys.argv[0] = 'rir-gym'; from rir_gym.cli import main; main()"]


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


def smoke(out, *more, episodes=2, workers=0):
    return ("bench", "smoke", "--out", out, "--episodes", episodes, "--workers", workers, *more)


def labels(out):
    return sorted((out / LABELS).read_text().splitlines())


def keys(out):
    return {key_of(record) for record in read_episodes(out)}


def test_the_same_data_for_any_number_of_workers(cli, tmp_path):
    for workers in (0, 2):
        code, out, _ = cli(*smoke(tmp_path / f"w{workers}", "--json", workers=workers))
        assert code == 0
        assert json.loads(out)["episodes"] == 48
    assert survey(tmp_path / "w0").records_sha256 == survey(tmp_path / "w2").records_sha256
    assert labels(tmp_path / "w0") == labels(tmp_path / "w2")


def test_a_run_goes_on_and_grows_and_its_folder_says_everything(cli, tmp_path):
    out = tmp_path / "a" / "run"
    assert cli(*smoke(out, "--section", "main", "--mechanism", "rir", episodes=1))[0] == 0
    first = keys(out)
    code, _, said = cli(*smoke(out, episodes=3))
    assert code == 0
    assert f"{len(first)} of 72 episodes are in" in said
    assert first < keys(out)
    about = json.loads((out / RUN).read_text())
    assert about["seeds"] == {"test": [50000, 50003, 1], "training": [0, 40, 1]}
    assert about["revisions"] == [revision()]
    assert about["versions"]["rir_gym"]
    assert len(about["cells"]) == 24
    assert all(cell["world"]["env"] == "rir_gym/Apothecary-v0" for cell in about["cells"].values())
    assert labelled_keys(out / LABELS) == keys(out)
    records = list(read_episodes(out))
    by_seed = {record["header"]["seed"] for record in records}
    assert by_seed == {50000, 50001, 50002}
    for record in records:
        assert record["header"]["budget"]["agent_calls"] in (20, 29, 40)
        assert record["header"]["agent"]["slip"] == 0.1
    assert cli(*smoke(out, episodes=3))[0] == 0  # nothing is left to do
    assert len(list(read_episodes(out))) == 72


def test_labels_that_were_torn_or_lost_are_made_again(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("rir_gym.cli.bench_labels._FEW", 8)
    out = tmp_path / "run"
    assert cli(*smoke(out, "--no-labels"))[0] == 0
    assert not (out / LABELS).exists()
    assert cli(*smoke(out))[0] == 0
    whole = labels(out)
    text = (out / LABELS).read_bytes()
    (out / LABELS).write_bytes(text[: len(text) // 2])
    assert cli(*smoke(out, workers=2))[0] == 0
    assert labels(out) == whole


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--episodes", 0), "episodes=0"),
        (("--episodes", -1), "episodes=-1"),
        (("--mechanism", "magic"), "mechanism='magic': unknown"),
        (("--section", "none"), "section='none': unknown"),
        (("--section", "horizon", "--mechanism", "react"), "no table of the suite has both"),
        (("--workers", -1), "workers=-1"),
        (("--compression", "rar"), "rar"),
    ],
)
def test_bad_arguments_are_one_line_and_leave_nothing(cli, tmp_path, more, said):
    code, out, err = cli("bench", "smoke", "--out", tmp_path / "x", *more)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"restart", "rir"]', '"restart", "magic"]', "mechanism='magic': unknown"),
        ("rir_gym/Apothecary-v0", "rir_gym/Nowhere-v0", "env='rir_gym/Nowhere-v0'"),
        ("rir_gym/Apothecary-v0", "FrozenLake-v1", "'FrozenLake-v1'"),
        ("agent_calls = [20, 29, 40]", "agent_calls = [0]", "agent_calls=0"),
        ("agent_calls = 29", "agent_calls = -29", "agent_calls=-29"),
        ('[[sections]]\nname = "budget"', '[[sections]]\nname = "main"', "no name twice"),
        ('review = "evidence"', 'review = "model"', "give --model"),
    ],
)
def test_a_suite_that_cannot_be_played_is_refused_before_anything_is(cli, tmp_path, old, new, said):
    assert old in SMOKE
    (tmp_path / "mine.toml").write_text(SMOKE.replace(old, new))
    code, _, err = cli("bench", tmp_path / "mine.toml", "--out", tmp_path / "x", "--workers", 0)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_an_oracle_that_does_not_exist_is_said_before_the_run(cli, tmp_path, monkeypatch):
    # A world without an oracle: the same environment, and nobody who knows distances.
    monkeypatch.setattr(bench_cell, "_knows", lambda world, seed: (False, True))
    code, _, err = cli(*smoke(tmp_path / "x"))
    assert code == 2
    assert "reviewer='exact', env='rir_gym/Apothecary-v0': reads an oracle, and there is none" in err
    code, _, _ = cli(*smoke(tmp_path / "y", "--section", "main", "--mechanism", "react", episodes=1, workers=0))
    assert code == 2  # its columns have the exact reviewer, too
    evidence = tomllib.loads(SMOKE)
    evidence["sections"] = [evidence["sections"][0] | {"reviewers": ["evidence"]}]
    cells = list(run_folder.plan_of(suite_of(evidence)).cells.values())
    bench_cell.check(cells, model=None, seed=0)  # nobody there reads it
    monkeypatch.setattr(bench_cell, "_knows", lambda world, seed: (False, False))
    original = bench_cell.build

    def declares(cell, **more):
        mechanism, origin = original(cell, **more)
        return replace(mechanism, uses_oracle=True), origin

    monkeypatch.setattr(bench_cell, "build", declares)
    with pytest.raises(UsageError, match="mechanism='react', env='rir_gym/Apothecary-v0': uses_oracle"):
        bench_cell.check(cells, model=None, seed=0)


def test_a_folder_of_another_suite_version_or_kind_is_refused(cli, tmp_path, monkeypatch):
    out = tmp_path / "run"
    assert cli(*smoke(out, episodes=1))[0] == 0
    before = survey(out).records_sha256
    (tmp_path / "other.toml").write_text(SMOKE.replace('name = "smoke"', 'name = "other"'))
    code, _, err = cli("bench", tmp_path / "other.toml", "--out", out, "--workers", 0)
    assert code == 2
    assert "suite='smoke' there, 'other' here" in err
    monkeypatch.setattr("rir_gym.__version__", "9.9.9")
    code, _, err = cli(*smoke(out, episodes=1))
    assert code == 2
    assert "rir_gym='0.1.0' there, '9.9.9' here" in err
    monkeypatch.undo()
    assert survey(out).records_sha256 == before
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "thing").touch()
    code, _, err = cli(*smoke(tmp_path / "strange"))
    assert code == 2
    assert "holds 'thing'" in err


def test_a_run_that_failed_at_once_leaves_no_folder(cli, tmp_path, monkeypatch):
    def broken(self, recipes):
        raise UsageError("nothing can be played today")

    monkeypatch.setattr(bench_cell.BenchPlayer, "__call__", broken)
    code, _, err = cli(*smoke(tmp_path / "x"))
    assert (code, err) == (2, "rir-gym: nothing can be played today\n")
    assert not (tmp_path / "x").exists()


def began(out, process, least=2):
    """Wait until some episodes are there."""
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if (out / "episodes.jsonl").exists() and (out / "episodes.jsonl").read_bytes().count(b"\n") >= least:
            return
        time.sleep(0.01)
    raise AssertionError(f"nothing was played: {process.poll()}")


def children(pid):
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs Linux's list of child processes")
def test_a_killed_run_and_a_dead_worker_end_in_the_undisturbed_data(cli, tmp_path):
    some = ("--section", "main", "--mechanism", "rir", "--mechanism", "restart")
    assert cli(*smoke(tmp_path / "quiet", *some, episodes=12))[0] == 0
    out = tmp_path / "run"
    arguments = [str(each) for each in smoke(out, *some, episodes=12, workers=2)]
    process = subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE)
    began(out, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    process = subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True)
    began(out, process, least=1 + (out / "episodes.jsonl").read_bytes().count(b"\n"))
    for child in children(process.pid)[1:2]:  # the first is multiprocessing's own
        os.kill(child, signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert survey(out).records_sha256 == survey(tmp_path / "quiet").records_sha256
    assert labels(out) == labels(tmp_path / "quiet")


def test_parts_of_a_suite():
    suite = load_suite("smoke")
    part = chosen(suite, episodes=7, sections=["main"], mechanisms=["rir", "react"])
    assert [(s.name, s.mechanisms, s.episodes) for s in part.sections] == [("main", ("react", "rir"), 7)]
    assert chosen(suite) == suite
    with pytest.raises(UnknownName):
        chosen(suite, mechanisms=["nobody"])
    with pytest.raises(UsageError):
        chosen(suite, episodes=True)


def test_what_needs_a_language_model_is_said_to_be_n_a(cli, tmp_path):
    (tmp_path / "mine.toml").write_text(SMOKE.replace('["react", "reflection_only"', '["reflact", "expel", "react"'))
    out = tmp_path / "run"
    assert cli("bench", tmp_path / "mine.toml", "--out", out, "--episodes", 1, "--workers", 0)[0] == 0
    assert set(json.loads((out / RUN).read_text())["absent"]) == {"reflact", "expel"}
    assert cli("report", out)[0] == 0
    assert "reflact: n/a" in (out / "report" / "report.md").read_text()


def test_gold_lengths_are_measured_on_the_training_seeds(cli, tmp_path):
    table = SMOKE.replace("training_seeds = [0, 40]", "training_seeds = [0, 6]").replace("gold = 16", "gold = 15.9")
    (tmp_path / "mine.toml").write_text(table)
    code, out, _ = cli("bench", tmp_path / "mine.toml", "--gold", "--json")
    [row] = json.loads(out)
    assert code == 0
    assert row["training_seeds"] == [0, 6]
    assert row["oracle_n"] == row["expert_n"] == 6
    assert 10 <= row["oracle_median"] <= row["expert_median"] <= 20
    assert row["as_measured"] is False


def test_suites_are_listed(cli):
    code, out, _ = cli("bench")
    assert code == 0
    assert "smoke: " in out
    assert "apothecary: " in out


# --- reading a run ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda about: about | {"schema": 99}, "schema=99"),
        (lambda about: about | {"suite": {}}, "not the run.json"),
        (lambda about: about | {"cells": {}}, "made by another version"),
        (lambda about: about | {"model": 3}, "model is malformed"),
        (lambda about: {k: v for k, v in about.items() if k != "revisions"}, "revisions is missing"),
        (lambda about: [], "schema=None"),
    ],
)
def test_a_damaged_run_is_one_clear_error(cli, tmp_path, change, said):
    out = tmp_path / "run"
    assert cli(*smoke(out, "--no-labels", "--section", "main", "--mechanism", "react", episodes=1))[0] == 0
    file = out / RUN
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    code, _, err = cli("report", out)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_what_is_no_run_is_refused(cli, tmp_path):
    for place in (tmp_path, tmp_path / "none"):
        code, _, err = cli("report", place)
        assert code == 2
        assert "no folder of a run" in err


def test_a_run_that_has_not_ended_says_so(cli, tmp_path):
    out = tmp_path / "run"
    assert cli(*smoke(out, episodes=2))[0] == 0
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text("".join([*lines[:20], lines[3], '{"torn": ']))
    labelled = (out / LABELS).read_text().splitlines(keepends=True)
    (out / LABELS).write_text("".join(labelled[:5]))
    run = read_run(out)
    assert sum(cell.n for cell in run.cells.values()) == 20
    assert any("20 of 48 planned episodes" in note for note in run.notes)
    assert any("5 of 20 episodes have labels" in note for note in run.notes)
    assert any("could not be read" in note for note in run.notes)
    assert cli("report", out)[0] == 0
    (out / "episodes.jsonl").unlink()
    assert read_run(out).cells == {}
    assert cli("report", out)[0] == 0


# --- a model in one slot ----------------------------------------------------------------------------------------------

MODEL = """
[[reviewers]]
name = "model reviews"
review = "model"
where = "oracle"

[[reviewers]]
name = "model acts"
act = "model"
review = "oracle"
where = "oracle"

[[sections]]
name = "model"
title = "One role at a time"
worlds = ["apothecary"]
reviewers = ["model reviews", "model acts"]
mechanisms = ["rir", "reflact"]
agent_calls = [6]
horizons = [[2, 4]]
episodes = 1
"""


def test_a_model_takes_one_slot_and_the_rest_stays(cli, tmp_path):
    pytest.importorskip("torch", reason="a local model needs torch")
    from tiny_models import tiny_network, tiny_tokenizer

    tiny_network(context=4096).save_pretrained(tmp_path / "tiny")
    tiny_tokenizer().save_pretrained(tmp_path / "tiny")
    (tmp_path / "mine.toml").write_text(SMOKE + MODEL)
    out = tmp_path / "run"
    arguments = ("bench", tmp_path / "mine.toml", "--out", out, "--section", "model", "--workers", 0)
    assert cli(*arguments, "--model", tmp_path / "tiny")[0] == 0
    records = {record["header"]["agent"]["act"]: record for record in read_episodes(out)}
    assert set(records) == {"expert", "model"}
    roles = {
        name: {call["role"] for event in record["events"] for call in event["calls"]}
        for name, record in records.items()
    }
    assert roles == {"expert": {"review"}, "model": {"act"}}
    assert all(record["header"]["model"] == "tiny" for record in records.values())
    assert records["model"]["ledger"]["prompt_tokens"] > 0
    assert json.loads((out / RUN).read_text())["model"]["weights"]
    assert cli("report", out)[0] == 0
    assert "Model: model tiny" in (out / "report" / "report.md").read_text().replace("\\", "")
    code, _, err = cli(*arguments)
    assert code == 2
    assert "give --model" in err


def test_expel_plays_with_rules_and_is_n_a_without(cli, tmp_path):
    pytest.importorskip("torch", reason="a local model needs torch")
    from tiny_models import tiny_network, tiny_tokenizer

    from rir_policies.expel import Rule, RuleBook

    tiny_network(context=4096).save_pretrained(tmp_path / "tiny")
    tiny_tokenizer().save_pretrained(tmp_path / "tiny")
    suite = (
        (SMOKE + MODEL)
        .replace('["rir", "reflact"]', '["react", "expel"]')
        .replace('"model reviews", "model acts"]', '"model acts"]')
    )
    (tmp_path / "mine.toml").write_text(suite)
    arguments = ("bench", tmp_path / "mine.toml", "--section", "model", "--workers", 0, "--model", tmp_path / "tiny")
    assert cli(*arguments, "--out", tmp_path / "without")[0] == 0
    assert "expel" in json.loads((tmp_path / "without" / RUN).read_text())["absent"]
    (tmp_path / "rules.json").write_text(json.dumps(RuleBook((Rule("read the book first", 2),)).to_json()))
    assert cli(*arguments, "--out", tmp_path / "with", "--rules", tmp_path / "rules.json")[0] == 0
    played = {record["header"]["mechanism"]["name"]: record for record in read_episodes(tmp_path / "with")}
    assert set(played) == {"react", "expel"}
    prompt = str(played["expel"]["events"][0]["calls"][0]["messages"])
    assert "read the book first" in prompt
    (tmp_path / "rules.json").write_text("{}")
    code, _, err = cli(*arguments, "--out", tmp_path / "bad", "--rules", tmp_path / "rules.json")
    assert code == 2
    assert err.count("\n") == 1

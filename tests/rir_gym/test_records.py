"""Records of schema 1: what one episode becomes, that it is always the same, and the files it goes into and out of."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from rir_gym import Budget, Decision, Mechanism, RollbackWrapper, Verdict, run
from rir_gym.data.records import (
    check_record,
    decode,
    episode_record,
    header_of,
    new_folder,
    read_episodes,
    times_of,
    versions,
    write_episodes,
)
from rir_gym.errors import OutputExists, RecordError, UsageError

NASTY = "a\nb\u2028c\x00\x1b[31m \ud800 <|im_end|> 水 '\"\\ 2021-08-13 10:00:00"


@pytest.fixture
def record(story):
    return record_of(story)


def record_of(story, **settings):
    episode = story.run(**settings)
    return episode_record(episode, header_of(story.env, story.mechanism, agent="script", model="m", prompts="p1"))


def write(folder, records):
    return write_episodes(folder, records, [{"act": 0.5}] * len(records))


# --- the record -----------------------------------------------------------------------------------------------------


def test_the_tree_is_whole_and_says_what_survives(record):
    columns = ("id", "parent", "step", "action", "reward", "terminated", "surviving", "summary")
    assert [tuple(node[name] for name in columns) for node in record["nodes"]] == [
        (0, None, 0, None, 0.0, False, True, "depth 0"),
        (1, 0, 1, "take lamp", 0.0, False, True, "depth 0"),
        (2, 1, 2, "go down", 0.0, False, False, "depth 1"),
        (3, 1, 2, "wait", 0.0, False, True, "depth 0"),
        (4, 3, 3, "open", 1.0, True, True, "depth 0"),
    ]
    assert record["nodes"][4]["oracle"] == {"success": True, "failed": False, "score": 1.0}
    assert all("oracle" not in node["info"] for node in record["nodes"])
    assert record["nodes"][2]["info"]["depths"] == [1, {"$float": "nan"}]


def test_events_stand_in_order_with_what_became_of_them(record):
    assert [(event["kind"], event["node"], event["step"], event["outcome"]) for event in record["events"]] == [
        ("act", 0, 0, "executed"),
        ("act", 1, 1, "unparsed"),
        ("act", 1, 1, "executed"),
        ("act", 2, 2, "dropped"),
        ("review", 2, 2, "rollback"),
        ("where", 2, 2, ""),
        ("patch", 2, 2, ""),
        ("act", 1, 1, "executed"),
        ("review", 1, 1, "continue"),
        ("act", 3, 2, "dropped"),
        ("review", 3, 2, "correction"),
        ("where", 3, 2, ""),
        ("patch", 3, 2, ""),
        ("act", 3, 2, "executed"),
        ("review", 4, 3, "continue"),
    ]
    request, review, where, patch = record["events"][3:7]
    assert (request["decision"], request["target"], request["thought"]) == ("request", 1, "too dark")
    assert (review["verdict"], review["urgency"], review["diagnosis"]) == ("rollback", 0.9, "went down")
    assert review["learned"][0]["text"] == "it is dark below"
    assert (where["point"], where["interval"], where["stages"]) == ({"node": 1, "step": 1}, [1, 2], ["coarse", "fine"])
    assert (where["confidence"], where["justification"], where["interval_unread"]) == (0.75, "lamp in hand", False)
    assert patch["memory"]["failure"]["cause"] == "went down"
    assert (patch["invoked"], patch["unread"]) == (True, False)


def test_every_model_call_is_there_and_adds_up_to_the_ledger(record):
    calls = [call for event in record["events"] for call in event["calls"]]
    assert [(call["role"], call["kind"]) for call in calls] == [
        ("act", "first"),
        ("act", "first"),
        ("act", "reask"),
        ("review", "first"),
        *[("coarse", "first"), ("fine", "first"), ("patch", "first")] * 2,
    ]
    assert calls[0] == {
        "role": "act",
        "kind": "first",
        "messages": [{"role": "system", "content": "you act"}, {"role": "user", "content": "what now?"}],
        "options": ["a", "b"],
        "scores": [0.5, -1.0],
        "text": "take lamp",
        "prompt_tokens": 20,
        "reused_tokens": 5,
        "generated_tokens": 3,
        "cut_tokens": 2,
    }
    for name in ("prompt_tokens", "reused_tokens", "generated_tokens", "cut_tokens"):
        assert sum(call[name] for call in calls) == record["ledger"][name] > 0


def test_header_result_ledger_and_memory(story):
    episode = story.run()
    record = episode_record(episode, header_of(story.env, story.mechanism, agent={"slip": 0.1}, model="m"))
    header = record["header"]
    assert (header["seed"], header["budget"]) == (7, {"agent_calls": 12, "rollbacks": 2})
    assert (header["agent"], header["model"], header["prompts"]) == ({"slip": 0.1}, "m", None)
    assert header["snapshot"] == "native"
    assert header["env"]["id"].endswith(":Cellar")
    assert header["env"]["wrappers"][0]["name"] == "RollbackWrapper"
    assert header["env"]["wrappers"][0]["kwargs"]["rng"] == "same"
    assert header["mechanism"]["name"] == "told"
    assert decode(header["mechanism"]["settings"]) == {"l_max": float("inf")}
    assert record["ledger"] == episode.ledger.to_json()
    assert record["memory"] == episode.memory.to_json() == record["events"][-3]["memory"]
    assert record["result"] == {
        "success": True,
        "score": 1.0,
        "stopped": "terminated",
        "final_response": None,
        "last": 4,
        "steps": 3,
        "return": 1.0,
    }


def lap(env, *, calls=3):
    mechanism = Mechanism(
        "lap",
        act=lambda views: [Decision.act(1) for _ in views],
        when=lambda views: [Verdict.not_due() for _ in views],
        where=lambda views, verdicts: [],
        what=lambda views, verdicts, restores: [],
    )
    [episode] = run([env], mechanism, budget=Budget(calls), seeds=[3])
    return check_record(episode_record(episode, header_of(env, mechanism, agent="lap")))


def test_a_registered_environment_is_named_with_its_arguments_and_wrappers():
    env = RollbackWrapper(gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=9), step_limit=5)
    record = lap(env)
    assert record["header"]["env"]["id"] == "FrozenLake-v1"
    assert record["header"]["env"]["kwargs"]["is_slippery"] is False
    assert record["header"]["env"]["max_episode_steps"] == 9
    assert record["header"]["env"]["wrappers"][-1]["kwargs"]["step_limit"] == 5
    assert [node["action"] for node in record["nodes"]] == [None, 1, 1, 1]
    assert [node["observation"] for node in record["nodes"]] == [0, 4, 8, 12]


def test_arrays_come_back_as_they_were():
    record = lap(RollbackWrapper(gym.make("CartPole-v1")))
    observation = decode(json.loads(json.dumps(record))["nodes"][0]["observation"])
    expected, _ = gym.make("CartPole-v1").reset(seed=3)
    assert observation.dtype == np.float32
    np.testing.assert_array_equal(observation, expected)


def test_versions_name_optional_packages_only_where_they_are_loaded(monkeypatch):
    for name in ("torch", "transformers", "textworld"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert set(versions()) == {"python", "rir_gym", "gymnasium", "numpy"}
    monkeypatch.setitem(sys.modules, "torch", object())
    assert "torch" in versions()


def test_a_header_of_another_mechanism_is_refused(story):
    episode = story.run()
    header = header_of(story.env, story.mechanism, agent="script")
    header["mechanism"]["name"] = "react"
    with pytest.raises(UsageError, match=r"react.*told"):
        episode_record(episode, header)


# --- the same again -------------------------------------------------------------------------------------------------


def test_two_runs_give_the_same_bytes_whatever_the_clock_said(story, tmp_path):
    for name, seconds in (("a", 0.25), ("b", 4.0)):
        episode = story.run(seconds=seconds, say=lambda text: text + NASTY)
        record = episode_record(episode, header_of(story.env, story.mechanism, agent="script"))
        with new_folder(tmp_path / name) as folder:
            write_episodes(folder, [record], [times_of(episode)])
    first, second = ((tmp_path / name / "episodes.jsonl").read_bytes() for name in "ab")
    assert first == second
    assert json.loads((tmp_path / "a" / "times.json").read_text()) == {
        "schema": 1,
        "unit": "seconds",
        "episodes": [{"act": 0.75, "review": 0.25, "coarse": 0.5, "fine": 0.5, "patch": 0.5}],
    }
    assert (tmp_path / "b" / "times.json").read_text() != (tmp_path / "a" / "times.json").read_text()


def test_what_is_read_is_what_was_written(story, tmp_path):
    records = [record_of(story, say=lambda text: text + NASTY, seed=seed) for seed in (1, 2)]
    with new_folder(tmp_path / "out") as folder:
        assert write(folder, records) == 2
    raw = (tmp_path / "out" / "episodes.jsonl").read_bytes()
    assert raw.isascii()
    assert raw.count(b"\n") == 2
    assert list(read_episodes(tmp_path / "out")) == records
    assert list(read_episodes(tmp_path / "out" / "episodes.jsonl")) == records
    assert records[0]["nodes"][0]["observation"] == "the top of a dark stair" + NASTY


# --- the folder -----------------------------------------------------------------------------------------------------


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def test_nothing_is_left_where_the_block_raises(tmp_path, record):
    def broken():
        yield record
        raise KeyboardInterrupt

    def block():
        with new_folder(tmp_path / "deep" / "out") as folder:
            assert not (tmp_path / "deep" / "out").exists()
            write_episodes(folder, broken(), [])

    with pytest.raises(KeyboardInterrupt):
        block()
    assert names(tmp_path) == []


def test_a_killed_process_leaves_no_output(tmp_path):
    program = (
        "import os; from rir_gym.data.files import new_folder\n"
        f"with new_folder({str(tmp_path / 'out')!r}) as f: (f / 'episodes.jsonl').write_text('{{'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9
    assert not (tmp_path / "out").exists()
    with new_folder(tmp_path / "out"):
        pass
    assert (tmp_path / "out").is_dir()


def test_an_old_folder_stays_until_the_new_one_is_whole(tmp_path, record):
    out = tmp_path / "out"
    with new_folder(out) as folder:
        write(folder, [record])
    old = (out / "episodes.jsonl").read_bytes()

    def block():
        with new_folder(out, existing="overwrite") as folder:
            write(folder, [record, record])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        block()
    assert (out / "episodes.jsonl").read_bytes() == old
    with new_folder(out, existing="overwrite") as folder:
        write(folder, [record, record])
        assert (out / "episodes.jsonl").read_bytes() == old
    assert (out / "episodes.jsonl").read_bytes() == old * 2
    assert names(tmp_path) == ["out"]


def test_what_exists_is_refused_before_anything_is_done(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "episodes.jsonl").write_text("")
    (tmp_path / "project" / "thesis.tex").write_text("mine")
    before = names(tmp_path)
    for name, existing in (
        ("empty", "refuse"),
        ("file", "refuse"),
        ("file", "overwrite"),
        ("project", "refuse"),
        ("project", "overwrite"),
    ):
        with pytest.raises(OutputExists, match=name), new_folder(tmp_path / name, existing=existing):
            pytest.fail("entered")
    assert names(tmp_path) == before
    assert (tmp_path / "project" / "thesis.tex").read_text() == "mine"
    with new_folder(tmp_path / "empty", existing="overwrite") as folder:
        (folder / "episodes.jsonl").touch()
    assert names(tmp_path / "empty") == ["episodes.jsonl"]


def test_a_folder_that_appears_meanwhile_is_not_replaced(tmp_path):
    out = tmp_path / "out"
    work = []

    def block():
        with new_folder(out) as folder:
            work.append(folder)
            (folder / "episodes.jsonl").write_text("new")
            out.mkdir()
            (out / "episodes.jsonl").write_text("theirs")

    with pytest.raises(OutputExists, match=r"what was written is in .*partial"):
        block()
    assert (out / "episodes.jsonl").read_text() == "theirs"
    assert (work[0] / "episodes.jsonl").read_text() == "new"


@pytest.mark.parametrize("name", ["file/out", "x" * 300, "nul\0"])
def test_a_place_that_cannot_be_written_is_named(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="path="), new_folder(tmp_path / name):
        pytest.fail("entered")
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_permission_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot be written"), new_folder(tmp_path / "out"):
        pytest.fail("entered")


def test_other_bad_arguments(tmp_path, record):
    with pytest.raises(UsageError, match="existing='yes'"), new_folder(tmp_path / "out", existing="yes"):
        pytest.fail("entered")
    with pytest.raises(UsageError, match="times=0, records=1"):
        write_episodes(tmp_path, [record], [])
    with pytest.raises(OutputExists, match=r"episodes\.jsonl"):
        write(tmp_path, [record])
    with pytest.raises(UsageError, match="cannot be written"):
        write(tmp_path / "none", [record])
    assert write_episodes(tmp_path, [record], [{}], tag="-2") == 1
    with pytest.raises(UsageError, match="no such"):
        read_episodes(tmp_path / "none")
    (tmp_path / "sub").mkdir()
    with pytest.raises(UsageError, match=r"no episodes\*\.jsonl"):
        read_episodes(tmp_path / "sub")


# --- reading --------------------------------------------------------------------------------------------------------


def test_the_files_of_a_folder_are_read_by_name(tmp_path, story):
    first, second = (record_of(story, seed=seed) for seed in (1, 2))
    write_episodes(tmp_path, [second], [{}], tag="-b")
    write_episodes(tmp_path, [first], [{}], tag="-a")
    assert [record["header"]["seed"] for record in read_episodes(tmp_path)] == [1, 2]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b'{"schema": 2}',
        b'{"schema": true}',
        b'{"schema": 1}',
        b'{"schema": 1, "x": NaN}',
        b'{"schema": 1, "x": 1e999}',
        b"[" * 100_000,
    ],
)
def test_a_bad_line_is_named_after_the_good_ones_before_it(tmp_path, record, line):
    file = tmp_path / "episodes.jsonl"
    good = json.dumps(record).encode()
    file.write_bytes(good + b"\n" + line + b"\n" + good + b"\n")
    reader = read_episodes(file)
    assert next(reader) == record
    with pytest.raises(RecordError, match=r"episodes\.jsonl, line 2: "):
        next(reader)


def test_a_torn_last_line_is_named(tmp_path, record):
    file = tmp_path / "episodes.jsonl"
    good = json.dumps(record).encode() + b"\n"
    file.write_bytes(good + good[:-40])
    with pytest.raises(RecordError, match="line 2: torn line"):
        list(read_episodes(file))


def put(path, value):
    """A change of a record: ``path`` into it, and the value to put there (``...`` takes the field away)."""

    def change(record):
        *steps, last = path
        at = record
        for step in steps:
            at = at[step]
        if value is ...:
            del at[last]
        else:
            at[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(["nodes", 2, "parent"], 3), r"nodes\[2\].*no tree"),
        (put(["nodes", 2, "parent"], -1), r"nodes\[2\].*no tree"),
        (put(["nodes", 2, "parent"], None), r"nodes\[2\].*no tree"),
        (put(["nodes", 2, "parent"], True), r"nodes\[2\]\.parent: int or null"),
        (put(["nodes", 1, "id"], 5), r"nodes\[1\].*no tree"),
        (put(["nodes", 4, "step"], 9), r"nodes\[4\]\.step=9"),
        (put(["nodes", 2, "surviving"], True), r"nodes\[2\]\.surviving"),
        (put(["nodes", 0, "info"], ...), r"nodes\[0\]\.info: missing"),
        (put(["nodes"], []), r"result\.last=4"),
        (put(["result", "last"], 99), r"result\.last=99"),
        (put(["result", "success"], 1), r"result\.success: bool"),
        (put(["events", 0, "kind"], "eval"), r"events\[0\]\.kind='eval'"),
        (put(["events", 0, "node"], 17), r"events\[0\].*node=17"),
        (put(["events", 5, "point", "node"], 17), r"events\[5\]\.point\.node=17"),
        (put(["events", 6, "memory"], ...), r"events\[6\]\.memory: missing"),
        (put(["events", 0, "calls", 0], "x"), r"events\[0\]\.calls\[0\]: an object"),
        (put(["ledger", "auxiliary"], "many"), r"ledger\.auxiliary: int"),
        (put(["header", "budget"], {}), r"header\.budget\.agent_calls: missing"),
    ],
)
def test_what_breaks_the_schema_is_named(record, change, message):
    record = json.loads(json.dumps(record))
    assert check_record(copy.deepcopy(record)) == record
    change(record)
    with pytest.raises(RecordError, match=message):
        check_record(record)


def test_further_fields_are_allowed(record):
    record["later"] = {"$new": 1}
    assert check_record(record) is record

"""What each format takes of a tree: branches, prompts of their own moment, provenance, splits, counts."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from told_records import apothecary_records, write_records

from rir_gym.cli.export import Wanted, plan_of
from rir_gym.data.exports import Plan, Split, export, moments
from rir_gym.data.keys import canonical
from rir_gym.errors import OutputExists, RecordError, UnknownName, UsageError

Records = list[dict[str, Any]]


@pytest.fixture(scope="module")
def scripted() -> Records:
    return apothecary_records(range(60))


@pytest.fixture(scope="module")
def modelled() -> Records:
    """Model episodes of both placements, made successes: what the outcome is does not matter to what is said."""
    return [won(record) for record in apothecary_records(range(12), model=True, agent_calls=24)]


def won(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "result": {**record["result"], "success": True}}


def rows_of(
    tmp_path: Path, records: Records, format: str, *, split: str = "train", name: str = "out", **wanted: Any
) -> list[dict[str, Any]]:
    data, out = tmp_path / f"{name}-data", tmp_path / name
    write_records(data, records)
    export(format, data, out, plan_of(Wanted(format, **wanted)))
    return read(out / f"{split}.jsonl")


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="ascii").splitlines()]


def surviving_actions(record: Mapping[str, Any]) -> list[Any]:
    branch = [node for node in record["nodes"] if node["surviving"]]
    return [node["action"] for node in sorted(branch, key=lambda node: node["step"])[1:]]


# --- sft --------------------------------------------------------------------------------------------------------------


def test_sft_is_the_surviving_branch_of_successes_a_row_a_decision(tmp_path: Path, scripted: Records) -> None:
    rows = rows_of(tmp_path, scripted, "sft", duplicates="keep")
    by_seed: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_seed.setdefault(row["seed"], []).append(row)
    won_seeds = {record["header"]["seed"] for record in scripted if record["result"]["success"]}
    assert set(by_seed) == won_seeds
    assert 10 < len(won_seeds) < len(scripted)
    assert any(record["ledger"]["rollbacks"] for record in scripted if record["result"]["success"])
    for record in scripted:
        if record["header"]["seed"] in won_seeds:
            told = by_seed[record["header"]["seed"]]
            assert [row["completion"][0]["content"] for row in told] == surviving_actions(record)
            assert [row["step"] for row in told] == list(range(len(told)))


def test_a_prompt_of_the_surviving_branch_holds_nothing_of_abandoned_ones_but_its_memory(
    tmp_path: Path, scripted: Records
) -> None:
    """The observations of every prompt are those of its own branch, one for one; memory is the one of that moment."""
    rows = rows_of(tmp_path, scripted, "sft", duplicates="keep")
    records = {record["header"]["seed"]: record for record in scripted}
    with_memory = 0
    for row in rows:
        record = records[row["seed"]]
        branch = sorted((node for node in record["nodes"] if node["surviving"]), key=lambda node: node["step"])
        users = [turn["content"] for turn in row["prompt"] if turn["role"] == "user"]
        assert len(users) == row["step"] + 1
        for i, text in enumerate(users):
            shown = text.split("\n</observation>")[0].removeprefix(f'<observation step="{i}">\n')
            assert shown == branch[i]["observation"].strip()
        assistants = [turn["content"] for turn in row["prompt"] if turn["role"] == "assistant"]
        assert assistants == surviving_actions(record)[: row["step"]]
        memory = "Memory from earlier" in row["prompt"][0]["content"]
        reviewed = any(
            event["kind"] in ("review", "patch") and number < row["event"]
            for number, event in enumerate(record["events"])
        )
        assert reviewed or not memory
        with_memory += memory
    assert with_memory > 10


def test_memory_in_a_prompt_is_never_that_of_later(tmp_path: Path) -> None:
    """Words that a record's memory gets at its end are in no prompt of before."""
    [record] = [r for r in apothecary_records(range(40)) if r["ledger"]["rollbacks"] and r["result"]["success"]][:1]
    marked = copy.deepcopy(record)
    last = max(i for i, event in enumerate(marked["events"]) if event["kind"] == "patch")
    marked["events"][last]["memory"]["failure"]["cause"] = "MARKED LATER"
    marked["memory"]["failure"]["cause"] = "MARKED LATER"
    for format in ("sft", "messages", "kto", "roles"):
        for row in rows_of(tmp_path, [marked], format, name=format, only="all"):
            told = json.dumps(row.get("prompt") or row["messages"])
            assert ("MARKED LATER" in told) <= (row["event"] > last)
    after = rows_of(tmp_path, [marked], "sft", name="again")
    assert any("MARKED LATER" in json.dumps(row["prompt"]) for row in after)


def test_rows_of_a_model_are_what_was_sent_and_generated(tmp_path: Path, modelled: Records) -> None:
    rows = rows_of(tmp_path, modelled, "sft", duplicates="keep", requests=True)
    by_key = {(record["header"]["seed"], i): event for record in modelled for i, event in enumerate(record["events"])}
    for row in rows:
        calls = by_key[row["seed"], row["event"]]["calls"]
        pairs = [(call["messages"], call["text"]) for call in calls]
        assert (row["prompt"], row["completion"][0]["content"]) in pairs
        assert row["source"] == "sent"
        assert row["player"] == "model drawing"
    requests = [row for row in rows if row["completion"][0]["content"] == "rollback"]
    assert requests, "granted requests are ordinary turns of the agent"


def test_requests_stay_out_unless_they_are_wanted(tmp_path: Path, modelled: Records) -> None:
    without = rows_of(tmp_path, modelled, "sft", duplicates="keep")
    assert not [row for row in without if row["completion"][0]["content"] == "rollback"]


def test_a_thought_is_a_row_of_its_own(tmp_path: Path) -> None:
    records = [won(record) for record in apothecary_records(range(4), model=True, thought_tokens=16, agent_calls=12)]
    rows = rows_of(tmp_path, records, "sft", duplicates="keep")
    parts = Counter(row["part"] for row in rows)
    assert parts["thought"]
    assert parts["action"] == sum(len(surviving_actions(record)) for record in records)
    thoughtless = [row for row in rows if row["part"] == "thought" and not row["completion"][0]["content"].strip()]
    assert not thoughtless


def test_placement_moves_the_memory_of_rows_that_were_sent(tmp_path: Path, modelled: Records) -> None:
    rows = rows_of(tmp_path, modelled, "sft", placement="tail", duplicates="keep")
    assert {row["source"] for row in rows} == {"rendered"}
    moved = [row for row in rows if "Memory from earlier" in row["prompt"][-1]["content"]]
    assert moved
    assert not [row for row in rows if "Memory from earlier" in row["prompt"][0]["content"]]


# --- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", [None, "tail"])
def test_every_decision_is_trained_once_over_all_conversations(
    tmp_path: Path, scripted: Records, placement: Any
) -> None:
    rows = rows_of(tmp_path, scripted, "messages", placement=placement, duplicates="keep")
    for record in scripted:
        told = [row for row in rows if row["seed"] == record["header"]["seed"]]
        if not record["result"]["success"]:
            assert told == []
            continue
        trained = [turn["content"] for row in told for turn in row["messages"] if turn["weight"]]
        assert trained == surviving_actions(record)
        assert sum(row["decisions"] for row in told) == len(trained)
        if placement == "tail":
            assert len(told) == len(trained)
        for row in told:
            assert all(turn["weight"] == 0 for turn in row["messages"] if turn["role"] != "assistant")
            assert row["messages"][-1]["weight"] == 1


def test_a_conversation_has_one_memory_block_and_ends_with_a_prompt_as_it_was_sent(
    tmp_path: Path, modelled: Records
) -> None:
    rows = rows_of(tmp_path, modelled, "messages", duplicates="keep")
    calls = {
        canonical([*call["messages"], {"role": "assistant", "content": call["text"]}])
        for record in modelled
        for event in record["events"]
        for call in event["calls"]
    }
    assert any(row["decisions"] > 1 for row in rows)
    for row in rows:
        bare = [{"role": turn["role"], "content": turn["content"]} for turn in row["messages"]]
        assert canonical(bare) in calls
    for before, after in pairwise(rows):
        if before["seed"] == after["seed"]:
            assert before["messages"][0] != after["messages"][0], "a row goes on as long as its memory block"


# --- dpo, kto ---------------------------------------------------------------------------------------------------------


def test_pairs_are_the_undone_and_the_surviving_action_under_the_later_prompt(
    tmp_path: Path, scripted: Records
) -> None:
    rows = rows_of(tmp_path, scripted, "dpo")
    assert len(rows) > 5
    records = {record["header"]["seed"]: record for record in scripted}
    for row in rows:
        record = records[row["seed"]]
        chosen, rejected = row["chosen"][0]["content"], row["rejected"][0]["content"]
        assert chosen == surviving_actions(record)[row["step"]]
        assert chosen != rejected
        undone = record["events"][row["rejected_event"]]
        assert undone["action"] == rejected
        assert undone["step"] == row["step"]
        assert row["rejected_event"] < row["event"], "the pair stands at the later moment"
        assert "Why the last abandoned attempt failed" in row["prompt"][0]["content"]
        sft = [turn["content"] for turn in row["prompt"] if turn["role"] == "assistant"]
        assert sft == surviving_actions(record)[: row["step"]], "the same history on both sides"
        assert row["depth"] >= 1


def test_a_new_branch_that_begins_with_the_old_action_is_compared_further_down(tmp_path: Path) -> None:
    record = tree([(0, "a"), (1, "x"), (0, "a"), (3, "y")], rollbacks=[(2, 0)])
    [row] = rows_of(tmp_path, [record], "dpo")
    assert (row["chosen"][0]["content"], row["rejected"][0]["content"]) == ("y", "x")
    kto = rows_of(tmp_path, [record], "kto", name="kto")
    assert [(row["completion"][0]["content"], row["label"]) for row in kto] == [
        ("x", False),
        ("a", True),
        ("y", True),
    ], "the repeated first action is not bad"


def test_branches_that_a_world_answers_differently_are_no_pair(tmp_path: Path) -> None:
    record = tree([(0, "a"), (1, "x"), (0, "a"), (3, "y")], rollbacks=[(2, 0)])
    record["nodes"][3]["observation"] = "another answer"
    with pytest.raises(UsageError, match="1 no difference before the world's answers differ"):
        rows_of(tmp_path, [record], "dpo")


def test_two_rollbacks_to_one_point_give_two_pairs(tmp_path: Path) -> None:
    record = tree([(0, "a"), (0, "b"), (0, "c"), (3, "d")], rollbacks=[(1, 0), (2, 0)])
    rows = rows_of(tmp_path, [record], "dpo")
    assert [(row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in rows] == [("c", "a"), ("c", "b")]


def test_what_an_outer_rollback_undid_is_no_pair(tmp_path: Path) -> None:
    record = tree([(0, "a"), (1, "x"), (1, "y"), (0, "b")], rollbacks=[(2, 1), (3, 0)])
    rows = rows_of(tmp_path, [record], "dpo")
    assert [(row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in rows] == [("b", "a")]
    kto = rows_of(tmp_path, [record], "kto", name="kto")
    assert {row["completion"][0]["content"]: row["label"] for row in kto} == {"a": False, "x": False, "b": True}


@cache
def _first() -> Records:
    return apothecary_records([0])


def tree(steps: list[tuple[int, str]], *, rollbacks: list[tuple[int, int]]) -> dict[str, Any]:
    """A record with these (parent, action) steps and rollbacks (from node, to node), a success at its last node."""
    record = copy.deepcopy(_first()[0])
    root = record["nodes"][0]
    nodes = [{**root, "observation": "start", "info": {}, "surviving": False}]
    for i, (parent, action) in enumerate(steps, 1):
        step = nodes[parent]["step"] + 1
        seen = f"after {action} at {step}"
        nodes.append(
            {**root, "id": i, "parent": parent, "step": step, "action": action, "observation": seen, "info": {}}
        )
    at: int | None = len(steps)
    survives = set()
    while at is not None:
        survives.add(at)
        at = nodes[at]["parent"]
    nodes = [{**node, "surviving": node["id"] in survives} for node in nodes]
    memory = {"kind": "reflection", "objective": "g", "environment": [], "attempts": [], "failure": None}
    events: list[dict[str, Any]] = []
    waiting = list(rollbacks)
    for i, (parent, action) in enumerate(steps, 1):
        events.append(act(nodes[parent], action))
        while waiting and waiting[0][0] == i:
            events += recovery(nodes[i], nodes[waiting.pop(0)[1]], memory)
    record |= {"objective": "g", "nodes": nodes, "events": events, "memory": memory}
    record["result"] |= {"success": True, "last": len(steps), "steps": nodes[-1]["step"], "final_response": None}
    record["ledger"] |= {"rollbacks": len(rollbacks), "agent_calls": len(steps)}
    return record


def act(node: Mapping[str, Any], action: str, outcome: str = "executed") -> dict[str, Any]:
    said = {"decision": "action", "action": action, "thought": "", "target": None, "calls": []}
    return {"node": node["id"], "step": node["step"], "kind": "act", "outcome": outcome, **said}


def recovery(here: Mapping[str, Any], to: Mapping[str, Any], memory: Mapping[str, Any]) -> list[dict[str, Any]]:
    at = {"node": here["id"], "step": here["step"], "calls": []}
    failure = {"cause": f"step {to['step']} was wrong", "conditions": "", "action": "", "pattern": ""}
    return [
        act(here, "dropped", "dropped"),
        {**at, "kind": "review", "outcome": "rollback", "verdict": "rollback", "urgency": 0.5, "diagnosis": "bad",
         "learned": []},
        {**at, "kind": "where", "outcome": "", "point": {"node": to["id"], "step": to["step"]}, "interval": None,
         "interval_unread": False, "justification": "", "confidence": None, "stages": ["coarse", "fine"]},
        {**at, "kind": "patch", "outcome": "", "memory": {**memory, "failure": failure}, "invoked": True,
         "unread": False},
    ]  # fmt: skip


def test_labels_of_kto_are_boolean_and_both(tmp_path: Path, scripted: Records) -> None:
    rows = rows_of(tmp_path, scripted, "kto")
    assert {row["label"] for row in rows} == {True, False}
    failed = {record["header"]["seed"] for record in scripted if not record["result"]["success"]}
    assert not [row for row in rows if row["seed"] in failed]
    more = rows_of(tmp_path, scripted, "kto", only="all", name="all")
    assert {row["label"] for row in more if row["seed"] in failed} == {False}


# --- roles ------------------------------------------------------------------------------------------------------------


def test_roles_are_labelled_by_what_became_of_them(tmp_path: Path) -> None:
    record = tree([(0, "a"), (1, "x"), (0, "b"), (3, "y"), (3, "z")], rollbacks=[(2, 0), (4, 3)])
    rows = rows_of(tmp_path, [record], "roles", only="all", duplicates="keep")
    verdicts = [(row["node"], row["label"]) for row in rows if row["part"] == "verdict"]
    assert verdicts == [(2, True), (4, True)]
    undone = tree([(0, "a"), (0, "b"), (0, "c")], rollbacks=[(1, 0), (2, 0)])
    labels = [
        (row["node"], row["label"])
        for row in rows_of(tmp_path, [undone], "roles", only="all", duplicates="keep", name="undone")
        if row["part"] == "verdict"
    ]
    assert labels == [(1, False), (2, True)], "the first recovery was undone again"
    right = rows_of(tmp_path, [undone], "roles", only="success", name="right")
    assert {row["label"] for row in right} == {True}
    lost = {**undone, "result": {**undone["result"], "success": False}}
    assert {row["label"] for row in rows_of(tmp_path, [lost], "roles", name="lost")} == {False}


def test_roles_hold_reviews_localizations_and_patches(tmp_path: Path, scripted: Records, modelled: Records) -> None:
    rows = rows_of(tmp_path, [*scripted, *modelled], "roles")
    parts = {(row["role"], row["part"]) for row in rows}
    assert {("review", "verdict"), ("review", "urgency"), ("coarse", "first"), ("fine", "point")} <= parts
    assert {("patch", "cause"), ("review", "diagnosis")} <= parts
    outcomes = {row["outcome"] for row in rows}
    assert {"continue", "rollback"} <= outcomes


def test_roles_labelled_by_truth(tmp_path: Path, scripted: Records) -> None:
    some = scripted[:12]
    rows = rows_of(tmp_path, some, "roles", labels="oracle", duplicates="keep")
    from rir_gym.cli.export import _asked

    truths = {record["header"]["seed"]: _asked(record) for record in some}
    checked = Counter[bool]()
    for row in rows:
        truth = truths[row["seed"]][row["node"]]
        if row["part"] == "verdict":
            should = bool(truth["lost"] and truth["rescuable"])
            assert row["label"] == ((row["completion"][0]["content"] == "ROLLBACK") == should)
            checked[row["label"]] += 1
        if row["part"] == "point":
            assert row["label"] == bool(truth["lost"] and int(row["completion"][0]["content"]) == truth["rescue"])
        assert "lost" not in row
    assert checked[True]
    sidecar = tmp_path / "labels.jsonl"
    lines = [{"schema": 1, "seed": seed, "labels": truth} for seed, truth in truths.items()]
    sidecar.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = rows_of(tmp_path, some, "roles", labels=str(sidecar), duplicates="keep", name="sidecar")
    assert again == rows
    sidecar.write_text(json.dumps(lines[0]) + "\n")
    with pytest.raises(RecordError, match="has no labels for the episode with seed 1"):
        rows_of(tmp_path, some, "roles", labels=str(sidecar), name="short")
    assert not (tmp_path / "short").exists()


# --- oracle -----------------------------------------------------------------------------------------------------------


def test_oracle_information_never_appears(tmp_path: Path, scripted: Records) -> None:
    """A word that only the oracle says is in no file of any format."""
    some = copy.deepcopy(scripted[:10])
    for record in some:
        for node in record["nodes"]:
            node["oracle"] = {**(node["oracle"] or {}), "secret": "ORACLE WORD"}
    for format in ("sft", "messages", "roles", "dpo", "kto"):
        rows = rows_of(tmp_path, some, format, only="all", name=format)
        assert "ORACLE WORD" not in json.dumps(rows)


def test_mechanisms_that_read_an_oracle_are_left_out_unless_they_are_wanted(tmp_path: Path, scripted: Records) -> None:
    marked = copy.deepcopy(scripted[:6])
    for record in marked[:4]:
        record["header"]["mechanism"]["uses_oracle"] = True
    rows = rows_of(tmp_path, marked, "sft", only="all")
    assert {row["seed"] for row in rows} == {4, 5}
    more = rows_of(tmp_path, marked, "sft", only="all", with_oracle=True, name="more")
    assert {row["seed"] for row in more} == set(range(6))
    assert {row["uses_oracle"] for row in more} == {True, False}
    with pytest.raises(UsageError, match="4 episode of a mechanism that reads an oracle"):
        rows_of(tmp_path, marked[:4], "sft", name="none")


# --- splits, duplicates, provenance -----------------------------------------------------------------------------------


def test_a_task_is_in_one_split_whatever_was_sampled(tmp_path: Path, scripted: Records) -> None:
    """Attempts, mechanisms, models and other reset seeds of one game go together; the split depends on nothing else."""
    more = []
    for record in scripted[:30]:
        for attempt in range(3):
            again = copy.deepcopy(record)
            again["header"] |= {"attempt": attempt, "config": f"{attempt:016}"}
            again["header"]["task"] = {"env": "Game-v0", "arguments": {"game": record["header"]["seed"]}, "seed": None}
            again["header"]["seed"] = record["header"]["seed"] + 1000 * attempt
            more.append(again)
    wanted: dict[str, Any] = {"only": "all", "split_by": "task", "test_share": 0.3, "duplicates": "keep"}
    train = rows_of(tmp_path, more, "sft", **wanted)
    test = read(tmp_path / "out" / "test.jsonl")
    sides = [{row["task"] for row in rows} for rows in (train, test)]
    assert sides[0] and sides[1]  # noqa: PT018
    assert not sides[0] & sides[1]
    alone = rows_of(
        tmp_path, [more[0]], "sft", name="alone", split="train" if more_in(more[0], sides[0]) else "test", **wanted
    )
    assert {row["task"] for row in alone} <= (sides[0] if more_in(more[0], sides[0]) else sides[1])


def more_in(record: Mapping[str, Any], tasks: set[str]) -> bool:
    return canonical(record["header"]["task"]) in tasks


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=50, unique=True), st.floats(0, 0.99))
def test_a_larger_share_only_adds_tasks(seeds: list[int], share: float) -> None:
    tasks = [canonical({"env": "Game-v0", "arguments": {}, "seed": seed}) for seed in seeds]
    held = {task for task in tasks if Split(share)(task) == "test"}
    assert held <= {task for task in tasks if Split(min(share + 0.01, 0.99))(task) == "test"}
    assert not {task for task in tasks if Split()(task) == "test"}


def test_the_share_is_about_what_was_asked() -> None:
    tasks = [canonical({"env": "Game-v0", "arguments": {}, "seed": seed}) for seed in range(5000)]
    share = sum(Split(0.1)(task) == "test" for task in tasks) / len(tasks)
    assert 0.085 < share < 0.115


def test_a_ready_wrapped_id_is_the_same_task() -> None:
    for seed in range(20):
        plain, wrapped = (
            canonical({"env": f"rir_gym/Apothecary{kind}-v0", "arguments": {}, "seed": seed})
            for kind in ("", "Rollback")
        )
        assert Split(0.5)(plain) == Split(0.5)(wrapped)


def test_no_row_is_in_both_splits(tmp_path: Path, scripted: Records) -> None:
    train = rows_of(tmp_path, scripted, "sft", split_by="task", test_share=0.5)
    test = read(tmp_path / "out" / "test.jsonl")
    seen = [canonical([row["prompt"], row["completion"]]) for row in [*train, *test]]
    assert len(seen) == len(set(seen))
    report = json.loads((tmp_path / "out" / "export.json").read_text())
    assert report["left_out"]["duplicate"] > 0
    assert report["rows"] == {"train": len(train), "test": len(test)}


def test_rows_lead_back_to_their_record(tmp_path: Path, scripted: Records) -> None:
    for row in rows_of(tmp_path, scripted, "sft"):
        [record] = [record for record in scripted if record["header"]["seed"] == row["seed"]]
        event = record["events"][row["event"]]
        assert (event["node"], event["step"]) == (row["node"], row["step"])
        assert row["mechanism"] == "rir"
        assert row["success"] is True
        assert len(row["episode"]) == 16


def test_an_episode_that_is_there_twice_is_taken_once(tmp_path: Path, scripted: Records) -> None:
    once = rows_of(tmp_path, scripted[:5], "sft", duplicates="keep", only="all")
    twice = rows_of(tmp_path, scripted[:5] * 2, "sft", duplicates="keep", only="all", name="twice")
    assert once == twice


def test_the_same_export_gives_the_same_bytes(tmp_path: Path, scripted: Records) -> None:
    for name in ("one", "two"):
        rows_of(tmp_path, scripted[:20], "sft", name=name)
    assert (tmp_path / "one" / "train.jsonl").read_bytes() == (tmp_path / "two" / "train.jsonl").read_bytes()


# --- bad input --------------------------------------------------------------------------------------------------------


def plan(format: str = "sft", **wanted: Any) -> Plan:
    return plan_of(Wanted(format, **wanted))


def test_an_empty_set_is_refused(tmp_path: Path) -> None:
    data = write_records(tmp_path / "data", [])
    with pytest.raises(UsageError, match="holds no episodes"):
        export("sft", data, tmp_path / "out", plan())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format", ["sft", "messages", "dpo", "kto"])
def test_an_export_without_a_row_is_refused_and_says_why(tmp_path: Path, scripted: Records, format: str) -> None:
    lost = [{**record, "result": {**record["result"], "success": False}} for record in scripted[:4]]
    data = write_records(tmp_path / "data", lost)
    with pytest.raises(UsageError, match=r"no row of .* is left of 4 episodes: 4 episode without success"):
        export(format, data, tmp_path / "out", plan(format))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


@pytest.mark.parametrize("schema", [0, 2, 99, None, "1"])
def test_another_schema_is_refused_and_nothing_is_left(tmp_path: Path, scripted: Records, schema: Any) -> None:
    data = write_records(tmp_path / "data", [*scripted[:3], {**scripted[3], "schema": schema}])
    for format in ("sft", "parquet", "minari"):
        with pytest.raises(RecordError, match=r"line 4: schema="):
            export(format, data, tmp_path / "out", plan(format))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    report = export("sft", data, tmp_path / "out", plan(errors="skip", only="all"))
    assert (report.episodes, len(report.bad)) == (3, 1)


def test_a_record_whose_events_lie_is_named(tmp_path: Path, scripted: Records) -> None:
    odd = copy.deepcopy(scripted[0])
    odd["events"] = [event for event in odd["events"] if event["kind"] != "act"]
    data = write_records(tmp_path / "data", [odd])
    with pytest.raises(RecordError, match=r"seed=0 attempt=0: cannot be exported"):
        export("sft", data, tmp_path / "out", plan(only="all"))
    for event in ("decision", "outcome"):
        odd = copy.deepcopy(scripted[0])
        odd["events"][0][event] = "of the future"
        with pytest.raises(RecordError):
            list(moments(odd))


def test_what_is_there_is_never_touched(tmp_path: Path, scripted: Records) -> None:
    data = write_records(tmp_path / "data", scripted[:3])
    before = (data / "episodes.jsonl").read_bytes()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "out", tmp_path / "file", data):
        with pytest.raises(OutputExists):
            export("sft", data, out, plan(only="all"))
    assert (tmp_path / "out" / "mine").read_text() == "mine"
    assert (data / "episodes.jsonl").read_bytes() == before


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path, scripted: Records) -> None:
    data = write_records(tmp_path / "data", scripted[:3])
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        export("sft", data, tmp_path / "file" / "below", plan(only="all"))
    with pytest.raises(UsageError, match="cannot be written"):
        export("sft", data, "/proc/nothing/out", plan(only="all"))


@pytest.mark.parametrize("format", ["sft", "parquet"])
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, scripted: Records, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if format == "parquet":
        pytest.importorskip("datasets", reason="the extra data")
    from rir_gym.data.exports import files

    def full(*given: Any, **options: Any) -> Any:
        raise OSError(28, "No space left on device")

    data = write_records(tmp_path / "data", scripted[:3])
    if format == "sft":
        monkeypatch.setattr(files.os, "fsync", full)
    else:
        monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with pytest.raises(UsageError, match="No space left"):
        export(format, data, tmp_path / "out", plan(format))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


@pytest.mark.parametrize(
    ("format", "wanted", "words"),
    [
        ("sft", {"split_by": "seed"}, "split-by='seed': unknown; known are task"),
        ("sft", {"split_by": "task", "test_share": 1.0}, "test_share=1.0"),
        ("sft", {"split_by": "task", "test_share": float("nan")}, "test_share=nan"),
        ("sft", {"max_tokens": 10}, "need --tokenizer"),
        ("sft", {"escape": True}, "need --tokenizer"),
        ("sft", {"too_long": "cut"}, "only tokens are cut"),
        ("sft", {"labels": "oracle"}, "not for format='sft'"),
        ("roles", {"labels": "nothing.jsonl"}, "a file of labels"),
        ("tokens", {}, "needs --tokenizer"),
        ("messages", {"requests": True}, "requests=True: not for format='messages'"),
        ("parquet", {"placement": "tail"}, "placement='tail': not for format='parquet'"),
        ("messages", {"shape": "text"}, "not for format='messages'"),
        ("sft", {"only": "failures"}, "only='failures': one of success, all"),
        ("sft", {"file": "csv"}, "file='csv': one of jsonl, parquet"),
        ("sft", {"placement": "middle"}, "placement='middle': one of system, tail"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_read(
    tmp_path: Path, format: str, wanted: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as error:
        export(format, tmp_path / "nothing", tmp_path / "out", plan(format, **wanted))
    assert words in str(error.value)
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="known are dpo, kto, messages, minari, parquet, roles, sft, tokens"):
        export("csv", tmp_path, tmp_path / "out", plan())


def test_other_memories_are_left_out_where_they_would_have_to_be_worded(
    tmp_path: Path, scripted: Records, modelled: Records
) -> None:
    odd = copy.deepcopy([*scripted[:3], *modelled[:1]])
    for record in odd:
        record["memory"] = {"kind": "mine"}
        for event in record["events"]:
            if event["kind"] == "patch":
                event["memory"] = {"kind": "mine"}
    rows = rows_of(tmp_path, odd, "sft", only="all")
    assert {row["source"] for row in rows} == {"sent"}
    report = json.loads((tmp_path / "out" / "export.json").read_text())
    assert report["left_out"]["cannot be worded"] > 10


def test_reading_is_in_constant_memory_but_for_digests(tmp_path: Path, scripted: Records) -> None:
    import tracemalloc

    def peak(copies: int) -> int:
        many = []
        for i in range(copies):
            for record in scripted[:5]:
                header = {**record["header"], "attempt": i}
                many.append({**record, "header": header})
        data = write_records(tmp_path / f"data{copies}", many)
        del many
        tracemalloc.start()
        export("sft", data, tmp_path / f"out{copies}", plan(only="all", duplicates="keep"))
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(1)  # what is imported and cached once
    small, large = peak(2), peak(12)
    assert large < small + 200_000

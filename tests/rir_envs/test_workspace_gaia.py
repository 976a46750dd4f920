"""GAIA's questions from files of the user, and the rule by which answers are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_envs.workspace import WorkspaceEnv
from rir_envs.workspace_answers import same_answer
from rir_gym.errors import UsageError
from rir_gym.testing import check_restore


def question(**more: Any) -> dict[str, Any]:
    return {"task_id": "a-1", "Question": "How many?", "Level": 1, "Final answer": "12", "file_name": "", **more}


def written(folder: Path, *rows: Any) -> str:
    path = folder / f"gaia-{len(list(folder.iterdir()))}.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), "utf-8")
    return str(path)


def test_a_question_with_an_attachment_is_played(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "Sales 2024.CSV").write_text("item,count\nlamp,5\nfan,7\n")
    rows = [question(), question(task_id="b", Level="2", file_name="Sales 2024.CSV")]
    path = written(tmp_path, *rows, "")
    env = gym.make("rir_gym/Workspace-v0", gaia=path, attachments=str(folder), task_seed=1)
    observation, info = env.reset(seed=0)
    assert observation == "Files:\nsales-2024.csv (24 bytes)"
    assert "How many?" in info["objective"]
    assert "sales-2024.csv" in info["objective"]
    assert "12" not in info["objective"].partition("One command")[0]
    assert env.step("query sales-2024.csv select sum(count) from t")[0] == "Rows:\nsum(count)\n12"
    assert env.get_wrapper_attr("oracle").plan() == ("submit 12",)
    assert env.get_wrapper_attr("oracle").exact is True
    *_, info = env.step("submit $12.0")
    assert info["oracle"]["success"] is True
    env.close()
    assert (folder / "Sales 2024.CSV").read_text().startswith("item")
    check_restore(lambda: WorkspaceEnv(gaia=path, attachments=str(folder)), restores=6)


def test_levels_choose_and_seeds_draw(tmp_path: Path) -> None:
    path = written(tmp_path, *(question(task_id=str(i), Level=1 + i % 3) for i in range(9)))
    env = WorkspaceEnv(gaia=path, level=2)
    names = set()
    for seed in range(20):
        env.reset(seed=seed)
        names.add(env.get_state().task.name)
    assert names == {"gaia/1", "gaia/4", "gaia/7"}
    env.close()


@pytest.mark.parametrize(
    "row",
    [
        *("[]", "{", "[" * 5000, "3", '{"Question": 3, "Final answer": "x"}'),
        question(Question="  "),
        question(**{"Final answer": "?"}),
        question(**{"Final answer": None}),
        *(question(file_name=name) for name in ("../gaia.jsonl", "/etc/passwd", "a/b.txt", "..", 3, "no.txt", "x\0y")),
    ],
)
def test_a_line_that_is_no_question_is_named(tmp_path: Path, row: Any) -> None:
    (tmp_path / "files").mkdir()
    path = written(tmp_path, question(), row)
    with pytest.raises(UsageError, match="line 2"):
        WorkspaceEnv(gaia=path, attachments=str(tmp_path / "files"))


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    for path, attachments, match in (
        (str(tmp_path / "none.jsonl"), None, "none.jsonl"),
        (str(tmp_path), None, "gaia="),
        (written(tmp_path), None, "no question"),
        (written(tmp_path, question()), str(tmp_path / "none"), "attachments="),
        (written(tmp_path, question(file_name="a.txt")), None, "attachments=None"),
    ):
        with pytest.raises(UsageError, match=match):
            WorkspaceEnv(gaia=path, attachments=attachments)
    with pytest.raises(UsageError, match="task_seed=1"):
        WorkspaceEnv(gaia=written(tmp_path, question()), task_seed=1)


def test_an_attachment_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big.bin").write_bytes(b"x" * (9 * 1024 * 1024))
    env = WorkspaceEnv(gaia=written(tmp_path, question(file_name="big.bin")), attachments=str(tmp_path))
    with pytest.raises(UsageError, match="at most"):
        env.reset(seed=0)


@pytest.mark.parametrize(
    ("given", "right", "same"),
    [
        *(("17", "17", True), ("17.0", "17", True), ("$1,700", "1700", True), ("17%", "17", True), ("18", "17", False)),
        *(("seventeen", "17", False), ("", "17", False), ("nan", "17", False), ("inf", "17", False)),
        *(("New York", "new york", True), ("newyork", "New York", True), ("St. Paul!", "st paul", True)),
        *(("Paris", "London", False), ("", "London", False), ("the Paris", "Paris", False)),
        *(("a, b", "a,b", True), ("a; b", "a, b", True), ("b, a", "a, b", False), ("a", "a, b", False)),
        *(("1, 2.0", "1,2", True), ("$1, b", "1, B", True), ("a., b", "a, b", False)),
    ],
)
def test_answers_are_compared_by_the_kind_of_the_right_one(given: str, right: str, same: bool) -> None:
    assert same_answer(given, right) is same


@given(st.text())
def test_an_answer_is_the_same_as_itself(text: str) -> None:
    assert same_answer(text, text) or text.strip().lower() in ("nan", "inf", "-inf", "infinity", "-infinity")

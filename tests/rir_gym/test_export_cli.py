"""``rir-gym export`` as a user meets it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rir_gym.cli import main
from rir_gym.data.exports import FORMATS

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run ``rir-gym`` with arguments: (exit code, standard output, standard error)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rir-gym", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        code = stopped.value.code
        return code if isinstance(code, int) else 1, captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records") / "data"
    with pytest.MonkeyPatch.context() as patch:
        arguments = ["rir-gym", "run", "--agent", "scripted", "--episodes", "30", "--out", str(folder), "--json"]
        patch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit):
            main()
    return folder


def test_a_collected_set_goes_out_with_its_counts(cli: Cli, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, said, wrong = cli("export", "sft", data, "--out", out, "--split-by", "task", "--test-share", "0.3")
    assert (code, wrong) == (0, "")
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "export.json", "test.jsonl", "train.jsonl"]
    report = json.loads((out / "export.json").read_text())
    assert report["episodes"] == 30
    train, test = (len((out / f"{split}.jsonl").read_text().splitlines()) for split in ("train", "test"))
    assert report["rows"] == {"train": train, "test": test}
    assert f"train {train} (" in said
    assert f"test {test} (" in said
    assert f"left out: {report['left_out']['duplicate']} duplicate" in said
    assert report["tasks"]["train"] + report["tasks"]["test"] <= 30


def test_json_is_for_machines(cli: Cli, data: Path, tmp_path: Path) -> None:
    code, said, _ = cli("export", "dpo", data, "--out", tmp_path / "out", "--only", "all", "--json")
    assert code == 0
    told = json.loads(said)
    assert told["format"] == "dpo"
    assert told["rows"]["train"] >= 1


def test_expected_faults_are_one_line_and_code_2(cli: Cli, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for arguments, words in (
        (("csv", data), "format='csv': unknown; known are " + ", ".join(sorted(FORMATS))),
        (("sft", tmp_path / "nothing"), "no such file or folder"),
        (("tokens", data), "needs --tokenizer"),
        (("tokens", data, "--tokenizer", tmp_path / "nothing"), "no such file or folder"),
        (("sft", data, "--split-by", "seed"), "split-by='seed'"),
        (("sft", data, "--only", "some"), "only='some'"),
        (("sft", data, "--prompts", tmp_path / "nothing"), "a folder of prompt files"),
    ):
        code, said, wrong = cli("export", *arguments, "--out", out)
        assert (code, said) == (2, ""), arguments
        assert words in wrong, wrong
        assert wrong.count("\n") == 1
        assert not out.exists()
    assert cli("export", "sft", data, "--out", data)[0] == 2


def test_other_prompts_word_what_was_never_sent(cli: Cli, data: Path, tmp_path: Path) -> None:
    from importlib.resources import files

    folder = tmp_path / "prompts"
    folder.mkdir()
    text = (files("rir_policies") / "prompts" / "act.txt").read_text(encoding="utf-8")
    (folder / "act.txt").write_text(text.replace("You are the agent", "YOU ARE THE AGENT"), encoding="utf-8")
    assert cli("export", "sft", data, "--out", tmp_path / "out", "--prompts", folder)[0] == 0
    first = json.loads((tmp_path / "out" / "train.jsonl").read_text().splitlines()[0])
    assert "YOU ARE THE AGENT" in first["prompt"][-1]["content"]


def test_text_rows_hold_one_transcript(cli: Cli, data: Path, tmp_path: Path) -> None:
    assert cli("export", "sft", data, "--out", tmp_path / "out", "--shape", "text")[0] == 0
    first = json.loads((tmp_path / "out" / "train.jsonl").read_text().splitlines()[0])
    assert first["prompt"].startswith("### Instructions\n")
    assert isinstance(first["completion"], str)


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_the_documentation_shows_every_format_and_its_columns(format: str) -> None:
    from rir_gym.data.exports.schema import COLUMNS, PARQUET, PROVENANCE

    text = (Path(__file__).parents[2] / "docs" / "exports.md").read_text(encoding="utf-8")
    assert f"## `{format}`" in text
    columns = COLUMNS.get(format) or {name for table in PARQUET.values() for name in table}
    for column in {*columns} - ({*PROVENANCE} if format != "parquet" else set()):
        assert f"`{column}`" in text, column
    assert all(f"`{column}`" in text for column in PROVENANCE)

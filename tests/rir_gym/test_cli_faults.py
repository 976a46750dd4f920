"""Every foreseeable fault is one line with its value and remedy, an exit code, no traceback, and nothing half done."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runner import rir_gym

from rir_gym.cli.faults import EARLY, FOUND, INTERRUPTED, UNFORESEEN, WRONG, line_of
from rir_gym.errors import CollectError, StoreError, UsageError, WorldDied

RUN = ("run", "--agent", "scripted", "--out", "o")
EXPORT = ("export", "sft", "good", "--out", "o")

TABLE = {
    "no such command": (("rnu",), "'rnu'", "run"),
    "no such sub-command": (("data", "chek", "good"), "'chek'", "check"),
    "no such option": (("run", "--episods", 3, "--out", "o"), "--episods", "--episodes"),
    "no such global option": (("--verison",), "--verison", "--version"),
    "an option without its value": ((*RUN, "--episodes"), "--episodes", "argument"),
    "a missing option": (("run", "--agent", "scripted"), "--out", "rir-gym run --help"),
    "a missing argument": (("play",), "ID", "rir-gym play --help"),
    "one argument too many": (("envs", "all"), "all", "rir-gym envs --help"),
    "text for a number": ((*RUN, "--episodes", "many"), "'many'", "integer"),
    "text for a number, joined": ((*RUN, "--temperature=hot"), "'hot'", "rir-gym run --help"),
    "a number out of range": (("demo", "--episodes", 1), "1", "2"),
    "a seed below 0": ((*RUN, "--seed", -1), "seed=-1", "at least 0"),
    "no budget": ((*RUN, "--rollbacks", 0), "rollbacks=0", "at least 1"),
    "not a number": ((*RUN, "--temperature", "nan"), "temperature=nan", "at least 0"),
    "an unknown id": ((*RUN, "--env", "rir_gym/Apothecry-v0"), "'rir_gym/Apothecry-v0'", "rir_gym/Apothecary-v0"),
    "an id of an old version": ((*RUN, "--env", "FrozenLake-v0"), "'FrozenLake-v0'", "rir_gym/"),
    "an id without a name": ((*RUN, "--env", ""), "env=''", "rir_gym/"),
    "an id of a module that is not there": ((*RUN, "--env", "nowhere_at_all:X-v0"), "nowhere_at_all:X-v0", "module"),
    "an id without an expert": ((*RUN, "--env", "CliffWalking-v1"), "'CliffWalking-v1'", "experts are those of"),
    "an unknown mechanism": ((*RUN, "--mechanism", "riir"), "'riir'", "rollback_only"),
    "an unknown reviewer": ((*RUN, "--reviewer", "me"), "'me'", "evidence, exact"),
    "an unknown agent": (("run", "--agent", "me", "--out", "o"), "'me'", "scripted"),
    "an unknown place of memory": ((*RUN, "--memory-position", "top"), "'top'", "system, tail"),
    "no pair": ((*RUN, "--env-arg", "stores"), "'stores'", "name=value"),
    "an argument out of range": ((*RUN, "--env-arg", "stores=99"), "stores=99", "1 to 12"),
    "an unknown argument": ((*RUN, "--env-arg", "shops=3"), "'shops': 3", "stores"),
    "nobody plays": (("run", "--out", "o"), "model=None", "--agent scripted"),
    "two play": ((*RUN, "--model", "x/y"), "'x/y'", "give one of"),
    "an unknown compression": (("collect", *RUN[1:], "--compression", "zip"), "'zip'", "none, zstd"),
    "no workers": (("collect", *RUN[1:], "--workers", -1), "-1", "0"),
    "a server without a model": (("run", "--model", "http://x/v1", "--out", "o"), "http://x/v1", "#NAME"),
    "a model of no name": (("run", "--model", "", "--out", "o"), "model=''", "GGUF"),
    "out is a file": (("run", "--agent", "scripted", "--out", "file"), "'file'", "folder"),
    "out is under a file": (("run", "--agent", "scripted", "--out", "file/x"), "'file/x'", "cannot be written"),
    "out is another's folder": (("run", "--agent", "scripted", "--out", "other"), "'thesis.tex'", "empty folder"),
    "out has too long a name": (("run", "--agent", "scripted", "--out", "x" * 300), "xxx", "cannot be written"),
    "out has a null byte": (("run", "--agent", "scripted", "--out", "a\0b"), "out", "null"),
    "another configuration": (("run", "--agent", "scripted", "--seed", 5, "--out", "good"), "/good'", "first_seed=0"),
    "no settings there": (("run", "--config", "nowhere.toml", "--out", "o"), "'nowhere.toml'", "TOML file"),
    "settings of bytes": (("run", "--config", "binary", "--out", "o"), "'binary'", "not TOML"),
    "settings are a folder": (("run", "--config", "empty", "--out", "o"), "'empty'", "TOML file"),
    "no records there": (("view", "nowhere"), "'nowhere'", "no such file or folder"),
    "a folder without records": (("view", "empty"), "'empty'", "episodes*.jsonl"),
    "records of bytes": (("view", "binary"), "binary", "line 1: not strict JSON"),
    "an episode beyond the last": (("view", "good", "--episode", 7), "7", "2 episodes"),
    "an unknown format": (("export", "sftt", "good", "--out", "o"), "'sftt'", "dpo"),
    "nothing to export": (("export", "sft", "nowhere", "--out", "o"), "'nowhere'", "no such file or folder"),
    "export of bytes": (("export", "sft", "binary", "--out", "o"), "binary", "line 1: not strict JSON"),
    "export into what is there": (("export", "sft", "good", "--out", "empty"), "empty", "choose another"),
    "export under a file": (("export", "sft", "good", "--out", "file/x"), "'file/x'", "cannot be written"),
    "an unknown choice of rows": ((*EXPORT, "--only", "some"), "'some'", "success, all"),
    "an unknown kind of file": ((*EXPORT, "--file", "csv"), "'csv'", "jsonl, parquet"),
    "a share beyond 1": ((*EXPORT, "--split-by", "task", "--test-share", 3), "test_share=3.0", "below 1"),
    "tokens without a tokenizer": (("export", "tokens", "good", "--out", "o"), "tokenizer=None", "--tokenizer"),
    "labels of bytes": (("export", "roles", "good", "--labels", "binary", "--out", "o"), "binary", "file of labels"),
    "labels of nothing": (("export", "roles", "good", "--labels", "nothing", "--out", "o"), "nothing", "labels"),
    "an unknown suite": (("bench", "smok"), "'smok'", "smoke"),
    "a suite of bytes": (("bench", "binary.toml"), "'binary.toml'", "cannot be read"),
    "no suite there": (("bench", "nowhere.toml"), "'nowhere.toml'", "cannot be read"),
    "an unknown section": (("bench", "smoke", "--section", "x", "--out", "o"), "'x'", "main"),
    "rules of bytes": (("bench", "smoke", "--rules", "binary", "--out", "o"), "'binary'", "cannot be read"),
    "a suite without its model": (("bench", "ablation", "--workers", -2), "workers=-2", "at least 0"),
    "no run there": (("report", "good"), "'good'", "run.json"),
    "play with a seed below 0": (("play", "rir_gym/Apothecary-v0", "--seed", -1), "seed=-1", "at least 0"),
    "play what cannot be typed": (("play", "MountainCarContinuous-v0"), "MountainCar", "text or Discrete"),
    "merge into what is there": (("data", "merge", "good", "--out", "good"), "good", "choose another"),
    "merge nothing": (("data", "merge", "--out", "o"), "DATA", "rir-gym data merge --help"),
    "the demo into what is there": (("demo", "--out", "good"), "good", "choose another"),
    "the demo under a file": (("demo", "--out", "file/x"), "'file/x'", "cannot be written"),
    "a limit below 1": (("doctor", "--limit-s", 0), "0", "1"),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of what can be wrong with files, and of two good episodes."""
    folder = tmp_path_factory.mktemp("faults")
    for name in ("binary", "binary.toml"):
        (folder / name).write_bytes(bytes(range(256)) * 4)
    (folder / "nothing").touch()
    (folder / "file").write_text("x")
    (folder / "empty").mkdir()
    (folder / "other").mkdir()
    (folder / "other" / "thesis.tex").write_text("mine")
    assert rir_gym("run", "--agent", "scripted", "--episodes", 2, "--out", folder / "good").code == 0
    return folder


def everything(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() if file.is_file() else b"" for file in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("name", TABLE)
def test_a_bad_call_is_one_line_that_names_the_value_and_what_is_allowed(
    kept: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    words, value, allowed = TABLE[name]
    monkeypatch.chdir(kept)
    before = everything(kept)
    said = rir_gym(*words)
    assert (said.code, said.out) == (WRONG, "")
    assert said.err.startswith("rir-gym: ")
    assert said.err.endswith("\n")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    assert value in said.err
    assert allowed in said.err
    assert everything(kept) == before


def test_the_exit_codes_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
    for code in (0, FOUND, WRONG, EARLY, UNFORESEEN, INTERRUPTED):
        assert f"| {code} |" in page


@pytest.mark.parametrize(
    ("words", "extra", "modules"),
    [
        (("run", "--env", "rir_gym/TextWorld-Simple-v0", "--model", "x/y", "--out", "o"), "textworld", ["textworld"]),
        (("run", "--env", "rir_gym/TextArena-v0", "--model", "x/y", "--out", "o"), "textarena", ["textarena"]),
        (("run", "--model", "x/y", "--out", "o"), "hf", ["torch", "rir_policies.hf"]),
        (("collect", *RUN[1:], "--compression", "zstd"), "data", ["zstandard"]),
        ((*EXPORT, "--file", "parquet"), "data", ["pyarrow", "pyarrow.parquet", "datasets"]),
        (("export", "minari", "good", "--out", "o"), "minari", ["minari"]),
    ],
)
def test_a_missing_extra_is_named_with_its_command(
    kept: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], extra: str, modules: list[str]
) -> None:
    monkeypatch.chdir(kept)
    for module in modules:
        if module == "rir_policies.hf":
            monkeypatch.delitem(sys.modules, module, raising=False)
        else:
            monkeypatch.setitem(sys.modules, module, None)
    said = rir_gym(*words)
    assert (said.code, said.out, said.err.count("\n")) == (WRONG, "", 1)
    assert f"pip install 'rir-gym[{extra}]'" in said.err
    assert not (kept / "o").exists()


@pytest.mark.parametrize("model", ["/nowhere/model.gguf", "./nowhere", "empty", "binary"])
def test_a_model_that_is_not_there_is_one_line(kept: Path, monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    pytest.importorskip("torch", reason="loads a local model")
    monkeypatch.chdir(kept)
    said = rir_gym("run", "--model", model, "--out", "o")
    assert (said.code, said.out, said.err.count("\n")) == (WRONG, "", 1)
    assert model in said.err
    assert "gguf" in said.err or "give one that exists" in said.err
    assert not (kept / "o").exists()


@pytest.mark.parametrize("place", ["before", "after", "between"])
def test_debug_shows_where_and_stands_anywhere(kept: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(kept)
    words = ["run", "--agent", "scripted", "--mechanism", "nope", "--out", "o"]
    words.insert({"before": 0, "after": len(words), "between": 3}[place], "--debug")
    said = rir_gym(*words)
    assert said.code == WRONG
    assert "Traceback (most recent call last)" in said.err
    assert said.err.splitlines()[-1].startswith("rir-gym: mechanism='nope': unknown")


def test_debug_after_two_dashes_is_a_name(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kept)
    said = rir_gym("view", "--", "--debug")
    assert (said.code, said.err.count("\n")) == (WRONG, 1)
    assert "'--debug': no such file" in said.err


def test_what_nobody_foresaw_is_one_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise LookupError("a bug\nof two lines")

    monkeypatch.setattr("rir_gym.cli.envs.main", broken)
    said = rir_gym("envs")
    assert (said.code, said.out, said.err.count("\n")) == (UNFORESEEN, "", 1)
    assert "LookupError: a bug of two lines" in said.err
    assert "--debug" in said.err


def test_an_interrupt_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rir_gym.cli.envs.main", interrupted)
    said = rir_gym("envs")
    assert (said.code, said.err.strip()) == (INTERRUPTED, "rir-gym: interrupted")


def test_which_fault_is_which_code() -> None:
    full = StoreError("path='x': cannot be written")
    full.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert line_of(full)[1] == line_of(OSError(errno.ENOSPC, "No space left on device", "x"))[1] == EARLY
    assert line_of(CollectError("x"))[1] == line_of(WorldDied("x"))[1] == EARLY
    assert line_of(StoreError("x"))[1] == line_of(UsageError("x"))[1] == WRONG
    assert line_of(PermissionError(errno.EACCES, "Permission denied", "x")) == ("x: Permission denied", WRONG)
    assert line_of(ZeroDivisionError("x"))[1] == UNFORESEEN


def test_a_line_steers_no_terminal() -> None:
    assert line_of(UsageError("a\x1b[31m\r\n b\u202ec")) == ("a?[31m b?c", WRONG)


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--agent", "scripted", "--episodes", "30", "--out", "o"),
        ("demo", "--episodes", "2", "--sweep-episodes", "2", "--out", "o"),
    ],
)
def test_a_full_disk_ends_it_early_and_keeps_what_is_finished(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The kernel refuses to let a file grow, as it does where the disk is full."""
    command = [sys.executable, "-c", "from rir_gym.cli import main; main()", *words]
    ended = subprocess.run(command, cwd=tmp_path, preexec_fn=_small_files, capture_output=True, text=True)
    assert ended.returncode == EARLY, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("rir-gym: path=")
    assert "cannot be written" in ended.stderr
    if words[0] == "demo":
        assert list(tmp_path.iterdir()) == []
    else:
        checked = rir_gym("data", "check", tmp_path / "o", "--json")
        assert checked.code == 0
        assert rir_gym("run", "--config", tmp_path / "o/settings.toml", "--out", tmp_path / "o").code == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_that_may_not_be_written_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    said = rir_gym("run", "--agent", "scripted", "--out", tmp_path / "o")
    assert (said.code, said.err.count("\n")) == (WRONG, 1)
    assert "Permission denied" in said.err


def test_a_reader_that_has_gone_is_no_fault(tmp_path: Path) -> None:
    code = "from rir_gym.cli import main; main()"
    running = subprocess.Popen(
        [sys.executable, "-c", code, "envs", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    assert b"Traceback" not in running.stderr.read()
    running.stderr.close()
    running.wait(60)

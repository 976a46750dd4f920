"""``rir-gym doctor``, the version, completion, and what ``--help`` and ``--json`` must not do."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from cli_runner import rir_gym

from rir_gym import __version__
from rir_gym.cli import doctor, probes
from rir_gym.ids import IDS

MAIN = "import sys; sys.argv[0] = 'rir-gym'; from rir_gym.cli import main; main()"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the seconds that torch takes to say what it sees."""
    monkeypatch.setattr(probes, "_version", lambda name: None if name == "torch" else "1.0")


@pytest.mark.usefixtures("quick")
def test_every_probe_speaks_in_one_document() -> None:
    said = rir_gym("doctor", "--json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    assert list(found) == list(doctor.PROBES)
    assert not [name for name, value in found.items() if "error" in value]
    assert found["versions"]["rir_gym"] == __version__
    assert found["accelerators"] == {"torch": None, "install": 'pip install "rir-gym[hf]"'}
    assert {row["id"] for row in found["environments"]} == {known.id for known in IDS}
    assert found["machine"]["usable_cpus"] >= 1


@pytest.mark.usefixtures("quick")
def test_the_tables_say_the_same_and_are_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    said = rir_gym("doctor")
    assert (said.code, said.err) == (0, "")
    assert all(known.id in said.out for known in IDS)
    assert sys.executable in said.out
    assert "…" not in said.out


def test_no_probe_that_fails_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("no\nidea")

    for failing in doctor.PROBES:
        others = {name: (lambda: []) for name in doctor.PROBES}
        looks = others | {failing: broken}
        found = doctor.examined(looks)
        assert found[failing] == {"error": "RuntimeError: no idea"}
        assert all(found[name] == [] for name in found if name != failing)
    monkeypatch.setattr(doctor, "PROBES", dict.fromkeys(doctor.PROBES, broken))
    said = rir_gym("doctor")
    assert said.code == 0
    assert said.out.count("no idea") == len(doctor.PROBES)
    assert rir_gym("doctor", "--deep", "--json").code == 0


def test_extras_are_resolved_and_name_their_command(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = [
        "numpy>=1",
        "torch>=2.4; extra == 'hf'",
        'peft>=0.15; extra == "lora"',
        "rir-gym[hf]; extra == 'lora'",
        "rir_gym[hf,lora]; extra == 'all'",
        "py-thing[x]>=1; (python_version < '4') and extra == 'odd'",
        "rir-gym[round]; extra == 'round'",
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: needs)
    monkeypatch.setattr(probes, "_version", lambda name: None if name == "peft" else "3")
    found = probes.extras()
    assert set(found) == {"hf", "lora", "odd", "round"}
    assert found["hf"] == {"installed": True, "packages": {"torch": "3"}, "install": 'pip install "rir-gym[hf]"'}
    assert (found["lora"]["installed"], found["lora"]["packages"]) == (False, {"peft": None, "torch": "3"})
    assert found["odd"]["packages"] == {"py-thing": "3"}


def test_an_environment_is_made_in_another_process_with_a_limit() -> None:
    works = probes.environment("rir_gym/Apothecary-v0", 60)
    assert (works["works"], works["why"]) == (True, None)
    fails = probes.environment("rir_gym/Nope-v0", 60)
    assert fails["works"] is False
    assert fails["why"].startswith("env='rir_gym/Nope-v0': unknown")
    late = probes.environment("rir_gym/Apothecary-v0", 0.01)
    assert (late["works"], late["why"]) == (False, "not made and reset in 0.01 s")


def test_deep_says_which_cannot_be_made_by_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    for works, needs, java, code in (
        (True, "", False, 0),
        (False, "", False, 1),
        (False, "Java", False, 0),
        (False, "Java", True, 1),
        (False, "a story file", True, 0),
    ):
        rows = [{"id": "a", "installed": True, "needs": needs}, {"id": "b", "installed": False, "needs": ""}]
        monkeypatch.setattr(
            doctor,
            "PROBES",
            {
                "java": lambda java=java: {"installed": java},
                "environments": lambda rows=rows: [dict(row) for row in rows],
            },
        )
        monkeypatch.setattr(probes, "environment", lambda name, limit, works=works: {"works": works})
        said = rir_gym("doctor", "--deep", "--json")
        assert said.code == code
        assert [row.get("tried") for row in json.loads(said.out)["environments"]] == [{"works": works}, None]


def test_models_and_caches_are_found_where_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "hub" / "models--owner--name" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(bytes(1000))
    (tmp_path / "hub" / "models--owner--empty" / "snapshots").mkdir(parents=True)
    package = tmp_path / "site-packages" / "some_gguf"
    package.mkdir(parents=True)
    (package / "tiny.gguf").write_bytes(bytes(10))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path / "none"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
    assert [(each["model"], each["bytes"]) for each in probes.models()] == [
        ("owner/name", 1000),
        (str(package / "tiny.gguf"), 10),
    ]
    games, hub = probes.caches()
    assert (games["exists"], hub["bytes"], hub["path"]) == (False, 1000, str(tmp_path / "hub"))


def test_java_is_found_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert probes.java()["installed"] is False
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk 99' >&2\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = probes.java()
    assert (found["installed"], found["version"], found["path"]) == (True, "openjdk 99", f"{tmp_path}/bin/java")


def test_the_version() -> None:
    assert rir_gym("--version") == (0, f"rir-gym {__version__}\n", "")


# --- help ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["export", "-h"], ["doctor", "--help"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code = (
        "import atexit, sys\n"
        "heavy = {'torch', 'transformers', 'textworld', 'datasets', 'pyarrow', 'rich.progress', 'rir_envs',\n"
        "         'rir_policies', 'multiprocessing.pool', 'concurrent.futures.process', 'asyncio'}\n"
        "atexit.register(lambda: print('loaded', sorted(heavy & set(sys.modules))))\n"
        f"{MAIN}"
    )
    ended = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "loaded []"


def test_help_is_quick() -> None:
    """0.6 s of this process's own time, which is the wall clock's on a free machine; the best of a few tries."""
    took = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", MAIN, "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if took[-1] <= 0.6:
            return
    pytest.fail(f"{min(took):.2f} s")


# --- json ---------------------------------------------------------------------------------------------------------


def test_json_is_one_document_on_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["--section", "main", "--mechanism", "react", "--episodes", 1, "--workers", 0]
    for words in (
        ["run", "--agent", "scripted", "--out", "a"],
        ["run", "--agent", "scripted", "--out", "a"],  # goes on, with a note
        ["collect", "--agent", "scripted", "--workers", 0, "--out", "b"],
        ["export", "messages", "a", "--only", "all", "--out", "c"],
        ["data", "check", "a"],
        ["data", "merge", "a", "b", "--out", "d"],
        ["bench"],
        ["bench", "smoke", *small, "--out", "e"],
        ["report", "e"],
        ["envs"],
    ):
        said = rir_gym(*words, "--json")
        assert said.code == 0, said.err
        json.loads(said.out)
        assert said.out.count("\n") == 1


# --- completion ---------------------------------------------------------------------------------------------------


def offered(line: str, *, shell: str = "bash") -> list[str]:
    words = line.split(" ")
    told = {"_RIR_GYM_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    told["_TYPER_COMPLETE_ARGS"] = line
    environment = {**os.environ, **told}
    ended = subprocess.run([sys.executable, "-c", MAIN], capture_output=True, text=True, env=environment)
    assert ended.stderr == ""
    return ended.stdout.split()


def lines() -> Iterator[tuple[str, set[str], set[str]]]:
    """(what was typed, what must be offered, what must not)."""
    yield "rir-gym de", {"demo"}, {"run"}
    yield "rir-gym run --mem", {"--memory-position"}, {"--out"}
    yield "rir-gym run --env rir_gym/A", {"rir_gym/Apothecary-v0"}, {"rir_gym/Workspace-v0"}
    yield "rir-gym play rir_gym/W", {"rir_gym/Workspace-v0"}, {"rir_gym/Apothecary-v0"}
    yield "rir-gym run --mechanism re", {"react", "restart"}, {"rir"}
    yield "rir-gym bench sm", {"smoke"}, {"apothecary"}
    yield "rir-gym bench smoke --mechanism rir", {"rir"}, {"react"}
    yield "rir-gym export to", {"tokens"}, {"sft"}
    yield "rir-gym export sft --file ", {"jsonl", "parquet"}, set()


@pytest.mark.parametrize("line", list(lines()), ids=lambda line: line[0])
def test_completion_offers_what_begins_so(line: tuple[str, set[str], set[str]]) -> None:
    typed, some, none = line
    found = set(offered(typed))
    assert some <= found
    assert not none & found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_shown_for_a_shell(shell: str) -> None:
    environment = {**os.environ, "_RIR_GYM_COMPLETE": f"source_{shell}"}
    ended = subprocess.run([sys.executable, "-c", MAIN], capture_output=True, text=True, env=environment)
    assert ended.returncode == 0
    assert "_RIR_GYM_COMPLETE" in ended.stdout

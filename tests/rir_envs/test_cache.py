"""Files that are kept: made once, whole or made again, by a child process that the caller does not reach into."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rir_envs.cache import cache_root, in_child, kept
from rir_gym.errors import RirError, UsageError

FILES = ("one", "two")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(folder: Path) -> None:
    for name in (*FILES, "rubbish"):
        (folder / name).write_text(f"this is {name}", "utf-8")


def refuse(folder: Path) -> None:
    raise AssertionError(f"{folder}: there is nothing to make")


def test_makes_once_and_keeps_what_was_asked_for(root: Path) -> None:
    folder = kept("kind/name", FILES, write)
    assert folder == root / "kind" / "name"
    assert sorted(path.name for path in folder.iterdir()) == ["digests.json", *FILES]
    assert [path.name for path in folder.parent.iterdir()] == ["name"]
    assert kept("kind/name", FILES, refuse) == folder


@pytest.mark.parametrize("name", [*FILES, "digests.json"])
@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b""), lambda path: path.write_text("[]")])
def test_what_is_missing_torn_or_changed_is_made_again(name: str, harm: object) -> None:
    folder = kept("name", FILES, write)
    assert callable(harm)
    harm(folder / name)
    kept("name", FILES, write)
    assert [(folder / file).read_text("utf-8") for file in FILES] == [f"this is {file}" for file in FILES]


def test_many_may_ask_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda _: kept("name", FILES, write), range(40)))
    assert len(folders) == 1
    assert kept("name", FILES, refuse) in folders


def test_what_was_not_made_is_an_error_and_leaves_nothing(root: Path) -> None:
    with pytest.raises(RirError, match="two not made"):
        kept("name", FILES, lambda folder: folder.joinpath("one").touch())
    assert [path.name for path in (root / "name").iterdir()] == []
    assert [path.name for path in root.iterdir()] == ["name"]


def test_a_folder_that_cannot_be_written_is_the_callers_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"RIR_GYM_CACHE='.*file': a folder that can be written"):
        kept("name", FILES, write)


def test_the_root_is_chosen_or_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RIR_GYM_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_root().is_relative_to(tmp_path)
    monkeypatch.setenv("RIR_GYM_CACHE", "~/here")
    assert cache_root() == tmp_path / "here"


def test_a_child_has_its_own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    script = "import os; open('seen', 'w').write(' '.join(map(os.environ.get, ('PYTHONHASHSEED', 'MINE'))))"
    in_child("builtins", "exec", (script,), cwd=tmp_path, environment={"MINE": "yes"}, timeout_s=60)
    assert (tmp_path / "seen").read_text() == "0 yes"
    assert os.environ["PYTHONHASHSEED"] == "77"


def test_a_childs_failure_is_one_error_with_what_it_said_last(tmp_path: Path) -> None:
    with pytest.raises(RirError, match=r"call='builtins\.exec': ZeroDivisionError: division by zero"):
        in_child("builtins", "exec", ("1 / 0",), cwd=tmp_path, environment={}, timeout_s=60)
    with pytest.raises(RirError, match=r"call='builtins\.exec': not done in 0 s"):
        in_child("builtins", "exec", ("import time; time.sleep(60)",), cwd=tmp_path, environment={}, timeout_s=0.3)

"""Which TextWorld games there are, and that each is made once, whole, by whomever asks for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_envs import textworld_games as games
from rir_envs import textworld_making as making
from rir_envs.textworld import TextWorldEnv, coin_collector, cooking, simple, treasure_hunter
from rir_gym.errors import MissingDependency, RirError, UsageError

pytestmark = pytest.mark.skipif(find_spec("textworld") is None, reason="needs the extra 'textworld'")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.getbasetemp() / "textworld-games"  # every test file of a run uses the same
        folder.mkdir(exist_ok=True)
        patch.setenv("RIR_GYM_CACHE", str(folder))
        yield folder


WRONG_LEVELS = [(cooking, 0), (cooking, 6), (simple, 4), (simple, True), (simple, "1"), (coin_collector, 151),
                (coin_collector, 234), (treasure_hunter, 31), (treasure_hunter, 1.0)]  # fmt: skip


@pytest.mark.parametrize(("maker", "level"), WRONG_LEVELS)
def test_a_wrong_level_names_the_levels(maker: Callable[..., TextWorldEnv], level: Any) -> None:
    with pytest.raises(UsageError, match=r"level=.*levels of rir_gym/TextWorld-\w+-v0 are 1(,| to) "):
        maker(level=level)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "1", True])
def test_a_wrong_seed_is_refused(seed: Any) -> None:
    with pytest.raises(UsageError, match="game_seed="):
        cooking(game_seed=seed)


@pytest.mark.parametrize("split", ["dev", "", 0, True, b"train"])
def test_a_wrong_split_is_refused(split: Any) -> None:
    with pytest.raises(UsageError, match=r"split=.*'train', 'test' or None"):
        cooking(split=split)


@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(sorted(games.KINDS)))
def test_every_game_seed_is_of_one_split(seed: int, kind: str) -> None:
    def allowed(split: Any) -> bool:
        try:
            return games.game_of(kind, game_seed=seed, split=split).seed == seed
        except UsageError:
            return False

    assert allowed("train") != allowed("test")
    assert allowed(None)
    assert games.game_of(kind, game_seed=seed) == games.game_of(
        kind, level=games.KINDS[kind].level, game_seed=seed, split="test" if allowed("test") else "train"
    )
    tried = list(making._seeds(seed))
    assert tried[0] == seed
    assert {other % 2 for other in tried} == {seed % 2}


def test_a_game_seed_of_the_other_split_is_refused() -> None:
    with pytest.raises(UsageError, match=r"game_seed=4: the game seeds of split='test' are 1, 3, 5…"):
        simple(game_seed=4, split="test")


def test_the_first_game_of_a_split_is_the_default() -> None:
    assert [games.game_of("simple", split=split).seed for split in (None, "train", "test")] == [0, 0, 1]


def test_games_have_names_of_their_own() -> None:
    made = [
        games.game_of(kind, level=level, game_seed=seed)
        for kind, known in games.KINDS.items()
        for level in known.levels
        for seed in (0, 1)
    ]
    assert len({game.name for game in made}) == len(made) > 400


def test_a_missing_dependency_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "textworld", None)
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path))
    with pytest.raises(MissingDependency, match=r"rir_gym/TextWorld-Cooking-v0 needs the extra 'textworld'"):
        cooking()
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_a_usage_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="RIR_GYM_CACHE="):
        cooking()


def test_a_game_that_cannot_be_made_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path))
    with pytest.raises(RirError, match="could not make it"):
        making.cached(games.Game("x", "no-such-challenge", 1, 0, {}))
    assert [path for path in tmp_path.rglob("*") if path.name != "textworld" and path.parent.name != "textworld"] == []


@pytest.mark.parametrize("damage", ["torn", "missing", "changed", "digests"])
def test_a_damaged_file_is_made_again(
    damage: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = games.game_of("simple")
    whole = making.cached(game).parent
    contents = {path.name: path.read_bytes() for path in whole.iterdir()}
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path))
    folder = tmp_path / whole.relative_to(cache)
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)

    def remade(game: games.Game, scratch: Path) -> None:
        for name in making.FILES:
            (scratch / name).write_bytes(contents[name])

    monkeypatch.setattr(making, "_make", remade)
    if damage == "torn":
        (folder / "game.z8").write_bytes(contents["game.z8"][:1000])
    elif damage == "missing":
        (folder / "game.json").unlink()
    elif damage == "changed":
        (folder / "game.json").write_bytes(contents["game.json"].replace(b"apple", b"melon"))
    else:
        (folder / "digests.json").write_text("[]")
    assert making.cached(game) == folder / "game.z8"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents
    assert [path.name for path in folder.parent.iterdir()] == [game.name]


_PLAYER = """
import json, os, random, sys
import numpy as np
random.seed(1); np.random.seed(1)
def states(): return random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]
before = states()
from rir_envs import textworld_making as making
make = making._make
def counted(game, scratch):
    with open(sys.argv[1], "a") as log: log.write(f"{os.getpid()}\\n")
    make(game, scratch)
making._make = counted
from rir_envs.textworld import cooking
env = cooking()
rows = [env.reset()]
for command in [*env.oracle.plan()[:2], "look", "take", *env.oracle.plan()]:
    rows.append([env.step(command), env.describe(), env.oracle.plan()])
    if rows[-1][0][2]: break
assert states() == before
print(json.dumps(rows))
"""


def test_four_processes_with_other_hash_seeds_make_a_game_once_and_play_the_same(cache: Path, tmp_path: Path) -> None:
    paths, log = os.pathsep.join(sys.path), tmp_path / "log"
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _PLAYER, str(log)],
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed, "RIR_GYM_CACHE": str(tmp_path / "new")},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2", "3", "random")
    ]
    answers = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0, 0], answers
    assert len({said for said, _ in answers}) == 1
    assert json.loads(answers[0][0])[-1][0][2] is True
    assert len(log.read_text().splitlines()) == 1
    here = making.cached(games.game_of("cooking")).parent
    there = tmp_path / "new" / here.relative_to(cache)
    assert (there / "game.json").read_bytes() == (here / "game.json").read_bytes()
    assert [path.name for path in there.parent.iterdir()] == [there.name]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "new"]


def test_a_maker_that_dies_does_not_stop_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path))
    script = "from rir_envs.textworld_making import one_maker as o; import os\nwith o('a/b'): os.kill(os.getpid(), 9)"
    paths = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == -9
    with making.one_maker("a/b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert not (tmp_path / "a" / "b").exists()

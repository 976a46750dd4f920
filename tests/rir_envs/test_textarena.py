"""The TextArena environment: the contract for every game, determinism, restores, listed moves, junk and errors."""

from __future__ import annotations

import copy
import os
import random
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from rir_envs.textarena import GAMES, LEFT_OUT, TextArenaEnv
from rir_gym.base import Oracle
from rir_gym.errors import MissingDependency, UsageError
from rir_gym.rollback import RollbackWrapper
from rir_gym.spaces import Unicode
from rir_gym.testing import check_restore

pytestmark = pytest.mark.skipif(find_spec("textarena") is None, reason="needs the extra 'textarena'")

ONE_OF_EACH = ("2048-v0", "Bandit-v0", "Blackjack-v0", "FrozenLake-v0", "GuessTheNumber-v0", "LightsOut-v0",
               "Mastermind-v0", "Minesweeper-v0", "PegJump-v0", "RushHour-v0", "Secretary-v0", "Sokoban-v0",
               "Sudoku-v0", "TowerOfHanoi-v0")  # fmt: skip
UNLISTED = {
    "Mastermind-v0": ("[1 2 3 4]", "[2 3 4 5]", "[3 4 5 6]", "[6 5 4 3]", "[1 3 5 2]", "[5 1 2 6]", "[4 4 4 4]"),
    "RushHour-v0": tuple(f"[{car}{way}]" for car in "XABCDFGHIJ" for way in "+-"),
    "Sudoku-v0": ("[1 5 1]", "[1 5 4]", "[1 5 9]", "[2 4 1]", "[2 4 5]", "[9 9 3]", "[9 9 8]"),
}
JUNK = ("", "   ", "\n", "[", "][", "[]", "up", "[[[[", "²", "[²]", "[1 ²]", "[1 2 ²]", "[٣ ٣]", "[9999 9999]",
        "[-1 -1]", "[" + "9" * 5000 + "]", "[" + "9" * 5000 + " 1]", "\x00", "\ud800", "[水]", "水火 äöü", "<|im_end|>",
        "[Player]", "a" * 1_000_000, "[" * 1_000_000, "[A B]" * 200_000, "[" + " " * 1_000_000)  # fmt: skip
PLAY = """
import hashlib, random, socket, sys, warnings
asked = []
def refuse(*args, **kwargs):
    asked.append(args)
    raise OSError("no network here")
socket.getaddrinfo = socket.create_connection = socket.socket.connect = refuse
from rir_envs.textarena import GAMES, TextArenaEnv
before, filters = random.getstate(), list(warnings.filters)
TextArenaEnv()
assert (random.getstate(), warnings.filters) == (before, filters)
for game in GAMES:
    env, choice, text = TextArenaEnv(game=game), random.Random(game), hashlib.sha256()
    for seed in (3, 4):
        observation, info = env.reset(seed=seed)
        over = False
        for _ in range(12):
            text.update(repr((observation, info, env.describe())).encode())
            if over:
                break
            listed = info["admissible"] or ["[1 2 3 4]", "[X+]", "[B-]", "[1 1 1]", "[S 9]"]
            observation, reward, over, _, info = env.step(choice.choice(listed))
            text.update(repr(reward).encode())
    print(game, text.hexdigest())
assert not asked, asked
"""


class Moves(gym.Wrapper[str, str, str, str]):
    """Samples moves that the game can read, where it lists none."""

    def __init__(self, env: TextArenaEnv) -> None:
        super().__init__(env)
        self.action_space = _Among(UNLISTED[_family(env.game)])


class _Among(Unicode):
    def __init__(self, among: tuple[str, ...]) -> None:
        super().__init__()
        self.among = among

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return self.among[int(self.np_random.integers(len(self.among)))]


def made(game: str) -> gym.Env[str, str]:
    env = TextArenaEnv(game=game)
    return Moves(env) if _family(game) in UNLISTED else env


def _family(game: str) -> str:
    return f"{game.partition('-v0')[0]}-v0"


def played(env: TextArenaEnv, seed: int, steps: int = 15) -> list[Any]:
    """Everything that a game says to moves chosen by ``seed``."""
    choice, seen = random.Random(seed), [env.reset(seed=seed)]
    for _ in range(steps):
        listed = seen[-1][-1]["admissible"]
        returned = env.step(choice.choice(UNLISTED[env.game] if listed is None else listed))
        seen.append((*returned, env.describe()) if returned[2] else returned)
        if returned[2]:
            break
    return seen


def test_passes_the_checker() -> None:
    check_env(TextArenaEnv(game="2048-v0"), skip_render_check=True)


@pytest.mark.parametrize("game", GAMES)
def test_every_game_keeps_the_contract(game: str) -> None:
    env = TextArenaEnv(game=game)
    observation, info = env.reset(seed=1)
    choice, over, total, reward = random.Random(1), False, 0.0, 0.0
    assert info["objective"]
    assert observation.startswith(info["objective"].splitlines()[0])
    assert info["oracle"] == {"success": False, "failed": False, "score": 0.0}
    assert isinstance(env.oracle, Oracle)
    assert env.submit("done") is None
    for _ in range(6):
        moves = info["admissible"] or ["[1 2 3 4]", "[X+]", "[1 5 1]", ""]
        observation, reward, over, truncated, info = env.step(choice.choice(moves))
        total += reward
        assert isinstance(observation, str)
        assert (set(info), set(info["oracle"])) == (
            {"objective", "admissible", "committed", "oracle"},
            {"success", "failed", "score"},
        )
        assert (info["committed"], truncated, type(over), type(reward)) == (False, False, bool, float)
        assert -1 <= reward <= 1
        assert 0 <= info["oracle"]["score"] <= 1
        assert 1 <= len(env.describe()) < 200
        if over:
            break
        assert (reward, info["oracle"]["success"], info["oracle"]["failed"]) == (0.0, False, False)
    while not over:
        observation, reward, over, _, info = env.step("no move at all")
    assert observation
    assert info["admissible"] == []
    assert info["oracle"]["failed"] is not info["oracle"]["success"]
    assert info["oracle"]["score"] == max(0.0, reward)
    assert env.describe().endswith(("game over", "game won"))


def test_the_seed_fixes_every_game_in_any_process_without_network_or_output() -> None:
    said = []
    for hash_seed in ("1", "2"):
        script = PLAY.replace("(3, None)", "(3, 4)")
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        said.append(done.stdout.splitlines())
    assert said[0] == said[1]
    assert [line.split()[0] for line in said[0]] == list(GAMES)


@pytest.mark.parametrize("game", ONE_OF_EACH)
def test_a_reset_leaves_nothing_of_the_game_before(game: str) -> None:
    first, second = TextArenaEnv(game=game), TextArenaEnv(game=game)
    seen = played(first, 5)
    played(second, 6)
    assert played(second, 5) == seen
    assert played(first, 5) == seen


def test_a_reset_without_a_seed_goes_on_from_the_last_one() -> None:
    env = TextArenaEnv(game="Sudoku-v0")
    env.reset(seed=1)
    following = [env.reset()[0], env.reset()[0]]
    assert following[0] != following[1]
    env.reset(seed=1)
    assert [env.reset()[0], env.reset()[0]] == following


@pytest.mark.parametrize("game", [game for game in ONE_OF_EACH if game != "RushHour-v0"])  # it takes 0.5 s a reset
def test_is_restored_as_it_was(game: str) -> None:
    report = check_restore(lambda: made(game), restores=20)
    assert report.restores == 20
    assert report.steps > 20


@pytest.mark.parametrize("game", [game for game in GAMES if game not in ONE_OF_EACH])
def test_every_variant_is_restored_too(game: str) -> None:
    report = check_restore(lambda: made(game), restores=5)
    assert (report.mechanism, report.restores) == ("heap", 5)


def test_every_single_player_game_is_offered_or_left_out_with_a_reason() -> None:
    offered = {game.partition("-v0")[0] for game in GAMES}
    assert len(GAMES) == 45
    assert len(offered) == 14
    assert offered & set(LEFT_OUT) == {"Sokoban", "Sudoku"}  # the slow variants
    assert all(reason for reason in LEFT_OUT.values())


@pytest.mark.parametrize("game", ["2048-v0", "Bandit-v0", "Blackjack-v0", "Minesweeper-v0"])
def test_whoever_else_draws_from_random_is_never_rewound(game: str) -> None:
    env = RollbackWrapper.from_factory(lambda: TextArenaEnv(game=game))
    env.reset(seed=2)
    draws, actions, first = [random.random()], [], []
    while len(actions) < 4 and not env.node.step.over:
        actions.append(env.node.step.admissible[0])  # type: ignore[index]
        first.append(env.step(actions[-1])[:3])
    for _ in range(3):
        env.rollback(1)
        again = []
        for action in actions[1:]:
            draws.append(random.random())
            before = random.getstate()
            again.append(env.step(action)[:3])
            assert random.getstate() == before
        assert again == first[1:]
    assert len(set(draws)) == len(draws) > 3


CANDIDATES = {
    "2048-v0": ("[Up]", "[Down]", "[Left]", "[Right]"),
    "Bandit-v0": ("[red]", "[purple]", "[pink]"),
    "Blackjack-v0": ("[Hit]", "[Stand]", "[Double]"),
    "FrozenLake-v0": ("[up]", "[down]", "[left]", "[right]"),
    "GuessTheNumber-v0": tuple(f"[{number}]" for number in range(23)),
    "LightsOut-v0": tuple(f"[{row} {column}]" for row in range(7) for column in range(7)),
    "PegJump-v0": tuple(f"[{start} {end}]" for start in range(17) for end in range(17)),
    "Secretary-v0": ("[accept]", "[continue]", "[stop]"),
    "Sokoban-v0": ("[up]", "[down]", "[left]", "[right]"),
    "TowerOfHanoi-v0": tuple(f"[{one} {other}]" for one in "ABC" for other in "ABC" if one != other),
}


@pytest.mark.parametrize("game", sorted(CANDIDATES))
def test_the_listed_moves_are_those_that_the_game_takes(game: str) -> None:
    env, choice, over = TextArenaEnv(game=game), random.Random(0), False
    _, info = env.reset(seed=0)
    for _ in range(6):
        for move in CANDIDATES[game]:
            observation, *_ = copy.deepcopy(env).step(move)
            assert ("attempted an invalid move" in observation) == (move not in info["admissible"]), (move, observation)
        _, _, over, _, info = env.step(choice.choice(info["admissible"]))
        if over:
            break


def test_minesweeper_lists_the_hidden_cells() -> None:
    env = TextArenaEnv(game="Minesweeper-v0")
    _, info = env.reset(seed=0)
    assert len(info["admissible"]) == 64
    observation, _, _, _, info = env.step("[0 0]")
    assert len(info["admissible"]) == observation.count(" . ") < 64


def test_winning_pays_one_and_says_so() -> None:
    env = TextArenaEnv(game="TowerOfHanoi-v0")
    env.reset()
    rewards = []
    for move in ("[A C]", "[A B]", "c b", "[A C]", "[B A]", "I move [B C] now", "[A, C]"):
        observation, reward, over, _, info = env.step(move)
        rewards.append(reward)
    assert rewards == [0.0] * 6 + [1.0]
    assert over
    assert "solved the Tower of Hanoi" in observation
    assert info["oracle"] == {"success": True, "failed": False, "score": 1.0}
    assert env.describe().endswith("game won")


def test_the_second_invalid_move_in_a_row_loses() -> None:
    env = TextArenaEnv(game="Secretary-v0")
    env.reset(seed=0)
    observation, reward, over, _, _ = env.step("hire")
    assert ("invalid move" in observation, reward, over) == (True, 0.0, False)
    observation, reward, over, _, info = env.step("hire")
    assert ("Invalid Move" in observation, reward, over) == (True, -1.0, True)
    assert info["oracle"] == {"success": False, "failed": True, "score": 0.0}


def test_a_reward_below_minus_one_is_cut() -> None:
    env = TextArenaEnv(game="LightsOut-v0")
    env.reset(seed=11)
    presses = "1 1, 0 3, 4 1, 3 3, 1 0, 1 0, 1 0, 1 0, 1 0, 1 0, 1 0, 1 0, 1 0, 1 0, 1 0, 1 0, 1 0, 1 0, 1 0, 1 0"
    for press in presses.split(", "):
        _, reward, over, _, info = env.step(press)
    assert env._raw.state.rewards[0] < -1
    assert (reward, over, info["oracle"]["score"]) == (-1.0, True, 0.0)


@pytest.mark.parametrize("game", ONE_OF_EACH)
def test_junk_is_an_ordinary_move(game: str) -> None:
    env = TextArenaEnv(game=game)
    over = True
    for junk in JUNK:
        if over:
            env.reset(seed=0 if game == "RushHour-v0" else None)
        observation, reward, over, truncated, info = env.step(junk)
        assert len(observation) < 200_000
        assert (truncated, info["oracle"]["success"]) == (False, False)
        assert -1 <= reward <= 1


def test_describes_the_turn_and_the_board_without_a_step() -> None:
    env = TextArenaEnv(game="FrozenLake-v0")
    env.reset(seed=0)
    before = env.describe()
    assert before == env.describe()
    assert before.startswith("turn 0; Current Board: | P |")
    env.step(env._info()["admissible"][0])
    assert env.describe().startswith("turn 1; ")
    assert env.describe()[7:] != before[7:]


def test_renders_the_last_observation() -> None:
    env = TextArenaEnv(render_mode="ansi")
    observation, _ = env.reset(seed=0)
    assert env.render() == observation
    observation, *_ = env.step("[Up]")
    assert env.render() == observation
    plain = TextArenaEnv()
    plain.reset(seed=0)
    assert plain.render() is None


def test_is_made_from_a_spec_that_is_json() -> None:
    spec = EnvSpec("TextArenaTest-v0", entry_point="rir_envs.textarena:TextArenaEnv", kwargs={"game": "PegJump-v0"})
    env = RollbackWrapper(gym.make(EnvSpec.from_json(spec.to_json())))
    observation, _ = env.reset(seed=0)
    env.step("[12 5]")
    assert env.rollback(0)[0] == observation


def test_what_is_asked_wrongly_is_a_usage_error() -> None:
    for game in ("Wordle-v0", "Chess-v0", "2048-v0-raw", "Klondike-v0", "", None, ["2048-v0"]):
        with pytest.raises(UsageError, match=r"one of 2048-v0, .*Sokoban-v0"):
            TextArenaEnv(game=game)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="render_mode='human'"):
        TextArenaEnv(render_mode="human")  # type: ignore[arg-type]
    env = TextArenaEnv(game="Blackjack-v0")
    for call in (lambda: env.step("[Hit]"), env.describe):
        with pytest.raises(UsageError, match="reset"):
            call()
    env.reset(seed=0)
    with pytest.raises(UsageError, match="action=int"):
        env.step(1)  # type: ignore[arg-type]
    while not env.step("hm")[2]:
        pass
    with pytest.raises(UsageError, match="over"):
        env.step("[Hit]")
    env.reset(seed=0)
    env.close()
    env.close()
    for call in (lambda: env.step("[Hit]"), env.reset, env.describe):
        with pytest.raises(UsageError, match=r"closed|reset"):
            call()


def test_without_textarena_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textarena", None)
    with pytest.raises(MissingDependency, match="'textarena'"):
        TextArenaEnv()

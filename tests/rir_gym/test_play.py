"""``rir-gym play`` and ``rir-gym envs`` as a person meets them: by pipe and terminal, and with odd environments."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rir_gym import RollbackWrapper, Unicode
from rir_gym.cli import main
from rir_gym.cli.play import Game
from rir_gym.data.check import check_record
from rir_gym.data.records import read_episodes
from rir_gym.errors import UsageError
from rir_gym.ids import IDS
from rir_gym.labels import label_record

Cli = Callable[..., tuple[int, str, str]]
APOTHECARY = "rir_gym/Apothecary-v0"


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run ``rir-gym`` with arguments and lines on standard input: (exit code, standard output, standard error)."""

    def call(*arguments: object, lines: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rir-gym", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        assert isinstance(stopped.value.code, int)
        return stopped.value.code, said.out, said.err

    return call


# --- play -----------------------------------------------------------------------------------------------------------


def test_a_game_is_played_rolled_back_and_recorded(cli: Cli, tmp_path: Path) -> None:
    lines = "go attic\n/rollback 0\ngo lab\n/goto 1\n/state\n/quit\ngo tower\n"
    code, out, err = cli("play", APOTHECARY, "--seed", 4, "--out", tmp_path / "game", lines=lines)
    assert (code, err) == (0, "")
    assert "[node 2, step 1]\n> /goto 1" in out
    assert "in the attic; holding nothing; pot empty" in out
    assert "2 rollbacks, 2 steps" in out.replace(" of 1000000", "")
    assert "go tower" not in out.split("/quit")[1]
    [record] = read_episodes(tmp_path / "game")
    check_record(record)
    assert [(node["parent"], node["action"]) for node in record["nodes"]] == [
        (None, None),
        (0, "go attic"),
        (0, "go lab"),
    ]
    assert (record["result"]["stopped"], record["result"]["last"], record["header"]["seed"]) == ("quit", 1, 4)
    assert record["ledger"]["agent_calls"] == 4
    assert record["header"]["mechanism"]["uses_oracle"] is False
    assert cli("view", tmp_path / "game")[0] == 0
    assert [each["calls_left"] for each in label_record(record, gym.make(APOTHECARY))["labels"]] == [
        *(1_000_000, 999_999, 999_997),
    ]


def test_the_hints_lead_to_success_and_stand_in_the_record(cli: Cli, tmp_path: Path) -> None:
    env = gym.make(APOTHECARY)
    env.reset(seed=1)
    plan = env.get_wrapper_attr("oracle").plan()
    lines = "".join(f"/hint\n{action}\n" for action in plan) + "/hint\ngo lab\n"
    code, out, _ = cli("play", APOTHECARY, "--seed", 1, "--out", tmp_path / "game", lines=lines)
    assert code == 0
    hints = [line for line in out.splitlines() if line.endswith(" to go)")]
    assert hints == [f"{action} ({len(plan) - i} to go)" for i, action in enumerate(plan)]
    assert "The episode is over: success." in out
    assert "nothing is left to do" in out
    assert "the episode is over: /rollback N" in out
    [record] = read_episodes(tmp_path / "game")
    assert (record["result"]["success"], record["result"]["stopped"]) == (True, "terminated")
    assert record["header"]["mechanism"]["uses_oracle"] is True


def test_an_end_can_be_taken_back(cli: Cli, tmp_path: Path) -> None:
    lines = "2\n2\n1\n1\n1\n2\n/rollback 2\n/goto 6\n"
    arguments = ("--env-arg", "is_slippery=false", "--out", tmp_path / "game")
    code, out, _ = cli("play", "FrozenLake-v1", *arguments, lines=lines)
    assert code == 0
    assert out.count("The episode is over: terminated.") == 2
    [record] = read_episodes(tmp_path / "game")
    check_record(record)
    assert record["ledger"]["requests"] == 1  # the first rollback was made at the end, where nobody is asked to act
    assert record["result"]["return"] == 1.0


def test_success_out_of_reach_and_ends_of_branches_are_told(cli: Cli) -> None:
    code, out, _ = cli("play", "rir_gym/Apothecary-v0", "--env-arg", "spare=0", lines=_spoiled(3) + "/hint\n/tree\n")
    assert code == 0
    assert "success is out of reach from here: go back" in out
    assert "(here)" in out


def _spoiled(seed: int) -> str:
    """Lines that pour away something that is needed and cannot be had twice."""
    env = gym.make(APOTHECARY, spare=0)
    env.reset(seed=0)
    lines = []
    for action in env.get_wrapper_attr("oracle").plan():
        lines.append(action)
        if action.startswith("pour"):
            break
    return "\n".join([*lines, "empty"]) + "\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/rollback", "restore point='': 0 to 1"),
        ("/rollback 2", "restore point='2': 0 to 1"),
        ("/rollback -1", "restore point='-1': 0 to 1"),
        ("/rollback 1", "the world stands there already"),
        ("/rollback ٣", "0 to 1"),
        ("/rollback 99999999999999999999", "0 to 1"),
        ("/goto 7", "node='7': 0 to 1"),
        ("/goto x", "node='x': 0 to 1"),
        ("/submit done", "takes no final response"),
        ("/dance", "/dance: no such word of ours"),
        ("/", "/: no such word of ours"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(cli: Cli, line: str, said: str) -> None:
    code, out, err = cli("play", APOTHECARY, lines=f"go lab\n{line}\n/state\n")
    assert (code, err) == (0, "")
    assert said in out
    assert out.count("in the lab; holding nothing") == 1
    assert "0 steps" not in out
    assert ", 1 step" in out


@pytest.mark.parametrize("text", ["", "   ", "\t"])
def test_enter_alone_is_no_action(cli: Cli, text: str) -> None:
    _, out, _ = cli("play", APOTHECARY, lines=f"{text}\n{text}\n")
    assert "no step" in out


@pytest.mark.parametrize("text", ["火を消す", "x" * 1_000_000, "rollback 0", "quit", "\x1b[2Jgo lab", "go lab\x07"])
def test_any_other_line_is_an_action(cli: Cli, text: str) -> None:
    code, out, _ = cli("play", APOTHECARY, lines=f"{text}\n")
    assert code == 0
    assert "[node 1, step 1]" in out
    assert "\x1b" not in out
    assert "\x07" not in out


class Odd(gym.Env[str, str]):
    """An environment with commands like ours, text that steers terminals, and errors of its own."""

    action_space = Unicode()
    observation_space = Unicode()

    def __init__(self, *, listed: tuple[str, ...] = ("/hint", "/quit", "look")) -> None:
        self.listed, self.heard = listed, ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.heard = ""
        return "\x1b]0;title\x07\x1b[31mred \ud800", {"admissible": list(self.listed), "objective": "[bold]odd[/bold]"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action == "crash":
            raise ZeroDivisionError("in the game")
        self.heard = action
        return f"heard [red]{action}[/red]", 0.0, False, False, {"admissible": list(self.listed)}

    def submit(self, text: str) -> str:
        return f"answer {text}"

    def get_state(self) -> str:
        return self.heard

    def set_state(self, state: str) -> None:
        self.heard = state


@pytest.fixture
def odd() -> Any:
    gym.register("rir_test/Odd-v0", entry_point=Odd)
    yield "rir_test/Odd-v0"
    del gym.registry["rir_test/Odd-v0"]


def test_commands_of_the_environment_that_look_like_ours_can_be_said(cli: Cli, odd: str) -> None:
    _, out, _ = cli("play", odd, lines="/actions\n//quit\n/hint\n/submit 42\n/tree\n")
    assert "//hint\n//quit\nlook\n" in out
    assert "heard [red]/quit[/red]" in out
    assert "this environment has no oracle" in out
    assert "heard [red]answer 42[/red]" in out
    assert "! final response: 42" in out
    assert "[bold]odd[/bold]" in out
    assert "\x1b" not in out.replace("\x1b]", "\x1b")
    assert "red \ufffd" in out


def test_an_error_of_the_environment_is_one_line_and_the_game_goes_on(cli: Cli, odd: str) -> None:
    code, out, err = cli("play", odd, lines="crash\nlook\n")
    assert (code, err) == (0, "")
    assert "the environment refused it, ZeroDivisionError: in the game" in out
    assert "heard [red]look[/red]" in out


def test_an_environment_with_our_rollback_among_its_commands_is_refused(cli: Cli, odd: str) -> None:
    code, out, err = cli("play", odd, "--env-arg", 'listed=["/rollback 3"]')
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'/rollback 3' is an action of the environment" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rir_gym/Nope-v0",), "env='rir_gym/Nope-v0': unknown"),
        ((APOTHECARY, "--seed", "-1"), "seed=-1: at least 0"),
        ((APOTHECARY, "--env-arg", "stores=99"), "stores=99"),
        ((APOTHECARY, "--env-arg", "stores"), "name=value"),
        (("Pendulum-v1",), "text or Discrete actions"),
        ((), "ID"),
    ],
)
def test_faults_of_the_command_are_one_line_and_write_nothing(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = cli("play", *arguments, "--out", tmp_path / "deep" / "game")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_refused_before_anything_is_played(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "game").mkdir()
    (tmp_path / "game" / "mine").write_text("kept")
    code, out, err = cli("play", APOTHECARY, "--out", tmp_path / "game", lines="go lab\n")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert (tmp_path / "game" / "mine").read_text() == "kept"


def test_a_terminal_is_asked_line_by_line_and_control_c_ends_cleanly(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    command = [sys.executable, "-c", "from rir_gym.cli import main; main()", "play", APOTHECARY]
    game = subprocess.Popen(
        [*command, "--out", str(tmp_path / "game")], stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True
    )
    os.close(terminal)
    try:
        seen = read_until(controller, b"> ")
        os.write(controller, b"go lab\n")
        seen = read_until(controller, b"You walk to the lab", seen)
        read_until(controller, b"> ", seen.partition(b"You walk to the lab")[2])
        game.send_signal(signal.SIGINT)
        while not select.select([controller], [], [], 2.0)[0]:  # one between prompt and read goes unseen until the next
            game.send_signal(signal.SIGINT)
        read_until(controller, b"record:")
        assert game.wait(20) == 0
    finally:
        game.kill()
        game.wait()
        os.close(controller)
    [record] = read_episodes(tmp_path / "game")
    assert [node["action"] for node in record["nodes"]] == [None, "go lab"]


def read_until(descriptor: int, wanted: bytes, seen: bytes = b"", *, seconds: float = 60.0) -> bytes:
    """What has been read, ``seen`` included, as soon as ``wanted`` is in it."""
    end = time.monotonic() + seconds
    while wanted not in seen:
        assert select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0], seen
        seen += os.read(descriptor, 4096)
    return seen


def test_the_game_wants_actions_that_can_be_typed() -> None:
    with pytest.raises(UsageError, match="text or Discrete"):
        Game.begin(RollbackWrapper(gym.make("Pendulum-v1")), 0)


# --- envs -----------------------------------------------------------------------------------------------------------


def test_every_id_is_listed_once_with_what_is_known_of_it(cli: Cli) -> None:
    code, out, _ = cli("envs", "--json")
    assert code == 0
    rows = {row["id"]: row for row in json.loads(out)}
    assert sorted(rows) == sorted(known.id for known in IDS)
    assert rows[APOTHECARY]["installed"] is True
    assert rows[APOTHECARY]["install"] is None
    for known in IDS:
        row = rows[known.id]
        assert (row["oracle"], row["irreversible"], row["snapshot"]) == (
            known.oracle,
            known.irreversible,
            known.snapshot,
        )
        assert row["expert"] is bool(known.policies)
        assert row["gold_steps"] == (None if known.gold_steps is None else list(known.gold_steps))
        assert row["rollback_id"] not in rows
    code, table, _ = cli("envs")
    assert code == 0
    assert all(table.count(f" {known.id} ") == 1 for known in IDS)


def test_a_missing_extra_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textarena", None)
    _, out, _ = cli("envs", "--json")
    row = next(row for row in json.loads(out) if row["id"] == "rir_gym/TextArena-v0")
    assert (row["installed"], row["install"]) == (False, "pip install 'rir-gym[textarena]'")
    assert "pip install 'rir-gym[textarena]'" in cli("envs")[1]


def test_the_list_is_quick_and_loads_no_game() -> None:
    code = (
        "import sys; from rir_gym.cli import app; app(['envs'], standalone_mode=False)\n"
        "heavy = {'torch', 'transformers', 'textworld', 'alfworld', 'textarena', 'jericho'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_ready_wrapped_id_is_played_in_one_wrapper(cli: Cli, tmp_path: Path) -> None:
    known = next(known for known in IDS if known.id == APOTHECARY)
    code, _, _ = cli("play", known.rollback_id, "--out", tmp_path / "game", lines="go lab\n")
    assert code == 0
    [record] = read_episodes(tmp_path / "game")
    assert [layer["name"] for layer in record["header"]["env"]["wrappers"]] == ["RollbackWrapper"]
    assert record["header"]["env"]["id"] == APOTHECARY

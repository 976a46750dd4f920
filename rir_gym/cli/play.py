"""``rir-gym play``: a person plays in the terminal, with rollback, branches and, on demand, the oracle's hint.

What a line says is an action, unless it begins with a slash: those words are ours (``HELP``), and two slashes say an
action that begins with one. The person plays every role; what they did is an ordinary episode and its record. It reads
lines from a terminal, a pipe or a file alike; their end, or Ctrl-C, ends the game as ``/quit`` does.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import gymnasium as gym
from rich.console import Console

from rir_gym.base import Node
from rir_gym.cli.byhand import ByHand
from rir_gym.cli.worlds import make, seeded_arguments
from rir_gym.data.files import new_folder, write_episodes
from rir_gym.errors import RirError, UsageError
from rir_gym.oracle import OracleLog
from rir_gym.rollback import RollbackWrapper
from rir_gym.spaces import Unicode
from rir_gym.view.tree import episode_summary, episode_tree

__all__ = ["HELP", "Game", "main"]

HELP = """\
Anything else is an action. Our own words:
  /actions      the admissible actions now
  /rollback N   put the world back to before action N of this branch
  /goto NODE    put the world back to any node, of another branch too
  /tree         what was tried, and where each branch ends
  /state        where things stand, in short
  /hint         the oracle's next action, if there is an oracle
  /submit TEXT  a final response, where the environment takes one
  //TEXT        the action "/TEXT"
  /quit         stop"""

_KEYWORD = "/rollback"  # of the wrapper, too: no text of ours can then be an action of the environment unseen
_KEPT = "\n\t\u200c\u200d"
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class _Quit(Exception):
    """The person has had enough."""


def main(env_id: str, arguments: Mapping[str, Any], *, seed: int, out: Path | None) -> None:
    """Play one episode, and write its record where ``out`` says so.

    Raises:
        UnknownName, UsageError, MissingDependency: the environment cannot be made, or takes no typed actions.
        OutputExists: ``out`` is there already. Nothing was played.
    """
    if seed < 0:
        raise UsageError(f"seed={seed!r}: at least 0")
    with _folder(out) as folder:
        env = make(env_id, seeded_arguments(env_id, arguments, seed), keyword=_KEYWORD)
        try:
            game = Game.begin(env, seed)
            game.play(_lines())
            record = game.hand.record()
            game.console.print(episode_summary(record))
            if folder is not None:
                write_episodes(folder, [record], [{}])
        finally:
            env.close()
    if out is not None:
        game.console.print(f"record: {out}", markup=False, highlight=False)


@contextmanager
def _folder(out: Path | None) -> Iterator[Path | None]:
    if out is None:
        yield None
        return
    with new_folder(out) as folder:
        yield folder


def _lines() -> Iterator[str | None]:
    """The lines of standard input; a terminal is asked with a prompt, and other lines are shown as if typed there.

    Yields None where a line should be asked for, so that the caller can show where the world stands before it.
    """
    typed = sys.stdin.isatty()
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    while True:
        yield None
        if typed:
            try:
                line = input("> ")
            except EOFError:
                print()
                return
        else:
            if not (line := sys.stdin.readline()):
                return
            line = line.rstrip("\r\n")
            print(f"> {_plain(line)}")
        yield line


def _plain(text: str) -> str:
    """Text of somebody else as printable text and line ends: nothing in it steers the terminal."""
    return "".join(map(_printable, _ESCAPE_SEQUENCE.sub("", text)))


def _printable(character: str) -> str:
    kind = unicodedata.category(character)
    if kind == "Cs":
        return "\ufffd"
    return character if kind not in ("Cc", "Cf") or character in _KEPT else ""


@dataclass(frozen=True, slots=True)
class Game:
    """The words of the player, and what they see."""

    hand: ByHand
    console: Console

    @classmethod
    def begin(cls, env: RollbackWrapper, seed: int) -> Game:
        """Reset the environment.

        Raises:
            UsageError: its actions cannot be typed.
        """
        if not isinstance(env.env.action_space, Unicode | gym.spaces.Text | gym.spaces.Discrete):
            raise UsageError(f"env={env}: play needs text or Discrete actions, not {env.env.action_space}")
        return cls(ByHand.begin(env, seed), Console(highlight=False, soft_wrap=True))

    @property
    def env(self) -> RollbackWrapper:
        """The environment."""
        return self.hand.env

    def play(self, lines: Iterator[str | None]) -> None:
        """Do what the lines say until they end, or one says ``/quit``, or Ctrl-C comes."""
        self.say(self.hand.objective or f"{self.env}", style="italic")
        self.say(f"{_KEYWORD} N, /actions, /hint, /help and /quit are yours.", style="dim")
        self.show()
        try:
            for line in lines:
                if line is None:
                    self.say(f"[node {self.env.node.id}, step {self.env.node.t}]", style="dim")
                else:
                    self.do(line)
        except (_Quit, KeyboardInterrupt):
            self.say("")

    def do(self, line: str) -> None:
        """One line. What cannot be done is said, and changes nothing."""
        word, _, rest = line.strip().partition(" ")
        commands: dict[str, Callable[[str], None]] = {
            "/actions": self.actions,
            "/rollback": self.rollback,
            "/goto": self.goto,
            "/tree": self.tree,
            "/state": lambda _: self.say(self.env.node.summary),
            "/hint": self.hint,
            "/submit": self.submit,
            "/help": lambda _: self.say(HELP),
            "/quit": self.quit,
        }
        try:
            if word in commands:
                commands[word](rest.strip())
            elif line.startswith("//"):
                self.act(line[1:])
            elif word.startswith("/"):
                self.say(f"{word}: no such word of ours. {HELP}")
            elif word:  # Enter alone is no action
                self.act(line)
        except RirError as error:
            self.say(str(error), style="yellow")

    # --- what a line may ask for ----------------------------------------------------------------------------------

    def act(self, text: str) -> None:
        """A task action."""
        self.stepped(lambda: self.hand.step(self.read(text)))

    def submit(self, text: str) -> None:
        """A final response."""
        self.stepped(lambda: self.hand.submit(text))

    def stepped(self, step: Callable[[], None]) -> None:
        """One step of the environment, which may raise anything: then it was put back to where it stood."""
        if self.env.node.step.over:
            raise UsageError(f"the episode is over: {_KEYWORD} N, /goto NODE or /quit")
        try:
            step()
        except RirError:
            raise
        except Exception as error:  # foreign code
            raise UsageError(f"the environment refused it, {type(error).__name__}: {error}") from error
        self.show()

    def read(self, text: str) -> Any:
        """The action that a line means."""
        space = self.env.env.action_space
        if not isinstance(space, gym.spaces.Discrete):
            return text
        if not re.fullmatch(r"\s*-?[0-9]{1,18}\s*", text) or not space.contains(int(text)):
            raise UsageError(f"action={text[:80]!r}: {space.start} to {space.start + space.n - 1}")
        return int(text)

    def actions(self, _: str) -> None:
        """The admissible actions, where the environment lists them."""
        listed = self.env.node.step.admissible
        if listed is None:
            self.say(f"not listed here; the action space is {self.env.env.action_space}")
        else:
            self.say("\n".join(f"/{each}" if each.startswith("/") else each for each in listed) or "none")

    def rollback(self, rest: str) -> None:
        """To a restore point of this branch."""
        branch = self.env.history
        self.back(branch[self.number(rest, "restore point", len(branch))])

    def goto(self, rest: str) -> None:
        """To any kept node."""
        self.back(self.env.nodes[self.number(rest, "node", len(self.env.nodes))])

    def number(self, text: str, what: str, count: int) -> int:
        """A number below ``count``."""
        if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) >= count:
            raise UsageError(f"{what}={text[:80]!r}: 0 to {count - 1}")
        return int(text)

    def back(self, target: Node) -> None:
        """The operator."""
        self.hand.rollback(target)
        self.show()

    def tree(self, _: str) -> None:
        """What was tried."""
        self.console.print(episode_tree(self.hand.record(), width=self.console.width))
        parents = {node.parent for node in self.env.nodes}
        for leaf in [node for node in self.env.nodes if node not in parents]:
            mark = " (here)" if leaf is self.env.node else ""
            self.say(f"node {leaf.id} ends a branch at step {leaf.t}{mark}: {leaf.summary}")

    def hint(self, _: str) -> None:
        """What the oracle would do next."""
        oracle = OracleLog(self.env).source
        self.hand.hinted = self.hand.hinted or oracle is not None
        if oracle is None or (distance := oracle.distance()) is None:
            self.say("no hint: the oracle does not know" if oracle else "no hint: this environment has no oracle")
        elif distance == float("inf"):
            self.say("success is out of reach from here: go back")
        elif distance == 0:
            self.say("nothing is left to do")
        else:
            most = "" if getattr(oracle, "exact", False) is True else "at most "
            self.say(f"{oracle.best_action()} ({most}{distance:.0f} to go)")

    def quit(self, _: str) -> NoReturn:
        """Stop."""
        raise _Quit

    # --- showing and recording ------------------------------------------------------------------------------------

    def show(self) -> None:
        """Where the world stands."""
        step = self.env.node.step
        self.say(step.observation if isinstance(step.observation, str) else repr(step.observation))
        if step.over:
            won = (step.oracle or {}).get("success")
            how = (
                "success" if won else "no success" if won is False else "terminated" if step.terminated else "truncated"
            )
            self.say(f"The episode is over: {how}. {_KEYWORD} N, /goto NODE or /quit", style="bold")

    def say(self, text: str, *, style: str = "") -> None:
        """Print text of anybody, as text."""
        self.console.print(_plain(text), markup=False, style=style or None)

"""One game of TextWorldExpress in a Java process of its own: what is asked of it, and what it answers, as values.

TextWorldExpress lists admissible commands in no fixed order; they are sorted here. This module knows the Java side and
nothing of Gymnasium or of checkpoints.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rir_envs.textworldexpress_java import Java
from rir_gym.errors import MissingDependency, ReplayMismatch, UsageError

__all__ = ["FEATURE", "FOLDS", "GAMES", "SEEDS", "Express", "Reply", "jar"]

FEATURE = "rir_gym/TextWorldExpress-v0"
GAMES = ("arithmetic", "coin", "cookingworld", "mapreader", "peckingorder", "simonsays", "sorting", "twc")
FOLDS: Mapping[str, int] = {"train": 0, "dev": 10000, "test": 20000}  # where the seeds of a fold begin
SEEDS = 1000  # of each fold

_INTERFACE = "textworldexpress.runtime.PythonInterface"


@dataclass(frozen=True, slots=True)
class Reply:
    """What the game answers to a command, or at its beginning."""

    observation: str
    look: str
    inventory: str
    admissible: tuple[str, ...]
    score: float
    success: bool
    failed: bool

    @property
    def digest(self) -> str:
        """Of all of it."""
        parts = [self.observation, self.look, self.inventory, self.admissible, self.score, self.success, self.failed]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Express:
    """One running game; after ``begin``, ``say`` plays it.

    Args:
        game: one of ``GAMES``.
        params: the generator's settings, by name.

    Raises:
        MissingDependency: the package or Java is not installed.
        UsageError: the generator does not take these settings.
    """

    def __init__(self, game: str, params: Mapping[str, int]) -> None:
        self.game, self.params = game, dict(params)
        self._golden: dict[tuple[str, int], tuple[str, ...] | None] = {}
        self._start()

    def begin(self, fold: str, seed: int, *, gold: bool = False) -> tuple[str, Reply]:
        """Begin the game of that fold and seed, with its way to win or without it (quicker): its task, the first reply.

        Raises:
            UsageError: the generator fails at this seed with these settings.
            WorldDied: Java does not answer.
        """
        if not self._java.alive:
            self._start()
        try:
            first = _reply(self._java.ask(self._server.generateNewGameJSON, seed, fold, gold))
        except RuntimeError as error:
            raise UsageError(
                f"params={self.params!r}: no game of seed {seed} can be made with these ({error})"
            ) from error
        return str(self._java.ask(self._server.getTaskDescription)), first

    def say(self, command: str) -> Reply:
        """The answer to a command.

        Raises:
            WorldDied: Java does not answer.
        """
        return _reply(self._java.ask(self._server.stepJSON, command))

    def again(self, fold: str, seed: int, said: Sequence[str], digests: Sequence[str]) -> None:
        """Begin a game and say all that was said in it; ``digests`` are those of its first reply and of each answer.

        Raises:
            ReplayMismatch: an answer is not what it was; the game stands where it differs.
            WorldDied: Java does not answer.
        """
        _, reply = self.begin(fold, seed)
        for step, digest in enumerate(digests):
            if step > 0:
                reply = self.say(said[step - 1])
            if reply.digest != digest:
                raise ReplayMismatch(f"{FEATURE} game={self.game!r}, seed={seed}: step {step} gave another answer")

    def gold(self, fold: str, seed: int, said: Sequence[str], digests: Sequence[str]) -> tuple[str, ...] | None:
        """The game's own way to win from the beginning, which is played; None where it does not win.

        Two games in one Java process disturb each other. So the running one is left for it, the first time that
        its way is asked for, and made ``again``.

        Raises:
            ReplayMismatch, WorldDied: as for ``again``.
        """
        key = fold, seed
        if key not in self._golden:
            self._golden[key] = None
            self.begin(fold, seed, gold=True)
            path = [str(each) for each in self._java.ask(lambda: list(self._server.getGoldActionSequence()))]
            for at, command in enumerate(path):
                reply = self.say(command)
                if reply.success:
                    self._golden[key] = tuple(path[: at + 1])
                if reply.success or reply.failed:
                    break
            self.again(fold, seed, said, digests)
        return self._golden[key]

    def close(self) -> None:
        """End the Java process; twice is fine."""
        self._java.stop()

    def _start(self) -> None:
        self._java = Java(FEATURE, jar())
        try:
            self._server = self._java.new(_INTERFACE)
            try:
                fault = str(self._java.ask(self._server.load, self.game, _written(self.params)) or "")
            except RuntimeError as error:
                fault = str(error)
            if fault:
                raise UsageError(f"params={self.params!r}: {fault.strip()}")
        except BaseException:
            self._java.stop()
            raise


def jar() -> Path:
    """The jar of the installed package, which is not imported: it would open a second connection back.

    Raises:
        MissingDependency: the package, or py4j, is not installed.
    """
    try:
        found = find_spec("textworld_express")
        if found is None or found.origin is None or find_spec("py4j") is None:
            raise ImportError("textworld_express")
    except (ImportError, ValueError) as error:
        raise MissingDependency(FEATURE, "textworld_express") from error
    return Path(found.origin).parent / "textworld-express.jar"


def _written(params: Mapping[str, int]) -> str:
    return ",".join(f"{name}={value}" for name, value in params.items())


def _reply(text: Any) -> Reply:
    said = json.loads(str(text))
    score = float(said["score"])
    return Reply(
        observation=str(said["observation"]).strip(),
        look=str(said["look"]).strip(),
        inventory=str(said["inventory"]).strip(),
        admissible=tuple(sorted(set(said["validActions"]))),
        score=min(1.0, max(0.0, score)),
        success=bool(said["tasksuccess"]) or score >= 1.0,
        failed=bool(said["taskfailure"]),
    )

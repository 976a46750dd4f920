"""Is an oracle right? What it says at states of random walks, against playing its plans and against search.

    python benchmarks/oracle_check.py [--quick] [--json PATH] [--only ID ...]

A walk follows the oracle now and then, so that late states are met too. At a state the oracle is asked about any number
of actions, about the length of its plan, and about 0, 1 and 2 actions. "True" must be played to success, within so
many actions; "False" must stand against search: over all admissible actions where it is about few, over the first
``SEARCHED`` states of a breadth-first search where it is about any number and the episode goes on; "None" is unknown.

Rows: id, states, agreed, false_recoverable, false_lost, unknown (a state counts once, a false answer first), lost
(states where it said "False" about any number of actions), seconds. The exit status is 1 where any answer was false.
An environment is one line of ``ENVIRONMENTS``: its id, and the arguments of the games that take turns.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

import rir_gym
from rir_gym.base import Node, Oracle

__all__ = ["ENVIRONMENTS", "check", "main", "verdict"]

_GAMES = tuple({"game_seed": seed} for seed in range(10))

ENVIRONMENTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "rir_gym/TextWorld-Simple-v0": _GAMES,
    "rir_gym/TextWorld-CoinCollector-v0": _GAMES,
    "rir_gym/TextWorld-TreasureHunter-v0": _GAMES,
    "rir_gym/TextWorld-Cooking-v0": _GAMES,
    "rir_gym/Apothecary-v0": ({},),
    "rir_gym/Workspace-v0": tuple({"family": each} for each in ("backups", "chapters", "invoices", "labels", "ledger")),
}

ANY = 10**6
FEW = (0, 1, 2)
SEARCHED = 200
STEPS = 25
FOLLOWED = 0.35
ASKED = 0.4


def check(env_id: str, games: Sequence[Mapping[str, Any]], *, states: int, seed: int = 0) -> dict[str, Any]:
    """One row: so many states of that environment, spread over the games."""
    rng, counts, started = random.Random(seed), Counter[str](), time.perf_counter()
    share = -(-states // len(games))
    for game in games:
        wanted = min(share, states - sum(counts[name] for name in VERDICTS))
        if wanted < 1:
            break
        env = rir_gym.RollbackWrapper(gym.make(env_id, **game))
        asked = episode = 0
        while asked < wanted:
            env.reset(seed=episode)
            episode += 1
            for _ in range(rng.randrange(1, STEPS)):
                env.step(_action(env, rng))
                if (rng.random() < ASKED or env.node.step.over) and asked < wanted:
                    said, lost = verdict(env)
                    counts.update({said: 1, "lost": int(lost)})
                    asked += 1
                if env.node.step.over:
                    break
        env.close()
    row = {"id": env_id, "states": sum(counts[name] for name in VERDICTS)}
    row |= {name: counts[name] for name in (*VERDICTS, "lost")}
    return row | {"seconds": round(time.perf_counter() - started, 1)}


VERDICTS = ("agreed", "false_recoverable", "false_lost", "unknown")


def verdict(env: rir_gym.RollbackWrapper) -> tuple[str, bool]:
    """One of ``VERDICTS`` for where ``env`` stands, and whether its oracle says that all is lost; it is put back."""
    oracle, here = env.get_wrapper_attr("oracle"), env.node
    plan = oracle.plan()
    questions = [ANY, *FEW] + ([len(plan)] if plan is not None else [])
    answers = {within: oracle.recoverable(within) for within in questions}
    steps = _played(env, plan)
    if any(answer and (steps is None or steps > within) for within, answer in answers.items()):
        return "false_recoverable", False
    for within in FEW:
        if answers[within] is False and _found(env, here, depth=within, most=None):
            return "false_lost", False
    if answers[ANY] is False and (steps is not None or _found(env, here, depth=None, most=SEARCHED)):
        return "false_lost", True
    return ("unknown" if answers[ANY] is None else "agreed"), answers[ANY] is False


def _played(env: rir_gym.RollbackWrapper, plan: Sequence[str] | None) -> int | None:
    """After how many actions of the plan there was success; None for never, or no plan."""
    here = env.node
    taken = 0 if plan is not None and _success(here) else None
    for number, action in enumerate(plan or (), 1):
        if env.node.step.over:
            break
        env.step(action)
        if _success(env.node):
            taken = number
            break
    env.rollback(here)
    return taken


def _found(env: rir_gym.RollbackWrapper, start: Node, *, depth: int | None, most: int | None) -> bool:
    """Whether a breadth-first search from ``start`` meets success; ``env`` is put back there."""
    waiting, met = deque([(start, 0)]), 1
    found = _success(start)
    while waiting and not found:
        node, deep = waiting.popleft()
        if node.step.over or deep == depth:
            continue
        for action in _admissible(env, node):
            if most is not None and met >= most:
                waiting.clear()
                break
            env.rollback(node)
            env.step(action)
            met += 1
            found = _success(env.node)
            if found:
                break
            waiting.append((env.node, deep + 1))
    env.rollback(start)
    return found


def _success(node: Node) -> bool:
    return bool((node.step.oracle or {}).get("success"))


def _admissible(env: rir_gym.RollbackWrapper, node: Node) -> Sequence[str]:
    """What the environment lists at a node; where it lists nothing, what its oracle thinks worth trying there."""
    if node.step.admissible is not None:
        return node.step.admissible
    if env.node is not node:
        env.rollback(node)
    candidates = getattr(env.get_wrapper_attr("oracle"), "candidates", None)
    if candidates is None:
        raise SystemExit("an environment that lists its admissible actions is needed")
    listed: Sequence[str] = candidates()
    return listed


def _action(env: rir_gym.RollbackWrapper, rng: random.Random) -> str:
    oracle: Oracle = env.get_wrapper_attr("oracle")
    best = oracle.best_action() if rng.random() < FOLLOWED else None
    return best or rng.choice(_admissible(env, env.node))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each environment that can be made here; 1 where an answer was false."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="12 states of one game of each instead of 200 of all")
    parser.add_argument("--json", type=Path, help="write the rows there too")
    parser.add_argument("--only", nargs="+", choices=sorted(ENVIRONMENTS), default=list(ENVIRONMENTS), metavar="ID")
    chosen = parser.parse_args(arguments)
    rows = []
    for env_id in chosen.only:
        games = ENVIRONMENTS[env_id][:1] if chosen.quick else ENVIRONMENTS[env_id]
        try:
            rows.append(check(env_id, games, states=12 if chosen.quick else 200))
        except ImportError as error:
            print(f"{env_id}: {error}", file=sys.stderr)
            continue
        print(" ".join(f"{name}={value}" for name, value in rows[-1].items()), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    return int(any(row["false_recoverable"] or row["false_lost"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())

"""``rir-gym bench SUITE --gold``: gold lengths, from which a suite's budgets follow, measured on its training seeds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import replace

from rir_gym.bench.plan import BenchCell
from rir_gym.bench.suite import Reviewer, World, budget_for
from rir_gym.bench.suite_file import load_suite
from rir_gym.cli.bench_cell import build
from rir_gym.cli.request import known_id
from rir_gym.cli.worlds import make, seeded_arguments
from rir_gym.ledger import Budget
from rir_gym.loop import run

__all__ = ["gold_lengths", "main"]

_FAR = 200  # agent calls of a measured gold path, at most


def main(name: str, *, as_json: bool) -> None:
    """Measure, on the training seeds, the gold lengths from which the suite's budgets follow."""
    suite = load_suite(name)
    rows = []
    for world in suite.worlds:
        training = replace(world, arguments={**world.arguments, **world.training_arguments})
        oracle, expert = gold_lengths(training, suite.training)
        measured = {"oracle": _median(oracle), "expert": _median(expert)}
        now = measured[world.gold_of]
        rows.append(
            {
                "world": world.name,
                "training_seeds": list(suite.training_seeds),
                "oracle_median": measured["oracle"],
                "oracle_n": len(oracle),
                "expert_median": measured["expert"],
                "expert_n": len(expert),
                "gold_of": world.gold_of,
                "gold": world.gold,
                "agent_calls": world.agent_calls,
                "as_measured": now == world.gold,
                "agent_calls_measured": None if now is None else budget_for(now),
            }
        )
    if as_json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(", ".join(f"{name}={value}" for name, value in row.items()))


def gold_lengths(world: World, seeds: Sequence[int]) -> tuple[list[int], list[int]]:
    """Lengths of the oracle's plans, and calls of the careful expert where it succeeded."""
    mechanism = None
    known = known_id(world.env)
    if known is not None and known.policies:
        crew = Reviewer("gold", "evidence", "evidence")
        cell = BenchCell(world, "react", crew, 0.0, 0.0, _FAR, 1, 4, 8, review_terminal=False, memory_position="system")
        mechanism, _ = build(cell, model=None)
    plans, calls = [], []
    for seed in seeds:
        env = make(world.env, seeded_arguments(world.env, world.arguments, seed))
        try:
            env.reset(seed=seed)
            oracle = env.get_wrapper_attr("oracle") if env.has_wrapper_attr("oracle") else None
            if oracle is not None and (plan := oracle.plan()) is not None:
                plans.append(len(plan))
            if mechanism is not None:
                [episode] = run([env], mechanism, budget=Budget(_FAR), seeds=[seed])
                if episode.success:
                    calls.append(episode.ledger.agent_calls)
        finally:
            env.close()
    return plans, calls


def _median(lengths: Sequence[int]) -> float | None:
    return float(statistics.median(lengths)) if lengths else None

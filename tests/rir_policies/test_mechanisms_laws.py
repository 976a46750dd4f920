"""Every mechanism with random roles in random worlds: its budgets, its ledger and what it declares are never broken."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from laws import Maze, check_budgets, check_choices, check_counts

from rir_gym import Budget, Decision, DecisionKind, Fact, Restore, RollbackWrapper, Verdict, VerdictKind, View, run
from rir_policies.mechanisms import MECHANISMS, NEEDS_MODEL
from rir_policies.scripted import ScriptedPatch


def roles(rng: random.Random) -> dict[str, Any]:
    kinds = [DecisionKind.ACTION] * 8 + list(DecisionKind)
    verdicts = [VerdictKind.ROLLBACK, VerdictKind.CONTINUE, VerdictKind.UNPARSED]

    def act(views: Sequence[View]) -> list[Decision]:
        return [Decision(rng.choice(kinds), rng.choice(["a", "b", "c", "", "雪 go"])) for _ in views]

    def reviewer(views: Sequence[View]) -> list[Verdict]:
        told = ["", "why", "step 1: \n{}"]
        return [
            Verdict(rng.choice(verdicts), rng.random(), rng.choice(told), (Fact("fact", f"f{rng.randrange(5)}", v.t),))
            for v in views
        ]

    def where(views: Sequence[View], _: Any) -> list[Restore]:
        return [Restore(rng.choice([*view.restorable, None]), stages=("coarse", "fine")) for view in views]

    schedule = {"l_min": rng.randint(1, 3), "l_max": rng.randint(3, 5)}
    return {"act": act, "reviewer": reviewer, "where": where, "what": ScriptedPatch(), **schedule}


@pytest.mark.parametrize("name", sorted(set(MECHANISMS) - NEEDS_MODEL))
def test_random_roles_in_random_worlds(name: str) -> None:
    recovered = 0
    for seed in range(25):
        rng = random.Random(seed)
        made = MECHANISMS[name](**roles(rng), review_terminal=rng.random() < 0.8)
        calls, rollbacks = rng.randint(1, 40), rng.randint(1, 8)
        env = RollbackWrapper(Maze(seed, submits=rng.random() < 0.5), snapshot="native")
        [episode] = run([env], made, budget=Budget(calls, rollbacks), seeds=[seed])
        check_budgets(episode, calls, min(rollbacks, made.max_rollbacks or rollbacks))
        check_counts(episode)
        check_choices(episode, made.restriction)
        json.dumps(episode.memory.to_json(), allow_nan=False)
        recovered += episode.ledger.rollbacks + episode.ledger.corrections
    assert (recovered > 0) == (name != "react")

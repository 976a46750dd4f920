"""V* is exact: an independent recursion and play agree with it; wider classes are never worse; the order is known."""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def theory() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("theory")


CHOICES: Mapping[str, Any] = {  # (t) -> depths, and whether M may change: each rule in one line, written apart
    "react": (lambda t: [], False),
    "reflection_only": (lambda t: [0], True),
    "rollback_only": (lambda t: range(t + 1), False),
    "restart": (lambda t: [t], True),
    "reflexion": (lambda t: [t], True),
    "self_refine": (lambda t: [0], True),
    "ga_rollback": (lambda t: range(1, min(t, 4) + 1), True),
    "src": (lambda t: range(1, min(t, 3) + 1), True),
    "webrollback": (lambda t: range(1, t + 1), False),
    "agentrewind": (lambda t: range(t + 1), True),
    "restart_with_attribution": (lambda t: [t], True),
    "direct_selection": (lambda t: range(t + 1), True),
    "rir": (lambda t: range(t + 1), True),
}


def best(task: Any, name: str, path: tuple[int, ...], fact: bool, calls: int, rollbacks: int) -> float:
    """The best probability of success, by plain recursion: nothing shared with the benchmark."""
    if path[-1] == task.goal or calls == 0:
        return float(path[-1] == task.goal)
    shown = any(state in task.teaches for state in path)
    moves = task.moves[path[-1]][1 if fact or (shown and task.notices) else 0]
    values = [sum(p * best(task, name, (*path, s), fact, calls - 1, rollbacks) for p, s in moves)]
    depths, changes = CHOICES[name]
    for k in depths(len(path) - 1):
        for kept in {fact, True} if changes and shown else {fact}:
            if (k == 0 or rollbacks > 0) and (k or kept != fact):
                back = path[: len(path) - k]
                values.append(best(task, name, back, kept, calls - 1, rollbacks - (k > 0)))
    return max(values)


def random_task(theory: Any, seed: int, states: int) -> Any:
    rng = random.Random(seed)

    def moves() -> Any:
        chance = rng.choice([0.25, 0.5, 0.9, 1.0])
        return ((chance, rng.randrange(states)), (1 - chance, rng.randrange(states)))

    table = {state: (moves(), moves()) for state in range(states - 1)}
    teaches = frozenset(rng.sample(range(states - 1), min(2, states - 1)))
    return theory.Task("random", table, states - 1, teaches, notices=rng.random() < 0.5)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), states=st.integers(2, 200), calls=st.integers(0, 4), rollbacks=st.integers(1, 2))
def test_v_is_that_of_a_plain_recursion_and_grows_with_the_class(
    theory: Any, seed: int, states: int, calls: int, rollbacks: int
) -> None:
    task, declared = random_task(theory, seed, states), theory.restrictions()
    exact = {name: theory.Value(task, rule)(calls, rollbacks) for name, rule in declared.items()}
    for name in CHOICES:
        assert exact[name] == pytest.approx(best(task, name, (0,), False, calls, rollbacks), abs=1e-12)
    for a, narrow in declared.items():
        assert exact[a] <= exact["rir"] + 1e-12
        for b, wide in declared.items():
            assert not narrow <= wide or exact[a] <= exact[b] + 1e-12


def test_every_mechanism_of_the_branch_is_inside_of_the_operator(theory: Any) -> None:
    declared = theory.restrictions()
    assert "lats" not in declared
    assert set(CHOICES) <= set(declared)
    assert all(rule <= declared["rir"] for rule in declared.values())


def test_the_order_on_the_families_is_known(theory: Any) -> None:
    [undo, lesson, both, late] = [
        row["values"] for row in theory.rows(("undo", "lesson", "both", "late"), (0.1,), (8,), (3,))
    ]
    assert undo["react"] == pytest.approx(0.9**4)
    assert undo["rollback_only"] == undo["rir"] > undo["restart"] > undo["reflection_only"] == undo["react"]
    assert lesson["reflection_only"] > lesson["rollback_only"] == lesson["react"] == 0
    assert both["rir"] > both["restart"] > both["rollback_only"] == both["reflection_only"] == both["react"] == 0
    assert late["rir"] == late["restart"] == pytest.approx(0.81)
    assert late["ga_rollback"] == late["src"] == late["rollback_only"] == 0


def test_a_wrong_recursion_is_noticed(theory: Any) -> None:
    found = theory.rows(("undo",), (0.1,), (6,), (1,))
    assert theory.broken(found) == []
    found[0]["values"]["rir"] = 0.0
    assert any("V*(rollback_only) > V*(rir)" in fault for fault in theory.broken(found))


def test_the_script(theory: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert theory.main(["--quick", "--json", str(tmp_path / "rows.json"), "--svg", str(tmp_path / "gap.svg")]) == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert all(row["states"] <= 200 and row["calls"] <= 8 for row in rows)
    assert "yes" in capsys.readouterr().out
    plots = (tmp_path / "gap.svg").read_text()
    assert plots.count("<polyline") == 3 * (len(theory.SHOWN) - 1)
    assert "nan" not in plots

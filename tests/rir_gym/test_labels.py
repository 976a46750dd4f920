"""Labels against their definitions in worlds that are searched outright, and what may be said of bounds and gaps."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym import (
    Budget,
    Decision,
    DecisionKind,
    Episode,
    Mechanism,
    Patch,
    Restore,
    RollbackWrapper,
    Unicode,
    Verdict,
    VerdictKind,
    run,
)
from rir_gym.data.records import episode_record, header_of
from rir_gym.errors import RecordError, ReplayMismatch, UsageError
from rir_gym.labels import Distances, Landmarks, distances, label_record, labels, landmarks, replayed_distances

START, GOAL = 0, 1


@dataclass(frozen=True, slots=True)
class MapOracle:
    """Breadth-first search in the map."""

    env: MapEnv
    exact: ClassVar[bool] = True

    def distance(self) -> float:
        return searched(self.env.map, self.env.place)


class MapEnv(gym.Env[str, str]):
    """Places and ways: the text of a digit takes that way. Place 1 is the goal, a place without ways ends it badly."""

    action_space = Unicode()
    observation_space = Unicode()

    def __init__(self, ways: Sequence[Sequence[int]], *, committing: int | None = None) -> None:
        self.map, self.place, self.committing = ways, START, committing

    @property
    def oracle(self) -> MapOracle:
        return MapOracle(self)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = START
        return self.say(), self.info(False)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        ways = self.map[self.place]
        if action.isdecimal() and int(action) < len(ways):
            self.place = ways[int(action)]
        won = self.place == GOAL
        return self.say(), float(won), won or not self.map[self.place], False, self.info(self.place == self.committing)

    def say(self) -> str:
        return f"place {self.place}"

    def info(self, committed: bool) -> dict[str, Any]:
        won = self.place == GOAL
        return {"admissible": None, "committed": committed, "oracle": {"success": won, "failed": False, "score": 0.0}}

    def get_state(self) -> int:
        return self.place

    def set_state(self, state: int) -> None:
        self.place = state


def searched(ways: Sequence[Sequence[int]], place: int) -> float:
    """Fewest ways to the goal."""
    reached, steps = {place}, 0
    while GOAL not in reached:
        more = reached | {there for here in reached if here != GOAL for there in ways[here]}
        if more == reached:
            return math.inf
        reached, steps = more, steps + 1
    return float(steps)


def played(env: RollbackWrapper, script: Sequence[str | int], budget: int, *, seed: int = 0) -> Episode:
    """An episode of that script: text is an action ("" is unreadable), an int a rollback to that restore point."""
    left = list(script)

    def act(views: Sequence[Any]) -> list[Decision]:
        said = left.pop(0) if left else ""
        if isinstance(said, int):
            return [Decision(DecisionKind.REQUEST, target=said)]
        return [Decision.act(said) if said else Decision(DecisionKind.UNPARSED)]

    def when(views: Sequence[Any]) -> list[Verdict]:
        [view] = views
        if view.terminal:
            back = bool(left) and isinstance(left[0], int)
            return [Verdict(VerdictKind.ROLLBACK if back else VerdictKind.CONTINUE)]
        asked = view.proposed.kind is DecisionKind.REQUEST
        return [Verdict(VerdictKind.ROLLBACK) if asked else Verdict.not_due()]

    def where(views: Sequence[Any], _: Sequence[Verdict]) -> list[Restore]:
        [view] = views
        wanted = left.pop(0) if view.terminal else view.proposed.target
        return [Restore(next((point for point in view.restorable if point.t == wanted), None))]

    mechanism = Mechanism("script", act, when, where, lambda views, *_: [Patch(view.memory) for view in views])
    [episode] = run([env], mechanism, budget=Budget(budget, 99), seeds=[seed])
    return episode


@st.composite
def worlds(draw: Any) -> tuple[list[list[int]], list[str | int], int]:
    """A map, a script with rollbacks and unreadable replies, and a budget."""
    size, ways = draw(st.integers(2, 9)), draw(st.integers(1, 3))
    places = st.integers(0, size - 1)
    graph = [draw(st.lists(places, min_size=ways, max_size=ways)) for _ in range(size)]
    graph[GOAL] = []
    for dead in draw(st.sets(st.integers(2, max(size - 1, 2)), max_size=2)):
        if dead < size:
            graph[dead] = []
    moves = st.sampled_from([*map(str, range(ways))] * 3 + ["", 0, 1, 2])
    return graph, draw(st.lists(moves, max_size=14)), draw(st.integers(1, 16))


def truth(ways: Sequence[Sequence[int]], episode: Episode) -> list[tuple[Any, ...]]:
    """(wasted, harmful, lost, rescue) of every node by the letter of the definitions, from the map."""
    left = calls_left(episode)
    told = []
    for node in episode.nodes:
        far = [searched(ways, int(each.step.observation.split()[1])) for each in node.branch()]
        wasted = harmful = None
        if node.parent is not None:
            wasted, harmful = far[-1] >= far[-2], far[-1] > far[-2] + 1
        lost = far[-1] > left[node.id]
        price = 0 if node.step.over else 1
        earlier = [i for i in range(node.t) if far[i] <= left[node.id] - price]
        told.append((wasted, harmful, lost, node.t if not lost else max(earlier, default=None)))
    return told


def calls_left(episode: Episode) -> list[int]:
    left, calls = [episode.budget.agent_calls], 0
    for event in episode.events:
        if isinstance(event.value, Decision):
            calls += 1
            if event.outcome == "executed":
                left.append(episode.budget.agent_calls - calls)
    return left


@settings(max_examples=50, deadline=None)
@given(worlds())
def test_labels_are_their_definitions(world: tuple[list[list[int]], list[str | int], int]) -> None:
    ways, script, budget = world
    env = RollbackWrapper(MapEnv(ways), snapshot="native")
    episode = played(env, script, budget)
    known = distances(env, episode)
    assert known.exact
    found = labels(episode, known)
    assert [(each.wasted, each.harmful, each.lost, each.rescue) for each in found] == truth(ways, episode)
    assert all(each.rescuable is (each.rescue is not None) for each in found)
    assert [each.node for each in found] == list(range(len(episode.nodes)))
    assert known == replayed_distances(MapEnv(ways), episode)
    marks = landmarks(episode, found)
    branch = [found[node.id] for node in episode.last.branch()]
    for name in ("wasted", "harmful", "lost"):
        assert getattr(marks, name) == next((each.step for each in branch if getattr(each, name)), None)
    assert marks.unknown == ()
    if marks.lost is not None:
        assert all(each.lost for each in branch[marks.lost :])  # what is lost stays lost while going on
        assert marks.rescue == branch[marks.lost].rescue


@settings(max_examples=50, deadline=None)
@given(worlds(), st.randoms(use_true_random=False))
def test_what_is_said_of_bounds_and_gaps_is_true(
    world: tuple[list[list[int]], list[str | int], int], rng: random.Random
) -> None:
    """Every label that is not None is the exact one: for upper bounds, for unknown distances, for both."""
    ways, script, budget = world
    env = RollbackWrapper(MapEnv(ways), snapshot="native")
    episode = played(env, script, budget)
    exact = distances(env, episode)
    right = labels(episode, exact)
    for loose, gaps in ((True, 0.0), (False, 0.4), (True, 0.4), (True, 1.0)):
        said = [None if rng.random() < gaps else above(value, rng) if loose else value for value in exact.values]
        found = labels(episode, Distances(tuple(said), exact=not loose))
        for mine, theirs in zip(found, right, strict=True):
            for name in ("wasted", "harmful", "lost", "rescuable", "rescue"):
                assert getattr(mine, name) in (None, getattr(theirs, name)), name
        marks, known = landmarks(episode, found), landmarks(episode, right)
        for name in ("wasted", "harmful", "lost", "rescue"):
            assert name in marks.unknown or getattr(marks, name) == getattr(known, name)


def above(value: float | None, rng: random.Random) -> float | None:
    return value if value in (0, math.inf, None) else value + rng.randrange(4)


# a corridor 0 → 2 → 3 → goal; way 1 leads one back, way 2 into the pit that one can only get out of by a long way
CORRIDOR = [[2, 0, 4], [], [3, 0, 4], [1, 2, 4], [5, 4, 4], [6, 4, 4], [0, 4, 4]]


def test_a_played_episode_has_the_labels_that_the_text_says() -> None:
    env = RollbackWrapper(MapEnv(CORRIDOR))
    # 0 →2 (nearer), stay? no: back to 0 (wasted), 2 again, the pit (harmful, out of reach), rollback, 3, goal
    episode = played(env, ["0", "1", "0", "2", 3, "0", "0"], 8)
    found = labels(episode, distances(env, episode))
    assert [(each.step, each.distance, each.calls_left) for each in found] == [
        *((0, 3.0, 8), (1, 2.0, 7), (2, 3.0, 6), (3, 2.0, 5), (4, 6.0, 4), (4, 1.0, 2), (5, 0.0, 1)),
    ]
    assert [each.wasted for each in found] == [None, False, True, False, True, False, False]
    assert [each.harmful for each in found] == [None, False, False, False, True, False, False]
    assert [each.lost for each in found] == [False, False, False, False, True, False, False]
    assert [each.rescue for each in found] == [0, 1, 2, 3, 3, 4, 5]
    assert landmarks(episode, found) == Landmarks(wasted=2, harmful=None, lost=None, rescue=None)
    assert landmarks(episode, found, leaf=4) == Landmarks(wasted=2, harmful=4, lost=4, rescue=3)


def test_an_unreadable_reply_costs_a_call_and_an_unstepped_answer_is_no_node() -> None:
    env = RollbackWrapper(MapEnv(CORRIDOR))
    episode = played(env, ["", "0", ""], 4)
    assert [each.calls_left for each in labels(episode, distances(env, episode))] == [4, 2]
    final = Mechanism(
        "final",
        lambda views: [Decision(DecisionKind.FINAL, "done") for _ in views],
        lambda views: [Verdict.not_due() for _ in views],
        lambda views, _: [Restore(None) for _ in views],
        lambda views, *_: [Patch(view.memory) for view in views],
    )
    [stopped] = run([env], final, budget=Budget(4), seeds=[0])
    assert stopped.stopped == "final"
    assert [each.lost for each in labels(stopped, distances(env, stopped))] == [False]


def test_what_was_committed_is_no_restore_point_any_more() -> None:
    env = RollbackWrapper(MapEnv(CORRIDOR, committing=2))
    episode = played(env, ["0", "2"], 6)
    with pytest.raises(UsageError, match="effects outside"):
        distances(env, episode)
    found = labels(episode, replayed_distances(MapEnv(CORRIDOR, committing=2), episode))
    assert [(each.lost, each.rescuable, each.rescue) for each in found] == [
        *((False, True, 0), (False, True, 1), (True, True, 1)),
    ]
    beyond = RollbackWrapper(MapEnv(CORRIDOR, committing=4))
    episode = played(beyond, ["0", "2"], 6)
    assert labels(episode, replayed_distances(MapEnv(CORRIDOR, committing=4), episode))[-1].rescuable is False


def test_an_environment_without_oracle_or_success_says_nothing() -> None:
    env = RollbackWrapper(gym.make("FrozenLake-v1", is_slippery=False))
    episode = played(env, [1, 2], 5)  # rollbacks that have nowhere to go: no steps
    known = distances(env, episode)
    assert known == Distances((None,), exact=False)
    [label] = labels(episode, known)
    assert (label.wasted, label.harmful, label.lost, label.rescuable, label.rescue) == (None,) * 5
    assert landmarks(episode, [label]).unknown == ("lost", "rescue")


def test_success_shows_that_it_was_in_reach_where_no_oracle_does() -> None:
    env = RollbackWrapper(MapEnv(CORRIDOR))
    episode = played(env, ["0", "0", "0"], 3)
    found = labels(episode, Distances((None,) * 4, exact=False))
    assert [each.lost for each in found] == [False] * 4
    assert found[-1].wasted is False


def test_a_truncated_episode_is_lost_but_its_last_step_is_judged_by_what_it_did() -> None:
    env = RollbackWrapper(gym.wrappers.TimeLimit(MapEnv(CORRIDOR), 2))
    episode = played(env, ["0", "0"], 9)
    last = labels(episode, distances(env, episode))[-1]
    assert episode.last.step.truncated
    assert (last.wasted, last.harmful, last.lost, last.rescue) == (False, False, True, 1)
    knows_the_limit = Distances((3.0, 2.0, math.inf), exact=True)
    last = labels(episode, knows_the_limit)[-1]
    assert (last.wasted, last.harmful, last.lost, last.rescue) == (None, None, True, 1)


def test_distances_leave_the_wrapper_where_it_stood() -> None:
    env = RollbackWrapper(MapEnv(CORRIDOR))
    episode = played(env, ["0", "2", 1, "1"], 9)
    distances(env, episode)
    assert env.node is episode.last
    assert env.nodes == episode.nodes
    assert env.env.unwrapped.place == 0  # type: ignore[attr-defined]


def test_a_wrapper_that_cannot_restore_is_replayed_or_refused() -> None:
    limited = RollbackWrapper(MapEnv(CORRIDOR), max_rollbacks=1)
    episode = played(limited, ["0", "1"], 9)
    with pytest.raises(UsageError, match="max_rollbacks=1, and no fresh instance"):
        distances(limited, episode)
    apothecary = RollbackWrapper(gym.make("rir_gym/Apothecary-v0"), step_limit=2)
    episode = played(apothecary, ["go lab", "go shrine"], 9, seed=3)
    assert distances(apothecary, episode) == replayed_distances(gym.make("rir_gym/Apothecary-v0"), episode)


def test_another_episode_is_refused() -> None:
    env = RollbackWrapper(MapEnv(CORRIDOR))
    episode = played(env, ["0"], 9)
    env.reset(seed=0)
    env.step("0")
    with pytest.raises(UsageError, match="another episode"):
        distances(env, episode)


@pytest.mark.parametrize(
    ("values", "exact"),
    [
        ((3.0, 1.0), True),  # falls by two
        ((math.inf, 2.0), True),  # a lost goal came back
        ((math.inf, 2.0), False),
        ((3.0, 0.0), True),  # reached, says the oracle; not so, says the environment
        ((3.0,), True),  # one too few
    ],
)
def test_an_oracle_that_cannot_be_right_is_refused(values: tuple[float, ...], exact: bool) -> None:
    env = RollbackWrapper(MapEnv(CORRIDOR))
    episode = played(env, ["0"], 9)
    with pytest.raises(UsageError, match="distances"):
        labels(episode, Distances(values, exact))


@pytest.mark.parametrize("value", [-1.0, math.nan, "3"])
def test_a_distance_is_a_number_of_at_least_zero_or_none(value: Any) -> None:
    with pytest.raises(UsageError, match=r"distances\[1\]"):
        Distances((0.0, value), exact=True)


@pytest.mark.parametrize("leaf", [-1, 2, "0"])
def test_landmarks_want_a_node_of_the_episode(leaf: Any) -> None:
    env = RollbackWrapper(MapEnv(CORRIDOR))
    episode = played(env, ["0"], 9)
    found = labels(episode, distances(env, episode))
    with pytest.raises(UsageError, match="leaf"):
        landmarks(episode, found, leaf=leaf)
    with pytest.raises(UsageError, match="labels=1"):
        landmarks(episode, found[1:])


def test_the_example_of_the_documentation_says_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "oracle.md").read_text()
    [(code, told)] = re.findall(r"```python\n([^`]*?seeds=\[4\][^`]*)```\n+```\n([^`]*)```", text)
    exec(compile(code, "docs/oracle.md", "exec"), {})
    assert capsys.readouterr().out == told


# --- records --------------------------------------------------------------------------------------------------------


def apothecary() -> gym.Env[str, str]:
    return gym.make("rir_gym/Apothecary-v0")


@pytest.fixture(scope="module")
def recorded() -> tuple[dict[str, Any], dict[str, Any]]:
    """A record as it comes from disk, and the labels of the live episode as JSON."""
    from rir_envs.apothecary_policies import Expert, evidence_localizer, evidence_reviewer
    from rir_policies.mechanisms import rir
    from rir_policies.scripted import ScriptedPatch

    roles = {"reviewer": evidence_reviewer, "where": evidence_localizer, "what": ScriptedPatch()}
    mechanism = rir(act=Expert(trust=1.0), **roles)
    env = RollbackWrapper(apothecary())
    for seed in range(50):
        [episode] = run([env], mechanism, budget=Budget(28), seeds=[seed])
        if episode.ledger.rollbacks:
            break
    found = labels(episode, distances(env, episode))
    told = [asdict(each) for each in found], asdict(landmarks(episode, found))
    record = json.loads(json.dumps(episode_record(episode, header_of(env, mechanism, agent="expert"))))
    return record, {"labels": told[0], "landmarks": told[1]}


def test_a_record_has_the_labels_of_its_episode(recorded: tuple[dict[str, Any], dict[str, Any]]) -> None:
    record, live = recorded
    env = apothecary()
    written = label_record(record, env)
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert label_record(record, RollbackWrapper(apothecary())) == written
    assert written["exact"] is True
    for mine, theirs in zip(written["labels"], live["labels"], strict=True):
        if isinstance(mine["distance"], dict):
            assert theirs["distance"] == math.inf
            mine = {**mine, "distance": math.inf}
        assert mine == theirs
    assert written["landmarks"] == {**live["landmarks"], "unknown": []}


def test_another_world_is_found_at_the_first_difference(recorded: tuple[dict[str, Any], dict[str, Any]]) -> None:
    record, _ = recorded
    seed = record["header"]["seed"]
    with pytest.raises(ReplayMismatch, match=rf"seed={seed + 1}, node 0 .*the observation was"):
        label_record({**record, "header": {**record["header"], "seed": seed + 1}}, apothecary())
    changed = json.loads(json.dumps(record))
    changed["nodes"][5]["observation"] = "a lie"
    with pytest.raises(ReplayMismatch, match=r"node 5 .*the observation was 'a lie', replayed it is 'You"):
        label_record(changed, apothecary())
    changed = json.loads(json.dumps(record))
    changed["nodes"][4]["truncated"] = True
    with pytest.raises(ReplayMismatch, match=r"node 4 .*the end was 'truncated'"):
        label_record(changed, apothecary())
    changed["nodes"][3]["action"] = {"$repr": "<Thing>"}
    with pytest.raises(ReplayMismatch, match=r"node 3 .*only its text was kept"):
        label_record(changed, apothecary())


def test_what_is_no_record_is_said_so(recorded: tuple[dict[str, Any], dict[str, Any]]) -> None:
    record, _ = recorded
    acts = [event for event in record["events"] if event["kind"] == "act"]
    broken: list[dict[str, Any]] = [
        {},
        {**record, "nodes": None},
        {**record, "nodes": [7]},
        {**record, "events": record["events"][3:]},
        {**record, "events": [*record["events"], acts[0]]},
        {**record, "header": {}},
    ]
    for each in broken:
        with pytest.raises(RecordError):
            label_record(each, apothecary())


def test_an_episode_whose_events_are_not_its_own_is_refused() -> None:
    env = RollbackWrapper(MapEnv(CORRIDOR))
    episode = played(env, ["0"], 9)
    with pytest.raises(RecordError, match="0 steps of the agent do not make the 1 nodes"):
        labels(replace(episode, events=()), Distances((3.0, 2.0), exact=True))

"""How long checkpoints are kept: limits by number and by bytes, what is restorable then, tokens that end once."""

from __future__ import annotations

import copy
import json
import pickle
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym import RollbackRefused, RollbackWrapper, Unicode, UsageError, register_adapter
from rir_gym.base import Node, Step
from rir_gym.errors import SnapshotError
from rir_gym.snapshot import native
from rir_gym.snapshot.lifetime import Kept, Lifetime, thinned
from rir_gym.snapshot.protocol import Start
from rir_gym.snapshot.world import World
from rir_gym.testing import check_restore

STEPS = 10_000


class Rooms(gym.Env[str, str]):
    """A counter in text with some ballast; "stay" does nothing, "boom" raises half way."""

    action_space = Unicode()
    observation_space = Unicode()

    def __init__(self, ballast: int = 0) -> None:
        self.room, self.ballast, self.size = 0, b"", ballast

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.room, self.ballast = 0, bytes(self.size)
        return "room 0", {"admissible": ["go", "back", "stay"]}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.room += {"go": 1, "back": -1}.get(action, 0)
        if action == "boom":
            self.room = -99
            raise RuntimeError("boom")
        return f"room {self.room}", 0.0, False, False, {"admissible": ["go", "back", "stay"]}


@dataclass(frozen=True)
class Ledgered:
    """Saves the room; fails the test where a token is used after its end, or ended twice."""

    bytes_each: int = 10
    name: str = "ledgered"
    sized: bool = True
    repeats: bool = False
    tied: bool = False
    alive: dict[int, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("save", "size", "drop", "end"), 0))

    def save(self, env: Any, node: Node, start: Start) -> Any:
        token = [node.id, env.unwrapped.room]
        self.counts["save"] += 1
        self.alive[id(token)] = token
        return token

    def restore(self, env: Any, token: Any) -> Any:
        assert self.alive[id(token)] is token
        env.unwrapped.room = token[1]
        return env

    def size(self, token: Any) -> int | None:
        assert self.alive[id(token)] is token
        self.counts["size"] += 1
        return self.bytes_each

    def drop(self, token: Any) -> None:
        assert self.alive.pop(id(token)) is token
        self.counts["drop"] += 1

    def forget(self) -> None:
        self.counts["end"] += len(self.alive)
        self.alive.clear()


def world(*, keep: Any = "all", keep_bytes: int | None = None) -> tuple[World, Ledgered]:
    ledgered = Ledgered()
    made = World(Rooms(), ledgered, lifetime=Lifetime.of(keep, keep_bytes))
    made.reset(0, None)
    return made, ledgered


def wrapped(**arguments: Any) -> RollbackWrapper:
    env = RollbackWrapper(Rooms(), **{"snapshot": "pickle", **arguments})
    env.reset(seed=0)
    return env


def kept(env: RollbackWrapper) -> list[int]:
    return [checkpoint.node.id for checkpoint in env.checkpoints]


# --- the rules, as functions ------------------------------------------------------------------------------------------


def straight(sizes: Sequence[int]) -> list[Kept]:
    """Every checkpoint of a straight run of len(sizes) steps."""
    return [Kept(t, t, size, len(sizes) - 1 - t) for t, size in enumerate(sizes)]


@given(order=st.lists(st.integers(0, 50), unique=True), keep=st.integers(1, 60))
def test_the_last_so_many_stay_and_the_root_beside_them(order: list[int], keep: int) -> None:
    gone = Lifetime.of(keep, None).surplus(order)
    others = [node for node in order if node != 0]
    assert [node for node in others if node not in gone] == others[-keep:]
    assert set(gone) <= set(others)
    assert Lifetime.of("all", None).surplus(order) == []


@given(
    points=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 100), st.integers(0, 300)), min_size=1, max_size=60),
    max_bytes=st.integers(1, 4000),
)
def test_thinning_meets_the_goal_and_spares_the_root_and_the_newest(
    points: list[tuple[int, int, int]], max_bytes: int
) -> None:
    all_kept = [Kept(node, t if node else 0, size, age) for node, (t, size, age) in enumerate(points)]
    gone = thinned(all_kept, max_bytes)
    left = [one for one in all_kept if one.node not in gone]
    assert len(set(gone)) == len(gone)
    assert {0, len(points) - 1}.isdisjoint(gone)
    assert sum(one.size for one in left) <= max_bytes * 3 // 4 or {one.node for one in left} <= {0, len(points) - 1}
    if gone:  # one fewer would not have done
        assert sum(one.size for one in left) + all_kept[gone[-1]].size > max_bytes * 3 // 4


@given(length=st.integers(1, 2000), max_bytes=st.integers(60, 400))
def test_gaps_double_towards_the_past(length: int, max_bytes: int) -> None:
    run = straight([1] * length)
    gone = set(thinned(run, max_bytes))
    times = [one.t for one in run if one.t not in gone]
    gaps = [later - earlier for earlier, later in pairwise(times)][::-1]
    assert all(gap & (gap - 1) == 0 for gap in gaps)
    assert all(older in (newer, 2 * newer) for newer, older in pairwise(gaps))
    assert length <= max_bytes * 3 // 4 or gaps[0] == 1


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=200), tight=st.integers(1, 500), more=st.integers(0, 500))
def test_what_a_tight_budget_keeps_a_wide_one_keeps_too(sizes: list[int], tight: int, more: int) -> None:
    run = straight(sizes)
    assert set(thinned(run, tight + more)) <= set(thinned(run, tight))


def test_thinned_as_time_goes_on_the_past_stays_covered() -> None:
    steps, limit = 3000, 100
    points: list[int] = []
    for now in range(steps + 1):
        points.append(now)
        if len(points) > limit:
            gone = set(thinned([Kept(t, t, 1, now - t) for t in points], limit))
            points = [t for t in points if t not in gone]
    assert limit // 2 < len(points) <= limit
    for earlier, later in pairwise(points):
        assert later - earlier <= max(1, (steps - earlier) // 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keep": 0}, "keep=0: 'all', or an int of at least 1"),
        ({"keep": -3}, "keep=-3"),
        ({"keep": True}, "keep=True"),
        ({"keep": None}, "keep=None"),
        ({"keep": "16"}, "keep='16'"),
        ({"keep": 2.0}, "keep=2.0"),
        ({"keep": ["all"]}, r"keep=\['all'\]"),
        ({"keep_bytes": 0}, "keep_bytes=0: an int of at least 1"),
        ({"keep_bytes": "1 MB"}, "keep_bytes='1 MB'"),
        ({"keep_bytes": True}, "keep_bytes=True"),
        ({"keep_bytes": 1e6}, "keep_bytes=1000000.0"),
        (
            {"keep_bytes": 100, "snapshot": "deepcopy"},
            "keep_bytes=100: 'deepcopy' cannot tell sizes; 'heap' and 'pickle' can",
        ),
    ],
)
def test_bad_limits_are_one_clear_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        RollbackWrapper(Rooms(), **arguments)


# --- the world --------------------------------------------------------------------------------------------------------


def test_ten_thousand_steps_keep_seventeen_checkpoints_and_memory_flat() -> None:
    env = RollbackWrapper(Rooms(20_000), snapshot="pickle", keep=16)
    env.reset(seed=0)
    for _ in range(STEPS // 10):
        env.step("go")
    tracemalloc.start()
    try:
        for _ in range(STEPS - STEPS // 10):
            env.step("go")
        grown, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept(env) == [0, *range(STEPS - 16, STEPS)]
    assert env.restorable == (0, *range(STEPS - 16, STEPS + 1))
    assert grown < STEPS * 2000  # nodes are kept, 20 kB of ballast a step are not
    assert peak < STEPS * 2000
    assert 17 * 20_000 < (env.checkpoint_bytes or 0) < 17 * 21_000
    assert env.rollback(0)[0] == "room 0"


def test_keeping_all_asks_no_sizes_and_drops_nothing() -> None:
    made, ledgered = world()
    for _ in range(300):
        made.step("go")
    assert ledgered.counts == {"save": 300, "size": 0, "drop": 0, "end": 0}
    made.forget()
    assert ledgered.counts["end"] == 300


def test_a_byte_budget_holds_at_every_step_and_asks_few_sizes() -> None:
    made, ledgered = world(keep_bytes=1000)
    for _ in range(STEPS):
        made.step("go")
        assert len(ledgered.alive) <= 100
    assert len(ledgered.alive) > 50
    assert {0, STEPS - 1} <= set(made.checkpoints)
    assert ledgered.counts["size"] < 12 * STEPS


def test_the_root_and_the_newest_stay_where_they_alone_exceed_the_budget() -> None:
    made, ledgered = world(keep_bytes=5)
    for _ in range(9):
        made.step("go")
    assert list(made.checkpoints) == [0, 8]
    assert len(ledgered.alive) == 2


@pytest.mark.parametrize("limits", [{"keep": 1}, {"keep": 2}, {"keep": 5, "keep_bytes": 45}, {"keep_bytes": 60}])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_on_any_tree_the_world_tells_the_truth_and_every_token_ends_once(limits: dict[str, Any], data: Any) -> None:
    made, ledgered = world(**limits)
    for _ in range(data.draw(st.integers(1, 40))):
        room = made.env.unwrapped.room
        action = data.draw(st.sampled_from(["go", "go", "back", "boom", "rollback"]))
        if action == "boom":
            with pytest.raises(RuntimeError, match="boom"):
                made.step("boom")
            assert made.env.unwrapped.room == room
        elif action == "rollback":
            target = data.draw(st.sampled_from(made.nodes))
            could = target.id in made.checkpoints or target is made.node
            made.keep()
            if could:
                made.restore(target)
                assert made.node is target
                assert target.id in made.checkpoints
            else:
                with pytest.raises(SnapshotError, match="is not kept"):
                    made.restore(target)
                made.restore(made.node)
        else:
            made.step(action)
        assert f"room {made.env.unwrapped.room}" == made.node.step.observation
        assert [token[0] for token in ledgered.alive.values()] == sorted(made.checkpoints)
        assert 0 in made.checkpoints
        assert made._branch == [node.id for node in made.node.branch()]
        last = made.node.parent or made.node
        assert {made.node.id, last.id} & made.checkpoints.keys()  # the last step can be undone
        assert len(made.checkpoints) <= limits.get("keep", 99) + 1
        assert len(made.checkpoints) <= limits.get("keep_bytes", 990) // 10
    made.forget()
    assert not ledgered.alive
    assert ledgered.counts["save"] == ledgered.counts["drop"] + ledgered.counts["end"]


# --- the wrapper ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("snapshot", ["deepcopy", "pickle", "heap"])
def test_an_evicted_point_is_refused_and_nothing_changes(snapshot: str) -> None:
    env = wrapped(keep=2, snapshot=snapshot)
    for _ in range(6):
        env.step("go")
    here = env.node
    assert env.restorable == (0, 4, 5, 6)
    for to in (1, 2, 3, env.nodes[2]):
        assert "its checkpoint is not kept" in str(env.refusal(to))
        with pytest.raises(RollbackRefused, match="its checkpoint is not kept"):
            env.rollback(to)
    assert env.step("rollback 3")[4]["rollback"]["reason"] == "rollback to 3: its checkpoint is not kept"
    assert (env.node, env.steps_taken, env.rollbacks_done, kept(env)) == (here, 6, 0, [0, 4, 5])
    assert env.step("stay")[0] == "room 6"


def test_saving_where_the_world_stands_does_not_evict_the_target() -> None:
    env = wrapped(keep=1)
    for _ in range(5):
        env.step("go")
    assert env.restorable == (0, 4, 5)
    assert env.rollback(4)[0] == "room 4"
    assert kept(env) == [0, 4]
    assert "not kept" in str(env.refusal(env.nodes[5]))
    assert env.step("back")[0] == "room 3"
    assert env.rollback(4)[0] == "room 4"
    assert env.rollback(0)[0] == "room 0"
    assert env.step("go")[0] == "room 1"
    assert env.restorable == (0, 1)


def test_leaving_a_node_again_counts_anew() -> None:
    env = wrapped(keep=3)
    for _ in range(6):
        env.step("go")
    assert kept(env) == [0, 3, 4, 5]
    env.rollback(3)
    assert kept(env) == [0, 3, 5, 6]
    for _ in range(3):
        env.step("go")
    assert kept(env) == [0, 3, 7, 8]
    assert env.restorable == (0, 3, 4, 5, 6)


def test_abandoned_branches_fade_in_real_steps_and_the_current_one_does_not() -> None:
    made, ledgered = world(keep_bytes=500)
    for _ in range(20):
        made.step("go")
    fork = made.node
    for _ in range(6):
        for _ in range(20):
            made.step("go")
        made.keep()
        made.restore(fork)
    kept_per_branch = [len([at for at in made.checkpoints if 20 * n < at <= 20 * n + 20]) for n in range(7)]
    assert kept_per_branch[0] > max(kept_per_branch[1:5])
    assert kept_per_branch[1] <= kept_per_branch[6]
    assert len(ledgered.alive) <= 50


def test_sizes_are_reported_where_the_mechanism_can_tell() -> None:
    env = wrapped()
    env.step("go")
    env.step("go")
    sizes = [checkpoint.size for checkpoint in env.checkpoints]
    assert env.checkpoint_bytes == sum(size or 0 for size in sizes) > 0
    assert sizes == [len(checkpoint.token.data) for checkpoint in env.checkpoints]
    unknown = wrapped(snapshot="deepcopy")
    unknown.step("go")
    assert unknown.checkpoint_bytes is None
    assert [checkpoint.size for checkpoint in unknown.checkpoints] == [None]
    env.reset()
    assert env.checkpoint_bytes == 0


@pytest.mark.parametrize(
    "limits",
    [
        {"keep": 3},
        {"keep": 1, "snapshot": "deepcopy"},
        {"keep": 9, "keep_bytes": 4000},
        {"keep_bytes": 3000},
        {"keep": 2, "snapshot": "heap"},
        {"keep_bytes": 9000, "snapshot": "heap"},
    ],
)
def test_what_is_kept_passes_the_conformance_check(limits: dict[str, Any]) -> None:
    assert check_restore(Rooms, **{"snapshot": "pickle", **limits}, restores=60).restores == 60


def test_replay_keeps_the_last_so_many_and_holds_no_bytes() -> None:
    env = RollbackWrapper.from_factory(Rooms, snapshot="replay", keep=2, keep_bytes=1)
    env.reset(seed=0)
    for _ in range(5):
        env.step("go")
    assert (env.restorable, env.checkpoint_bytes) == ((0, 3, 4, 5), 0)
    assert env.rollback(3)[0] == "room 3"


def test_an_undone_end_and_a_held_one_need_their_checkpoint_only() -> None:
    env = RollbackWrapper(gym.wrappers.TimeLimit(Rooms(), 4), snapshot="pickle", keep=1, terminal="held")
    env.reset(seed=0)
    for _ in range(4):
        *_, truncated, info = env.step("go")
    assert (truncated, info["held"]) == (False, {"terminated": False, "truncated": True})
    assert env.step("rollback 3")[4]["rollback"]["ok"]
    assert env.step("go")[4]["held"]["truncated"]


def test_limits_round_trip_through_the_spec() -> None:
    limits = {"keep": 16, "keep_bytes": 5000, "snapshot": "pickle"}
    env = RollbackWrapper(gym.make("FrozenLake-v1", is_slippery=False), **limits)
    assert env.spec is not None
    text = env.spec.to_json()
    assert json.loads(text)
    again = gym.make(EnvSpec.from_json(text))
    assert isinstance(again, RollbackWrapper)
    assert again.settings == env.settings
    assert {name: again.settings[name] for name in limits} == limits
    assert RollbackWrapper(Rooms()).settings["keep"] == "all"


def test_each_environment_of_a_vector_keeps_its_own() -> None:
    envs = SyncVectorEnv([lambda n=n: RollbackWrapper(Rooms(), keep=n) for n in (1, 3)])
    envs.reset(seed=0)
    for _ in range(5):
        envs.step(["go", "go"])
    assert envs.get_attr("restorable") == ((0, 4, 5), (0, 2, 3, 4, 5))
    *_, info = envs.step(["rollback 3", "rollback 3"])
    assert info["rollback"]["ok"].tolist() == [False, True]
    envs.close()


# --- states that an adapter closes ------------------------------------------------------------------------------------


class Engine(gym.Env[int, int]):
    """Keeps its snapshots in a table of its own and hands out numbers."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Discrete(10**6)
    table: dict[int, int]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.n = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.n = (2 * self.n + int(action)) % 10**6
        return self.n, 0.0, False, False, {}


class Table:
    """The C library's side: open snapshots by handle."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        self.made, self.fails = 0, False

    def save(self, env: Engine) -> int:
        self.made += 1
        self.open[self.made] = env.n
        return self.made

    def restore(self, env: Engine, handle: int) -> None:
        env.n = self.open[handle]

    def close(self, handle: int) -> None:
        del self.open[handle]  # a second time is a KeyError
        if self.fails:
            raise OSError("no such snapshot")


@pytest.fixture
def table() -> Iterator[Table]:
    table, name = Table(), f"{Engine.__module__}:{Engine.__qualname__}"
    register_adapter(name, save=table.save, restore=table.restore, close=table.close)
    yield table
    native._REGISTERED.pop(name)


def test_an_adapters_states_are_closed_when_dropped_and_forgotten(table: Table) -> None:
    env = RollbackWrapper(Engine(), snapshot="native", keep=2)
    table.open.clear()  # those of the proof
    env.reset(seed=0)
    for _ in range(5):
        env.step(1)
    assert len(table.open) == 3
    env.rollback(3)
    env.rollback(0)
    env.step(2)
    assert len(table.open) == 3
    assert env.rollback(0)[0] == 0
    env.reset(seed=1)
    assert table.open == {}
    env.step(1)
    assert len(table.open) == 1
    env.close()
    env.close()
    assert table.open == {}


def test_a_state_is_closed_once_however_often_it_ends(table: Table) -> None:
    env, mechanism = Engine(), native.Native()
    node, _ = World(env, mechanism).reset(0, None), table.open.clear()
    tokens = [mechanism.save(env, node, Start()) for _ in range(3)]
    mechanism.drop(tokens[1])
    mechanism.drop(tokens[1])
    assert len(table.open) == 2
    assert mechanism.restore(env, tokens[2]) is env
    assert len(table.open) == 2
    mechanism.forget()
    mechanism.forget()
    assert table.open == {}


def test_a_copy_of_the_mechanism_never_closes_what_the_original_opened(table: Table) -> None:
    env, mechanism = Engine(), native.Native(share=("_np_random",))
    env.reset(seed=0)
    token = mechanism.save(env, Node(0, None, 0, Step(None, 0)), Start())
    for twin in (copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))):
        assert twin == mechanism
        twin.drop(token)
        twin.forget()
        assert len(table.open) == 1
    mechanism.forget()
    assert table.open == {}


def test_a_state_that_cannot_be_freed_is_a_warning_and_the_episode_goes_on(table: Table) -> None:
    env = RollbackWrapper(Engine(), snapshot="native", keep=1)
    env.reset(seed=0)
    for _ in range(2):
        env.step(1)
    table.fails = True
    with pytest.warns(RuntimeWarning, match="could not free a saved state: OSError"):
        assert env.step(1)[0] == 7
    assert env.restorable == (0, 2, 3)
    table.fails = False
    env.close()

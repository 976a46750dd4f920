"""Faults that people hit with engines and simulators inside environments, each as a test on the whole kind (A, B2)."""

from __future__ import annotations

import gc
import hashlib
import inspect
import itertools
import sqlite3
import threading
import tracemalloc
import types
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rir_gym import NotRestorable, RollbackRefused, RollbackWrapper, Unicode, UsageError
from rir_gym.snapshot.native import register_adapter
from rir_gym.testing import check_restore

SERVER: dict[int, list[int]] = {}


@pytest.fixture(autouse=True)
def _no_garbage_of_another_test() -> None:
    """Whatever still holds a seat on the server leaves it now, not while a later world is looked at."""
    gc.collect()
    SERVER.clear()


HANDLES = itertools.count(1)
FLAKY: list[int] = []


class Engine(gym.Env[int, int]):
    """A number that an engine mixes with the action; each heir runs another engine."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Discrete(10**6)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = int(self.np_random.integers(1000))
        self.begin()
        return self.x, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.x = (3 * self.x + int(action) + self.ask(int(action))) % 10**6
        return self.x, float(action), False, False, {}

    def begin(self) -> None: ...

    def ask(self, action: int) -> int:
        return 0


def refusal(env: gym.Env[Any, Any], **settings: Any) -> str:
    """The one-line message of the refusal, after which the live environment still plays whole episodes."""
    with pytest.raises(NotRestorable) as raised:
        RollbackWrapper(env, **settings)
    for seed in (0, 0, 1):
        env.reset(seed=seed)
        assert len([env.step(1) for _ in range(5)]) == 5
    assert "\n" not in str(raised.value)
    return str(raised.value)


# --- A5, A6: simulators -----------------------------------------------------------------------------------------------


def exact_or_refused(make: Callable[[], gym.Env[Any, Any]], steps: int = 12, elsewhere: bool = True) -> str:
    """The mechanism that was chosen; a refusal is one that names an object."""
    try:
        env = RollbackWrapper(make())
    except NotRestorable:
        assert "env." in refusal(make())
        return "refused"
    inner = [make().action_space.sample() for _ in range(steps)]
    actions = [(0, action) for action in inner] if isinstance(env.action_space, gym.spaces.OneOf) else inner
    env.reset(seed=3)
    for action in actions[:4]:
        env.step(action)
    runs = []
    for _ in range(3):
        runs.append([np.asarray(env.step(action)[0]).tolist() for action in actions if not env.node.step.over])
        env.rollback(4)
    assert runs[0] == runs[1] == runs[2]
    if elsewhere or env.snapshot_report.chosen == "replay":
        assert check_restore(env, restores=12, steps=8).restores == 12
    env.close()
    return env.snapshot_report.chosen


@pytest.mark.parametrize("name", ["Ant-v5", "InvertedPendulum-v5"])
def test_a5_mujoco_is_exact_or_refused(name: str) -> None:
    pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    pytest.importorskip("imageio", reason="gymnasium's MuJoCo environments need imageio")
    exact_or_refused(lambda: gym.make(name))
    for snapshot in ("pickle", "deepcopy"):  # EzPickle
        with pytest.raises(NotRestorable):
            RollbackWrapper(gym.make(name), snapshot=snapshot)


@pytest.mark.parametrize("name", ["LunarLander-v3", "BipedalWalker-v3"])
def test_a6_box2d_is_exact_or_refused(name: str) -> None:
    pytest.importorskip("Box2D", reason="Box2D is not installed")
    exact_or_refused(lambda: gym.make(name), steps=24, elsewhere=False)  # two instances of BipedalWalker may differ
    with pytest.raises(NotRestorable, match=r"env\.env\.env\.env\.\w+"):
        RollbackWrapper(gym.make(name), snapshot="deepcopy")


class CSimulator(Engine):
    """The kind of A5 and A6 everywhere: all state in a C object, rebuilt by every copy and drifting when rebuilt."""

    def begin(self) -> None:
        self.world = zlib.compressobj()

    def ask(self, action: int) -> int:
        data = self.world.compress(bytes([action, self.x % 251])) + self.world.flush(zlib.Z_SYNC_FLUSH)
        return zlib.crc32(data) % 997


def test_a5_a6_a_simulator_in_c_is_exact_by_replay_by_an_adapter_or_refused() -> None:
    assert "env.world is zlib.Compress" in refusal(CSimulator(), snapshot="heap")
    assert exact_or_refused(CSimulator) in ("deepcopy", "refused")  # such an object has a true copy of its own
    assert check_restore(CSimulator, snapshot="replay", restores=15).mechanism == "replay"
    name = f"{CSimulator.__module__}:{CSimulator.__qualname__}"
    register_adapter(
        name,
        save=lambda env: (env.x, env.np_random.bit_generator.state, env.world.copy()),
        restore=lambda env, saved: put_back(env, *saved),
    )
    try:
        assert check_restore(CSimulator(), snapshot="native", restores=15).mechanism == "native"
    finally:
        from rir_gym.snapshot import native

        native._REGISTERED.pop(name)


def put_back(env: CSimulator, x: int, bits: Any, world: Any) -> None:
    env.x, env.world = x, world.copy()
    env.np_random.bit_generator.state = bits


# --- A7: one simulator for the whole process --------------------------------------------------------------------------


class Connected(Engine):
    """Holds an int that names its world in a process-wide simulator; what happened there shows late or never."""

    def __init__(self, late: int = 0, disconnects: bool = False) -> None:
        self.handle, self.late, self.disconnects = next(HANDLES), late, disconnects
        SERVER[self.handle] = []

    def begin(self) -> None:
        SERVER[self.handle] = []

    def ask(self, action: int) -> int:
        SERVER[self.handle].append(action)
        done = len(SERVER[self.handle])
        return done if done > self.late else 0

    def __del__(self) -> None:
        if self.disconnects:
            SERVER.pop(self.handle, None)


@pytest.mark.parametrize("late", [0, 500])
@pytest.mark.parametrize("disconnects", [False, True])
def test_a7_a_shared_simulator_is_reported_and_a_copy_never_touches_the_live_one(late: int, disconnects: bool) -> None:
    env = Connected(late, disconnects)
    others = Connected(late)
    others.reset(seed=0)
    others.step(1)
    message = refusal(env)
    assert ".SERVER" in message
    assert len(SERVER[env.handle]) == 5  # the steps since the last reset: no copy stepped it or disconnected it
    assert SERVER[others.handle] == [1]
    for snapshot in ("heap", "pickle", "deepcopy"):
        told = refusal(env, snapshot=snapshot)
        assert ".SERVER" in told or "__del__" in told
    assert SERVER[others.handle] == [1]


def test_a7_a_shared_simulator_in_c_is_reported() -> None:
    """One database for all, reached by a connection of the module."""

    class Stored(Engine):
        def begin(self) -> None:
            DATABASE.execute("delete from t")

        def ask(self, action: int) -> int:
            DATABASE.execute("insert into t values (?)", (action,))
            (told,) = DATABASE.execute("select count(*) from t").fetchone()
            return int(told) if told > 500 else 0

    assert ".DATABASE was opaque sqlite3.Connection" in refusal(Stored())


DATABASE = sqlite3.connect(":memory:")
DATABASE.execute("create table t (x)")


# --- A8: an extension object that cannot be pickled -------------------------------------------------------------------


class Hashing(Engine):
    """A real C object that neither pickles nor deep-copies, and whose state nobody can set."""

    def begin(self) -> None:
        self.engine = hashlib.sha256()

    def ask(self, action: int) -> int:
        self.engine.update(bytes([action]))
        return self.engine.digest()[0]


class Unwilling:
    """A Python object that refuses to be copied, as extension types do."""

    def __init__(self) -> None:
        self.n = 0

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")


class Stub(Engine):
    def begin(self) -> None:
        self.engine = Unwilling()

    def ask(self, action: int) -> int:
        self.engine.n += action
        return self.engine.n


def test_a8_an_extension_object_is_one_readable_error_or_a_replay() -> None:
    env = Hashing()
    message = refusal(env)
    assert "env.engine is _hashlib.HASH" in message
    engine = env.engine
    assert not isinstance(engine, type(None))
    assert env.engine.digest() == hashlib.sha256(bytes([1] * 5)).digest()  # never half a copy
    assert check_restore(Hashing, restores=15).mechanism in ("fork", "replay")


def test_a8_a_python_object_that_refuses_to_be_copied_is_no_obstacle() -> None:
    for snapshot in ("pickle", "deepcopy"):
        message = refusal(Stub(), snapshot=snapshot)
        assert "cannot pickle 'Unwilling' object" in message
    assert check_restore(Stub(), restores=15).mechanism == "heap"


# --- A10: a native pair and a lock ------------------------------------------------------------------------------------


class Forks(Engine):
    """A state pair of its own, a held lock, and a ``__copy__`` that must never be taken for a copy."""

    shallow = 0

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.lock.acquire()

    def begin(self) -> None:
        self.trail: list[int] = []

    def ask(self, action: int) -> int:
        self.trail.append(action)
        return sum(self.trail)

    def get_state(self) -> Any:
        return self.x, list(self.trail), self.np_random.bit_generator.state

    def set_state(self, state: Any) -> None:
        self.x, trail, self.np_random.bit_generator.state = state
        self.trail = list(trail)

    def __copy__(self) -> Any:
        Forks.shallow += 1
        return self


class SqliteLogger(gym.Wrapper[Any, Any, Any, Any]):
    """Logs to a database that it holds: it has no state pair, and its connection cannot be copied."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.log = sqlite3.connect(":memory:")
        self.log.execute("create table steps (action)")

    def step(self, action: Any) -> Any:
        self.log.execute("insert into steps values (?)", (int(action),))
        return super().step(action)


def test_a10_the_native_pair_is_preferred_to_any_copy() -> None:
    env = RollbackWrapper(gym.wrappers.TimeLimit(Forks(), 9))
    assert env.snapshot_report.chosen == "native"
    assert check_restore(env, restores=15).restores == 15
    assert Forks.shallow == 0


def test_a10_a_wrapper_that_cannot_be_saved_is_named() -> None:
    message = refusal(SqliteLogger(Forks()))
    assert "native: SqliteLogger has no state pair, and its fields cannot be copied" in message
    assert "env.log is sqlite3.Connection" in message
    shared = RollbackWrapper(SqliteLogger(Forks()), share=["log"])
    assert shared.snapshot_report.chosen == "native"
    assert check_restore(shared, restores=15).restores == 15
    outside = SqliteLogger(RollbackWrapper(Forks()))
    outside.reset(seed=0)
    outside.step(1)
    assert outside.log.execute("select count(*) from steps").fetchone() == (1,)
    assert Forks.shallow == 0


# --- A11: an engine behind a gateway ----------------------------------------------------------------------------------


class Gateway:
    """A lock, and a server of its own that runs elsewhere: a function of what it was sent."""

    def __init__(self, seed: int) -> None:
        self.lock = threading.RLock()
        self.server = serve(seed)
        next(self.server)

    def send(self, action: int) -> int:
        with self.lock:
            return self.server.send(action)


def serve(seed: int) -> Iterator[Any]:
    total = seed
    while True:
        action: Any = yield total % 997
        total = total * 5 + action + (next(DRIFT) if FLAKY else 0)


DRIFT = itertools.count(1)


class Behind(Engine):
    def begin(self) -> None:
        self.gateway = Gateway(int(self.np_random.integers(100)))

    def ask(self, action: int) -> int:
        return self.gateway.send(action)


def test_a11_a_deterministic_engine_behind_a_gateway_is_replayed_and_checked() -> None:
    env = RollbackWrapper.from_factory(Behind)
    assert env.snapshot_report.chosen in ("fork", "replay")
    assert "env.gateway.server is builtins.generator" in env.snapshot_report.reasons["heap"]
    assert check_restore(env, restores=20).restores == 20
    env.reset()  # an episode without a seed can be repeated too
    seen = [env.step(1)[0] for _ in range(4)]
    env.rollback(1)
    assert [env.step(1)[0] for _ in range(3)] == seen[1:]


def test_a11_a_replay_that_goes_astray_is_stopped_and_the_live_engine_goes_on() -> None:
    env = RollbackWrapper.from_factory(Behind, snapshot="replay")
    env.reset(seed=1)
    FLAKY.append(1)
    try:
        seen = [env.step(1)[0] for _ in range(4)]
        with pytest.raises(RollbackRefused, match=rf"replay: step=1: observation was {seen[0]} and is now \d+"):
            env.rollback(3)
        assert env.node.t == 4
        env.step(1)
        assert env.node.t == 5
    finally:
        FLAKY.clear()


# --- A12: what one instance can, another cannot -----------------------------------------------------------------------


class Interpreter(Engine):
    """One class for two kinds of stories: the one runs on plain data, the other on something that nobody can copy."""

    def __init__(self, story: str = "z") -> None:
        self.story = story

    def begin(self) -> None:
        self.machine: Any = [0] if self.story == "z" else (n for n in itertools.count())

    def ask(self, action: int) -> int:
        if self.story == "z":
            self.machine[0] += action
            return int(self.machine[0])
        return int(next(self.machine))


def test_a12_capability_is_tested_on_each_environment_not_by_its_class() -> None:
    for _ in range(2):  # in any order, and again
        assert RollbackWrapper(Interpreter("z")).snapshot_report.chosen == "heap"
        assert "env.machine is builtins.generator" in refusal(Interpreter("ulx"))


def test_a12_a_proof_is_not_carried_over_to_an_instance_that_holds_other_things() -> None:
    gym.register("rir_gym_tests/Interpreter-v0", entry_point=f"{__name__}:Interpreter")
    try:
        assert RollbackWrapper(gym.make("rir_gym_tests/Interpreter-v0")).snapshot_report.chosen == "heap"
        for story, chosen in (("ulx", ("fork", "replay")), ("z", ("heap",))):
            made = gym.make("rir_gym_tests/Interpreter-v0", story=story)
            assert RollbackWrapper(made).snapshot_report.chosen in chosen
        wired = gym.make("rir_gym_tests/Interpreter-v0")
        wired.unwrapped.wire = hashlib.md5()  # type: ignore[attr-defined]
        for snapshot, why in (("heap", r"at env\.env\.env\.wire"), ("replay", "holds a _hashlib.HASH")):
            with pytest.raises(NotRestorable, match=why):
                RollbackWrapper(wired, snapshot=snapshot)
    finally:
        del gym.registry["rir_gym_tests/Interpreter-v0"]


def walkthrough(env: RollbackWrapper, commands: list[Any], seed: int) -> None:
    """From every node of the walkthrough, gone back to in turn, the rest of it equals the straight run."""
    env.reset(seed=seed)
    straight = [env.node.step, *[(env.step(command), env.node.step)[1] for command in commands]]
    for t in range(len(commands), -1, -1):
        observation, *_ = env.rollback(t)
        assert observation == straight[t].observation
        for later, command in enumerate(commands[t:], t + 1):
            env.step(command)
            now, then = env.node.step, straight[later]
            assert (now.observation, now.reward, now.over) == (then.observation, then.reward, then.over)


def test_a12_a_rollback_after_each_command_equals_the_straight_run() -> None:
    walkthrough(RollbackWrapper(Interpreter("z")), [1, 2, 0, 1, 1, 2, 2, 0], 4)
    walkthrough(RollbackWrapper.from_factory(lambda: Interpreter("ulx")), [1, 2, 0, 1, 1, 2, 2, 0], 4)


def test_a12_a_rollback_after_each_command_of_a_real_game_equals_the_straight_run() -> None:
    pytest.importorskip("textworld", reason="TextWorld is not installed")
    env = gym.make("rir_gym/TextWorld-Cooking-v0")
    env.reset(seed=0)
    commands = list(env.get_wrapper_attr("oracle").plan())
    assert len(commands) > 3
    wrapped = RollbackWrapper(env)
    walkthrough(wrapped, commands, 0)
    wrapped.close()


# --- A13: a running generator -----------------------------------------------------------------------------------------


class Events(Engine):
    def begin(self) -> None:
        self.events = self.make_events(int(self.np_random.integers(50)))

    def make_events(self, start: int) -> Any:
        return (7 * n for n in itertools.count(start))

    def ask(self, action: int) -> int:
        return int(next(self.events))


class Lazily(Events):
    """The generator is made in some later step only, beyond what a proof plays."""

    def begin(self) -> None:
        self.age = 0
        vars(self).pop("events", None)

    def ask(self, action: int) -> int:
        self.age += 1
        if self.age < 50:
            return 0
        if self.age == 50:
            self.events = self.make_events(3)
        return int(next(self.events))


def test_a13_a_generator_is_noticed_before_the_first_checkpoint_and_replayed_where_that_is_possible() -> None:
    assert "env.events is builtins.generator" in refusal(Events())
    env = RollbackWrapper.from_factory(Events)
    assert env.snapshot_report.chosen in ("fork", "replay")
    assert check_restore(env, restores=20).restores == 20


@pytest.mark.parametrize("snapshot", ["heap", "pickle", "deepcopy"])
def test_a13_a_generator_that_comes_later_costs_its_checkpoints_and_nothing_else(snapshot: str) -> None:
    env = RollbackWrapper(Lazily(), snapshot=snapshot)
    env.reset(seed=0)
    seen = [env.step(1)[0] for _ in range(55)]
    assert env.restorable == (*range(50), 55)
    with pytest.raises(RollbackRefused, match="generator"):
        env.rollback(52)
    assert env.node.t == 55
    env.rollback(49)
    assert [env.step(1)[0] for _ in range(6)] == seen[49:]


# --- A18: a window ----------------------------------------------------------------------------------------------------


class Window:
    """Every instance is one more window on the screen of the process."""

    def __init__(self) -> None:
        SCREEN.opened += 1

    def close(self) -> None:
        SCREEN.closed += 1

    def __deepcopy__(self, memo: Any) -> Window:
        return Window()

    def __reduce__(self) -> Any:
        return Window, ()


SCREEN = types.SimpleNamespace(opened=0, closed=0)


class Watched(Engine):
    metadata = {"render_modes": ["human"]}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode, self.window = render_mode, None

    def ask(self, action: int) -> int:
        self.render()
        return action

    def render(self) -> None:
        if self.render_mode == "human" and self.window is None:
            self.window = Window()  # type: ignore[assignment]

    def close(self) -> None:
        if self.window is not None:
            self.window.close()
            self.window = None


@pytest.mark.parametrize("keep", ["all", 3])
def test_a18_many_checkpoints_have_one_window_and_dropping_them_closes_nothing(keep: Any) -> None:
    SCREEN.opened = SCREEN.closed = 0
    gym.register("rir_gym_tests/Watched-v0", entry_point=f"{__name__}:Watched")
    try:
        env = RollbackWrapper(gym.make("rir_gym_tests/Watched-v0", render_mode="human"), keep=keep)
        assert (SCREEN.opened, SCREEN.closed) == (0, 0)  # the proof needs none
        env.reset(seed=0)
        for t in range(50):
            env.step(t % 3)
            if t % 5 == 4:
                env.rollback(env.node.t - 2)
        assert (SCREEN.opened, SCREEN.closed) == (1, 0)
        env.reset(seed=1)
        assert (SCREEN.opened, SCREEN.closed) == (1, 0)
        env.close()
        assert (SCREEN.opened, SCREEN.closed) == (1, 1)
        with pytest.raises(NotRestorable, match="replay needs another render_mode"):
            RollbackWrapper(gym.make("rir_gym_tests/Watched-v0", render_mode="human"), snapshot="replay")
    finally:
        del gym.registry["rir_gym_tests/Watched-v0"]


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0"])
def test_a18_a_real_window_is_opened_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pygame = pytest.importorskip("pygame", reason="pygame is not installed")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    monkeypatch.setitem(gym.envs.registration.load_env_creator(gym.spec(name).entry_point).metadata, "render_fps", 1000)
    opened, closed = [], []
    set_mode, leave = pygame.display.set_mode, pygame.display.quit
    monkeypatch.setattr(pygame.display, "set_mode", lambda *a, **k: (opened.append(1), set_mode(*a, **k))[1])
    monkeypatch.setattr(pygame.display, "quit", lambda *a, **k: (closed.append(1), leave(*a, **k))[1])
    env = RollbackWrapper(gym.make(name, render_mode="human"), keep=2)
    env.reset(seed=0)
    states = []
    for t in range(12):
        states.append(np.asarray(env.step(t % 2)[0]).tolist())
        env.rollback(env.node.t - 1)
        assert np.asarray(env.step(t % 2)[0]).tolist() == states[-1]
    assert (len(opened), len(closed)) == (1, 0)
    env.close()
    assert len(closed) >= 1


# --- A25: long episodes -----------------------------------------------------------------------------------------------


class Transcript(gym.Env[str, str]):
    """A text game that holds all that was ever said."""

    action_space = Unicode()
    observation_space = Unicode()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.transcript = ["You stand in a hall."]
        return self.transcript[-1], {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        told = f"{len(self.transcript)}: you {action}; {self.np_random.integers(10**9)} " + "and so on " * 20
        self.transcript += [action, told]
        return told[:60], 0.0, False, False, {}


def grown(env: RollbackWrapper, steps: int) -> int:
    """Bytes that an episode adds, the objects of the world and its history included."""
    env.reset(seed=0)
    env.step("look")
    tracemalloc.start()
    try:
        for t in range(steps):
            env.step(f"go {t}")
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("snapshot", ["pickle", "deepcopy", "heap"])
def test_a25_memory_is_bounded_when_the_last_few_are_kept(snapshot: str) -> None:
    env = RollbackWrapper(Transcript(), snapshot=snapshot, keep=8)
    taken = grown(env, 500)
    assert len(env.checkpoints) == 9
    assert env.restorable == (0, *range(493, 502))  # where the world stands is restorable without a checkpoint
    assert taken < 4_000_000  # all 500 copies of transcripts of up to 120 kB each are some 30 MB
    sizes = [checkpoint.size for checkpoint in env.checkpoints]
    assert env.checkpoint_bytes == (None if snapshot == "deepcopy" else sum(sizes))  # type: ignore[arg-type]
    told = env.history[495].step.observation
    assert env.rollback(495)[0] == told
    with pytest.raises(RollbackRefused, match="not kept"):
        env.rollback(300)


@pytest.mark.parametrize(("snapshot", "budget"), [("pickle", 1_000_000), ("heap", 30_000)])
def test_a25_a_byte_budget_is_kept_to_and_sizes_are_reported(snapshot: str, budget: int) -> None:
    env = RollbackWrapper(Transcript(), snapshot=snapshot, keep_bytes=budget)
    grown(env, 500)
    assert env.checkpoint_bytes is not None
    assert 0 < env.checkpoint_bytes <= budget
    assert 3 < len(env.checkpoints) < 400
    assert env.restorable[0] == 0
    assert env.restorable[-1] == 501
    env.rollback(env.restorable[len(env.restorable) // 2])
    assert env.checkpoint_bytes <= budget


def test_a25_all_checkpoints_of_a_growing_transcript_are_cheap_in_the_heap() -> None:
    env = RollbackWrapper(Transcript(), snapshot="heap")
    assert grown(env, 500) < 4_000_000
    assert len(env.restorable) == 502
    assert env.checkpoint_bytes is not None
    assert env.checkpoint_bytes < 2_000_000


# --- B2: with or without new draws ------------------------------------------------------------------------------------


class Dice(Engine):
    def ask(self, action: int) -> int:
        return int(self.np_random.integers(10**6))


def future(env: RollbackWrapper, seed: int | None = None) -> tuple[int, ...]:
    env.rollback(1, seed=seed)
    return tuple(env.step(1)[0] for _ in range(3))


def test_b2_which_future_a_rollback_has_is_said_explicitly() -> None:
    parameter = inspect.signature(RollbackWrapper.rollback).parameters["seed"]
    assert (parameter.kind, parameter.default) == (inspect.Parameter.KEYWORD_ONLY, None)
    same = RollbackWrapper(Dice())
    same.reset(seed=0)
    was = tuple(same.step(1)[0] for _ in range(4))[1:]
    assert {future(same) for _ in range(4)} == {was}
    with pytest.raises(UsageError, match="seed=5: a rollback is seeded only with rng='resample'"):
        same.rollback(1, seed=5)
    assert same.node.t == 4
    assert future(same) == was


@pytest.mark.parametrize("snapshot", ["heap", "pickle", "deepcopy", "replay"])
def test_b2_a_new_future_follows_from_its_seed_or_from_the_episode_and_the_number(snapshot: str) -> None:
    def begun() -> RollbackWrapper:
        env = RollbackWrapper.from_factory(Dice, snapshot=snapshot, rng="resample")
        env.reset(seed=0)
        for _ in range(4):
            env.step(1)
        return env

    one, other = begun(), begun()
    assert future(one, 5) == future(one, 5) == future(other, 5)
    assert future(one, 6) != future(one, 5)
    unseeded = [future(one) for _ in range(4)]
    assert len(set(unseeded)) == 4
    assert len({*unseeded, future(one, 5)}) == 5
    first, second = begun(), begun()
    assert [future(first) for _ in range(3)] == [future(second) for _ in range(3)]
    for bad in (-1, 1.5, "x", True):
        with pytest.raises(UsageError, match="seed="):
            first.rollback(1, seed=bad)  # type: ignore[arg-type]

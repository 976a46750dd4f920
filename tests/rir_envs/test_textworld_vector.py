"""TextWorld in vectors and spawned workers: one copy is rolled back, the others do not notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rir_envs.textworld import coin_collector, cooking, simple

pytestmark = pytest.mark.skipif(find_spec("textworld") is None, reason="needs the extra 'textworld'")

IDS = ("rir_gym/TextWorld-CookingRollback-v0", "rir_gym/TextWorld-SimpleRollback-v0")
Vector = gym.vector.VectorEnv[Any, Any, Any]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.getbasetemp() / "textworld-games"  # every test file of a run uses the same
        folder.mkdir(exist_ok=True)
        patch.setenv("RIR_GYM_CACHE", str(folder))
        yield folder


def make(env_id: str) -> gym.Env[Any, Any]:
    return gym.make("rir_gym:" + env_id)  # a spawned worker has not imported anything yet


def in_process(makers: list[Callable[[], gym.Env[Any, Any]]]) -> Vector:
    return gym.vector.SyncVectorEnv(makers)


def in_workers(makers: list[Callable[[], gym.Env[Any, Any]]]) -> Vector:
    return gym.vector.AsyncVectorEnv(makers, shared_memory=False, context="spawn")


@pytest.mark.parametrize("vector", [in_process, in_workers])
def test_one_is_rolled_back_and_the_others_go_on(vector: Callable[[Any], Vector]) -> None:
    envs = vector([partial(make, env_id) for env_id in (IDS[0], IDS[0], IDS[1])])
    observations, info = envs.reset(seed=4)
    alone = [cooking(), cooking(), simple()]
    expected = [env.reset() for env in alone]
    assert list(observations) == [observation for observation, _ in expected]
    plans = [tuple(env.oracle.plan() or ())[:4] for env in alone]
    for step, commands in enumerate(zip(*plans, strict=True)):
        observations, rewards, *_, info = envs.step(list(commands))
        straight = [env.step(command) for env, command in zip(alone, commands, strict=True)]
        assert list(observations) == [returned[0] for returned in straight]
        assert list(rewards) == [returned[1] for returned in straight]
        if step == 1:
            break
    observations, _, _, _, info = envs.step(["rollback 0", plans[1][2], plans[2][2]])
    assert observations[0] == expected[0][0]
    assert list(info["admissible"][0]) == expected[0][1]["admissible"]
    assert [observations[i] for i in (1, 2)] == [alone[i].step(plans[i][2])[0] for i in (1, 2)]
    alone[0].reset()
    observations, *_ = envs.step([plans[0][0], plans[1][3], plans[2][3]])
    assert list(observations) == [env.step(plan[at])[0] for env, plan, at in zip(alone, plans, (0, 3, 3), strict=True)]
    envs.close()
    for env in alone:
        env.close()


def test_a_seed_fixes_the_episode_and_another_game_seed_is_another_game() -> None:
    first, second, other = coin_collector(game_seed=0), coin_collector(game_seed=0), coin_collector(game_seed=1)
    assert first.reset(seed=1) == second.reset(seed=2)
    assert other.reset(seed=1) != first.reset(seed=1)
    assert first.oracle.plan() == second.oracle.plan() != other.oracle.plan()
    for env in (first, second, other):
        env.close()

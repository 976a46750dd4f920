"""A tabular Q-learning agent that learns when, and how far, to roll back on slippery FrozenLake.

    python examples/frozenlake_qlearning.py [--quick]

A step goes where it should in one case of three. A rollback draws a new future (``rng="resample"``) and costs 0.05; a
fall is held back for one action, so that it can be undone. The agent sees its square and which actions are possible.
"""

from __future__ import annotations

import argparse
from collections import Counter

import gymnasium as gym
import numpy as np

from rir_gym import RollbackWrapper

MOVES, DEEPEST, SQUARES, MAP = 4, 3, 16, "SFFFFHFHFFFHHFFG"


def make_env(*, rollbacks: int | None) -> RollbackWrapper:
    env = gym.make("FrozenLake-v1", is_slippery=True, max_episode_steps=-1)
    limits = {"max_depth": DEEPEST, "max_rollbacks": rollbacks, "step_limit": 60}
    costs = {"rollback_cost": 0.05, "step_cost": 0.005}
    # "P" is the map's table of transitions, which never changes: a rollback then need not look at it.
    return RollbackWrapper(env, rng="resample", terminal="held", share=["P"], **limits, **costs)


def play(env, q, seed, *, explore=0.0, rate=0.0, used=None) -> float:
    """One episode, learning with ``rate``; the return, which is what the agent maximizes."""
    rng = np.random.default_rng(seed)
    state, info = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        possible = np.flatnonzero(info["action_mask"])
        action = rng.choice(possible) if rng.random() < explore else possible[np.argmax(q[state, possible])]
        if used is not None and action >= MOVES:
            used[int(state), int(action) - MOVES + 1] += 1
        after, reward, terminated, truncated, info = env.step(int(action))
        total, over = total + reward, terminated or truncated
        future = 0.0 if over else q[after, info["action_mask"].astype(bool)].max()
        q[state, action] += rate * (reward + future - q[state, action])
        state = after
    return total


def study(name: str, rollbacks: int | None, episodes: int, tests: int) -> Counter[tuple[int, int]]:
    """Learn, then measure greedily on seeds that were never trained on; prints one row of the table."""
    env, used = make_env(rollbacks=rollbacks), Counter[tuple[int, int]]()
    q = np.ones((SQUARES, MOVES + DEEPEST))  # hopeful at first: whatever was not tried is worth a try
    for i, left in enumerate(np.linspace(1, 0, episodes)):
        play(env, q, i, explore=0.1 * left, rate=0.02 + 0.2 * left)
    rows = []
    for i in range(tests):
        total = play(env, q, 10**6 + i, used=used)
        rows.append((env.node.ret > 0, total, env.steps_taken, env.rollbacks_done))
    wins, total, steps, undone = np.mean(rows, axis=0)
    half = 1.96 * (wins * (1 - wins) / tests) ** 0.5
    print(f"{name:18}{wins:8.1%} ±{half:5.1%}{total:10.3f}{steps:10.1f}{undone:12.2f}", flush=True)
    return used


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="few episodes, in seconds")
    episodes, tests = (400, 150) if parser.parse_args().quick else (4000, 1000)
    print(f"{'an episode has':18}{'success':>15}{'return':>10}{'steps':>10}{'rollbacks':>12}")
    study("without rollback", 0, episodes, tests)
    used = study("with rollback", None, episodes, tests)
    print("\nrollbacks by square (H hole, G goal), and by depth:")
    for row in range(4):
        counts = {s: sum(n for (at, _), n in used.items() if at == s) for s in range(4 * row, 4 * row + 4)}
        print("   ", *(f"{MAP[s]}{count:<6}" for s, count in counts.items()))
    print("   ", {depth: sum(n for (_, k), n in used.items() if k == depth) for depth in range(1, DEEPEST + 1)})


if __name__ == "__main__":
    main()

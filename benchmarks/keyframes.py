"""Keyframes whose spacing follows the measured costs, against every fixed spacing: what saving and restoring cost.

    python benchmarks/keyframes.py [--quick] [--json PATH]

Three cost profiles: (dear saves) pickles of a large state, cheap steps; (dear steps) a small state whose steps compute;
(both) in between, with many rollbacks. In each, three long episodes with the same actions and rollbacks (shorter on
average than what was gained since the last one) are played once for every fixed spacing and once with the spacing left
to the mechanism; all worlds take turns, so that a busy machine slows all of them alike. The figure is the processor
time of saves and restores (replay included) of all episodes over that of the best fixed spacing; at most 1.3 is wanted,
and the exit status is 1 where it is more (not with --quick, whose one episode is too short to tell). Every restored
world is compared with the recorded observation.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from rir_gym.snapshot.keyframes import Keyframes
from rir_gym.snapshot.pickled import Pickle
from rir_gym.snapshot.world import World

FIXED = (1, 2, 4, 8, 16, 32, 64, 128)
WANTED = 1.3


@dataclass(frozen=True)
class Profile:
    """A world of so many strings, whose steps hash so many times; p rollbacks per step."""

    name: str
    strings: int
    hashes: int
    p: float


PROFILES = (
    Profile("dear saves", 20_000, 20, 0.05),
    Profile("dear steps", 200, 3_000, 0.1),
    Profile("both", 5_000, 300, 0.2),
)


class Book(gym.Env[str, int]):
    """A list of strings of which a step changes one, after some computing."""

    action_space = gym.spaces.Discrete(50)
    observation_space = gym.spaces.Text(64)

    def __init__(self, strings: int, hashes: int) -> None:
        self.strings, self.hashes = strings, hashes

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.pages = [f"page {number}" for number in range(self.strings)]
        self.digest = b""
        return "", {}

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        for _ in range(self.hashes):
            self.digest = hashlib.sha256(self.digest + bytes([action])).digest()
        self.pages[int.from_bytes(self.digest[:4], "big") % self.strings] = self.digest.hex()
        return self.digest.hex()[:32], 0.0, False, False, {}


def measure(profile: Profile, steps: int, episodes: int, seed: int) -> dict[str, Any]:
    """Seconds by spacing; "auto" is the mechanism's own."""
    rng = np.random.default_rng(seed)
    names: tuple[int | None, ...] = (*FIXED, None)
    mechanisms = [
        Keyframes(Pickle(), spacing=spacing, latency_s=float("inf"), clock_fn=time.process_time) for spacing in names
    ]
    worlds = [World(Book(profile.strings, profile.hashes), mechanism) for mechanism in mechanisms]
    spent = [0.0] * len(worlds)
    depths: list[int] = []
    for turn in range(steps * episodes):
        if turn % steps == 0:
            for world in worlds:
                world.reset(seed + turn, None)
        action, back = int(rng.integers(50)), rng.random() < profile.p
        depth = int(rng.integers(1, 1 / profile.p))
        order = rng.permutation(len(worlds))
        for at in order:
            world = worlds[at]
            began = time.process_time()
            world.keep()
            spent[at] += time.process_time() - began
            node = world.step(action)
            if back:
                target = node.branch()[max(0, node.t - depth)]
                began = time.process_time()
                world.keep()
                world.restore(target)
                spent[at] += time.process_time() - began
                shown = world.env.unwrapped.digest.hex()[:32]  # type: ignore[attr-defined]
                assert shown == target.step.observation, f"{profile}: restored {shown}, was {target.step.observation}"
        depths += [depth] if back else []
    by_spacing = {str(name or "auto"): round(seconds, 4) for name, seconds in zip(names, spent, strict=True)}
    best = min(FIXED, key=lambda spacing: by_spacing[str(spacing)])
    own, costs = mechanisms[-1], mechanisms[-1].costs
    return {
        "profile": profile.name,
        "seconds": by_spacing,
        "best_fixed": best,
        "ratio": round(by_spacing["auto"] / by_spacing[str(best)], 3),
        "spacing_at_the_end": costs.spacing(price_s=own.price_s, latency_s=own.latency_s),
        "save_ms": round(costs.save.value * 1e3, 4),
        "step_ms": round(costs.step.value * 1e3, 4),
        "restore_ms": round(costs.restore.value * 1e3, 4),
        "rollbacks": len(depths),
    }


def main() -> None:
    """Measure, print, and write JSON where asked; exit status 1 where a ratio is above what is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one episode of 100 steps instead of three of 800")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the rows there")
    given = parser.parse_args()
    rows = [measure(profile, *((100, 1) if given.quick else (800, 3)), given.seed) for profile in PROFILES]
    for row in rows:
        print(
            f"{row['profile']:12} save {row['save_ms']:8.3f} ms  step {row['step_ms']:7.3f} ms  "
            f"best fixed K={row['best_fixed']:<4} own K={row['spacing_at_the_end']:<4} cost {row['ratio']:.2f}x"
        )
        print("             " + "  ".join(f"{name}: {seconds:.3f}" for name, seconds in row["seconds"].items()))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if given.quick or all(row["ratio"] <= WANTED for row in rows) else 1)


if __name__ == "__main__":
    main()

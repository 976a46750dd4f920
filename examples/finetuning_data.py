"""From episodes to training data, in Python: supervised rows, and pairs of an undone and a replacing action.

    python examples/finetuning_data.py [--quick] [--out FOLDER]

The expert that plays is often misled, so that there is something to undo. What each row holds: docs/exports.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import gymnasium as gym

import rir_gym as rg
from rir_envs.apothecary_policies import Expert, evidence_localizer, evidence_reviewer
from rir_gym.data.exports import Plan, Split, export
from rir_gym.data.records import episode_record, header_of, times_of, write_episodes
from rir_policies.mechanisms import rir
from rir_policies.prompts import load_prompts
from rir_policies.rendering import Renderer
from rir_policies.scripted import ScriptedPatch


def play(folder: Path, episodes: int) -> None:
    """Episodes of RIR with an expert that always believes the rumour, written as records."""
    roles = {"act": Expert(trust=1.0), "reviewer": evidence_reviewer, "where": evidence_localizer}
    mechanism = rir(**roles, what=ScriptedPatch())
    env = rg.RollbackWrapper(gym.make("rir_gym/Apothecary-v0"))
    played = [rg.run([env], mechanism, budget=rg.Budget(40), seeds=[seed])[0] for seed in range(episodes)]
    print(f"{sum(episode.success for episode in played)} of {episodes} episodes succeeded")
    folder.mkdir(parents=True)
    header = header_of(env, mechanism, agent="scripted")
    records = [episode_record(episode, header) for episode in played]
    write_episodes(folder, records, [times_of(episode) for episode in played])
    env.close()


def shown(row: dict[str, object]) -> str:
    """The ends of a row's texts."""
    ends = {
        name: row[name][-1]["content"][-60:] for name in ("prompt", "completion", "chosen", "rejected") if name in row
    }
    return json.dumps(ends, ensure_ascii=False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="20 episodes instead of 200")
    parser.add_argument("--out", type=Path, help="a new folder")
    asked = parser.parse_args()
    out = asked.out or Path(tempfile.mkdtemp()) / "out"
    play(out / "records", 20 if asked.quick else 200)
    plan = Plan(Renderer(load_prompts()), split=Split(0.2))  # whole tasks are held out
    for kind in ("sft", "dpo"):
        report = export(kind, out / "records", out / kind, plan)
        print(f"\n{kind}: rows {report.rows}, left out {report.left_out}; {out / kind}")
        with (out / kind / "train.jsonl").open(encoding="utf-8") as lines:
            print(shown(json.loads(next(lines))))


if __name__ == "__main__":
    main()

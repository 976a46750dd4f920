"""The spine on real input: a real local model plays every role on a real game, and the record bears checking.

The models need not win. What must hold: budgets and ledger, world and history restored together (the surviving branch
equals a straight run of its actions in a fresh game), a memory that claims nothing of the current state, and every
model call in the record.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from rir_gym import Budget, run
from rir_gym.cli.worlds import make
from rir_gym.data.records import episode_record, header_of
from rir_policies.act import ModelActor
from rir_policies.mechanisms import rir
from rir_policies.prompts import load_prompts
from rir_policies.what import Reflect
from rir_policies.when import ModelReviewer
from rir_policies.where import CoarseToFine

CALLS, ROLLBACKS = 5, 1


@dataclass
class Alarmed:
    """A real model whose verdict, and nothing else, is ROLLBACK wherever it is asked for one."""

    model: Any

    @property
    def name(self):
        return self.model.name

    def generate(self, prompts):
        return self.model.generate(prompts)

    def choose(self, prompts, options):
        choices = list(self.model.choose(prompts, options))
        for i, row in enumerate(options):
            if tuple(row) == ("CONTINUE", "ROLLBACK"):
                choices[i] = type(choices[i])(1, choices[i].scores, choices[i].prompt_tokens, choices[i].reused_tokens)
        return choices


def told(model, position, tmp_path, monkeypatch):
    """One episode with a review every two steps and a forced first verdict, and its record."""
    pytest.importorskip("textworld")
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path))
    played, texts = Alarmed(model), load_prompts()
    mechanism = rir(
        act=ModelActor(played, texts),
        reviewer=ModelReviewer(played, texts, diagnosis_tokens=20, learned_tokens=32),
        where=CoarseToFine(played, texts),
        what=Reflect(played, texts, cause_tokens=24),
        l_min=2,
        l_max=2,
        memory_position=position,
    )
    env = make("rir_gym/TextWorld-Cooking-v0", {"level": 1, "game_seed": 11})
    [episode] = run([env], mechanism, budget=Budget(CALLS, ROLLBACKS), seeds=[11])
    record = episode_record(episode, header_of(env, mechanism, agent="model", model=model.name))
    env.close()
    return episode, record


def check(episode, record):
    ledger = record["ledger"]
    # budgets and the ledger's law
    assert ledger["agent_calls"] <= CALLS
    assert ledger["rollbacks"] + ledger["corrections"] >= 1
    assert ledger["rollbacks"] <= ROLLBACKS
    if not ledger["abandoned"]:
        assert ledger["auxiliary"] == ledger["reviews"] + 3 * (ledger["rollbacks"] + ledger["corrections"])
    # every call in the record, with what was sent and what came back
    calls = [call for event in record["events"] for call in event["calls"]]
    first = Counter(call["role"] for call in calls if call["kind"] == "first")
    assert first["act"] == ledger["agent_calls"]
    assert first["review"] == ledger["reviews"]
    assert first["patch"] == ledger["patches"]
    assert sum(call["kind"] == "sub" for call in calls) == ledger["subrequests"]
    assert sum(call["prompt_tokens"] for call in calls) == ledger["prompt_tokens"] > 0
    assert sum(call["generated_tokens"] for call in calls) == ledger["generated_tokens"] > 0
    assert all(call["messages"] and isinstance(call["text"], str) for call in calls)
    # nothing that the oracle knows was sent
    assert not any("oracle" in message["content"] for call in calls for message in call["messages"])
    # the world: the surviving branch is a straight run of its actions
    fresh = make("rir_gym/TextWorld-Cooking-v0", {"level": 1, "game_seed": 11})
    branch = episode.last.branch()
    observation, info = fresh.reset(seed=11)
    assert observation == branch[0].step.observation
    for node in branch[1:]:
        observation, reward, terminated, truncated, info = fresh.step(node.step.action)
        assert (observation, reward, terminated, truncated) == (
            node.step.observation,
            node.step.reward,
            node.step.terminated,
            node.step.truncated,
        )
        assert info["admissible"] == node.step.admissible
    fresh.close()
    # the history: each agent prompt shows exactly the branch on which it was asked
    for event in record["events"]:
        if event["kind"] == "act":
            shown = [m["content"] for m in event["calls"][0]["messages"] if m["role"] == "assistant"]
            assert shown == [node.step.action for node in episode.nodes[event["node"]].branch()[1:]]
    # the memory: attempts are history, facts have provenance, and the block is replaced, never appended
    for attempt in record["memory"]["attempts"]:
        assert attempt["resumed_at"] < attempt["ended_at"]
    for event in record["events"]:
        for call in event["calls"]:
            text = "\n".join(message["content"] for message in call["messages"])
            assert text.count("Memory from earlier in this task") <= 1


@pytest.mark.parametrize("position", ["system", "tail"])
def test_smollm2_plays_every_role_on_a_cooking_game(smollm2, position, tmp_path, monkeypatch):
    check(*told(smollm2, position, tmp_path, monkeypatch))


def test_gemma3_a_base_model_plays_every_role_on_a_cooking_game(gemma3, tmp_path, monkeypatch):
    check(*told(gemma3, "system", tmp_path, monkeypatch))

"""Faults that people hit with language models, each as a test on the whole kind (D: replies and generation)."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rir_gym import Budget, RollbackWrapper, Unicode, run
from rir_gym.base import DecisionKind, Message, Restore, RestorePoint, Step, Verdict, VerdictKind, View
from rir_gym.memory import Fact, Failure, ReflectionMemory
from rir_policies import chat
from rir_policies.act import ModelActor
from rir_policies.mechanisms import model_roles, rir
from rir_policies.model import Choice, FunctionModel, Prompt
from rir_policies.pointed import read_choice
from rir_policies.prompts import load_prompts
from rir_policies.read import read_action, read_facts, read_final, read_reflection, read_text
from rir_policies.what import Reflect
from rir_policies.when import ModelReviewer
from rir_policies.where import CoarseToFine

PROMPTS = load_prompts()
POINTS = tuple(RestorePoint(i, i, f"place {i}") for i in range(3))


def view(**changes: Any) -> View:
    history = (Step(None, "o0"), Step("go", "o1"), Step("pour ash", "o2"))
    base = View(
        seed=1,
        objective="brew",
        history=history,
        memory=ReflectionMemory("brew"),
        restorable=POINTS,
        agent_calls=2,
        agent_calls_left=9,
        rollbacks_left=2,
    )
    return replace(base, **changes)


def always(text: str) -> FunctionModel:
    return FunctionModel(replies=lambda _: text)


class Hall(gym.Env[str, str]):
    """Takes any text; lists no commands; never ends."""

    action_space = Unicode()
    observation_space = Unicode()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return "a hall", {"objective": "get out", "admissible": None}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return f"{self.count}: {action}", 0.0, False, False, {"objective": "get out", "admissible": None}


# --- D1 to D8: reading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fence", ["```json\n{}\n```", "```\n{}\n```", "```JSON {} ```", "Sure!\n```json\n{}\n```\nDone."]
)
def test_d1_json_in_a_code_fence(fence: str) -> None:
    said = lambda **values: fence.replace("{}", json.dumps(values))  # noqa: E731
    assert read_action(said(thought="x", action="go north"), can_submit=False).action == "go north"
    assert read_action(said(final_answer="42"), can_submit=True).kind is DecisionKind.FINAL
    assert read_choice(said(restore_step=2), ["1", "2"]) == 1
    assert read_reflection(said(cause="the ash was poured early")) == "the ash was poured early"
    assert [fact.text for fact in read_facts(said(fact=["the book is red", "the well is dry"]), step=1)] == [
        "the book is red",
        "the well is dry",
    ]


@pytest.mark.parametrize("tag", ["think", "thinking", "THINK"])
@pytest.mark.parametrize("opening", [True, False])
def test_d2_reasoning_before_a_stray_closing_tag_is_not_used(tag: str, opening: bool) -> None:
    reply = f"{f'<{tag}>' * opening}go south, rollback, fact: the moon is red</{tag}>\n"
    decision = read_action(f"{reply}go north", can_submit=False)
    assert (decision.action, decision.thought) == ("go north", "")
    assert read_choice(f"{reply}CONTINUE", ["CONTINUE", "ROLLBACK"]) == 0
    assert read_text(f"{reply}north it is") == "north it is"
    assert read_reflection(f"{reply}the ash was poured early") == "the ash was poured early"
    assert [fact.text for fact in read_facts(f"{reply}fact: the well is dry", step=1)] == ["the well is dry"]
    assert read_final(f"{reply}Paris").action == "Paris"


@pytest.mark.parametrize(
    "reply", ["Restore step 2", "restore_step: 2", "Step: 2.", "step two", "2", "[2]", "{'step': 2}"]
)
def test_d3_a_number_is_understood_in_any_dress(reply: str) -> None:
    assert read_choice(reply, ["0", "1", "2", "12"]) == 2


@pytest.mark.parametrize("reply", ["-2", "2.5", "step 99", "Restore step", "steps 1 to 2", "two or twelve", "2e0", "²"])
def test_d3_a_number_that_is_no_restore_point_is_rejected_without_an_error(reply: str) -> None:
    assert read_choice(reply, ["0", "1", "2", "12"]) is None
    where = CoarseToFine(Writes(reply), PROMPTS)
    [restore] = where([view()], [Verdict(VerdictKind.ROLLBACK)])
    assert restore.point is None
    assert restore.interval_unread
    assert restore.interval == (0, 2)


EMPTY = ["", " \n\t", "```\n```", "<think>", "</think>", "**", "{}"]


@pytest.mark.parametrize("reply", EMPTY)
def test_d4_an_empty_reply_is_asked_for_once_more_and_is_then_unparsed(reply: str) -> None:
    [decision] = ModelActor(always(reply), PROMPTS)([view()])
    assert decision.kind is DecisionKind.UNPARSED
    assert [call.kind for call in decision.calls] == ["first", "reask"]
    [decision] = ModelActor(Writes(reply), PROMPTS)([view(history=(Step(None, "o", info={"admissible": ["a", "b"]}),))])
    assert decision.kind is DecisionKind.UNPARSED
    assert [call.kind for call in decision.calls] == ["first", "reask"]
    [verdict] = ModelReviewer(Writes(reply), PROMPTS)([view()])
    assert (verdict.kind, verdict.diagnosis, verdict.learned) == (VerdictKind.UNPARSED, "", ())
    [patch] = Reflect(always(reply), PROMPTS)([view()], [verdict], [Restore(POINTS[0])])
    assert patch.unread


def test_d5_a_model_that_never_says_anything_ends_the_run_and_is_counted() -> None:
    env = RollbackWrapper.from_factory(Hall)
    [episode] = run([env], rir(**model_roles(Writes(""))), budget=Budget(5, rollbacks=1), seeds=[0])
    used = episode.ledger
    assert (used.agent_calls, used.unreadable_actions, used.reasks, used.steps) == (5, 5, 5, 0)
    assert used.prompt_tokens > 0
    assert episode.stopped == "agent_calls"
    [verdict] = ModelReviewer(Writes(""), PROMPTS)([view()])
    assert verdict.kind is VerdictKind.UNPARSED
    assert len(verdict.calls) == 3


def test_d6_of_two_decisions_the_first_counts() -> None:
    assert read_action("Action: go north\nFinal: 42", can_submit=True).action == "go north"
    assert read_action("Final: 42\nAction: go north", can_submit=True).action == "42"
    assert read_action('[{"action": "go north"}, {"action": "go south"}]', can_submit=True).action == "go north"
    assert read_action("go north\nObservation: a hall\nAction: go south", can_submit=True).action == "go north"
    assert (
        read_action("go north\n<observation step='2'>x</observation>\nAction: no", can_submit=True).action == "go north"
    )
    assert read_action("Observation: a hall\nAction: go south", can_submit=True).action == "go south"
    assert read_choice("Answer: 1\nAnswer: 2", ["1", "2"]) == 0
    assert read_choice("1 and 2", ["1", "2"]) is None


@pytest.mark.parametrize(
    "command", ["去北方", "открой дверь", "نوش", "日本へ行く", "ouvrir la porte à gauche", "ไปทางเหนือ"]
)
def test_d7_any_script_is_a_command(command: str) -> None:
    assert read_action(f"Action: {command}", can_submit=False).action == command
    assert read_action(f"「{command}」"[1:-1], can_submit=False).action == command
    others = ["去南方", "закрой дверь", "go"]
    assert read_choice(f"**{command}**。", [*others, command]) == 3
    seen = view(history=(Step(None, "o", info={"admissible": [*others, command]}),))
    [decision] = ModelActor(Writes(f"Action: {command}"), PROMPTS)([seen])
    assert decision.action == command
    assert [fact.text for fact in read_facts("fact: 书在大厅里面。\nfact: книга лежит в зале", step=0)] == [
        "书在大厅里面。",
        "книга лежит в зале",
    ]


@pytest.mark.parametrize(
    "label", ["**Action:**", "**Action**:", "Action 3:", "Aktion:", "行动：", "Действие:", "Acción:"]
)
def test_d8_bold_and_translated_labels(label: str) -> None:
    assert read_action(f"{label} go north", can_submit=False).action == "go north"


def test_d8_what_is_no_label_is_no_error() -> None:
    assert read_facts("**Tatsache:** das Buch ist rot", step=1) == ()
    assert read_choice("**Antwort:** weiter", ["CONTINUE", "ROLLBACK"]) is None
    assert [fact.channel for fact in read_facts("**Fact:** the book is red\n**Affordance**: a b", step=1)] == [
        "fact",
        "affordance",
    ]


# --- D9 to D17: encoding and generating -------------------------------------------------------------------------------

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tiny_models import CHATML, tiny, tiny_network, tiny_tokenizer  # noqa: E402

from rir_policies.encoding import ChatEncoder  # noqa: E402
from rir_policies.hf import HFModel, load  # noqa: E402

NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHATML
ALTERNATING = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}" + CHATML
)


def user(text: str, **fields: Any) -> Prompt:
    return Prompt((Message("system", "rules"), Message("user", text)), **fields)


TEXTS = ["a", "open the north door", "look around, then go where the light is", "x" * 40]


@pytest.mark.parametrize("template", [NO_SYSTEM, ALTERNATING])
def test_d9_a_template_without_a_system_role(template: str) -> None:
    tokenizer = tiny_tokenizer(template)
    said = tokenizer.decode(ChatEncoder(tokenizer).encode(chat.act(view(), PROMPTS)).ids)
    assert said.startswith("<|im_start|>user\nAn agent acts in a text environment")
    assert said.count("Objective: brew") == 1
    assert said.index("Objective: brew") < said.index('<observation step="0">')


def test_d10_roles_that_must_alternate_lose_nothing() -> None:
    tokenizer = tiny_tokenizer(ALTERNATING)
    told = [Message("system", "s"), *(Message(role, f"text {i}") for i, role in enumerate(["user"] * 3))]
    told += [Message("assistant", "text 3"), Message("assistant", "text 4"), Message("user", "text 5")]
    said = tokenizer.decode(ChatEncoder(tokenizer).encode(told).ids)
    assert [said.index(f"text {i}") for i in range(6)] == sorted(said.index(f"text {i}") for i in range(6))
    assert said.count("<|im_start|>") == 4  # user, assistant, user, and the reply


def test_d11_no_pad_token_in_a_batch() -> None:
    tokenizer = tiny_tokenizer()
    assert tokenizer.pad_token is None
    before = tokenizer.backend_tokenizer.to_str()
    model = HFModel(tiny_network(), tokenizer, name="t", deterministic=False)
    prompts = [user(text, max_new_tokens=6) for text in TEXTS[:3]]
    assert [r.token_ids for r in model.generate(prompts)] == [tiny().generate([p])[0].token_ids for p in prompts]
    model.choose(prompts, [["CONTINUE", "ROLLBACK"]] * 3)
    assert tokenizer.pad_token is None
    assert tokenizer.padding_side == tiny_tokenizer().padding_side
    assert tokenizer.backend_tokenizer.to_str() == before


def test_d12_a_prompt_that_ends_with_the_pad_token(caplog: pytest.LogCaptureFixture) -> None:
    template = CHATML + "{% if add_generation_prompt %}<|im_end|>{% endif %}"
    tokenizer = tiny_tokenizer(template)
    tokenizer.pad_token = tokenizer.eos_token
    batch = HFModel(tiny_network(), tokenizer, name="t", deterministic=False)
    alone = HFModel(tiny_network(), tiny_tokenizer(template), name="t")
    prompts = [user(text, max_new_tokens=8) for text in TEXTS]
    assert batch.encode(prompts[0].messages)[-1] == tokenizer.pad_token_id
    assert [r.token_ids for r in batch.generate(prompts)] == [r.token_ids for r in alone.generate(prompts)]
    found, wanted = (model.choose(prompts, [["a", "bc"]] * 4) for model in (batch, alone))
    assert [choice.index for choice in found] == [choice.index for choice in wanted]
    assert not caplog.records


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_d13_in_deterministic_mode_neighbours_change_nothing_in_a_coarse_dtype(temperature: float) -> None:
    model = HFModel(tiny_network().to(torch.bfloat16), tiny_tokenizer(), name="t")
    assert model.batch_size == 1
    prompts = [user(text, seed=i, temperature=temperature, max_new_tokens=10) for i, text in enumerate(TEXTS * 2)]
    assert list(model.generate(prompts)) == [model.generate([prompt])[0] for prompt in prompts]
    row = [["go", "stay", "x"]]
    assert list(model.choose(prompts, row * 8)) == [model.choose([prompt], row)[0] for prompt in prompts]


def test_d14_leftover_sampling_settings_give_no_warning_and_no_effect(tmp_path: Path) -> None:
    network = tiny_network()
    network.generation_config.update(do_sample=False, temperature=0.2, top_p=0.1, top_k=3, repetition_penalty=4.0)
    model = HFModel(network, tiny_tokenizer(), name="t")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = model.generate([user("a", temperature=0.0)])
    assert found == tiny().generate([user("a")])[0]
    network.generation_config = transformers.GenerationConfig(eos_token_id=2)
    model.model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    assert load(tmp_path).generate([user("a")])[0] == found


def test_d15_stop_strings_end_each_request_alone_and_are_cut_clean() -> None:
    prompts = [user(text, max_new_tokens=16) for text in TEXTS]
    free = tiny().generate(prompts)
    stops = [reply.text[at : at + 2] for at, reply in zip((1, 4, 9, 2), free, strict=True)]
    model = tiny(deterministic=False, batch_size=4)
    asked = [replace(prompt, stop=(stop,)) for prompt, stop in zip(prompts, stops, strict=True)]
    for whole, reply, stop in zip(free, model.generate(asked), stops, strict=True):
        assert reply.text == whole.text[: whole.text.index(stop)]
        assert (reply.stop_reason, stop in reply.text) == ("stop", False)
    half = free[0].text[-2:] + "?" * 9
    (reply,) = model.generate([replace(prompts[0], stop=(half,))])
    assert (reply.text, reply.stop_reason) == (free[0].text[:-2], "length")


def long_view(steps: int) -> View:
    history = (Step(None, "o0 " * 9), *(Step(f"act {i}", f"o{i} " * 9) for i in range(1, steps)))
    memory = ReflectionMemory("brew").learn([Fact("fact", "the BOOK lies in the hall")])
    points = tuple(RestorePoint(i, i, f"p{i}") for i in range(steps))
    return view(history=history, memory=memory, restorable=points, objective="brew the POTION")


@pytest.mark.parametrize("position", ["system", "tail"])
def test_d16_a_long_history_loses_its_middle_and_the_cut_is_recorded(position: Any) -> None:
    seen = replace(long_view(60), memory_position=position)
    messages = chat.coarse(seen, Verdict(VerdictKind.ROLLBACK, diagnosis="ASH"), seen.restorable, PROMPTS)
    asked: list[str] = []
    model = tiny(context=4096)
    (choice,) = model.choose([Prompt(messages)], [["0", "1", "59"]])
    whole = len(tiny(context=10**6).encode(messages))
    assert choice.prompt_tokens <= 4096
    assert choice.cut_tokens == whole - choice.prompt_tokens > 0
    asked.append(model.tokenizer.decode(model._fitted(messages, 8).ids))
    for kept in (
        "brew the POTION",
        "the BOOK lies",
        '<observation step="0">',
        '<observation step="59">',
        "ASH",
        "58, 59",
    ):
        assert kept in asked[0], kept
    for number in range(1, 59):
        at = asked[0].find(f'<observation step="{number}">')
        assert at < 0 or asked[0][at:].split("\n")[1].startswith(f"o{number} ")
    [decision] = ModelActor(model, PROMPTS)([seen])
    assert decision.calls[0].cut_tokens > 0


def test_d17_no_notice_of_a_cut_reaches_a_prompt() -> None:
    model = tiny(context=4096)
    messages = chat.act(long_view(60), PROMPTS)
    said = model.tokenizer.decode(model._fitted(messages, 64).ids)
    whole = model.tokenizer.decode(model.encode(messages))
    assert len(said) < len(whole)
    lines = set(whole.split("\n"))
    assert all(line in lines for line in said.split("\n"))


# --- D18 to D21: memory -----------------------------------------------------------------------------------------------

FILLED = (
    ReflectionMemory("brew")
    .learn([Fact("fact", "the book lies in the hall", 1)])
    .abandon(resumed_at=0, ended_at=2, failure=Failure("ash was poured", action="pour ash"))
)


@pytest.mark.parametrize("reply", ["", "  ", "...", "```\n```", "<think>hm", "none", '{"cause": ""}', "{}"])
def test_d18_an_empty_reflection_keeps_the_old_memory_and_is_counted(reply: str) -> None:
    [patch] = Reflect(always(reply), PROMPTS)(
        [view(memory=FILLED)], [Verdict(VerdictKind.ROLLBACK)], [Restore(POINTS[1])]
    )
    assert patch.unread
    assert isinstance(patch.memory, ReflectionMemory)
    assert patch.memory.failure == FILLED.failure
    assert [fact.text for fact in patch.memory.environment] == ["the book lies in the hall"]
    assert patch.memory.attempts[:1] == FILLED.attempts


@pytest.mark.parametrize(
    "reply", ["42", "pour ash", "Action: go", "Final: 42", "go", "**pour ash**", '{"action": "go"}']
)
def test_d19_a_solution_is_no_reflection(reply: str) -> None:
    [patch] = Reflect(always(reply), PROMPTS)(
        [view(memory=FILLED)], [Verdict(VerdictKind.ROLLBACK)], [Restore(POINTS[1])]
    )
    assert patch.unread
    assert isinstance(patch.memory, ReflectionMemory)
    assert patch.memory.failure == FILLED.failure


def test_d19_nothing_is_reflected_on_without_a_rollback() -> None:
    asked: list[str] = []
    model = FunctionModel(replies=lambda prompt: (asked.append(prompt.messages[-1].content), "wait")[1])
    [episode] = run([RollbackWrapper.from_factory(Hall)], rir(**model_roles(model)), budget=Budget(12), seeds=[0])
    assert not any("why an attempt failed" in said for said in asked)
    assert episode.memory == ReflectionMemory("get out")


def test_d20_the_same_failure_ten_times_is_one_lesson() -> None:
    memory = ReflectionMemory("brew")
    for number in range(10):
        failure = Failure(f"ash was poured, try {number}", "in the lab", "pour ash", "pour ash (then: in the lab)")
        memory = memory.abandon(resumed_at=1, ended_at=3, route=("pour ash",), failure=failure)
    assert len(memory.environment) == 1
    assert memory.failure is not None
    assert memory.render().count("Why the last abandoned attempt failed") == 1


def test_d20_near_duplicates_do_not_pile_up_and_all_is_bounded() -> None:
    memory = ReflectionMemory("brew")
    for text in ("the book is red", "The book is red.", "the  BOOK is red!", "THE BOOK IS RED"):
        memory = memory.learn([Fact("fact", text, 1)])
    assert [fact.text for fact in memory.environment] == ["THE BOOK IS RED"]
    stays = Fact("elimination", "what never changes", invariant=True)
    for number in range(400):
        memory = memory.learn([Fact("fact", f"thing {number} is there", number), stays])
    assert len(memory.environment) == 256
    assert stays in memory.environment
    assert memory.environment[-1].text == "thing 399 is there"
    assert ReflectionMemory("another task").environment == ()


@pytest.mark.parametrize(
    "sentence", ["Go north to find the key. ", "the ash ", "我去北方。", "Action: go north ", "1 "]
)
def test_d21_a_repetition_loop_is_bounded_and_counts_as_unreadable(sentence: str) -> None:
    reply = sentence * 300
    assert read_action(reply, can_submit=False).kind is DecisionKind.UNPARSED
    assert read_choice(reply, ["1", "go north", "ROLLBACK"]) is None
    assert len(read_text(reply)) <= len(sentence) + 1
    assert len(read_facts(f"fact: {reply}", step=1)) <= 1
    assert all(len(fact.text) <= 200 for fact in read_facts(f"fact: {reply}\n" * 300, step=1))
    [decision] = ModelActor(always(reply), PROMPTS)([view()])
    assert decision.kind is DecisionKind.UNPARSED
    assert len(decision.thought) < 700


# --- helpers ----------------------------------------------------------------------------------------------------------


def reflected(reply: str) -> Any:
    return Reflect(always(reply), PROMPTS)([view(memory=FILLED)], [Verdict(VerdictKind.ROLLBACK)], [Restore(POINTS[1])])


class Writes:
    """A model that writes its choices, always the same text: a server without scores."""

    name = "writes"

    def __init__(self, text: str) -> None:
        self.text = text

    def generate(self, prompts: Any) -> Any:
        return always(self.text).generate(prompts)

    def choose(self, prompts: Any, options: Any) -> Any:
        return [Choice(read_choice(self.text, row), text=self.text) for _, row in zip(prompts, options, strict=True)]

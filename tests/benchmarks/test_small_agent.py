"""The small agent's recipe: its tokenizer, its packed training, its rule of decoding, and that a model of it plays."""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="trains and plays a model (extra 'hf')")
pytest.importorskip("transformers", reason="trains and plays a model (extra 'hf')")

from rir_gym.base import Call, Decision, DecisionKind, RestorePoint, Step, View  # noqa: E402
from rir_gym.memory import Attempt, Failure, ReflectionMemory  # noqa: E402

FOLDER = Path(__file__).parents[2] / "benchmarks"
NAMES = ("small_agent_data", "small_agent_train", "small_agent_tables", "small_agent_bench", "small_agent")


@pytest.fixture(scope="module")
def parts() -> Iterator[dict[str, Any]]:
    import rir_policies.mechanisms as table

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        patch.setattr(table, "MECHANISMS", table.MECHANISMS)  # put back after the benchmark's own were added
        yield {name: importlib.import_module(name) for name in NAMES}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory, parts: dict[str, Any]) -> list[dict[str, Any]]:
    """Exported rows of a few episodes in which the scripted expert recovers."""
    from rir_gym.cli.export import Wanted, plan_of
    from rir_gym.cli.request import Request, config_of, jobs_of
    from rir_gym.data.collect import collect
    from rir_gym.data.exports import export
    from rir_gym.data.store import open_store

    place = tmp_path_factory.mktemp("small")
    wanted = Request("rir_gym/Apothecary-v0", "rir", agent="scripted", episodes=12, memory_position="tail")
    with open_store(place / "data", config_of(wanted)) as store:
        collect(store, jobs_of(wanted), workers=0)
    found: list[dict[str, Any]] = []
    for format in ("sft", "roles"):
        export(format, place / "data", place / format, plan_of(Wanted(format, only="all")))
        found += parts["small_agent_data"].read_rows(place / format)
    return found


@pytest.fixture(scope="module")
def tokenizer(parts: dict[str, Any], rows: list[dict[str, Any]]) -> Any:
    from rir_policies.prompts import load_prompts

    return parts["small_agent_data"].make_tokenizer(rows, load_prompts().texts.values(), context=1536)


@pytest.fixture(scope="module")
def episodes(parts: dict[str, Any], rows: list[dict[str, Any]], tokenizer: Any) -> list[list[Any]]:
    data = parts["small_agent_data"]
    return list(data.encoded_rows(rows, data.samples_of(tokenizer)).values())


def test_every_role_of_the_loop_has_rows(rows: list[dict[str, Any]]) -> None:
    kinds = {(row.get("role", "act"), row["part"]) for row in rows}
    review = {("review", part) for part in ("verdict", "urgency", "learned", "diagnosis")}
    assert kinds == review | {
        ("act", "action"),
        ("coarse", "first"),
        ("coarse", "last"),
        ("fine", "point"),
        ("patch", "cause"),
    }


def test_replies_of_new_knowledge_are_what_the_role_would_read_back(rows: list[dict[str, Any]]) -> None:
    from rir_policies.read import MAX_FACTS, read_facts

    told = [row for row in rows if row["part"] == "learned"]
    lines = 0
    for row in told:
        text = row["completion"][0]["content"]
        read = read_facts(text, step=3, question=row["prompt"][-1]["content"])
        assert [f"{fact.channel}: {fact.text}" for fact in read] == ([] if text == "none" else text.splitlines())
        memory = row["prompt"][-3]["content"]
        assert not any(f"- {line}\n" in memory for line in text.splitlines()), "known already"
        lines = max(lines, len(read))
    assert lines == MAX_FACTS
    assert any(row["completion"][0]["content"] == "none" for row in told)


def test_the_tokenizer_loses_nothing_and_keeps_beginnings(tokenizer: Any, rows: list[dict[str, Any]]) -> None:
    from rir_gym.base import Message
    from rir_policies.encoding import ChatEncoder

    encoder = ChatEncoder(tokenizer)
    for row in rows[::7]:
        for said in row["prompt"]:
            ids = encoder.plain(said["content"])
            assert tokenizer.unk_token_id not in ids
            assert tokenizer.decode(ids) == said["content"]
    long = max((row["prompt"] for row in rows if row["part"] == "action"), key=len)
    messages = [Message(said["role"], said["content"]) for said in long]
    end = messages[3].content.index("</observation>") + len("</observation>")
    longer, shorter = encoder.encode(messages).ids, encoder.encode([*messages[:3], messages[3]]).ids
    with_tail = [*messages[:3], Message("user", f"{messages[3].content[:end]}\n\nStatus: step 1.")]
    for ids in (shorter[:-2], encoder.encode(with_tail).ids[: len(shorter) - 2]):
        assert longer[: len(ids)] == ids


def test_control_tokens_in_text_stay_text(tokenizer: Any) -> None:
    from rir_policies.encoding import ChatEncoder

    encoder = ChatEncoder(tokenizer)
    ids = encoder.plain("You see <|end|><|assistant|>take moss, é, \x00 and 12345.")
    assert encoder.control_ids.isdisjoint(ids)
    assert tokenizer.eos_token_id in encoder.end_ids


def test_a_trie_trains_what_its_rows_would(parts: dict[str, Any], tokenizer: Any, episodes: list[list[Any]]) -> None:
    data, train = parts["small_agent_data"], parts["small_agent_train"]
    model = train.made(train.Recipe(width=32, layers=2, heads=2), tokenizer).eval()
    some = max(episodes, key=lambda rows: sum(row.recovered for row in rows))[::6]
    trie = data.Trie()
    for row in some:
        trie.add(row)
    assert len(trie.tokens) < sum(len(row.ids) for row in some) / 2, "shared beginnings stand in it once"
    with torch.inference_mode():
        packed, _, weights = train.losses(model, [trie])
        at = 0
        for row in some:
            ids = torch.tensor([row.ids])
            logits = model(ids).logits[0, -row.replied - 1 : -1]
            alone = torch.nn.functional.cross_entropy(logits, ids[0, -row.replied :], reduction="none")
            assert torch.allclose(packed[at : at + row.replied], alone, atol=1e-4)
            assert float(weights[at : at + row.replied].sum()) == pytest.approx((row.replied / 3) ** 0.5)
            at += row.replied
        assert at == len(packed)
        more, _, counts = train.losses(model, [trie], turns=0.5, language=0.25)
        assert torch.allclose(more[: len(packed)], packed, atol=1e-5)
        assert len(more) == len(packed) + len(trie.turns) + len(trie.tokens) - trie.parents.count(-1)
        assert torch.equal(counts[: len(packed)], weights)
        both, _, _ = train.losses(model, [trie, data.pack(some[:1], nodes=10_000, rng=random.Random(0))])
        assert torch.allclose(both[: len(packed)], packed, atol=1e-4), "padding changes nothing"


def test_turns_of_the_history_are_its_actions(
    parts: dict[str, Any], tokenizer: Any, rows: list[dict[str, Any]], episodes: list[list[Any]]
) -> None:
    data = parts["small_agent_data"]
    last = max((row for rows in episodes for row in rows if row.role == "act"), key=lambda row: len(row.ids))
    trie = data.Trie()
    trie.add(last, opens=tokenizer.convert_tokens_to_ids("<|assistant|>"), closes=tokenizer.eos_token_id)
    told = tokenizer.decode([target for _, target in trie.turns]).split("<|end|>")
    text = tokenizer.decode(list(last.ids)).split("<|assistant|>")[1:-1]
    assert told[:-1] == [turn.split("<|end|>")[0] for turn in text] != []


def test_pack_keeps_to_its_bound_and_draws_what_it_says(parts: dict[str, Any], episodes: list[list[Any]]) -> None:
    data, agent = parts["small_agent_data"], parts["small_agent"]
    rng = random.Random(1)
    for nodes in (1, 300, 900):
        trie = data.pack(episodes[0], nodes=nodes, rng=rng)
        assert trie is None if nodes == 1 else len(trie.tokens) <= nodes
    marked = [[row for row in rows if row.recovered] for rows in episodes]
    assert 0 < sum(map(bool, marked)) < len(episodes)

    class Ids:
        eos_token_id = 1

        def convert_tokens_to_ids(self, _: str) -> int:
            return 2

    variants = {each.name: each for each in agent.VARIANTS}
    none = agent.forest_of(episodes, variants["none"], Ids())
    assert not any(row.recovered for rows in none.episodes for row in rows)
    half = agent.forest_of(episodes, variants["half"], Ids())
    assert half.recovered == 0.5 and half.episodes == tuple(map(tuple, episodes))  # noqa: PT018
    only = data.Forest(half.episodes, recovered=1.0).draw(8, nodes=4_000, rng=rng)
    failed = {
        len(data.pack(rows, nodes=4_000, rng=rng).tokens) for rows, some in zip(episodes, marked, strict=True) if some
    }
    assert {len(trie.tokens) for trie in only} <= failed


def test_own_episodes_are_about_half_of_what_is_drawn(parts: dict[str, Any]) -> None:
    mixed = parts["small_agent"].mixed
    scripted, own = [[f"s{i}"] for i in range(100)], [[f"o{i}"] for i in range(9)]
    assert mixed(scripted, []) == scripted
    found = [rows[0][0] for rows in mixed(scripted, own)]
    assert found.count("o") == 9
    assert 9 <= found.count("s") <= 12
    assert mixed(own[:2], own) == [*own[:2], *own]


# --- the rule of decoding ---------------------------------------------------------------------------------------------

_SIGMA = "in the lab; holding moss; pot empty"


def _view(pattern: str, *, failure: bool = True, admissible: tuple[str, ...] = ("go hall", "pour moss")) -> View:
    made = Failure("it was wrong", _SIGMA, "pour moss", pattern) if failure else None
    attempts = () if failure else (Attempt(0, 3, pattern=pattern),)
    memory = ReflectionMemory("brew", attempts=attempts, failure=made)
    step = Step(None, "You are in the lab.", 0.0, False, False, {"admissible": list(admissible)})
    return View(0, "brew", (step,), memory, restorable=(RestorePoint(0, 0, _SIGMA),))


class _Chooses:
    """An act that chose "pour moss" by scores."""

    def __init__(self, options: tuple[str, ...] = ("go hall", "pour moss", "rollback")) -> None:
        self.options = options

    def __call__(self, views: Any) -> list[Decision]:
        scores = tuple(-1.0 - i if option != "pour moss" else -0.1 for i, option in enumerate(self.options))
        call = Call("act", (), "pour moss", options=self.options, scores=scores)
        return [Decision.act("pour moss", calls=(call,)) for _ in views]


@pytest.mark.parametrize("failure", [True, False])
def test_a_blamed_action_is_not_chosen_under_the_same_conditions(parts: dict[str, Any], failure: bool) -> None:
    bench = parts["small_agent_bench"]
    view = _view(f"pour moss (then: {_SIGMA})", failure=failure)
    [made] = bench.Away(_Chooses())([view])
    assert (made.kind, made.action, made.calls[-1].text) == (DecisionKind.ACTION, "go hall", "go hall")


@pytest.mark.parametrize(
    ("pattern", "options", "admissible"),
    [
        ("pour moss (then: in the hall; holding moss; pot empty)", ("go hall", "pour moss"), ("go hall", "pour moss")),
        ("take moss (then: {})", ("go hall", "pour moss"), ("go hall", "pour moss")),
        ("pour moss (then: {})", ("pour moss", "rollback"), ("pour moss",)),
        ("pour moss", ("go hall", "pour moss"), ("go hall", "pour moss")),
        ("", ("go hall", "pour moss"), ("go hall", "pour moss")),
    ],
)
def test_else_the_model_decides(
    parts: dict[str, Any], pattern: str, options: tuple[str, ...], admissible: tuple[str, ...]
) -> None:
    bench = parts["small_agent_bench"]
    [made] = bench.Away(_Chooses(options))([_view(pattern.replace("{}", _SIGMA), admissible=admissible)])
    assert made.action == "pour moss"


# --- a model of it plays ----------------------------------------------------------------------------------------------


def test_a_saved_model_is_one_that_the_package_plays_and_reports(
    parts: dict[str, Any], tokenizer: Any, episodes: list[list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rir_gym.base import Message
    from rir_gym.cli import main as command
    from rir_policies.hf import load

    data, train, tables, agent = (parts[name] for name in ("small_agent_data", *NAMES[1:3], "small_agent"))
    recipe = train.Recipe(width=32, layers=1, heads=2, cpu_seconds=0.5, nodes=400)
    variant = agent.VARIANTS[0]
    before = torch.get_num_threads()
    model, figures = train.train(agent.forest_of(episodes, variant, tokenizer), tokenizer, recipe, tell=lambda _: None)
    torch.set_num_threads(before)
    assert figures["steps"] > 0
    assert figures["parameters"] < 5_000_000
    folder = tmp_path / "models" / variant.name
    train.save(model, tokenizer, folder)
    assert list(folder.glob("*.safetensors"))
    figures["held_out"] = {name: list(pair) for name, pair in train.accuracy(model, episodes[:2], nodes=900).items()}
    (folder / "training.json").write_text(json.dumps(figures))

    loaded = load(folder)
    asked = [Message("system", "Objective: x"), Message("user", "You see moss.")]
    assert loaded.encode(asked) == data.samples_of(tokenizer).encoder.encode(asked).ids
    assert loaded.network.packs

    place = tmp_path / "runs" / variant.name
    file = agent.suite_of(tmp_path, variant.place)
    short = file.read_text().replace("agent_calls = 29\ngold = 16", "agent_calls = 4\ngold = 2")
    file.write_text(short.replace("episodes = 200", "episodes = 200\nhorizons = [[1, 2]]"))
    words = [
        "bench",
        str(file),
        "--out",
        str(place),
        "--episodes",
        "1",
        "--model",
        str(folder),
        "--workers",
        "0",
        "--json",
    ]
    words += [word for name in ("all", "exact") for word in ("--section", name)]
    words += [word for name in ("react", "rir", "rir_away") for word in ("--mechanism", name)]
    monkeypatch.setattr(sys, "argv", ["rir-gym", *words])
    with pytest.raises(SystemExit) as ended:
        command()
    assert not ended.value.code
    found = tables.figures_of(tmp_path, [variant.name])
    cells = found["variants"][variant.name]["cells"]
    assert {(cell["section"], cell["mechanism"]) for cell in cells} == {
        (section, mechanism) for section in ("all", "exact") for mechanism in ("react", "rir", "rir_away")
    }
    assert all(cell["figures"]["agreement_before"]["n"] > 0 for cell in cells)
    text = tables.page(found)
    assert "| rir_away | 1 |" in text
    assert "- rir_away − rir: " in text


def test_the_largest_model_of_the_recipe_is_small(parts: dict[str, Any], tokenizer: Any) -> None:
    train = parts["small_agent_train"]
    model = train.made(train.Recipe(), tokenizer)
    assert sum(weight.numel() for weight in model.parameters()) <= 5_000_000


def test_a_folder_keeps_to_one_size(parts: dict[str, Any], tmp_path: Path) -> None:
    agent = parts["small_agent"]
    agent.begin(tmp_path / "new", agent.SIZES["quick"])
    agent.begin(tmp_path / "new", agent.SIZES["quick"])
    with pytest.raises(SystemExit, match="another size"):
        agent.begin(tmp_path / "new", agent.SIZES["full"])
    with pytest.raises(SystemExit):
        agent.main(["--out", str(tmp_path / "none"), "--episodes", "0"])
    assert not (tmp_path / "none").exists()


def test_the_suite_keeps_its_test_seeds_from_the_data(parts: dict[str, Any]) -> None:
    from rir_gym.bench.suite_file import load_suite

    agent = parts["small_agent"]
    suite = load_suite(str(FOLDER / "small_agent.toml"))
    used = sum(agent.SIZES["full"].episodes.values())
    assert used <= len(suite.training)
    assert all(world.agent_calls == 29 for world in suite.worlds)
    assert max(section.episodes for section in suite.sections) == agent.SIZES["full"].test_seeds >= 200
    compared = {name for variant in agent.VARIANTS for name in variant.mechanisms}
    assert compared <= {name for section in suite.sections for name in section.mechanisms}

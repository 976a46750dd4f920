"""Every export in the hands of who reads it: ``datasets.load_dataset``, TRL's trainers, ``minari.load_dataset``."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from told_records import apothecary_records, write_records

from rir_gym.cli.export import Wanted, plan_of
from rir_gym.data.exports import ExportReport, export
from rir_gym.data.exports.schema import COLUMNS, PARQUET

Records = list[dict[str, Any]]
REASON = "the extra test"


@pytest.fixture(scope="module")
def records() -> Records:
    return apothecary_records(range(24))


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tiny_models = pytest.importorskip("tiny_models", reason="the extra hf")
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny_models.tiny_tokenizer().save_pretrained(folder)
    return folder


def exported(tmp_path: Path, records: Records, format: str, **wanted: Any) -> tuple[Path, ExportReport]:
    data = write_records(tmp_path / "data", records)
    return tmp_path / "out", export(format, data, tmp_path / "out", plan_of(Wanted(format, **wanted)))


def load(path: Path, *names: str) -> Any:
    datasets = pytest.importorskip("datasets", reason="the extra data")
    datasets.disable_progress_bars()
    return datasets.load_dataset(str(path), *names, cache_dir=str(path.parent / "cache"))


def told(kind: str) -> Any:
    from rir_gym.data.exports.schema import arrow_features

    return arrow_features({"x": kind})["x"]


@pytest.mark.parametrize("file", ["jsonl", "parquet"])
@pytest.mark.parametrize("format", sorted(COLUMNS))
def test_rows_load_with_their_types(
    tmp_path: Path, records: Records, tokenizer_folder: Path, format: str, file: str
) -> None:
    pytest.importorskip("datasets", reason="the extra data")
    wanted: dict[str, Any] = {"tokenizer": str(tokenizer_folder)} if format == "tokens" else {}
    some = records[:6] if format == "tokens" else records
    out, report = exported(tmp_path, some, format, split_by="task", test_share=0.3, file=file, **wanted)
    found = load(out)
    assert {split: len(rows) for split, rows in found.items()} == report.rows
    assert set(report.rows) == {"train", "test"}
    for name, kind in COLUMNS[format].items():
        assert found["train"].features[name] == told(kind), name
    if file == "jsonl":
        lines = [json.loads(line) for line in (out / "train.jsonl").read_text().splitlines()]
        assert found["train"].to_list() == lines


@pytest.mark.parametrize("format", ["sft", "dpo", "kto", "roles"])
def test_text_rows_load(tmp_path: Path, records: Records, format: str) -> None:
    pytest.importorskip("datasets", reason="the extra data")
    out, _ = exported(tmp_path, records, format, shape="text")
    rows = load(out)["train"]
    assert rows["prompt"][0].startswith("### Instructions\n")
    assert rows["prompt"][0].endswith("### Response\n")
    other = "chosen" if format == "dpo" else "completion"
    assert isinstance(rows[other][0], str)


def test_the_three_tables_load(tmp_path: Path, records: Records) -> None:
    pytest.importorskip("datasets", reason="the extra data")
    out, report = exported(tmp_path, records, "parquet", split_by="task", test_share=0.3)
    for name, columns in PARQUET.items():
        found = load(out, name)
        assert list(found["train"].features) == list(columns)
        assert all(found["train"].features[column] == told(kind) for column, kind in columns.items())
    assert {split: len(rows) for split, rows in load(out, "nodes").items()} == report.rows
    assert len(load(out, "episodes")["train"]) == report.tasks["train"]
    assert list(load(out)["train"].features) == list(PARQUET["episodes"]), "episodes come first"


# --- TRL --------------------------------------------------------------------------------------------------------------


def trained(kind: str, out: Path, tmp_path: Path, **settings: Any) -> Any:
    """One optimizer step of one of TRL's trainers on a tiny random llama; the trainer."""
    trl = pytest.importorskip("trl", reason=REASON)
    tiny_models = pytest.importorskip("tiny_models", reason="the extra hf")
    rows = load(out)["train"].select(range(4))
    tokenizer = tiny_models.tiny_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    network = tiny_models.tiny_network(context=8192).train()
    reference = {} if kind == "SFT" else {"ref_model": tiny_models.tiny_network(context=8192)}
    before = network.model.layers[0].mlp.up_proj.weight.detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = getattr(trl, f"{kind}Config")(
            output_dir=str(tmp_path / "run"),
            max_steps=1,
            per_device_train_batch_size=2,
            learning_rate=1e-2,
            report_to=[],
            use_cpu=True,
            bf16=False,
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            max_length=None,
            **settings,
        )
        trainer = getattr(trl, f"{kind}Trainer")(
            model=network, args=given, train_dataset=rows, processing_class=tokenizer, **reference
        )
        trainer.train()
    after = trainer.model.model.layers[0].mlp.up_proj.weight.detach()
    assert bool((before != after).any()), "the step changed the weights"
    assert bool(after.isfinite().all())
    return trainer


def replies(trainer: Any) -> list[str]:
    """What carries loss in each row, as the trainer's own collator says."""
    batches = [trainer.data_collator([dict(row)]) for row in trainer.train_dataset]
    return [
        trainer.processing_class.decode([label for label in batch["labels"][0].tolist() if label != -100])
        for batch in batches
    ]


def test_trl_trains_sft_rows_and_only_on_the_reply(tmp_path: Path, records: Records) -> None:
    out, _ = exported(tmp_path, records, "sft")
    trainer = trained("SFT", out, tmp_path)
    for reply, source in zip(replies(trainer), load(out)["train"], strict=False):
        assert reply.strip() == source["completion"][0]["content"] + "<|im_end|>"


def test_trl_trains_tokens_as_they_are(tmp_path: Path, records: Records, tokenizer_folder: Path) -> None:
    out, _ = exported(tmp_path, records[:4], "tokens", tokenizer=str(tokenizer_folder))
    trainer = trained("SFT", out, tmp_path)
    decode = trainer.processing_class.decode
    for reply, row, source in zip(replies(trainer), trainer.train_dataset, load(out)["train"], strict=False):
        assert row["input_ids"] == source["input_ids"]
        assert reply == decode([label for label in source["labels"] if label != -100])


def test_trl_trains_text_rows(tmp_path: Path, records: Records) -> None:
    out, _ = exported(tmp_path, records, "sft", shape="text")
    trainer = trained("SFT", out, tmp_path)
    for reply, source in zip(replies(trainer), load(out)["train"], strict=False):
        assert reply == source["completion"] + "<|im_end|>"


def test_trl_trains_pairs(tmp_path: Path, records: Records) -> None:
    out, report = exported(tmp_path, records, "dpo")
    assert report.rows["train"] >= 4
    trainer = trained("DPO", out, tmp_path)
    row, source = trainer.train_dataset[0], load(out)["train"][0]
    for name in ("chosen", "rejected"):
        assert trainer.processing_class.decode(row[f"{name}_ids"]).startswith(source[name][0]["content"])


def test_trl_trains_kto_rows(tmp_path: Path, records: Records) -> None:
    out, _ = exported(tmp_path, records, "kto")
    trained("KTO", out, tmp_path)


# --- Minari -----------------------------------------------------------------------------------------------------------


def paths(record: dict[str, Any]) -> list[list[int]]:
    nodes = record["nodes"]
    leaves = {node["id"] for node in nodes} - {node["parent"] for node in nodes}
    found = []
    for leaf in sorted(leaves):
        path, at = list[int](), leaf
        while at is not None:
            path.insert(0, at)
            at = nodes[at]["parent"]
        found.append(path)
    return found


def test_minari_loads_a_path_an_episode(tmp_path: Path, records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari", reason="the extra minari")
    records[0]["nodes"][0]["observation"] = "odd: \u2028 é日 \ud800"
    out, report = exported(tmp_path, records, "minari", split_by="task", test_share=0.3)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(out))
    assert set(minari.list_local_datasets()) == {"rir_gym/train-v0", "rir_gym/test-v0"}
    by_seed = {record["header"]["seed"]: record for record in records}
    seen = 0
    for split in ("train", "test"):
        found = minari.load_dataset(f"rir_gym/{split}-v0")
        assert found.total_episodes == report.rows[split]
        told = list(found.storage.get_episode_metadata(range(found.total_episodes)))
        episodes = list(found.iterate_episodes())
        assert sum(len(episode.rewards) for episode in episodes) == found.total_steps
        for episode, about in zip(episodes, told, strict=True):
            record = by_seed[about["seed"]]
            ids = [int(node) for node in episode.infos["node"]]
            assert ids in paths(record)
            nodes = [record["nodes"][node] for node in ids]
            clean = [str(node["observation"]).encode("utf-8", "replace").decode() for node in nodes]
            assert list(episode.observations) == clean
            assert list(episode.actions) == [node["action"] for node in nodes[1:]]
            assert [float(reward) for reward in episode.rewards] == [node["reward"] for node in nodes[1:]]
            assert [bool(end) for end in episode.terminations] == [node["terminated"] for node in nodes[1:]]
            assert json.loads(str(episode.infos["exact"][0]))["observation"] == nodes[0]["observation"]
            assert all(found.observation_space.contains(text) for text in episode.observations)
            assert about["surviving"] == (ids[-1] == record["result"]["last"])
            if about["parent"] >= 0:
                parent = [int(node) for node in episodes[about["parent"]].infos["node"]]
                step = about["fork_step"]
                assert told[about["parent"]]["episode"] == about["episode"]
                assert parent[: step + 1] == ids[: step + 1]
                assert parent[step + 1] != ids[step + 1]
            else:
                assert ids == paths(record)[0]
            seen += 1
    assert seen == sum(len(paths(record)) for record in records)
    assert seen > len(records), "abandoned branches are there"

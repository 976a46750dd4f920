"""A small agent trained on this package's own exports, and what every mechanism makes of it on Apothecary.

    python benchmarks/small_agent.py --out FOLDER [--quick] [--json PATH] [--markdown PATH]

1. ``rir-gym collect`` plays the scripted expert on training seeds under four mechanisms (reviews by evidence);
2. ``rir-gym export sft`` and ``roles`` turn that into prompts and replies, memory in the tail and in the system prompt;
3. for each variant a llama of about a million parameters is trained from scratch (``small_agent_train``);
4. ``rir-gym bench`` plays ``small_agent.toml`` with each: test seeds, B_agent = 29 for all;
5. tables.

What is there already is not done again: the same command goes on where it ended (a training that was cut begins anew).
The variants differ in one thing each; ``half`` is the one of the main tables:

- ``half``: recovered branches in the data, drawn half of the time; memory in the tail;
- ``natural``: the same, drawn as often as they are;
- ``none``: nothing after a rollback in the data;
- ``system``: as ``half``, with the memory in the system prompt;
- ``own``: ``half``, trained on for two minutes more with its own successes on other training seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait do not count as CPU time

from small_agent_data import Forest, Row, encoded_rows, make_tokenizer, read_rows, samples_of
from small_agent_tables import figures_of, page

from rir_gym.data.read import read_episodes
from rir_gym.memory import Fact, Failure, ReflectionMemory

__all__ = ["SIZES", "VARIANTS", "Size", "Variant", "main"]

HERE = Path(__file__).parent
PLACES = ("tail", "system")
_SAMPLE = 4_000
_HELD_OUT = 60
_OWN_SEEDS = 10_000
_OWN_RATE = 5e-4


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything: episodes by mechanism of the data, CPU seconds of a training, test seeds a cell.

    ``compared`` are the test seeds of the variants but the first; ``own`` the episodes that a model plays for its data.
    """

    episodes: Mapping[str, int]
    cpu_seconds: float
    test_seeds: int
    compared: int
    own: int
    own_cpu_seconds: float


SIZES = {
    "full": Size({"agent_only": 1600, "rir": 1400, "restart": 700, "reflection_only": 300}, 1560, 200, 200, 400, 240),
    "quick": Size({"agent_only": 40, "rir": 40, "restart": 20, "reflection_only": 10}, 12, 2, 2, 4, 4),
}


@dataclass(frozen=True, slots=True)
class Variant:
    """One model: where its memory stands, and how its data are drawn.

    Args:
        recovered: the share of draws from episodes with a failure in memory; None draws all alike; 0 leaves everything
            after a failure out.
        mechanisms: those that are played; empty is the whole suite.
        start: the variant whose model is trained on, with that model's own successes added; "" starts from scratch.
    """

    name: str
    place: str = "tail"
    recovered: float | None = 0.5
    mechanisms: tuple[str, ...] = ()
    start: str = ""


_COMPARED = ("react", "rollback_only", "restart", "rir", "rir_away")
VARIANTS = (
    Variant("half"),
    Variant("none", recovered=0.0, mechanisms=_COMPARED),
    Variant("system", place="system", mechanisms=_COMPARED),
    Variant("natural", recovered=None, mechanisms=_COMPARED),
    Variant("own", mechanisms=_COMPARED, start="half"),
)


def begin(out: Path, size: Size) -> None:
    """Note what the folder's data and models are made with.

    Raises:
        SystemExit: it holds those of another size.
    """
    file = out / "size.json"
    wanted = {"episodes": dict(size.episodes), "cpu_seconds": size.cpu_seconds}
    out.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.write_text(json.dumps(wanted) + "\n")
    if json.loads(file.read_text()) != wanted:
        raise SystemExit(f"--out={str(out)!r}: holds data of another size ({file.read_text().strip()}); give another")


def command(*words: object, bench: bool = False) -> None:
    """Run ``rir-gym`` (with our mechanisms where ``bench``) in a process of its own; its output is ours."""
    program = [str(HERE / "small_agent_bench.py")] if bench else ["-c", "from rir_gym.cli import main; main()"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *program, *map(str, words)], check=True, env=environment)


# --- data -------------------------------------------------------------------------------------------------------------


def collect(out: Path, size: Size, *, workers: int) -> None:
    """The records, each mechanism on training seeds of its own."""
    first = 0
    for mechanism, episodes in size.episodes.items():
        options = ["--agent", "scripted", "--mechanism", mechanism, "--episodes", episodes, "--seed", first]
        options += ["--agent-calls", 29, "--memory-position", "tail", "--workers", workers, "--json"]
        command("collect", *options, "--out", out / "data" / mechanism)
        first += episodes


def export(out: Path, size: Size, place: str) -> None:
    """Rows of the agent and of the recovery roles, of successes and failures alike."""
    for mechanism in size.episodes:
        data = out / "data" / mechanism
        for format, options in (("sft", ["--only", "all", "--requests"]), ("roles", [])):
            folder = out / "exports" / place / f"{mechanism}-{format}"
            if not folder.exists():
                folder.parent.mkdir(parents=True, exist_ok=True)
                command("export", format, data, *options, "--placement", place, "--out", folder)


def exported(out: Path, size: Size, place: str, *, every: int = 1) -> Iterator[dict[str, Any]]:
    """All rows, or one of ``every``."""
    for mechanism in size.episodes:
        for format in ("sft", "roles"):
            yield from read_rows(out / "exports" / place / f"{mechanism}-{format}", every=every)


def own_rows(out: Path, size: Size, variant: Variant, *, workers: int) -> list[dict[str, Any]]:
    """Rows of the successes of the model that the variant starts from, on training seeds that no data have."""
    if not variant.start:
        return []
    data, folder = out / "data" / f"own-{variant.start}", out / "exports" / f"own-{variant.start}"
    model, mine = out / "models" / variant.start, ["--seed", _OWN_SEEDS, "--episodes", size.own]
    options = ["--agent-calls", 29, "--memory-position", variant.place, "--workers", workers, "--json"]
    command("collect", "--model", model, "--mechanism", "rir", *mine, *options, "--out", data)
    if not any(record["result"]["success"] for record in read_episodes(data)):
        return []
    if not folder.exists():
        command("export", "sft", data, "--requests", "--out", folder)
    return list(read_rows(folder))


def counted(out: Path, size: Size, place: str) -> int:
    """How many rows there are."""
    folders = [out / "exports" / place / f"{name}-{format}" for name in size.episodes for format in ("sft", "roles")]
    return sum(json.loads((folder / "export.json").read_text())["rows"]["train"] for folder in folders)


def mixed(scripted: list[list[Row]], own: list[list[Row]]) -> list[list[Row]]:
    """The model's own episodes and about as many scripted ones; all of these where it has none."""
    return [*scripted[:: max(1, len(scripted) // len(own))], *own] if own else scripted


def forest_of(episodes: Sequence[Sequence[Row]], variant: Variant, tokenizer: Any) -> Forest:
    """What a variant draws from."""
    if variant.recovered == 0:
        episodes = [[row for row in rows if not row.recovered] for rows in episodes]
    kept = tuple(tuple(rows) for rows in episodes if rows)
    opens = tokenizer.convert_tokens_to_ids("<|assistant|>")
    return Forest(kept, opens, tokenizer.eos_token_id, variant.recovered or 0.0)


# --- one model --------------------------------------------------------------------------------------------------------


def trained(out: Path, size: Size, variant: Variant, *, threads: int, workers: int = 1) -> dict[str, Any]:
    """The model's folder, made where it is not there; the figures of its training."""
    folder = out / "models" / variant.name
    if not folder.exists():
        from small_agent_train import Recipe, accuracy, load, save, train

        from rir_policies.prompts import load_prompts

        recipe = Recipe(cpu_seconds=size.cpu_seconds, threads=threads)
        own, model = own_rows(out, size, variant, workers=workers), None
        started = time.perf_counter()
        if variant.start:
            recipe = replace(recipe, cpu_seconds=size.own_cpu_seconds, rate=_OWN_RATE)
            tokenizer, model = load(out / "models" / variant.start)
        else:
            every = max(1, counted(out, size, variant.place) // _SAMPLE)
            sample = exported(out, size, variant.place, every=every)
            tokenizer = make_tokenizer(sample, [*load_prompts().texts.values(), _MEMORY], context=recipe.context)
        samples = samples_of(tokenizer)
        encoded = list(encoded_rows(exported(out, size, variant.place), samples).values())
        spread = max(2, len(encoded) // _HELD_OUT)
        held = encoded[::spread][:_HELD_OUT]
        data = [rows for i, rows in enumerate(encoded) if i % spread or i // spread >= _HELD_OUT]
        read_s = time.perf_counter() - started
        forest = forest_of(mixed(data, list(encoded_rows(own, samples).values())), variant, tokenizer)
        rows_said = f"{sum(map(len, forest.episodes))} rows of {len(forest.episodes)} episodes"
        print(f"{variant.name}: {rows_said} in {read_s:.0f} s", flush=True)
        model, figures = train(forest, tokenizer, recipe, start=model, tell=_tell)
        found = accuracy(model, held, nodes=recipe.nodes)
        figures |= {
            "episodes": len(forest.episodes),
            "own_rows": len(own),
            "rows": sum(map(len, forest.episodes)),
            "recovered_rows": sum(row.recovered for rows in forest.episodes for row in rows),
            "vocabulary": len(tokenizer),
            "read_seconds": round(read_s, 1),
            "mean_prompt_tokens": round(sum(len(row.ids) for rows in held for row in rows) / sum(map(len, held)), 1),
            "held_out": {name: [round(share, 4), count] for name, (share, count) in found.items()},
        }
        work = folder.with_name(f".{variant.name}.partial")
        shutil.rmtree(work, ignore_errors=True)
        save(model, tokenizer, work)
        (work / "training.json").write_text(json.dumps(figures, indent=1) + "\n")
        os.replace(work, folder)
    told: dict[str, Any] = json.loads((folder / "training.json").read_text())
    return told


_MEMORY = (
    ReflectionMemory("")
    .learn([Fact("fact", "it was there", step=1), Fact("affordance", "it can be done", step=2)])
    .abandon(resumed_at=0, ended_at=2, route=["it"], milestones=["it"], failure=Failure("it", "it", "it", "it"))
    .abandon(resumed_at=0, ended_at=2, failure=Failure("it", "it", "it", "it"), outcome="ended without success")
    .render()
)  # the words of a memory that no scripted episode has


def _tell(text: str) -> None:
    print(f"  {text}", flush=True)


def _model(out: Path, name: str) -> bool:
    return (out / "models" / name).is_dir()


def suite_of(out: Path, place: str) -> Path:
    """The suite with the memory in its place."""
    file = out / f"small-agent-{place}.toml"
    text = (HERE / "small_agent.toml").read_text("utf-8")
    file.write_text(text.replace('memory_position = "tail"', f'memory_position = "{place}"'), "utf-8")
    return file


def played(out: Path, size: Size, variant: Variant, *, workers: int) -> None:
    """The suite, or a part of it, played with a model."""
    chosen = [word for name in variant.mechanisms for word in ("--mechanism", name)]
    episodes = size.compared if variant.mechanisms else size.test_seeds
    options = [
        "--model",
        out / "models" / variant.name,
        "--workers",
        workers,
        "--episodes",
        episodes,
        "--json",
        *chosen,
    ]
    command("bench", suite_of(out, variant.place), *options, "--out", out / "runs" / variant.name, bench=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is missing; print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of everything that is made")
    parser.add_argument("--quick", action="store_true", help="seconds of training and two seeds, to see that it runs")
    parser.add_argument("--variant", action="append", choices=[each.name for each in VARIANTS], help="only this one")
    parser.add_argument("--episodes", type=int, help="test seeds a cell")
    parser.add_argument("--workers", type=int, default=2, help="processes that play")
    parser.add_argument("--threads", type=int, default=2, help="of a training")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    given = parser.parse_args(arguments)
    size = SIZES["quick" if given.quick else "full"]
    if given.episodes is not None:
        size = replace(size, test_seeds=given.episodes, compared=given.episodes)
    if (given.episodes is not None and given.episodes < 1) or given.workers < 1 or given.threads < 1:
        parser.error("--episodes, --workers and --threads: at least 1")
    asked = given.variant or [each.name for each in VARIANTS]
    variants = [each for each in VARIANTS if each.name in asked]
    if missing := [v.start for v in variants if v.start and v.start not in asked and not _model(given.out, v.start)]:
        parser.error(f"--variant: {missing[0]} is needed, too, and is not there yet")
    begin(given.out, size)
    collect(given.out, size, workers=given.workers)
    for variant in variants:
        export(given.out, size, variant.place)
        trained(given.out, size, variant, threads=given.threads, workers=given.workers)
        played(given.out, size, variant, workers=given.workers)
        done = [each for each in VARIANTS if (given.out / "runs" / each.name / "run.json").exists()]
        figures = figures_of(given.out, [each.name for each in done])
        text = page(figures)
        for file, content in ((given.json, json.dumps(figures, indent=1) + "\n"), (given.markdown, text)):
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``rir-gym collect``, ``rir-gym run`` and ``rir-gym data`` as a user meets them."""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import pytest

from rir_gym import Decision, Mechanism, Patch, Restore, Unicode, Verdict, VerdictKind
from rir_gym.cli import cell, main
from rir_gym.cli.cell import CellPlayer, make_player
from rir_gym.cli.request import Request, config_of, jobs_of, task_of
from rir_gym.data import read_episodes
from rir_gym.data.keys import key_of
from rir_gym.data.survey import survey
from rir_gym.errors import RirError
from rir_gym.ids import IDS

APOTHECARY = "rir_gym/Apothecary-v0"


@pytest.fixture
def cli(monkeypatch, capsys):
    """Run ``rir-gym`` with arguments: (exit code, standard output, standard error)."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["rir-gym", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return call


def scripted(command, out, *more, episodes=3):
    return (command, "--agent", "scripted", "--episodes", episodes, "--out", out, *more)


def seeds(path):
    return [record["header"]["seed"] for record in read_episodes(path)]


# --- the same data --------------------------------------------------------------------------------------------------


def test_the_same_data_for_any_number_of_workers_and_any_lockstep(cli, tmp_path):
    pytest.importorskip("zstandard", reason="compressed records need zstandard")
    sums = {}
    for name, more in {
        "run": (),
        "w0": ("--workers", 0, "--lockstep", 5),
        "w1": ("--workers", 1),
        "w2": ("--workers", 2, "--lockstep", 3),
        "w4": ("--workers", 4, "--compression", "zstd"),
    }.items():
        command = "run" if name == "run" else "collect"
        code, out, _ = cli(*scripted(command, tmp_path / name, "--json", *more, episodes=17))
        assert code == 0
        assert json.loads(out)["n"] == 17
        sums[name] = survey(tmp_path / name).records_sha256
    assert len(set(sums.values())) == 1, sums
    assert seeds(tmp_path / "run") == list(range(17))


def test_attempts_are_other_draws_at_the_same_task(cli, tmp_path):
    assert cli(*scripted("collect", tmp_path / "a", "--attempts", 3, "--workers", 2, "--lockstep", 4))[0] == 0
    assert cli(*scripted("collect", tmp_path / "b", "--workers", 0))[0] == 0
    records = {key_of(record): record for record in read_episodes(tmp_path / "a")}
    assert sorted((key.seed, key.attempt) for key in records) == [(s, a) for s in range(3) for a in range(3)]
    for record in read_episodes(tmp_path / "b"):
        key = key_of(record)
        assert records[key] == record
        again = [records[key._replace(attempt=attempt)] for attempt in (1, 2)]
        assert {other["nodes"][0]["observation"] for other in again} == {record["nodes"][0]["observation"]}
        assert {key_of(other).task for other in again} == {key.task}
    actions = {key: [node["action"] for node in record["nodes"]] for key, record in records.items()}
    assert len({str(actions[key]) for key in actions}) > 3


def wanderer(views):
    """Any admissible action; what was proposed at each third call is taken back to a step that the seed names."""
    commands = [
        view.admissible or ("list", "list .", "help", "write a.txt b") for view in views
    ]  # open text lists none
    draws = [random.Random(f"{view.seed} {view.agent_calls}") for view in views]
    return [Decision.act(draw.choice(some)) for draw, some in zip(draws, commands, strict=True)]


def doubter(views):
    due = [view.agent_calls % 3 == 0 and view.rollbacks_left > 0 for view in views]
    return [Verdict(VerdictKind.ROLLBACK if wrong else VerdictKind.NOT_DUE) for wrong in due]


def anywhere(views, verdicts):
    return [Restore(view.restorable[view.seed % len(view.restorable)]) for view in views]


def forgetful(views, verdicts, restores):
    return [Patch(view.memory) for view in views]


@pytest.mark.parametrize("known", [known for known in IDS if known.reusable], ids=lambda known: known.id)
def test_a_reused_environment_gives_what_a_fresh_one_gives(known, monkeypatch):
    arguments = {known.seed_argument: 0} if known.seed_argument else {}
    try:
        cell.make(known.id, arguments).close()
    except RirError as error:
        pytest.skip(f"{known.id} is not here: {error}")
    request = Request(known.id, "any", agent="scripted", env_args=arguments, agent_calls=4)
    mechanism = Mechanism("any", wanderer, doubter, anywhere, forgetful)
    made = []
    monkeypatch.setattr(cell, "make", lambda *a, make=cell.make, **k: made.append(make(*a, **k)) or made[-1])
    player = CellPlayer(request, "c", mechanism, {"agent": "any", "packages": ()})
    recipes = [{"seed": seed, "attempt": 0} for seed in range(2)]
    there = [player([recipe])[0].record for recipe in (*recipes, *reversed(recipes))]
    player.close()
    assert len(made) == 1
    assert sum(record["ledger"]["rollbacks"] for record in there) > 0
    fresh = []
    for recipe in recipes:
        player = CellPlayer(request, "c", mechanism, {"agent": "any", "packages": ()})
        fresh.append(player([recipe])[0].record)
        player.close()
    assert len(made) == 3
    assert there == [*fresh, *reversed(fresh)]


def test_a_model_gives_the_same_records_in_any_order_and_lockstep(tmp_path):
    """Whatever a worker played before, token counts and what was reused included."""
    pytest.importorskip("torch", reason="plays with a local model")
    from tiny_models import tiny_network, tiny_tokenizer

    tiny_network(context=4096).save_pretrained(tmp_path / "tiny")
    tiny_tokenizer().save_pretrained(tmp_path / "tiny")
    request = Request(APOTHECARY, "rir", model=str(tmp_path / "tiny"), episodes=3, agent_calls=3, temperature=1.0)
    recipes = [job.recipe for job in jobs_of(request)]
    settings = jobs_of(request)[0].cell.settings
    orders = [[[recipe] for recipe in recipes], [recipes], [recipes[:0:-1], recipes[:1]]]
    seen = []
    for order in orders:
        player = make_player(settings)
        records = [one.record for some in order for one in player(some)]
        seen.append(sorted(records, key=lambda record: record["header"]["seed"]))
        player.close()
    assert all(json.dumps(records) == json.dumps(seen[0]) for records in seen)
    assert {record["header"]["model"] for record in seen[0]} == {"tiny"}
    assert "torch" in seen[0][0]["header"]["versions"]
    assert sum(record["ledger"]["prompt_tokens"] for record in seen[0]) > 0


class Dice(gym.Env):
    """Draws from the process's own generators, seeds nothing, and remembers across resets."""

    action_space = observation_space = Unicode()

    def __init__(self):
        self.episodes = 0

    def reset(self, *, seed=None, options=None):
        self.episodes += 1
        self.left = 3
        return f"episode {self.episodes}", {}

    def step(self, action):
        self.left -= 1
        return str(random.random()), 0.0, self.left == 0, False, {}


def test_an_environment_that_leaks_and_draws_anywhere_still_gives_the_same_data():
    """Fresh instances, global generators in a state that follows from the seed, lockstep only where it is safe."""
    gym.register("rir_test/Dice-v0", entry_point=Dice)
    mechanism = Mechanism(
        "roll",
        act=lambda views: [Decision.act("roll") for _ in views],
        when=lambda views: [Verdict.not_due() for _ in views],
        where=lambda views, verdicts: [],
        what=lambda views, verdicts, restores: [],
    )
    recipes = [{"seed": seed, "attempt": attempt} for attempt in range(2) for seed in range(4)]
    seen = []
    for size in (1, 2, 3, 8):
        player = CellPlayer(Request("rir_test/Dice-v0", "roll", agent="scripted"), "c", mechanism, {"agent": "x"})
        before = random.getstate()
        seen.append([one.record for at in range(0, 8, size) for one in player(recipes[at : at + size])])
        assert random.getstate() == before
    assert all(records == seen[0] for records in seen)
    observations = [record["nodes"][1]["observation"] for record in seen[0]]
    assert len(set(observations)) == 8
    assert {record["nodes"][0]["observation"] for record in seen[0]} != {"episode 1", "episode 2"}


def test_a_record_says_what_a_split_by_task_needs(cli, tmp_path):
    assert cli(*scripted("run", tmp_path / "s", "--env-arg", "stores=4", "--seed", 5))[0] == 0
    for seed, record in zip((5, 6, 7), read_episodes(tmp_path / "s"), strict=True):
        header = record["header"]
        assert header["task"] == {"env": APOTHECARY, "arguments": {"stores": 4}, "seed": seed}
        assert (header["seed"], header["attempt"]) == (seed, 0)
        assert len(header["config"]) == 16
    by_argument = next(known for known in IDS if known.seed_argument)
    task = task_of(by_argument.id, {by_argument.seed_argument: 3}, 3)
    assert task == {"env": by_argument.id, "arguments": {by_argument.seed_argument: 3}, "seed": None}


def test_the_configuration_is_what_the_data_depend_on(tmp_path):
    base = Request(APOTHECARY, "rir", agent="scripted")
    weights = tmp_path / "m.gguf"
    weights.write_bytes(bytes(1_000_000))
    model = Request(APOTHECARY, "rir", model=str(weights))
    same = [
        (base, Request(APOTHECARY, "rir", agent="scripted", episodes=9, attempts=3, agent_calls=28)),
        (model, Request(APOTHECARY, "rir", model=str(tmp_path / "x/.." / "m.gguf"))),
    ]
    (tmp_path / "x").mkdir()
    for a, b in same:
        assert config_of(a) == config_of(b)
    other = [config_of(base), config_of(model)]
    other += [config_of(Request(APOTHECARY, "restart", agent="scripted"))]
    other += [config_of(Request(APOTHECARY, "rir", agent="scripted", rollbacks=2))]
    other += [config_of(Request(APOTHECARY, "rir", agent="scripted", env_args={"stores": 4}))]
    other += [config_of(Request(APOTHECARY, "rir", model=str(weights), temperature=1))]
    weights.write_bytes(bytes(500_000) + b"\1" + bytes(499_999))
    other += [config_of(model)]
    assert len({json.dumps(config, sort_keys=True) for config in other}) == len(other)


# --- resuming -------------------------------------------------------------------------------------------------------


def test_the_same_command_goes_on_and_a_larger_number_extends(cli, tmp_path):
    assert cli(*scripted("collect", tmp_path / "s", "--workers", 1))[0] == 0
    first = (tmp_path / "s/episodes.jsonl").read_bytes()
    code, out, err = cli(*scripted("collect", tmp_path / "s", "--json"))
    assert (code, json.loads(out)["n"]) == (0, 3)
    assert "3 of 3 episodes are in" in err
    assert (tmp_path / "s/episodes.jsonl").read_bytes() == first
    code, out, err = cli(*scripted("run", tmp_path / "s", "--json", episodes=5))
    assert (code, json.loads(out)["n"]) == (0, 5)
    assert (tmp_path / "s/episodes.jsonl").read_bytes().startswith(first)
    assert seeds(tmp_path / "s") == [0, 1, 2, 3, 4]
    code, out, _ = cli(*scripted("run", tmp_path / "s", "--json", episodes=2))
    assert (code, json.loads(out)["n"]) == (0, 2)  # the summary is of what was asked for


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--mechanism", "restart"), "mechanism='rir' there, 'restart' here"),
        (("--agent-calls", 30), "budget.agent_calls=28 there, 30 here"),
        (("--env-arg", "stores=4"), "env_args.stores=4 only here"),
        (("--reviewer", "exact"), "reviewer='evidence' there, 'exact' here"),
        (("--seed", 1), "first_seed=0 there, 1 here"),
    ],
)
def test_another_configuration_is_refused_by_name(cli, tmp_path, more, said):
    cli(*scripted("run", tmp_path / "s"))
    before = (tmp_path / "s/episodes.jsonl").read_bytes()
    code, out, err = cli(*scripted("collect", tmp_path / "s", *more))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert (tmp_path / "s/episodes.jsonl").read_bytes() == before


def test_overwriting_puts_the_old_back_where_nothing_new_came(cli, tmp_path):
    cli(*scripted("run", tmp_path / "s"))
    before = (tmp_path / "s/episodes.jsonl").read_bytes()
    code, _, err = cli(*scripted("run", tmp_path / "s", "--overwrite", "--env-arg", "stores=99"))
    assert (code, err.count("\n")) == (2, 1)
    assert (tmp_path / "s/episodes.jsonl").read_bytes() == before
    assert cli(*scripted("collect", tmp_path / "s", "--overwrite", "--seed", 7))[0] == 0
    assert sorted(seeds(tmp_path / "s")) == [7, 8, 9]
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    (tmp_path / "s/thesis.tex").write_text("mine")
    code, _, err = cli(*scripted("run", tmp_path / "s", "--overwrite"))
    assert code == 2
    assert "thesis.tex" in err


def test_a_folder_that_is_being_written_is_refused_and_not_overwritten(cli, tmp_path):
    from rir_gym.data.store import open_store

    with open_store(tmp_path / "s", {"a": 1}):
        for more in ((), ("--overwrite",)):
            code, _, err = cli(*scripted("run", tmp_path / "s", *more))
            assert code == 2
            assert "another process is writing" in err
        assert (tmp_path / "s/config.json").is_file()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--attempts", 0), "attempts=0: at least 1"),
        (("--workers", -1), "--workers"),
        (("--lockstep", 0), "--lockstep"),
        (("--compression", "zip"), "compression='zip': one of none, zstd"),
        (("--mechanism", "nope"), "mechanism='nope': unknown"),
        (("--env", "rir_gym/Nope-v0"), "env='rir_gym/Nope-v0': unknown"),
        (("--agent-calls", 0), "agent_calls=0"),
    ],
)
def test_every_fault_is_one_line_and_leaves_nothing(cli, tmp_path, more, said):
    code, out, err = cli(*scripted("collect", tmp_path / "deep/s", *more))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_says_how_to_go_on(tmp_path):
    """On a terminal, with its bar, and Ctrl-C to the whole group as a terminal sends it."""
    master, slave = pty.openpty()
    command = [sys.executable, "-c", "from rir_gym.cli import main; main()"]
    command += [*map(str, scripted("collect", tmp_path / "s", "--workers", 2, episodes=100_000))]
    environment = {**os.environ, "COLUMNS": "200", "TERM": "xterm"}
    running = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=slave, start_new_session=True, env=environment
    )
    os.close(slave)
    shown = b""
    deadline = time.monotonic() + 60
    while b"success" not in shown and time.monotonic() < deadline:
        shown += os.read(master, 65536)
    os.killpg(running.pid, signal.SIGINT)
    while True:
        try:
            if not (part := os.read(master, 65536)):
                break
        except OSError:  # the other side has gone
            break
        shown += part
    os.close(master)
    assert running.wait(30) == 130
    text = shown.decode()
    assert "/s, success" in text
    assert "of 100000 episodes are kept in" in text
    assert "the same command goes on" in text
    assert "Traceback" not in text
    kept = seeds(tmp_path / "s")
    assert len(set(kept)) == len(kept) > 0


# --- data -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def stores(cli, tmp_path):
    """Two stores that share the episodes 2 and 3 of one configuration, and one of another mechanism."""
    for name, more in {"a": (0, "rir"), "b": (2, "rir"), "c": (0, "restart")}.items():
        cli(*scripted("run", tmp_path / name, "--seed", more[0], "--mechanism", more[1], episodes=4))
    return tmp_path


def test_check_prints_what_is_there(cli, stores):
    code, out, _ = cli("data", "check", stores / "a", "--json")
    said = json.loads(out)
    records = list(read_episodes(stores / "a"))
    assert code == 0
    assert said["sound"]
    assert (said["episodes"], said["tasks"]) == (4, 4)
    assert said["successes"] == sum(record["result"]["success"] for record in records)
    assert said["counts"]["rollbacks"] == sum(record["ledger"]["rollbacks"] for record in records)
    leaves = [{node["id"] for node in r["nodes"]} - {node["parent"] for node in r["nodes"]} for r in records]
    assert said["branches"] == sum(map(len, leaves))
    assert said["cells"] == [{"env": APOTHECARY, "mechanism": "rir", "player": "scripted", "episodes": 4}]
    code, out, _ = cli("data", "check", stores / "a")
    assert code == 0
    assert "branches" in out
    assert said["records_sha256"] in out


def test_check_names_what_is_wrong(cli, stores):
    file = stores / "a/episodes.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    changed = json.loads(lines[1])
    changed["result"]["score"] = 0.123
    file.write_bytes(b"".join([*lines, lines[0], json.dumps(changed).encode() + b"\n", b"{}\n", lines[2][:50]]))
    code, out, err = cli("data", "check", stores / "a", "--json")
    said = json.loads(out)
    assert code == 1
    assert [said[name] for name in ("episodes", "repeated", "differing", "bad", "torn")] == [4, 1, 1, 1, 1]
    code, out, err = cli("data", "check", stores / "a")
    assert code == 1
    assert "line 7: schema=None" in err
    assert "line 8: torn line" in err
    for arguments, fault in ((("nowhere",), "no such file"), ((stores,), "has no episodes")):
        code, _, err = cli("data", "check", *arguments)
        assert (code, err.count("\n")) == (2, 1)
        assert fault in err


def test_merge_takes_every_episode_once_and_keeps_provenance(cli, stores):
    code, out, _ = cli("data", "merge", stores / "a", stores / "b", stores / "c", "--out", stores / "all")
    assert code == 0
    assert "10 episodes" in out
    assert "2 repeated, 0 differing" in out
    found = survey(stores / "all")
    assert (found.episodes, found.repeated, found.tasks) == (10, 0, 6)
    assert len(found.cells) == 2
    assert [config["first_seed"] for config in found.config["config"]["merged"]] == [0, 2, 0]
    rows = [json.loads(line) for line in (stores / "all/times.jsonl").read_text().splitlines()]
    assert {row["seed"] for row in rows} == set(range(6))
    code, _, err = cli("data", "merge", stores / "a", "--out", stores / "all")
    assert code == 2
    assert "exists already" in err


def test_a_merged_store_of_one_configuration_can_be_gone_on_with(cli, stores):
    assert cli("data", "merge", stores / "a", stores / "a", "--out", stores / "one")[0] == 0
    assert cli(*scripted("run", stores / "one", "--json", episodes=6))[0] == 0
    assert seeds(stores / "one") == list(range(6))


def test_merge_keeps_fields_of_the_future_to_the_byte(cli, stores):
    file = stores / "a/episodes.jsonl"
    record = json.loads(file.read_bytes().splitlines()[0])
    record = {"later": [{"$new": 1.50}], **record, "zz": "\u2028"}
    record["nodes"][0]["more"] = None
    line = json.dumps(record, separators=(" , ", ": "), ensure_ascii=False).encode() + b"\n"
    file.write_bytes(line)
    assert cli("data", "merge", stores / "a", "--out", stores / "new")[0] == 0
    assert (stores / "new/episodes.jsonl").read_bytes() == line
    assert next(read_episodes(stores / "new")) == record


def test_merge_refuses_what_conflicts_unless_told_otherwise(cli, stores):
    lines = (stores / "a/episodes.jsonl").read_bytes().splitlines(keepends=True)
    changed = json.loads(lines[1])
    changed["result"]["score"] = 0.123
    (stores / "d").mkdir()
    (stores / "d/episodes.jsonl").write_bytes(json.dumps(changed).encode() + b"\n" + b"{}\n")
    code, _, err = cli("data", "merge", stores / "a", stores / "d", "--out", stores / "new")
    assert code == 2
    assert "two records of this episode differ" in err
    code, _, err = cli("data", "merge", stores / "a", stores / "d", "--keep-first", "--out", stores / "new")
    assert code == 2
    assert "line 2: schema=None" in err
    assert not (stores / "new").exists()
    more = ("--keep-first", "--skip-bad", "--out", stores / "new")
    code, out, err = cli("data", "merge", stores / "a", stores / "d", *more)
    assert code == 0
    assert "1 differing" in out
    assert "line 2" in err
    assert (stores / "new/episodes.jsonl").read_bytes() == b"".join(lines)


def test_versions_of_packages_make_no_other_record(cli, stores):
    lines = (stores / "a/episodes.jsonl").read_bytes().splitlines()
    changed = json.loads(lines[0])
    changed["header"]["versions"]["numpy"] = "0"
    (stores / "d.jsonl").write_bytes(json.dumps(changed).encode() + b"\n")
    code, out, _ = cli("data", "merge", stores / "a", stores / "d.jsonl", "--out", stores / "new")
    assert code == 0
    assert "1 repeated, 0 differing" in out


def test_help_names_the_commands(cli):
    assert "collect" in cli("--help")[1]
    assert all(command in cli("data", "--help")[1] for command in ("check", "merge"))


def test_the_command_line_stays_light():
    code = (
        "import sys, rir_gym.cli\n"
        "heavy = {'torch', 'zstandard', 'datasets', 'rich.table', 'rich.progress'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])

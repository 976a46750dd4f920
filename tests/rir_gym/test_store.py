"""Stores: an episode is in it or not, whatever is killed, torn, full, locked, strangely worded or of other versions."""

import copy
import errno
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rir_gym.data import ReadReport, read_episodes
from rir_gym.data.keys import Key, canonical, key_of
from rir_gym.data.lines import pack, read_lines, whole_bytes
from rir_gym.data.records import decode, encode, episode_record, header_of
from rir_gym.data.store import open_store
from rir_gym.errors import MissingDependency, OutputExists, RecordError, StoreError, UsageError

CONFIG = {"env": "Cellar", "budget": {"agent_calls": 12}, "temperature": 0.5}
NASTY = "a\nb\u2028c\x00\x1b[31m \ud800 \udc00 <|im_end|> 水 '\"\\ 2021-08-13 10:00:00"
PACKINGS = ("none", "zstd")


@pytest.fixture
def make(story):
    """Records of different seeds, and what is changed in them."""
    base = episode_record(story.run(), header_of(story.env, story.mechanism, agent="script"))

    def record(seed=0, **more):
        made = json.loads(json.dumps(base))
        made["header"]["seed"] = seed
        return {**made, **more}

    return record


@pytest.fixture(params=PACKINGS)
def packing(request):
    if request.param == "zstd":
        pytest.importorskip("zstandard", reason="compressed records need zstandard")
    return request.param


def fill(path, records, *, packing="none", config=CONFIG, **more):
    with open_store(path, config, compression=packing, **more) as store:
        for record in records:
            store.append(record, seconds={"act": 0.5})
        return store


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def seeds(path, **more):
    return [record["header"]["seed"] for record in read_episodes(path, **more)]


def shard(path, packing):
    return path / f"episodes.jsonl{'.zst' if packing == 'zstd' else ''}"


# --- what goes in comes out -----------------------------------------------------------------------------------------


def test_a_store_is_filled_over_several_openings(make, tmp_path, packing):
    store = fill(tmp_path / "s", [make(0), make(1)], packing=packing)
    assert store.created
    assert names(tmp_path / "s") == ["config.json", shard(tmp_path, packing).name, "times.jsonl"]
    with open_store(tmp_path / "s", CONFIG, compression=packing) as store:
        assert not store.created
        assert {key.seed for key in store.keys} == {0, 1}
        assert store.append(make(2)) in store.keys
    assert list(read_episodes(tmp_path / "s")) == [make(0), make(1), make(2)]
    config = json.loads((tmp_path / "s/config.json").read_text())
    assert config["config"] == CONFIG
    assert (config["schema"], config["digest"]) == (1, store.digest)
    times = [json.loads(line) for line in (tmp_path / "s/times.jsonl").read_text().splitlines()]
    assert [row["seed"] for row in times] == [0, 1]
    assert times[0]["seconds"] == {"act": 0.5}


def test_files_are_limited_and_read_in_order(make, tmp_path, packing):
    for start in (0, 5):
        fill(tmp_path / "s", map(make, range(start, start + 5)), packing=packing, shard_bytes=1)
    files = [name for name in names(tmp_path / "s") if name.startswith("episodes")]
    assert len(files) == 10
    assert seeds(tmp_path / "s") == list(range(10))


def test_a_store_may_change_its_compression(make, tmp_path):
    pytest.importorskip("zstandard", reason="compressed records need zstandard")
    for seed, packing in enumerate(("none", "zstd", "zstd", "none")):
        fill(tmp_path / "s", [make(seed)], packing=packing)
    assert names(tmp_path / "s")[1:-1] == ["episodes-00001.jsonl.zst", "episodes-00002.jsonl", "episodes.jsonl"]
    assert seeds(tmp_path / "s") == [0, 1, 2, 3]


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary(max_size=20)
    | st.sampled_from([NASTY, "2021-08-13 10:00:00", np.float32(1.5), np.int64(3), np.array([[1.0, float("nan")]])]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(infos=st.lists(st.dictionaries(st.text(max_size=6), values, max_size=4), min_size=5, max_size=5))
def test_c1_c2_c9_c12_any_infos_come_back_step_by_step(make, tmp_path_factory, infos):
    """Ragged and mixed infos, None, NaN and infinities, numpy values, lone surrogates, U+2028: strict JSON and back."""
    path = tmp_path_factory.mktemp("any")
    record = make()
    for node, info in zip(record["nodes"], infos, strict=True):
        node["info"] = encode({"said": info})
        node["observation"] = encode(list(info.values()))
    fill(path, [record])
    raw = shard(path, "none").read_bytes()
    assert raw.isascii()
    assert raw.count(b"\n") == 1
    json.loads(raw, parse_constant=lambda name: pytest.fail(name))
    [read] = read_episodes(path)
    assert read == record
    for node, info in zip(read["nodes"], infos, strict=True):
        assert canonical(encode(decode(node["info"])["said"])) == canonical(encode(info))
        assert set(decode(node["info"])["said"]) == set(info)  # absent is not None


def test_c3_as_many_records_as_episodes(make, tmp_path):
    fill(tmp_path / "s", map(make, range(20)))
    report = ReadReport()
    assert len(list(read_episodes(tmp_path / "s", report=report))) == report.episodes == 20


def test_c9_a_number_that_json_lacks_is_refused_unencoded(make, tmp_path):
    with open_store(tmp_path / "s", CONFIG) as store:
        store.append(make(0))
        for value in (float("nan"), float("inf"), np.float32(1), {1, 2}, b"x"):
            record = make(1)
            record["nodes"][0]["info"]["x"] = value
            with pytest.raises(RecordError, match="not plain JSON"):
                store.append(record)
    assert seeds(tmp_path / "s") == [0]


def test_c13_nothing_follows_the_end_of_an_episode(make, tmp_path):
    record = make()
    record["nodes"][3]["terminated"] = True
    with open_store(tmp_path / "s", CONFIG) as store, pytest.raises(RecordError, match="where the episode was over"):
        store.append(record)


def test_c14_an_episode_is_taken_once(make, tmp_path):
    fill(tmp_path / "s", [make(3)])
    with open_store(tmp_path / "s", CONFIG) as store:
        with pytest.raises(UsageError, match=r"seed=3.*has this episode already"):
            store.append(make(3))
        again = make(3)
        again["header"] |= {"attempt": 1}
        other = make(3)
        other["header"] |= {"config": "another"}
        store.append(again)
        store.append(other)
    assert seeds(tmp_path / "s") == [3, 3, 3]


def test_a_key_is_task_seed_attempt_and_configuration(make):
    record = make(4)
    assert key_of(record)[1:] == (
        canonical({**{"env": record["header"]["env"]["id"], "arguments": {}}, "seed": 4}),
        4,
        0,
    )
    record["header"] |= {"task": {"env": "x", "arguments": {"game": 1}, "seed": None}, "attempt": 2, "config": "c"}
    assert key_of(record) == Key("c", '{"arguments":{"game":1},"env":"x","seed":null}', 4, 2)
    another = make(4)
    another["header"]["budget"]["agent_calls"] = 13
    assert key_of(another).config != key_of(make(4)).config
    another["header"]["budget"]["agent_calls"] = 12
    another["header"]["versions"] = {"python": "4"}
    assert key_of(another) == key_of(make(4))


# --- kills and torn files -------------------------------------------------------------------------------------------


def test_c10_every_byte_at_which_a_file_is_cut(make, tmp_path, packing):
    """A file that ends anywhere: all whole episodes are kept, the rest is set aside, and the store goes on."""
    fill(tmp_path / "s", [make(0), make(1)], packing=packing)
    whole = shard(tmp_path / "s", packing).read_bytes()
    ends = [len(pack(json.dumps(make(0), separators=(",", ":")).encode() + b"\n", packing)), len(whole)]
    step = 997 if packing == "none" else 61
    for cut in sorted({*range(0, len(whole), step), ends[0] - 1, *ends, ends[0] + 1, len(whole) - 1}):
        path = tmp_path / f"cut{cut}"
        path.mkdir()
        (path / "config.json").write_bytes((tmp_path / "s/config.json").read_bytes())
        shard(path, packing).write_bytes(whole[:cut])
        kept = sum(end <= cut for end in ends)
        with open_store(path, CONFIG, compression=packing) as store:
            assert {key.seed for key in store.keys} == set(range(kept))
            tail = cut - (0, *ends)[kept]
            assert len(store.repairs) == (tail > 0)
            if tail:
                assert f"torn tail of {tail} bytes" in store.repairs[0]
                assert (path / f"torn-{shard(path, packing).name}-0").read_bytes() == whole[cut - tail : cut]
            for seed in range(kept, 3):
                store.append(make(seed))
        assert list(read_episodes(path)) == [make(0), make(1), make(2)]


def test_tails_of_several_kills_are_kept_apart(make, tmp_path):
    fill(tmp_path / "s", [make(0)])
    for number in range(3):
        with shard(tmp_path / "s", "none").open("ab") as file:
            file.write(b"\0" * 5000 + f"tail {number}".encode())
        fill(tmp_path / "s", [make(number + 1)])
    assert [(tmp_path / f"s/torn-episodes.jsonl-{n}").read_bytes()[-1:] for n in range(3)] == [b"0", b"1", b"2"]
    assert seeds(tmp_path / "s") == [0, 1, 2, 3]


def test_a_torn_file_of_times_loses_no_episode(make, tmp_path):
    fill(tmp_path / "s", [make(0)])
    with (tmp_path / "s/times.jsonl").open("ab") as file:
        file.write(b'{"seed":')
    store = fill(tmp_path / "s", [make(1)])
    assert "times.jsonl" in store.repairs[0]
    assert all(json.loads(line) for line in (tmp_path / "s/times.jsonl").read_text().splitlines())


def test_c10_a_process_that_is_killed_while_it_writes(make, tmp_path):
    """kill -9 from inside the write: half of a line is on the disk, and every episode before it."""
    (tmp_path / "records.json").write_text(json.dumps([make(seed) for seed in range(4)]))
    program = f"""
import json, os, signal
from rir_gym.data.store import open_store
def write(fd, data):
    if b'"seed":3' in data:
        os.write(fd, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return os.write(fd, data)
with open_store({str(tmp_path / "s")!r}, {CONFIG!r}, write=write) as store:
    for record in json.load(open({str(tmp_path / "records.json")!r})):
        store.append(record)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    with pytest.raises(RecordError, match="line 4: torn line"):
        seeds(tmp_path / "s")
    store = fill(tmp_path / "s", [make(3)])
    assert len(store.repairs) == 1
    assert seeds(tmp_path / "s") == [0, 1, 2, 3]


@pytest.mark.parametrize("left", [b"", b'{"schema": 1, "rir'])
def test_a_process_that_is_killed_while_it_makes_the_store(make, tmp_path, left):
    (tmp_path / "s").mkdir()
    (tmp_path / "s/config.json").write_bytes(left)
    assert fill(tmp_path / "s", [make(0)]).created
    assert seeds(tmp_path / "s") == [0]


# --- a writer that cannot -------------------------------------------------------------------------------------------


class Disk:
    """``os.write`` on a disk with so many bytes left; it writes what fits, as real disks do."""

    def __init__(self, left):
        self.left = left

    def write(self, fd, data):
        fits = data[: self.left]
        if not fits:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.left -= len(fits)
        return os.write(fd, fits)


def test_a_full_disk_loses_nothing(make, tmp_path, packing):
    disk = Disk(10**9)
    with open_store(tmp_path / "s", CONFIG, compression=packing, write=disk.write) as store:
        store.append(make(0))
        before = shard(tmp_path / "s", packing).read_bytes()
        disk.left = len(before) // 2
        with pytest.raises(StoreError, match=r"episodes\.jsonl.*No space left.*what it holds is whole"):
            store.append(make(1))
        assert shard(tmp_path / "s", packing).read_bytes() == before
        assert {key.seed for key in store.keys} == {0}
        disk.left = 10**9
        store.append(make(1))
    assert seeds(tmp_path / "s") == [0, 1]
    assert not list((tmp_path / "s").glob("torn*"))


def test_a_disk_that_is_full_from_the_start_leaves_nothing(make, tmp_path):
    with (
        pytest.raises(StoreError, match="No space left"),
        open_store(tmp_path / "deep/s", CONFIG, write=Disk(0).write) as store,
    ):
        store.append(make(0))
    assert names(tmp_path) == []


def test_an_interrupt_in_the_middle_of_a_write_leaves_whole_lines(make, tmp_path):
    def write(fd, data):
        if b'"seed":1' in data:
            os.write(fd, data[:100])
            raise KeyboardInterrupt
        return os.write(fd, data)

    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "s", map(make, range(3)), write=write)
    assert seeds(tmp_path / "s") == [0]
    assert not fill(tmp_path / "s", [make(1)]).repairs


@pytest.mark.parametrize("name", ["file/out", "x" * 300, "nul\0"])
def test_a_place_that_cannot_be_written_is_named(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="path="), open_store(tmp_path / name, CONFIG):
        pytest.fail("entered")
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_permission_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="cannot be written"), open_store(tmp_path / "s", CONFIG):
        pytest.fail("entered")


def test_what_is_no_store_is_left_alone(make, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/thesis.tex").write_text("mine")
    (tmp_path / "bombs").mkdir()
    (tmp_path / "bombs/a.pkl").write_bytes(b"x")
    for name in ("file", "project", "bombs"):
        with pytest.raises(OutputExists, match=name), open_store(tmp_path / name, CONFIG):
            pytest.fail("entered")
    assert names(tmp_path / "project") == ["thesis.tex"]
    (tmp_path / "empty").mkdir()
    fill(tmp_path / "empty", [make(0)])
    assert seeds(tmp_path / "empty") == [0]


def test_a_new_store_without_episodes_vanishes_where_the_block_raises(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("new/deep", "empty"):
        with pytest.raises(RuntimeError), open_store(tmp_path / name, CONFIG):
            raise RuntimeError
    assert names(tmp_path) == ["empty"]
    assert names(tmp_path / "empty") == []
    with open_store(tmp_path / "kept", CONFIG):
        pass
    with pytest.raises(RuntimeError), open_store(tmp_path / "kept", CONFIG):
        raise RuntimeError
    assert names(tmp_path / "kept") == ["config.json"]


# --- one writer -----------------------------------------------------------------------------------------------------

WRITER = """
import json, sys
from rir_gym.data.store import open_store
from rir_gym.errors import StoreError
path, first, count, records = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
base = json.load(open(records))
try:
    with open_store(path, {"env": "Cellar"}) as store:
        print("in", flush=True)
        sys.stdin.readline()
        for seed in range(first, first + count):
            base["header"]["seed"] = seed
            store.append(base)
except StoreError as error:
    print(error, flush=True)
    sys.exit(3)
"""


def writers(tmp_path, record, places):
    """Four processes at once, 50 episodes of more than 20 kB each: their exit codes."""
    record["nodes"][0]["info"]["page"] = NASTY.encode("utf-8", "backslashreplace").decode() * 250
    (tmp_path / "record.json").write_text(json.dumps(record))
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(place), str(50 * n), "50", str(tmp_path / "record.json")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n, place in enumerate(places)
    ]
    said = [process.stdout.readline() for process in running]
    for process in running:
        process.communicate("go\n")
    return [process.returncode for process in running], said


def test_c8_four_writers_of_one_store_are_one_writer(make, tmp_path):
    codes, said = writers(tmp_path, make(), [tmp_path / "s"] * 4)
    assert sorted(codes) == [0, 3, 3, 3]
    assert sum("another process is writing" in line for line in said) == 3
    assert len(seeds(tmp_path / "s")) == 50


def test_c8_four_writers_of_four_stores_are_two_hundred_lines(make, tmp_path):
    from rir_gym.data.merge import merge

    places = [tmp_path / f"s{n}" for n in range(4)]
    codes, _ = writers(tmp_path, make(), places)
    assert codes == [0] * 4
    assert merge(places, tmp_path / "all").episodes == 200
    assert sorted(seeds(tmp_path / "all")) == list(range(200))


def test_a_store_is_refused_to_a_second_opening_of_the_same_process(tmp_path):
    with open_store(tmp_path / "s", CONFIG):
        with pytest.raises(StoreError, match="another process is writing"), open_store(tmp_path / "s", CONFIG):
            pytest.fail("entered")
        assert (tmp_path / "s/config.json").is_file()
    with open_store(tmp_path / "s", CONFIG):
        pass


def test_the_lock_dies_with_its_process(make, tmp_path):
    program = (
        "import os, signal\nfrom rir_gym.data.store import open_store\n"
        f"with open_store({str(tmp_path / 's')!r}, {CONFIG!r}): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    fill(tmp_path / "s", [make(0)])
    assert seeds(tmp_path / "s") == [0]


# --- configurations and versions ------------------------------------------------------------------------------------


def test_another_configuration_is_refused_by_its_differences(make, tmp_path):
    fill(tmp_path / "s", [make(0)])
    before = {name: (tmp_path / "s" / name).read_bytes() for name in names(tmp_path / "s")}
    for config, said in (
        ({**CONFIG, "temperature": 0.7}, "temperature=0.5 there, 0.7 here"),
        ({**CONFIG, "budget": {"agent_calls": 13}}, r"budget\.agent_calls=12 there, 13 here"),
        ({**CONFIG, "more": None}, "more=None only here"),
        ({"env": "Cellar"}, "budget=.* only there; temperature=0.5 only there"),
        ({**CONFIG, "temperature": {"$": 1}}, "temperature=0.5 there"),
    ):
        with pytest.raises(StoreError, match=said), open_store(tmp_path / "s", config):
            pytest.fail("entered")
    assert {name: (tmp_path / "s" / name).read_bytes() for name in names(tmp_path / "s")} == before
    fill(tmp_path / "s", [make(1)], config=dict(reversed(CONFIG.items())))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"schema": 2, "digest": "x", "config": {}}\n', "schema=2"),
        (b"not json}\n", "cannot be read"),
        (b'{"schema": 1}\n', "not the configuration of a store"),
        (b"[]\n", "not the configuration of a store"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_never_replaced_beside_records(make, tmp_path, content, said):
    fill(tmp_path / "s", [make(0)])
    (tmp_path / "s/config.json").write_bytes(content)
    with pytest.raises(RecordError, match=said), open_store(tmp_path / "s", CONFIG):
        pytest.fail("entered")
    assert (tmp_path / "s/config.json").read_bytes() == content


@pytest.mark.parametrize(
    ("schema", "said"), [(2, "a newer rir-gym wrote"), (0, "reads schema 1$"), ("1", "reads schema 1$")]
)
def test_an_old_or_future_schema_is_named(make, tmp_path, schema, said):
    fill(tmp_path / "s", [make(0)])
    with shard(tmp_path / "s", "none").open("a") as file:
        file.write(json.dumps({**make(1), "schema": schema}) + "\n")
    with pytest.raises(RecordError, match=said):
        seeds(tmp_path / "s")


def test_missing_zstandard_is_named(make, tmp_path, monkeypatch):
    pytest.importorskip("zstandard", reason="compressed records need zstandard")
    fill(tmp_path / "s", [make(0)], packing="zstd")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingDependency, match=r"rir-gym\[data\]"):
        seeds(tmp_path / "s", errors="skip")
    with pytest.raises(MissingDependency), open_store(tmp_path / "new", CONFIG, compression="zstd"):
        pytest.fail("entered")
    assert names(tmp_path) == ["s"]


# --- reading --------------------------------------------------------------------------------------------------------


def test_c11_a_bad_line_in_the_middle_of_a_hundred(make, tmp_path, packing):
    """99 of 100 are read, with the line number; the store counts the episode as missing and goes on."""
    fill(tmp_path / "s", map(make, range(100)), packing=packing)
    file = shard(tmp_path / "s", packing)
    lines = [pack(line.data, packing) for line in read_lines(file)]
    middle = bytearray(lines[41])
    middle[len(middle) // 2] ^= 0xFF
    file.write_bytes(b"".join([*lines[:41], bytes(middle), *lines[42:]]))
    with pytest.raises(RecordError, match=rf"{file.name}, line 42: "):
        seeds(tmp_path / "s")
    report = ReadReport()
    assert seeds(tmp_path / "s", errors="skip", report=report) == [*range(41), *range(42, 100)]
    assert (report.episodes, [bad.number for bad in report.bad]) == (99, [42])
    with open_store(tmp_path / "s", CONFIG, compression=packing) as store:
        assert not store.repairs
        assert "line 42" in store.faults[0]
        store.append(make(41))
    assert sorted(seeds(tmp_path / "s", errors="skip")) == list(range(100))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_of_compressed_records_costs_the_damaged_ones_alone(tmp_path_factory, data):
    pytest.importorskip("zstandard", reason="compressed records need zstandard")
    lines = [f"line {n} ".encode() * 40 + b"\n" for n in range(8)]
    frames = [pack(line, "zstd") for line in lines]
    whole = b"".join(frames)
    at = data.draw(st.integers(0, len(whole) - 1))
    junk = data.draw(st.binary(min_size=1, max_size=40))
    file = tmp_path_factory.mktemp("damage") / "episodes.jsonl.zst"
    damaged = whole[:at] + junk + whole[at + len(junk) :]
    file.write_bytes(damaged)
    ends = [sum(map(len, frames[: n + 1])) for n in range(8)]
    untouched = [n for n, end in enumerate(ends) if damaged[end - len(frames[n]) : end] == frames[n]]
    read = [line.data for line in read_lines(file) if not line.fault]
    # A bit that means nothing may be changed at no cost; everything else that was touched is not read.
    assert read == [line for n, line in enumerate(lines) if n in untouched or line in read]
    last = max((n for n, line in enumerate(lines) if line in read), default=-1)
    assert whole_bytes(file) == (ends[last] if last >= 0 else 0)


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("byte", range(18))
def test_no_bit_of_a_compressed_header_hides_the_frames_behind_it(tmp_path, byte, bit):
    pytest.importorskip("zstandard", reason="compressed records need zstandard")
    lines = [os.urandom(300).hex().encode() + b"\n" for _ in range(6)]
    frames = [bytearray(pack(line, "zstd")) for line in lines]
    frames[2][byte] ^= 1 << bit
    (tmp_path / "episodes.jsonl.zst").write_bytes(b"".join(frames))
    read = [line.data for line in read_lines(tmp_path / "episodes.jsonl.zst") if not line.fault]
    assert read in ([*lines[:2], *lines[3:]], lines)
    assert whole_bytes(tmp_path / "episodes.jsonl.zst") == sum(map(len, frames))


def test_records_that_another_tool_compressed_are_read(make, tmp_path):
    """One frame for the whole file, as the zstd command makes it."""
    zstandard = pytest.importorskip("zstandard", reason="compressed records need zstandard")
    lines = b"".join(json.dumps(make(seed)).encode() + b"\n" for seed in range(30))
    packed = zstandard.ZstdCompressor().compress(lines)
    (tmp_path / "episodes.jsonl.zst").write_bytes(packed)
    assert seeds(tmp_path) == list(range(30))
    (tmp_path / "episodes.jsonl.zst").write_bytes(packed[:-20])
    report = ReadReport()
    read = seeds(tmp_path, errors="skip", report=report)
    assert read == []  # nothing of it is proven
    assert report.bad[-1].torn


class Bomb:
    def __reduce__(self):
        return os._exit, (7,)


@pytest.mark.parametrize("name", ["data.pkl", "episodes.jsonl", "episodes.jsonl.zst"])
def test_pickles_are_never_opened(tmp_path, name):
    if name.endswith(".zst"):
        pytest.importorskip("zstandard", reason="compressed records need zstandard")
    (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(RecordError, match="line 1: "):
        list(read_episodes(tmp_path / name))
    if name == "data.pkl":
        with pytest.raises(UsageError, match=r"has no episodes\*"):
            read_episodes(tmp_path)


def test_an_empty_set_is_an_empty_set(tmp_path):
    (tmp_path / "episodes.jsonl").touch()
    assert seeds(tmp_path) == []
    with open_store(tmp_path / "s", CONFIG):
        pass
    with pytest.raises(UsageError, match="has no episodes"):
        seeds(tmp_path / "s")


def test_other_bad_arguments_of_reading(tmp_path, make):
    (tmp_path / "episodes.jsonl").touch()
    with pytest.raises(UsageError, match="errors='ignore': raise or skip"):
        read_episodes(tmp_path, errors="ignore")
    (tmp_path / "episodes.jsonl").unlink()
    (tmp_path / "episodes.jsonl").mkdir()
    with pytest.raises(RecordError, match="cannot be read"):
        seeds(tmp_path, errors="skip")
    with pytest.raises(UsageError, match="compression='gzip'"), open_store(tmp_path / "s", {}, compression="gzip"):
        pytest.fail("entered")


def test_a_store_is_read_while_it_is_written(make, tmp_path):
    with open_store(tmp_path / "s", CONFIG) as store:
        for seed in range(3):
            store.append(make(seed))
            assert seeds(tmp_path / "s") == list(range(seed + 1))


def test_a_record_is_not_changed_by_writing_it(make, tmp_path):
    record = make(0)
    before = copy.deepcopy(record)
    fill(tmp_path / "s", [record])
    assert record == before

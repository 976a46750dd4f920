"""Working directories: every byte, mode, time and link comes back, nothing else is touched, and failures undo."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib
import os
import random
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.files import blobs as blobs_module
from rir_gym.snapshot.files import stamps
from rir_gym.snapshot.files.blobs import Blobs
from rir_gym.snapshot.files.workdirs import Trees, Workdirs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="working directories need a POSIX system")


@pytest.fixture(scope="module")
def edits() -> Iterator[Any]:
    """The random edits and the independent look that the benchmark uses too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("directory_edits")


@pytest.fixture
def look(edits: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda root: edits.look(str(root))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a bit of everything that can be saved."""
    root = tmp_path / "world"
    (root / "deep" / "deeper").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "note").write_text("one")
    (root / "deep" / "same").write_text("one")
    (root / "deep" / "deeper" / "big").write_bytes(bytes(700_000) + b"end")
    (root / "out").symlink_to("/etc/hostname")
    os.link(root / "note", root / "deep" / "note too")
    (root / "deep" / "closed").write_text("secret")
    (root / "deep" / "closed").chmod(0o400)
    (root / "deep" / "deeper").chmod(0o555)
    return root


@pytest.fixture
def workdirs() -> Iterator[Workdirs]:
    made = Workdirs()
    yield made
    made.close()


def put(workdirs: Workdirs, trees: Trees) -> None:
    with workdirs.put(trees):
        pass


def spoil(root: Path) -> None:
    """A change of every kind."""
    (root / "note").write_text("two")
    (root / "deep" / "deeper").chmod(0o755)
    (root / "deep" / "deeper" / "big").unlink()
    shutil.rmtree(root / "empty")
    (root / "empty").write_text("a file now")
    (root / "new" / "inside").mkdir(parents=True)
    (root / "new" / "inside" / "x").write_text("x")
    (root / "out").unlink()
    (root / "out").symlink_to("elsewhere")
    (root / "deep" / "same").chmod(0o755)
    os.utime(root / "deep", ns=(5, 5))


# --- what comes back ------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(rng=st.randoms(use_true_random=False), steps=st.integers(1, 60))
def test_random_edits_and_restores_come_back_to_the_byte(edits: Any, rng: random.Random, steps: int) -> None:
    workdirs, kept = Workdirs(), list[tuple[Trees, Any]]()
    with tempfile.TemporaryDirectory() as place:
        root = os.path.join(place, "world")
        os.mkdir(root)
        for _ in range(steps):
            edits.edit(root, rng)
            if rng.random() < 0.4:
                kept.append((workdirs.save([root])[0], edits.look(root)))
            if kept and rng.random() < 0.3:
                trees, expected = rng.choice(kept)
                put(workdirs, trees)
                assert edits.look(root) == expected
        workdirs.close()


def test_only_what_changed_is_stored_or_touched(root: Path, workdirs: Workdirs) -> None:
    first, new = workdirs.save([str(root)])
    assert len(new) == len({blob.digest for blob in new}) + 1  # "one" is in two files, and stored once
    assert len(os.listdir(workdirs.blobs.folder)) == 3
    (root / "note").write_text("other")
    second, new = workdirs.save([str(root)])
    assert [blob.size for blob in new] == [5]
    assert second[str(root)].children["empty"] is first[str(root)].children["empty"]  # type: ignore[union-attr]
    untouched = {path: os.lstat(path).st_ctime_ns for path in root.rglob("*") if path.name != "note"}
    put(workdirs, {**second})
    put(workdirs, first)
    moved = {root / "deep", root / "deep" / "note too"}
    assert {path for path, ctime in untouched.items() if os.lstat(path).st_ctime_ns != ctime} == moved


def test_a_change_that_hides_behind_the_same_size_and_time_is_seen(root: Path, workdirs: Workdirs) -> None:
    note, seen = root / "note", set()
    for number in range(20):
        note.write_text(str(number % 10))
        os.utime(note, ns=(1, 1))
        [tree] = workdirs.save([str(root)])[0].values()
        blob = tree.children["note"].blob  # type: ignore[union-attr]
        assert Path(blob.path).read_text() == str(number % 10)
        seen.add(blob.digest)
    assert len(seen) == 10


def test_absent_directories_come_and_go(root: Path, workdirs: Workdirs, look: Any) -> None:
    other = root.parent / "later"
    expected = look(root)
    trees, _ = workdirs.save([str(root), str(other)])
    shutil.rmtree(root)
    other.mkdir()
    (other / "x").write_text("x")
    gone, _ = workdirs.save([str(root), str(other)])
    put(workdirs, trees)
    assert not other.exists()
    assert look(root) == expected
    put(workdirs, gone)
    assert not root.exists()
    assert (other / "x").read_text() == "x"


def test_deep_large_sparse_and_oddly_named_things(root: Path, workdirs: Workdirs, look: Any) -> None:
    deep = root.joinpath(*["d"] * 150)
    deep.mkdir(parents=True)
    (deep / ("n" * 255)).write_text("x")
    with open(root / "sparse", "wb") as file:
        file.truncate(50_000_000)
        file.seek(30_000_000)
        file.write(b"here")
    (root / "\udcff\n\t").write_text("not UTF-8")
    expected, [trees, _] = look(root), workdirs.save([str(root)])
    shutil.rmtree(root / "d")
    (root / "sparse").unlink()
    put(workdirs, trees)
    assert look(root) == expected
    assert os.stat(root / "sparse").st_blocks * 512 < 5_000_000
    deeper = root.joinpath(*["e"] * 230)
    deeper.mkdir(parents=True)
    with pytest.raises(SnapshotError, match="lies deeper than 200 folders"):
        workdirs.save([str(root)])
    put(workdirs, trees)
    assert look(root) == expected


# --- nothing else is touched ----------------------------------------------------------------------------------------


def test_links_to_the_outside_stay_links_and_what_they_lead_to_stays(root: Path, workdirs: Workdirs, look: Any) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "precious").write_text("gold")
    (root / "door").symlink_to(outside)
    os.link(outside / "precious", root / "shared")
    trees, _ = workdirs.save([str(root)])
    inside, before = look(root), look(outside)
    spoil(root)
    (root / "door").unlink()
    (root / "door").mkdir()
    os.chmod(root / "shared", 0o600)
    shutil.rmtree(root / "deep")
    (root / "deep").symlink_to(outside)  # a restore that went through it would write there
    (root / "note").unlink()
    (root / "note").symlink_to(outside / "precious")
    put(workdirs, trees)
    after = look(root)
    assert {**after, "shared": after["shared"][:-1], "": 0} == {**inside, "shared": inside["shared"][:-1], "": 0}
    (outside / "precious").chmod(0o644)
    assert {**look(outside), "": 0}["precious"][5] == before["precious"][5] == b"gold"


def test_a_shared_file_is_replaced_and_its_other_name_keeps_mode_and_time(
    root: Path, workdirs: Workdirs, look: Any
) -> None:
    outside = root.parent / "outside"
    outside.write_text("gold")
    os.link(outside, root / "shared")
    trees, _ = workdirs.save([str(root)])
    outside.chmod(0o600)
    os.utime(outside, ns=(7, 7))
    put(workdirs, trees)
    status = outside.stat()
    assert (status.st_mode & 0o777, status.st_mtime_ns, outside.read_text()) == (0o600, 7, "gold")
    assert (root / "shared").stat().st_mode & 0o777 == 0o644


def test_a_root_that_became_a_link_or_a_file_is_refused(root: Path, workdirs: Workdirs, look: Any) -> None:
    elsewhere = root.parent / "elsewhere"
    shutil.copytree(root, elsewhere, symlinks=True)
    trees, _ = workdirs.save([str(root)])
    before = look(elsewhere)
    shutil.rmtree(root)
    root.symlink_to(elsewhere)
    with pytest.raises(SnapshotError, match="cannot be opened as a folder"):
        workdirs.save([str(root)])
    with pytest.raises(SnapshotError, match="cannot be opened as a folder"):
        put(workdirs, trees)
    assert look(elsewhere) == before


@pytest.mark.parametrize("kind", ["pipe", "socket", "unreadable", "open"])
def test_what_cannot_be_saved_is_refused_by_its_path_and_left(
    root: Path, workdirs: Workdirs, look: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees, _ = workdirs.save([str(root)])
    before, stored, odd = look(root), workdirs.blobs.bytes_held, root / "deep" / "odd one"
    (root / "fresh").write_text("not yet stored")
    with tempfile.TemporaryDirectory() as near, socket.socket(socket.AF_UNIX) as server:
        if kind == "pipe":
            os.mkfifo(odd)
        elif kind == "socket":
            server.bind(f"{near}/s")  # a path that is short enough
            shutil.move(f"{near}/s", odd)
        else:
            odd.write_text("x")
        handle = open(odd, "a") if kind == "open" else None  # noqa: SIM115
        if kind == "unreadable":
            _unreadable(monkeypatch, odd.name)
        with pytest.raises(SnapshotError, match="deep/odd one"):
            workdirs.save([str(root)])
        assert workdirs.blobs.bytes_held == stored
        put(workdirs, trees)  # a restore gets rid of it
        if handle is not None:
            handle.close()
    monkeypatch.undo()
    assert look(root) == before


def _unreadable(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Also where everything can be read (root): opening it fails as it does for others."""
    real = os.open

    def refusing(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if path == name and not flags & getattr(os, "O_PATH", 0):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refusing)


def test_a_full_disk_refuses_the_checkpoint_and_undoes_the_restore(root: Path, look: Any) -> None:
    workdirs = Workdirs()
    trees, _ = workdirs.save([str(root)])
    spoil(root)
    before = look(root)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))  # no file can grow beyond this
    try:
        with pytest.raises(SnapshotError, match=r"cannot be put back: .*too large"):
            put(workdirs, trees)
        assert look(root) == before
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (root / "huge").write_bytes(bytes(range(256)) * 4000)
    before, stored = look(root), sorted(os.listdir(workdirs.blobs.folder))
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        with pytest.raises(SnapshotError, match="'huge' cannot be saved: File too large"):
            workdirs.save([str(root)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert look(root) == before
    assert sorted(os.listdir(workdirs.blobs.folder)) == stored
    workdirs.save([str(root)])
    put(workdirs, trees)
    workdirs.close()


CALLS = ("open", "mkdir", "rename", "symlink", "link", "pwrite", "ftruncate", "fchmod", "utime", "stat")


@pytest.mark.parametrize("call", CALLS)
def test_wherever_a_restore_fails_the_directory_is_as_it_was(
    root: Path, workdirs: Workdirs, look: Any, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees, _ = workdirs.save([str(root)])
    wanted, real, refused = look(root), getattr(os, call), list[str]()
    for number in range(1000):
        put(workdirs, trees)
        spoil(root)
        before, left = look(root), [number]

        def failing(*given: Any, left: list[int] = left, **more: Any) -> Any:
            left[0] -= 1
            if left[0] == -1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*given, **more)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing)
            try:
                with workdirs.put(trees):
                    reached, left[0] = left[0], -2  # what comes now is final
            except SnapshotError as error:
                refused.append(str(error))
                reached = None
        assert look(root) == (before if reached is None else wanted), (call, number)
        if reached is not None and reached >= 0:  # it did not come to failing
            break
    assert len(refused) >= number / 2  # a look that fails may be made up for
    assert [error for error in refused if "No space left" not in error] == []


def test_a_restore_that_is_interrupted_is_undone(root: Path, workdirs: Workdirs, look: Any) -> None:
    trees, _ = workdirs.save([str(root)])
    spoil(root)
    before = look(root)
    with pytest.raises(KeyboardInterrupt), workdirs.put(trees):
        raise KeyboardInterrupt
    assert look(root) == before


def test_damaged_or_missing_contents_are_noticed(root: Path, workdirs: Workdirs, look: Any) -> None:
    trees, new = workdirs.save([str(root)])
    spoil(root)
    before = look(root)
    one = next(blob for blob in new if blob.size == 3)
    os.chmod(one.path, 0o600)
    Path(one.path).write_text("ONE")
    with pytest.raises(SnapshotError, match="is not what was saved"):
        put(workdirs, trees)
    os.unlink(one.path)
    with pytest.raises(SnapshotError, match="is gone"):
        put(workdirs, trees)
    assert look(root) == before


# --- the private folder ---------------------------------------------------------------------------------------------


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for temporary files that nobody else uses."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def test_the_private_folder_goes_at_close_at_collection_and_at_exit(root: Path, private: Path) -> None:
    workdirs = Workdirs()
    workdirs.save([str(root)])
    assert len(os.listdir(private)) == 1
    assert os.stat(workdirs.blobs.folder).st_mode & 0o777 == 0o700
    descriptors = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    workdirs.close()
    assert os.listdir(private) == []
    if descriptors:
        assert len(os.listdir("/proc/self/fd")) == descriptors - 1
    workdirs.save([str(root)])  # can be used again
    del workdirs
    assert os.listdir(private) == []
    _run(root, "")
    assert os.listdir(private) == []


def test_a_killed_process_leaves_a_folder_that_the_next_one_removes(root: Path, private: Path) -> None:
    mine = Workdirs()
    mine.save([str(root)])
    _run(root, "os.kill(os.getpid(), 9)")
    assert len(os.listdir(private)) == 2
    _run(root, "")
    assert os.listdir(private) == [Path(mine.blobs.folder).name]  # that of a living process stays
    mine.close()


def test_a_forked_child_neither_removes_nor_writes_what_is_its_parents(root: Path) -> None:
    code = (
        "first = w.blobs.folder\nheld = sorted(os.listdir(first))\n"
        "if os.fork() == 0:\n"
        "    open(root + '/note', 'w').write('by the child')\n"
        "    trees, _ = w.save([root])\n"
        "    with w.put(trees): pass\n"
        "    assert w.blobs.folder != first\n"
        "    w.close()\n"
        "    sys.exit(0)\n"
        "assert os.wait()[1] == 0\n"
        "assert w.blobs.folder == first and sorted(os.listdir(first)) == held\n"
    )
    _run(root, code)


def _run(root: Path, then: str) -> None:
    code = (
        "import os, sys\nfrom rir_gym.snapshot.files.workdirs import Workdirs\n"
        f"root = {str(root)!r}\nw = Workdirs()\nw.save([root])\n{then}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, -9), done.stderr


def test_stale_folders_are_told_by_process_and_lock(tmp_path: Path) -> None:
    pid, start = os.getpid(), blobs_module._start_of(os.getpid())
    for name in (f"rir-gym-files-{pid}-0-reused", "rir-gym-files-999999999-5-dead", "rir-gym-files-x-y", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / f"rir-gym-files-{pid}-{start}-mine").mkdir()
    (tmp_path / "rir-gym-files-999999998-5-link").symlink_to(tmp_path / "other")
    blobs_module._remove_stale.__wrapped__(str(tmp_path), 1)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"rir-gym-files-{pid}-{start}-mine", "rir-gym-files-x-y", "rir-gym-files-999999998-5-link", "other"}


def test_contents_are_kept_once_and_only_while_they_are_needed(tmp_path: Path) -> None:
    store, path = Blobs(), tmp_path / "file"
    path.write_text("same")
    with open(path) as file:
        one, two = store.put(file.fileno()), store.put(file.fileno())
        assert one is two is store.find(file.fileno())
    assert (store.bytes_held, len(os.listdir(store.folder))) == (4, 1)
    del one, two
    assert (store.bytes_held, os.listdir(store.folder)) == (0, [])
    store.close()


def test_reading_again_costs_no_reading_of_contents(root: Path, workdirs: Workdirs, monkeypatch: Any) -> None:
    workdirs.save([str(root)])
    time.sleep(0.15)  # after this no change can hide
    workdirs.save([str(root)])
    monkeypatch.setattr(os, "pread", lambda *_: pytest.fail("read"))
    workdirs.save([str(root)])


def test_where_the_file_system_shares_blocks_nothing_is_copied(
    root: Path, workdirs: Workdirs, look: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system call is played by a copy; what follows from its success is real."""
    cloned: list[tuple[int, int]] = []

    def ioctl(out: int, request: int, source: int) -> int:
        assert request == 0x40049409
        cloned.append((os.fstat(source).st_size, os.sendfile(out, source, 0, os.fstat(source).st_size)))
        return 0

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    monkeypatch.setattr(os, "pwrite", lambda *_: pytest.fail("copied"))
    trees, new = workdirs.save([str(root)])
    before = look(root)
    assert {blob.digest for blob in new} == {
        hashlib.blake2b(path.read_bytes(), digest_size=32).digest()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    spoil(root)
    put(workdirs, trees)
    assert look(root) == before
    assert all(size == sent for size, sent in cloned)
    assert len(cloned) > 4


# --- how finely a file system stamps ----------------------------------------------------------------------------------


def test_changes_within_one_tick_are_seen_whatever_they_leave_equal(tmp_path: Path) -> None:
    places = [tmp_path, *([Path("/dev/shm")] if os.access("/dev/shm", os.W_OK) else [])]
    for place in places:
        workdirs = Workdirs()
        with tempfile.TemporaryDirectory(dir=place) as folder:
            file = os.path.join(folder, "file")
            Path(file).write_bytes(b"0000")
            for number in range(400):
                with open(file, "r+b", buffering=0) as out:
                    out.write(b"%04d" % number)
                os.utime(file, ns=(7, 7))
                if number % 10 == 0:
                    time.sleep(0.001 * (number % 30))  # looks fall before, into and behind the tick of a change
                [tree] = workdirs.save([folder])[0].values()
                assert Path(tree.children["file"].blob.path).read_bytes() == b"%04d" % number  # type: ignore[union-attr]
        workdirs.close()


def test_only_file_systems_on_the_kernels_clock_are_trusted_with_a_short_tick() -> None:
    mounts = "\n".join(
        f"{number} 1 {device} / /{kind} rw - {kind} none rw"
        for number, (device, kind) in enumerate([("8:1", "ext4"), ("0:30", "tmpfs"), ("0:31", "nfs4"), ("0:32", "9p")])
    )
    short, long = stamps.tick_ns(mounts, os.makedev(8, 1)), stamps.tick_ns(mounts, os.makedev(0, 31))
    assert 10_000_000 < short < long  # a kernel's tick is at most 10 ms
    assert stamps.tick_ns(mounts, os.makedev(0, 30)) == short
    for device in (os.makedev(0, 32), os.makedev(0, 33)):  # a foreign driver, and one that is not listed
        assert stamps.tick_ns(mounts, device) == long
    assert stamps.tick_ns("", os.makedev(8, 1)) == long
    here = os.stat("/")
    assert stamps.resolution_ns(here.st_dev, here.st_ino, 5_000_000_000) > 2_000_000_000  # stamps of whole seconds

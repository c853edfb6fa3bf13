from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import vectorized_ops
from vectorized_ops.numba.compiling import cache_folder
from vectorized_ops.numba.compiling.cache_folder import UNUSED_SECONDS, CacheFolder, UntrustedError

ROOT = Path(vectorized_ops.__file__).parents[2]
OWNER = """
import sys
from pathlib import Path
from vectorized_ops.numba.compiling.cache_folder import CacheFolder
folder = CacheFolder(Path(sys.argv[1]))
print(folder.lock(sys.argv[2]), flush=True)
sys.stdin.readline()
folder.unlock(sys.argv[2])
print("unlocked", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path: Path) -> CacheFolder:
    return CacheFolder(tmp_path / "base" / ("0" * 16))


@contextmanager
def owner(folder: CacheFolder, name: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has locked an entry; a line makes it unlock, another one end."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, folder.path, name],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "True\n"
            yield process
        finally:
            process.kill()


def names(folder: CacheFolder) -> list[str]:
    return sorted(path.name for path in folder.path.iterdir())


def entry(folder: CacheFolder, name: str) -> Path:
    return folder.path / f"{name}.kernel"


def test_what_was_written_is_read(folder: CacheFolder) -> None:
    assert folder.read("a") is None
    folder.write("a", b"one")
    folder.write("b", b"")
    assert (folder.read("a"), folder.read("b"), folder.read("c")) == (b"one", b"", None)
    folder.write("a", b"two")
    assert (folder.read("a"), folder.read_anew("a")) == (b"two", b"two")
    assert len(list(folder.path.iterdir())) == 2


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 100], ids=["empty", "torn", "zeros"])
def test_spoilt_entries_are_as_none_and_can_be_replaced(
    folder: CacheFolder, content: bytes
) -> None:
    folder.write("a", b"one")
    entry(folder, "a").write_bytes(content)
    assert folder.read("a") is None
    assert folder.read_anew("a") is None
    folder.write("a", b"two")
    assert folder.read("a") == b"two"


def test_what_is_wrong_with_entries_is_told(folder: CacheFolder) -> None:
    for name in "abc":
        folder.write(name, b"one")
    entry(folder, "a").write_bytes(b"short")
    entry(folder, "b").chmod(0o666)
    faults = folder.faults()
    assert sorted(faults) == ["a", "b"]
    assert faults["a"] == "damaged, by its checksum"
    assert "may be written by others" in faults["b"]


def test_every_part_of_an_entry_is_checked(folder: CacheFolder) -> None:
    folder.write("a", b"content")
    whole = entry(folder, "a").read_bytes()
    for length in range(len(whole)):
        entry(folder, "a").write_bytes(whole[:length])
        assert folder.read("a") is None
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        entry(folder, "a").write_bytes(changed)
        assert folder.read("a") is None


def test_a_reader_gets_a_whole_entry_while_others_write(folder: CacheFolder) -> None:
    contents = [bytes([number]) * 100_000 for number in range(3)]
    folder.write("a", contents[0])

    def write(content: bytes) -> None:
        for _ in range(30):
            folder.write("a", content)

    writers = [threading.Thread(target=write, args=[content]) for content in contents]
    for writer in writers:
        writer.start()
    reads = 0
    while any(writer.is_alive() for writer in writers):
        assert folder.read("a") in contents
        reads += 1
    assert reads > 0
    assert names(folder) == ["a.kernel"]


def test_a_failed_write_leaves_nothing(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=r"No space left.*a\.kernel"):
        folder.write("a", b"one")
    assert names(folder) == []


@pytest.mark.slow
def test_one_process_has_the_lock_until_it_lets_go(folder: CacheFolder) -> None:
    with owner(folder, "a") as process:
        assert not folder.lock("a")
        assert folder.lock("b")
        folder.unlock("b")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "unlocked\n"
        assert folder.lock("a")


def test_a_dead_process_has_no_lock(folder: CacheFolder) -> None:
    with owner(folder, "a") as process:
        assert not folder.lock("a")
        process.kill()
        process.wait()
        assert folder.lock("a")


def test_a_file_system_without_locks_says_so(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", none)
    with pytest.raises(OSError, match="No locks available"):
        folder.lock("a")


def test_folders_of_other_kernels_go_when_nobody_has_used_them_for_long(
    folder: CacheFolder,
) -> None:
    base = folder.path.parent
    now = time.time()
    for name, age in {"1" * 16: 2, "2" * 16: 0.5, "other": 2, "3" * 15: 2, "0" * 16: 2}.items():
        neighbour = CacheFolder(base / name)
        assert neighbour.lock("a")
        neighbour.write("a", b"one")
        (neighbour.path / "inner").mkdir()
        (neighbour.path / "inner" / "file").write_text("")
        then = now - age * UNUSED_SECONDS
        os.utime(neighbour.path / "locks", (then, then))
    foreign = base / ("4" * 16)
    foreign.mkdir()
    os.utime(foreign, (1.0, 1.0))
    folder.remove_unused(now)
    left = {"0" * 16, "2" * 16, "3" * 15, "4" * 16, "other"}
    assert {path.name for path in base.iterdir()} == left
    assert folder.read("a") == b"one"


def test_what_killed_processes_left_goes_after_long(folder: CacheFolder) -> None:
    folder.write("a", b"one")
    old, new = (folder.path / f"{name}.partial" for name in ("old", "new"))
    for partial in (old, new):
        partial.write_bytes(b"")
    os.utime(old, (1.0, 1.0))
    folder.remove_unused(time.time())
    assert names(folder) == ["a.kernel", "new.partial"]


def age(path: Path, seconds: float, now: float) -> None:
    os.utime(path, (now - seconds, now - seconds))


def test_entries_go_when_nobody_has_used_them_for_long(folder: CacheFolder) -> None:
    now = time.time()
    for name, part in {"old": 1.1, "young": 0.9, "read": 1.1}.items():
        folder.write(name, b"one")
        age(folder.path / f"{name}.kernel", part * UNUSED_SECONDS, now)
    assert CacheFolder(folder.path).read("read") == b"one"
    folder.remove_unused(now)
    assert names(folder) == ["read.kernel", "young.kernel"]


def test_files_in_folders_of_it_go_when_nobody_has_used_them_for_long(folder: CacheFolder) -> None:
    now = time.time()
    folder.make()
    inner = folder.path / "inner"
    inner.mkdir()
    for name, part in {"old": 1.1, "young": 0.9, "used": 1.1}.items():
        folder.put(inner / name, b"one")
        age(inner / name, part * UNUSED_SECONDS, now)
    cache_folder.touch(inner / "used")
    folder.remove_unused(now)
    assert sorted(path.name for path in inner.iterdir()) == ["used", "young"]


def test_of_too_many_bytes_those_go_that_were_not_used_for_longest(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    for number, name in enumerate("abcd"):
        folder.write(name, bytes(1000))
        age(folder.path / f"{name}.kernel", 3600.0 * (number % 3), now)
    monkeypatch.setattr(cache_folder, "MOST_BYTES", 3200)
    folder.remove_unused(now)
    assert names(folder) == ["a.kernel", "b.kernel", "d.kernel"]


def test_what_another_user_keeps_cannot_be_removed_and_nobody_minds(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    folder.write("a", b"one")
    age(folder.path / "a.kernel", 2 * UNUSED_SECONDS, time.time())
    monkeypatch.setattr(Path, "unlink", refused)
    folder.remove_unused(time.time())
    assert folder.read("a") == b"one"


def test_reading_counts_as_use(folder: CacheFolder) -> None:
    assert folder.lock("a")
    folder.write("a", b"one")
    locks = folder.path / "locks"
    os.utime(locks, (1.0, 1.0))
    assert CacheFolder(folder.path).read("b") is None
    assert locks.stat().st_mtime == 1.0
    assert CacheFolder(folder.path).read("a") == b"one"
    assert locks.stat().st_mtime > 1.0


def test_a_process_whose_folder_was_removed_goes_on(folder: CacheFolder) -> None:
    assert folder.lock("a")
    folder.write("a", b"one")
    os.utime(folder.path / "locks", (1.0, 1.0))
    CacheFolder(folder.path.with_name("1" * 16)).remove_unused(time.time())
    assert not folder.path.exists()
    assert folder.read("a") is None
    with pytest.raises(FileNotFoundError):
        folder.read_anew("a")
    folder.write("b", b"two")
    folder.unlock("a")
    assert folder.read("b") == b"two"


@pytest.fixture
def shared(folder: CacheFolder) -> CacheFolder:
    """The same folder, for one who has named it."""
    return CacheFolder(folder.path, is_shared=True)


def modes(folder: CacheFolder) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in folder.path.iterdir()}


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022])
def test_what_is_kept_is_for_its_user_alone_whatever_the_umask(
    folder: CacheFolder, umask: int
) -> None:
    before = os.umask(umask)
    try:
        assert folder.lock("a")
        folder.write("a", b"one")
        assert folder.read_anew("b") is None
    finally:
        os.umask(before)
    assert (folder.path.stat().st_mode, folder.path.parent.stat().st_mode) == (0o40700, 0o40700)
    assert modes(folder) == {0o600}


@pytest.mark.parametrize("umask", [0o000, 0o002])
def test_in_a_shared_folder_a_group_may_read_and_write(shared: CacheFolder, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert shared.lock("a")
        shared.write("a", b"one")
    finally:
        os.umask(before)
    assert shared.path.stat().st_mode & 0o777 == 0o775
    assert modes(shared) == {0o664}
    assert shared.read("a") == b"one"


@pytest.mark.parametrize("what", ["entry", "folder", "above"])
@pytest.mark.parametrize("mode", [0o757, 0o777])
def test_what_everybody_may_write_is_refused_by_name(
    folder: CacheFolder, shared: CacheFolder, what: str, mode: int
) -> None:
    folder.write("a", b"one")
    places = {"entry": entry(folder, "a"), "folder": folder.path, "above": folder.path.parent}
    places[what].chmod(mode)
    for each in (folder, shared):
        assert each.read("a") is None
        with pytest.raises(UntrustedError, match=rf"{places[what]} may be written by others"):
            each.read_anew("a")
    places[what].chmod(0o755)
    assert (folder.read("a"), shared.read("a")) == (b"one", b"one")


@pytest.mark.parametrize("what", ["folder", "above"])
def test_nothing_is_put_into_a_folder_that_everybody_may_write(
    folder: CacheFolder, what: str
) -> None:
    folder.make()
    (folder.path if what == "folder" else folder.path.parent).chmod(0o1777)
    with pytest.raises(UntrustedError, match=r"mode 1777.*name a folder of your own in it"):
        folder.lock("a")
    with pytest.raises(UntrustedError):
        folder.write("a", b"one")
    with pytest.raises(UntrustedError):
        folder.check()
    assert names(folder) == []


@pytest.mark.parametrize("what", ["entry", "folder"])
def test_what_a_group_may_write_is_trusted_in_a_shared_folder_alone(
    folder: CacheFolder, shared: CacheFolder, what: str
) -> None:
    folder.write("a", b"one")
    (entry(folder, "a") if what == "entry" else folder.path).chmod(0o770)
    assert (folder.read("a"), shared.read("a")) == (None, b"one")
    with pytest.raises(UntrustedError):
        folder.read_anew("a")


@pytest.mark.parametrize("what", ["entry", "folder", "above"])
def test_what_belongs_to_another_user_is_trusted_in_a_shared_folder_alone(
    folder: CacheFolder, shared: CacheFolder, what: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    folder.write("a", b"one")
    places = {"entry": entry(folder, "a"), "folder": folder.path, "above": folder.path.parent}
    os.chown(places[what], 12345, 12345)
    assert (folder.read("a"), shared.read("a")) == (None, b"one")
    with pytest.raises(UntrustedError, match=f"{places[what]} belongs to user 12345: expected"):
        folder.read_anew("a")


@pytest.mark.parametrize("lacks", ["the folder", "the folder above, too"])
def test_nothing_is_made_in_a_folder_of_another_user(folder: CacheFolder, lacks: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    above = folder.path.parent
    above.mkdir()
    theirs = above if lacks == "the folder" else above.parent
    if theirs != above:
        above.rmdir()
    os.chown(theirs, 12345, 12345)
    with pytest.raises(UntrustedError, match=f"{theirs} belongs to user 12345: expected root,"):
        folder.make()
    assert list(theirs.iterdir()) == []


def test_group_is_shut_out_of_the_folder_above_that_an_earlier_version_has_made(
    folder: CacheFolder, shared: CacheFolder
) -> None:
    folder.make()
    folder.path.parent.chmod(0o775)
    shared.write("a", b"one")
    assert folder.path.parent.stat().st_mode & 0o777 == 0o775
    folder.write("a", b"two")
    assert folder.path.parent.stat().st_mode & 0o777 == 0o755
    assert folder.read("a") == b"two"


def test_entry_that_is_no_file_of_the_folder_is_none(folder: CacheFolder, tmp_path: Path) -> None:
    folder.write("a", b"one")
    entry(folder, "a").rename(tmp_path / "elsewhere")
    entry(folder, "a").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(entry(folder, "b"), 0o600)
    assert (folder.read("a"), folder.read("b")) == (None, None)
    folder.write("a", b"two")
    assert folder.read("a") == b"two"

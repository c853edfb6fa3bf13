from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import lmdb
import pytest

from knltrain.data.readers.lmdb_files import Environment, environment
from knltrain.errors import DataError

from .written import write_lmdb


def opened(path: Path) -> Environment:
    return environment(str(path.resolve()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_lmdb(tmp_path / "db", [b"%05d" % number * 1000 for number in range(20)])
    return tmp_path / "db"


def test_an_environment_is_opened_once_in_a_process_and_read_by_threads(path: Path) -> None:
    found_once = opened(path)
    assert opened(path / "../db") is found_once
    assert found_once.get(b"none") is None
    found: list[bytes] = []

    def read() -> None:
        found.append(bytes(found_once.get(b"00000003_x")[:5]))

    threads = [Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [b"00003"] * 3


def test_a_process_after_a_fork_opens_it_anew(path: Path) -> None:
    before = opened(path)
    assert before.get(b"00000001_x")[:5] == b"00001"
    pid = os.fork()
    if not pid:
        try:
            anew = opened(path)
            good = anew is not before and anew.get(b"00000002_x")[:5] == b"00002"
            os._exit(0 if good else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert before.get(b"00000004_x")[:5] == b"00004"


def test_a_truncated_file_is_refused_before_it_is_read(path: Path) -> None:
    """Reading beyond its end would kill the process."""
    file = path / "data.mdb"
    whole = file.stat().st_size
    for size in (whole - 4096, 3 * 4096, 2 * 4096 + 7):
        os.truncate(file, size)
        with pytest.raises(DataError, match=rf"data\.mdb: truncated: it has {size:,} bytes, and"):
            opened(path)
    os.truncate(file, 100)
    with pytest.raises(DataError, match=r"db: this LMDB cannot be read .*NFS or Lustre"):
        opened(path)


def test_what_is_no_lmdb_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"x" * 10_000)
    for path in (tmp_path, tmp_path / "data.mdb", tmp_path / "none"):
        with pytest.raises(DataError, match="this LMDB cannot be read"):
            opened(path)


def test_it_takes_a_file_without_a_folder(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path / "db"), subdir=False) as made, made.begin(write=True) as put:
        put.put(b"a", b"1")
    assert opened(tmp_path / "db").get(b"a") == b"1"


@pytest.mark.parametrize("name", ["db", "db/data.mdb"])
def test_it_is_read_without_locks_and_nothing_is_written_beside_it(path: Path, name: str) -> None:
    """As on NFS, where locks may not work, and in folders that only others may write."""
    (path / "lock.mdb").unlink()
    before = (path / "data.mdb").stat()
    path.chmod(0o500)
    found = opened(path.parent / name)
    assert found.get(b"00000001_x")[:5] == b"00001"
    assert [each.name for each in path.iterdir()] == ["data.mdb"]
    after = (path / "data.mdb").stat()
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)
    file = f":{before.st_ino} "
    assert not any(file in line for line in Path("/proc/locks").read_text().splitlines())
    with pytest.raises(lmdb.ReadonlyError):
        found.lmdb.begin(write=True)
    path.chmod(0o700)

"""Files are written whole or not at all, and nothing is left of an attempt."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

import pytest

from knltrain.files import durable
from knltrain.files.durable import PatientFile, reason_of, sync, write_whole


def test_text_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for text in ("one", "zwei ü"):
        write_whole(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


def test_failed_write_leaves_what_was_there_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    write_whole(path, "one")

    def full(_path: Path) -> NoReturn:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(durable, "sync", full)
    with pytest.raises(OSError, match="quota"):
        write_whole(path, "two")
    assert path.read_text() == "one"
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


def test_file_and_folder_are_seen_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(durable, "sync", lambda path: seen.append(path.name))
    write_whole(tmp_path / "plan.json", "one")
    assert seen == ["plan.json.partial", tmp_path.name]


def test_reason_is_the_system_s_where_there_is_one() -> None:
    assert reason_of(OSError(errno.ENOSPC, "No space left on device", "a")) == (
        "No space left on device"
    )
    assert reason_of(ValueError("odd")) == "odd"


@pytest.mark.parametrize(("error", "raised"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_file_systems_without_a_way_to_sync_folders_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, raised: bool
) -> None:
    def refuse(_descriptor: int) -> NoReturn:
        raise OSError(error, "refused")

    monkeypatch.setattr(durable.os, "fsync", refuse)
    with pytest.raises(OSError, match="refused") if raised else nullcontext():
        sync(tmp_path)


Disk = Callable[[int | None, int], None]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """disk(room, error): from now on so many bytes can be written, then there is this error."""
    write = os.write
    left: list[int | None] = [None]
    number = [errno.ENOSPC]

    def limited(fd: int, content: bytes) -> int:
        if left[0] is None:
            return write(fd, content)
        if left[0] == 0:
            raise OSError(number[0], os.strerror(number[0]))
        written = write(fd, bytes(content[: left[0]]))
        left[0] -= written
        return written

    def become(room: int | None, error: int = errno.ENOSPC) -> None:
        left[0], number[0] = room, error

    monkeypatch.setattr(durable.os, "write", limited)
    monkeypatch.setattr(durable, "RETRY_SECONDS", 0.0)
    return become


@pytest.fixture
def file(tmp_path: Path) -> PatientFile:
    return PatientFile(tmp_path / "log")


def test_records_are_in_the_file_at_once(file: PatientFile) -> None:
    file.append(b"one\n", 1)
    assert (file.path.read_bytes(), file.lacks) == (b"one\n", "")
    file.close()
    file.close()


@pytest.mark.parametrize(
    "error", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.EACCES]
)
def test_what_does_not_fit_is_told_and_comes_later(
    file: PatientFile, disk: Disk, error: int
) -> None:
    disk(6, error)
    for step in (1, 2, 3):
        file.append(f"step {step}\n".encode(), step)
    assert file.path.read_bytes() == b"step 1"
    assert "since step 1 waits" in file.lacks
    assert os.strerror(error) in file.lacks
    disk(None, error)
    file.append(b"step 4\n", 4)
    assert file.path.read_bytes() == b"step 1\nstep 2\nstep 3\nstep 4\n"
    assert file.lacks == ""
    file.close()


def test_next_try_is_not_at_once(
    file: PatientFile, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "RETRY_SECONDS", 3600.0)
    disk(0, errno.ENOSPC)
    file.append(b"one\n", 1)
    disk(None, errno.ENOSPC)
    file.append(b"two\n", 2)
    assert file.lacks
    file.write_out()
    assert (file.path.read_bytes(), file.lacks) == (b"one\ntwo\n", "")
    file.close()


def test_what_exceeds_the_memory_for_it_is_lost_and_stays_told(
    file: PatientFile, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "MOST_WAITING_BYTES", 10)
    disk(0, errno.ENOSPC)
    for step in (7, 8, 9):
        file.append(b"12345\n", step)
    disk(None, errno.ENOSPC)
    file.append(b"1\n", 10)
    assert file.path.read_bytes() == b"12345\n1\n"
    assert file.lacks == "what was recorded since step 7 is missing"
    file.close()


@pytest.mark.parametrize("removed_after", [(1,), (1, 3)])
def test_file_begins_anew_where_it_was_removed_and_what_was_before_is_told(
    file: PatientFile, removed_after: tuple[int, ...]
) -> None:
    for step in (1, 2, 3, 4, 5):
        file.append(f"{step}\n".encode(), step)
        if step in removed_after:
            file.path.unlink()
    first = removed_after[-1] + 1
    assert file.lacks == f"what was recorded before step {first} is missing (the file was removed)"
    file.close()
    assert file.path.read_text().split() == [str(step) for step in range(first, 6)]


def test_removed_file_is_told_where_nothing_follows_and_where_more_was_lost(
    file: PatientFile, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "MOST_WAITING_BYTES", 10)
    disk(0)
    for step in (7, 8):
        file.append(b"12345\n", step)
    disk(None)
    file.append(b"1\n", 9)
    file.path.unlink()
    file.write_out()
    assert file.lacks.startswith("what was recorded before step 10 is missing (the file was rem")
    assert file.lacks.endswith("; what was recorded since step 7 is missing")
    file.close()


def test_removed_folder_and_missing_permission_are_told(tmp_path: Path) -> None:
    file = PatientFile(tmp_path / "gone" / "log")
    file.append(b"one\n", 1)
    assert "No such file or directory" in file.lacks
    file.close()


def test_what_the_disk_loses_in_the_end_is_told(
    file: PatientFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.append(b"one\n", 1)

    def broken(_fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(durable.os, "fsync", broken)
    file.close()
    assert "is missing (Input/output error)" in file.lacks

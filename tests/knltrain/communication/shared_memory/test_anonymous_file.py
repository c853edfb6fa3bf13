"""x"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from knltrain.communication.shared_memory import anonymous_file
from knltrain.errors import SegmentError


@pytest.mark.parametrize("kind", ["shm", "memfd"])
def test_file_has_no_name_no_memory_yet_and_the_size_asked_for(
    kind: anonymous_file.FileKind, tmp_path: Path
) -> None:
    fd = anonymous_file.create(kind, tmp_path, 10_000)
    status = os.fstat(fd)
    os.close(fd)
    assert (status.st_nlink, status.st_size, status.st_blocks) == (0, 10_000, 0)
    assert list(tmp_path.iterdir()) == []


def test_reserved_part_holds_memory_and_is_zero() -> None:
    fd = anonymous_file.create("memfd", Path("/dev/shm"), 40_000)
    anonymous_file.reserve(fd, 0, 8192)
    assert os.fstat(fd).st_blocks * 512 == 8192
    assert os.pread(fd, 8192, 0) == bytes(8192)
    os.close(fd)


def test_full_file_system_is_refused_with_figures_and_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=3, f_frsize=4096))
    with pytest.raises(SegmentError) as refused:
        anonymous_file.create("shm", tmp_path, 20_000)
    text = str(refused.value)
    assert "need 20000 bytes" in text
    assert f"{tmp_path} has 12288 bytes free" in text
    assert "enlarge it" in text
    assert 'exchange.segment = "memfd"' in text


def test_more_than_the_machines_memory_is_refused() -> None:
    with pytest.raises(SegmentError, match=r"need 1\d* bytes .* memory has \d+ bytes free"):
        anonymous_file.create("memfd", Path("/dev/shm"), 10**15)


def test_missing_folder_is_refused_with_way_out(tmp_path: Path) -> None:
    with pytest.raises(SegmentError, match=r"No such file or directory; .*memfd"):
        anonymous_file.create("shm", tmp_path / "absent", 100)


def test_file_system_without_unnamed_files_is_refused() -> None:
    with pytest.raises(SegmentError, match="no shared memory of kind 'shm' in /proc"):
        anonymous_file.create("shm", Path("/proc"), 0)


def test_memory_that_cannot_be_reserved_is_told(tmp_path: Path) -> None:
    file = tmp_path / "read-only"
    file.write_bytes(bytes(10))
    fd = os.open(file, os.O_RDONLY)
    with pytest.raises(SegmentError, match="cannot reserve 4096 bytes"):
        anonymous_file.reserve(fd, 0, 4096)
    os.close(fd)

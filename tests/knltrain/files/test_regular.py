"""FIFOs and devices are refused where files are to be there whole, at once and not after a wait."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from knltrain.files import regular as module
from knltrain.files.regular import content_of, regular


def test_files_and_folders_are_regular(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert regular(tmp_path / "file").read_bytes() == content_of(tmp_path / "file") == b"content"
    assert regular(tmp_path) == tmp_path


def test_fifos_devices_and_missing_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(OSError, match="it is a FIFO, a socket or a device"):
            regular(path)
    with pytest.raises(FileNotFoundError):
        regular(tmp_path / "none")
    with pytest.raises(OSError, match="it is a device, no regular file"):
        content_of(Path("/dev/zero"))
    with pytest.raises(IsADirectoryError):
        content_of(tmp_path)


def test_a_fifo_without_a_writer_is_empty_and_a_pipe_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert content_of(tmp_path / "fifo") == b""
    reading, writing = os.pipe()
    try:
        os.write(writing, b"by a program")
        os.close(writing)
        assert content_of(Path(f"/dev/fd/{reading}")) == b"by a program"
    finally:
        os.close(reading)


def test_a_huge_file_is_refused_by_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 9)
    (tmp_path / "nine").write_bytes(b"123456789")
    (tmp_path / "ten").write_bytes(b"1234567890")
    assert len(content_of(tmp_path / "nine")) == 9
    with pytest.raises(OSError, match="it has 10 bytes, more than 9"):
        content_of(tmp_path / "ten")

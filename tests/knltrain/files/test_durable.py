"""Files are written whole or not at all, and nothing is left of an attempt."""

from __future__ import annotations

import errno
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

import pytest

from knltrain.files import durable
from knltrain.files.durable import reason_of, sync, write_whole


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

"""An index is there for the next start, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.data.readers.index import index_folder, load_index, save_index

ARRAYS = {"sizes": np.arange(100), "names_content": np.frombuffer(b"abc", np.uint8)}


def test_what_was_kept_comes_back_by_its_key_alone() -> None:
    save_index("folder a", ARRAYS)
    found = load_index("folder a")
    assert found is not None
    assert {name: array.tolist() for name, array in found.items()} == {
        name: array.tolist() for name, array in ARRAYS.items()
    }
    assert load_index("folder b") is None


def test_damaged_indexes_count_as_none(home: Path) -> None:
    save_index("key", ARRAYS)
    (file,) = (home / ".cache/knltrain/indexes").iterdir()
    content = file.read_bytes()
    damaged = content[:300] + b"\xff\xff" + content[302:]
    for wrong in (content[:-10], content[: len(content) // 2], b"", damaged):
        file.write_bytes(wrong)
        assert load_index("key") is None
    save_index("key", ARRAYS)
    assert load_index("key") is not None


def test_an_index_is_the_users_alone_and_nothing_lies_beside_it(home: Path) -> None:
    save_index("key", ARRAYS)
    folder = home / ".cache/knltrain/indexes"
    assert folder.stat().st_mode & 0o077 == 0
    assert [path.suffix for path in folder.iterdir()] == [".npz"]


def test_a_folder_that_cannot_be_written_is_none(home: Path) -> None:
    (home / ".cache").write_text("a file")
    save_index("key", ARRAYS)
    assert load_index("key") is None


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_self: Path) -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "expanduser", none)
    assert index_folder() is None
    save_index("key", ARRAYS)
    assert load_index("key") is None

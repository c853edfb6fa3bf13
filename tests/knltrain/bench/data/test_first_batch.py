from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.bench.data import first_batch
from knltrain.bench.data.first_batch import run_first_batch_benchmark
from knltrain.errors import KnltrainError


@pytest.mark.slow
def test_processes_begin_with_an_index_and_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    indexes: list[int] = []
    seconds = first_batch._seconds

    def seen(root: Path, home: Path) -> float:
        indexes.append(len(list(home.glob(".cache/knltrain/indexes/*"))))
        return seconds(root, home)

    monkeypatch.setattr(first_batch, "_seconds", seen)
    found = run_first_batch_benchmark(512, 2)
    assert (found["files"], found["images"]) == (512, 256)
    assert found["with_index"] > 0 and found["without_index"] > 0
    assert indexes[0] == 0
    assert [bool(each) for each in indexes[1:]] == [True, False] * 2


def test_a_process_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(KnltrainError, match=r"first batch of .*nowhere failed: .*is not there"):
        first_batch._seconds(tmp_path / "nowhere", tmp_path)

"""Pictures that lie in other sources are those of the others, whatever is asked of them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from knltrain.data.derived import Selection
from knltrain.data.readers.packed import load_packed
from knltrain.data.readers.parts import joined
from knltrain.data.relabelled import with_classes_of
from knltrain.data.source import ImageSource

from .packed import encoded_halves, packed, raw_halves
from .readers.test_tar import halves as tar_halves
from .readers.test_tar import shard

Parts = list[tuple[Path, int, int]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Parts:
    """Parts of files that the kernel is asked to read."""
    found: Parts = []

    def advise(descriptor: int, begin: int, size: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_WILLNEED
        found.append((Path(f"/proc/self/fd/{descriptor}").readlink(), begin, size))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    return found


def _bytes_of(parts: Parts) -> bytes:
    return b"".join(path.read_bytes()[begin : begin + size] for path, begin, size in parts)


def test_encoded_bytes_are_those_of_the_other_source(tmp_path: Path) -> None:
    train = encoded_halves(tmp_path).train
    for found in (Selection(train, np.arange(10)), with_classes_of(train, ("dog", "cat"), "x")):
        assert found.encoded(3) == train.encoded(3) is not None
    assert joined([train, train]).encoded(13) == train.encoded(3)


def test_pictures_of_several_sources_keep_their_order() -> None:
    train = raw_halves().train
    both = joined([train, Selection(train, np.arange(37)[::-1])])
    rows = np.array([40, 3, 37, 36])
    for found, row in zip(both.pictures_of(rows), (33, 3, 36, 36), strict=True):
        np.testing.assert_array_equal(found, train.picture(row))
    assert len(both.pictures_of(rows[:0])) == 0


def test_what_is_chosen_of_several_sources_is_told_apart_as_a_selection_of_them() -> None:
    train = raw_halves().train
    both = joined([train, Selection(train, np.arange(37)[::-1])])
    rows = np.array([40, 3, 37, 36])
    found = both.chosen(rows)
    for place, picture in enumerate(found.pictures_of(np.arange(4))):
        np.testing.assert_array_equal(picture, both.picture(int(rows[place])))
    assert found.contents() == Selection(both, rows).contents()
    assert (found.labels.tolist(), found.held_bytes) == (
        both.labels[rows].tolist(),
        both.held_bytes,
    )


@pytest.mark.parametrize("kind", ["raw", "encoded"])
def test_a_packed_file_is_read_ahead_in_one_piece(tmp_path: Path, kind: str, asked: Parts) -> None:
    given = raw_halves() if kind == "raw" else encoded_halves(tmp_path / "given")
    train = load_packed(packed(tmp_path / "p", given)).train
    source: ImageSource = Selection(train, np.arange(1, 9))
    source.read_ahead(np.arange(2, 5))
    expected = [train.encoded(row) or train.picture(row).tobytes() for row in (3, 4, 5)]
    assert len(asked) == 1
    assert _bytes_of(asked) == b"".join(bytes(each) for each in expected)


def test_shards_are_read_ahead_each_for_itself(tmp_path: Path, asked: Parts) -> None:
    for number in range(2):
        shard(tmp_path, f"train-{number}.tar", "0", "1", "0")
    shard(tmp_path, "test.tar", "0", "1")
    train = tar_halves(tmp_path).train
    train.read_ahead(np.arange(1, 5))
    assert [path.name for path, _, _ in asked] == ["train-0.tar", "train-1.tar"]
    found = _bytes_of(asked)
    assert all(bytes(train.encoded(row) or b"?") in found for row in range(1, 5))
    assert found.endswith(bytes(train.encoded(4) or b"?"))


def test_pictures_in_memory_need_no_reading(asked: Parts) -> None:
    raw_halves().train.read_ahead(np.arange(5))
    assert not asked

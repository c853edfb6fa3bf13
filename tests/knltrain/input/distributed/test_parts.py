"""Which node holds which pictures, and what is read of the files."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from knltrain.data.contents import contents_of_recipe
from knltrain.data.dataset import Dataset
from knltrain.data.derived import Selection
from knltrain.data.source import ImageSource, Pixels, Rows
from knltrain.errors import DataError
from knltrain.input.distributed import parts
from knltrain.input.distributed.parts import Division, check_room, part_bytes, read_part


@pytest.mark.parametrize(("images", "nodes"), [(10, 3), (2, 3), (1_281_167, 7), (5, 1)])
def test_parts_are_all_pictures_once_and_of_equal_size(images: int, nodes: int) -> None:
    found = [Division(images, nodes).part(node) for node in range(nodes)]
    assert found[0].start == 0 and found[-1].stop == images
    assert all(one.stop == other.start for one, other in pairwise(found))
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_owners_are_those_whose_part_it_is() -> None:
    division = Division(11, 4)
    rows = np.arange(11)
    owned = [node for node in range(4) for _ in division.part(node)]
    assert division.owners(rows).tolist() == owned


class Watched(ImageSource):
    """Pictures of one size that tell which of them were read."""

    def __init__(self, images: int) -> None:
        super().__init__(np.zeros(images, np.int64), ("a", "b"), 1, (2, 2, 1))
        self.was_read: list[int] = []

    def picture(self, row: int) -> Pixels:
        return np.full((2, 2, 1), row, np.uint8)

    def read(self, rows: Rows, out: Pixels) -> None:
        self.was_read += rows.tolist()
        super().read(rows, out)

    @property
    def held_bytes(self) -> int:
        return 0

    def picture_name(self, row: int) -> str:
        return f"image {row}"

    def contents(self) -> Any:
        return contents_of_recipe("watched", len(self), (2, 2, 1))


def test_only_the_part_is_read_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_READ_BYTES", 8)
    source = Watched(9)
    part = read_part(source, range(3, 8))
    assert source.was_read == [3, 4, 5, 6, 7]
    assert [bytes(part.record(row)) for row in (3, 7)] == [bytes([3] * 4), bytes([7] * 4)]
    assert 2 not in part and 3 in part and 7 in part and 8 not in part
    assert part_bytes(source, 2) == 5 * 4


def test_encoded_pictures_keep_bytes_and_names(encoded: Dataset) -> None:
    source: Any = encoded.train.source
    part = read_part(source, range(20, 41))
    record = part.record(40)
    name = b"/train/caf\xc3\xa940.png"
    assert bytes(record) == len(name).to_bytes(4, "little") + name + source.pictures.data(40)
    estimated = part_bytes(source, 2)
    assert 0.5 < estimated / part.content.nbytes < 1


def test_raw_pictures_of_several_sizes_are_refused() -> None:
    source = Watched(4)
    source.image_shape = None
    with pytest.raises(DataError, match=r"raw pictures of one size.*knltrain pack"):
        read_part(Selection(source, np.array([0, 1])), range(1))
    with pytest.raises(DataError, match="raw pictures of one size"):
        part_bytes(source, 2)


def test_a_part_without_room_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "available_bytes", lambda: 2 * 2**30)
    check_room(2**30, 2)
    with pytest.raises(DataError, match=r"each of 2 nodes holds 1\.\d GiB.*use more nodes"):
        check_room(2**30 + 2**28, 2)

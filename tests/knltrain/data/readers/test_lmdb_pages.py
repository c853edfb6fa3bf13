"""Damaged pages of an LMDB are found before they are mapped: they would kill the process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.data.readers.files import DataFiles
from knltrain.data.readers.lmdb import open_lmdb
from knltrain.data.readers.lmdb_pages import check_pages
from knltrain.errors import DataError

from .written import datum, pictures, write_lmdb

PAGE = 4096
BRANCH, LEAF, OVERFLOW = 1, 2, 4


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Records of both kinds: some lie in leaves, others in pages of their own; a branch above."""
    small, _ = pictures(60)
    large = np.zeros((40, 50, 3), np.uint8)
    records = [datum(large if number % 9 == 0 else each, 0) for number, each in enumerate(small)]
    write_lmdb(tmp_path / "train_lmdb", records)
    return tmp_path / "train_lmdb" / "data.mdb"


def _pages(file: Path, kind: int) -> list[int]:
    content = file.read_bytes()
    numbers = range(2, len(content) // PAGE)
    return [each for each in numbers if content[each * PAGE + 10] == kind]


def _change(file: Path, place: int, new: bytes) -> None:
    content = bytearray(file.read_bytes())
    content[place : place + len(new)] = new
    file.write_bytes(content)


def _node(file: Path, page: int, number: int = 0) -> int:
    """Where a node of a page begins."""
    place = page * PAGE + 16 + 2 * number
    return page * PAGE + int.from_bytes(file.read_bytes()[place : place + 2], "little")


def test_whole_files_pass(file: Path) -> None:
    check_pages(file)
    assert _pages(file, BRANCH)
    assert _pages(file, LEAF)
    assert len(open_lmdb(DataFiles(file.parent.parent), "train")) == 60


def test_a_page_below_that_is_not_there_is_told(file: Path) -> None:
    _change(file, _node(file, _pages(file, BRANCH)[0]), (99_999).to_bytes(4, "little"))
    with pytest.raises(ValueError, match="page 99,999 lies behind its end"):
        check_pages(file)
    with pytest.raises(DataError, match=r"train_lmdb: this LMDB cannot be read \(page 99,999"):
        open_lmdb(DataFiles(file.parent.parent), "train")


def test_a_page_that_is_led_to_twice_is_told(file: Path) -> None:
    branch = _pages(file, BRANCH)[0]
    _change(file, _node(file, branch), branch.to_bytes(4, "little"))
    with pytest.raises(ValueError, match="as another does"):
        check_pages(file)


def test_a_record_that_leads_behind_the_end_is_told(file: Path) -> None:
    """Its size, and the page of its own at which it begins."""
    content = file.read_bytes()
    for page in _pages(file, LEAF):
        node = _node(file, page)  # the first, that of a large picture
        if content[node + 4] == 1:
            break
    key = int.from_bytes(content[node + 6 : node + 8], "little")
    for place, new in ((node, b"\xff\xff\xff\x7f"), (node + 8 + key, b"\xff\xff\xff\x7f")):
        file.write_bytes(content)
        _change(file, place, new)
        with pytest.raises(ValueError, match=f"record of page {page} lies behind its end"):
            check_pages(file)


@pytest.mark.parametrize("kind", [BRANCH, LEAF])
def test_nodes_and_keys_outside_of_their_page_are_told(file: Path, kind: int) -> None:
    page, content = _pages(file, kind)[0], file.read_bytes()
    places = page * PAGE + 16, page * PAGE + 12, _node(file, page) + 6, page * PAGE + 10
    for place, said in zip(places, ("nodes", "none of", "outside", "none of"), strict=True):
        file.write_bytes(content)
        _change(file, place, b"\xfe\xff")
        with pytest.raises(ValueError, match=f"page {page} .*{said}"):
            check_pages(file)


def test_damage_at_random_places_is_mostly_refused(file: Path) -> None:
    """What passes is in the keys, or in what pages do not use."""
    content, random = file.read_bytes(), np.random.default_rng(0)
    pages = [*_pages(file, BRANCH), *_pages(file, LEAF)]
    refused = 0
    for _ in range(60):
        file.write_bytes(content)
        place = int(random.choice(pages)) * PAGE + int(random.integers(0, 64))
        _change(file, place, random.bytes(2))
        try:
            check_pages(file)
        except ValueError:
            refused += 1
    assert 10 < refused < 60


def test_another_layout_is_left_to_lmdb(file: Path) -> None:
    _change(file, 16 + 4, b"\x02")
    check_pages(file)

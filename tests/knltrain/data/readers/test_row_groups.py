from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.data.readers import row_groups
from knltrain.data.readers.row_groups import RowGroups
from knltrain.errors import DataError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


class Counted:
    """A parquet file that counts which row groups were read."""

    def __init__(self, path: Path) -> None:
        self.file = pq.ParquetFile(path)
        self.metadata = self.file.metadata
        self.read: list[int] = []

    def read_row_group(self, number: int, columns: list[str]) -> object:
        self.read.append(number)
        return self.file.read_row_group(number, columns)


@pytest.fixture
def counted(tmp_path: Path) -> tuple[RowGroups, Counted, Counted]:
    files = []
    for file in range(2):
        values = [{"bytes": b"%d %d" % (file, row), "path": "x" * 999} for row in range(5)]
        path = tmp_path / f"{file}.parquet"
        pq.write_table(pa.table({"image": values}), path, row_group_size=2)
        files.append(Counted(path))
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    return RowGroups(paths, files, "image", "bytes"), *files


def test_rows_are_found_in_their_files(counted: tuple[RowGroups, Counted, Counted]) -> None:
    groups, first, second = counted
    assert [bytes(groups.value(row)) for row in (0, 4, 5, 9)] == [b"0 0", b"0 4", b"1 0", b"1 4"]
    path, number = groups.place(7)
    assert (path.name, number) == ("1.parquet", 2)
    assert (first.read, second.read) == ([0, 2], [0, 2])
    groups.value(1)
    assert first.read == [0, 2]


def test_the_groups_that_were_not_used_for_longest_go_first(
    counted: tuple[RowGroups, Counted, Counted], monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, first, _ = counted
    groups.value(0)
    monkeypatch.setattr(row_groups, "_MOST_KEPT_BYTES", 2 * groups._bytes())
    for row in (2, 0, 4, 0, 2):
        groups.value(row)
    assert first.read == [0, 1, 2, 1]
    monkeypatch.setattr(row_groups, "_MOST_KEPT_BYTES", 0)
    groups.value(4)
    groups.value(4)
    assert first.read == [0, 1, 2, 1, 2]


def test_a_group_with_fewer_rows_than_the_file_says_is_refused(
    counted: tuple[RowGroups, Counted, Counted], monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, first, _ = counted
    read = first.read_row_group
    monkeypatch.setattr(first, "read_row_group", lambda *given: read(*given).slice(1))
    with pytest.raises(DataError, match=r"0\.parquet: row group 1 .*it has 1 of 2 rows"):
        groups.value(3)

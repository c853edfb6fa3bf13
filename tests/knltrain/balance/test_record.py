"""The file of a run's shares, and what is refused of it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from knltrain.balance.record import (
    SharesFrom,
    header_of,
    images_at,
    read_shares,
    row_of,
    rows_before,
)
from knltrain.errors import ConfigError

ROWS = [SharesFrom(0, (48, 16)), SharesFrom(20, (64, 0))]


def written(folder: Path, rows: list[list[str]]) -> Path:
    path = folder / "shares.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, [header_of(2), *(row_of(each, (0.5, 0.25)) for each in ROWS)])
    assert read_shares(path, 64, 2) == tuple(ROWS)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "expected the columns step, images_0, images_1, seconds_0, seconds_1"),
        ([header_of(3)], "of a run with 2 workers"),
        ([header_of(2)], "expected rows with rising steps"),
        ([header_of(2), ["0", "48", "17"]], "line 2: '0,48,17': expected a step, then 2 numbers"),
        ([header_of(2), ["0", "80", "-16"]], "add up to train.batch = 64"),
        ([header_of(2), ["-1", "48", "16"]], "line 2"),
        ([header_of(2), ["0", "0", "64"]], "with some for rank 0"),
        ([header_of(2), ["0", "48"]], "line 2"),
        ([header_of(2), ["0", "48", "many"]], "line 2"),
        ([header_of(2), ["0", "48", "16"], ["0", "64", "0"]], r"rising steps, got the steps \[0"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, rows: list[list[str]], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        read_shares(written(tmp_path, rows), 64, 2)
    assert str(refused.value).startswith(f"balance.replay = '{tmp_path}")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file.*expected the shares\.csv of a run"):
        read_shares(tmp_path / "none.csv", 64, 2)


def test_a_file_of_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shares.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_shares(tmp_path / "shares.csv", 64, 2)


def test_shares_hold_until_the_next_row() -> None:
    assert [images_at(ROWS, step) for step in (0, 19, 20, 99)] == [
        (48, 16),
        (48, 16),
        (64, 0),
        (64, 0),
    ]


def test_rows_of_steps_that_are_repeated_are_dropped(tmp_path: Path) -> None:
    rows = [row_of(each, (0.5, 0.25)) for each in ROWS]
    path = written(tmp_path, [header_of(2), *rows])
    assert rows_before(path, 20) == rows[:1]
    assert rows_before(path, 21) == rows
    assert rows_before(tmp_path / "none.csv", 9) == []
    path.write_bytes(b"step\n\xff\xfe")
    assert rows_before(path, 9) == []

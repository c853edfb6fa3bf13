from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knltrain.balance.periods import periods_by_speed, read_periods, write_periods
from knltrain.errors import ConfigError

Seconds = st.lists(st.floats(1e-4, 10), min_size=1, max_size=6)


def test_all_come_as_often_by_the_clock() -> None:
    assert periods_by_speed([1.0, 4.0, 2.0], 3) == (12, 3, 6)
    assert periods_by_speed([0.7, 1.0], 1) == (1, 1)


@given(seconds=Seconds, period=st.integers(1, 64))
def test_the_slowest_keeps_the_period_and_none_comes_less_often_than_it(
    seconds: list[float], period: int
) -> None:
    found = periods_by_speed(seconds, period)
    apart = [own * each for own, each in zip(found, seconds, strict=True)]
    assert found[seconds.index(max(seconds))] == period
    assert max(apart) <= period * max(seconds) * (1 + 1e-9)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_periods(tmp_path / "periods.csv", (3, 12), (0.4, 0.1))
    assert read_periods(tmp_path / "periods.csv", 2) == (3, 12)


HEADER = b"rank,communication_period,step_seconds\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        HEADER,
        HEADER + b"0,3,0.4\n",
        HEADER + b"0,3,0.4\n1,1",
        HEADER + b"0,3,0.4\n1,x,0.1\n",
        HEADER + b"0,3,0.4\n1,0,0.1\n",
        HEADER + b"0,3,0.4\n0,3,0.4\n",
        HEADER + b"0,3,0.4\n1,1,0.1\n2,1,0.1\n",
        b"rank,period\n0,3,0.4\n1,1,0.1\n",
        HEADER + b"\xff\xfe\x00",
    ],
)
def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "periods.csv"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"^{re.escape(str(path))}: .* a row for each of 2 wor"):
        read_periods(path, 2)

from __future__ import annotations

import pytest

from knltrain.bench.data import benchmark, sources
from knltrain.bench.data.sources import check_sources, run_sources_benchmark
from knltrain.errors import ConfigError


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PICTURE_BYTES", 40_000)
    monkeypatch.setattr(sources, "MOST_JPEGS", 20)
    monkeypatch.setattr(benchmark, "ENOUGH_SECONDS", 0.0)


@pytest.mark.parametrize(("pixels", "side", "channels"), [(32, 16, 3), (16, 16, 1)])
def test_every_source_is_read_and_compared(pixels: int, side: int, channels: int) -> None:
    names = ("jpeg", "packed", "lmdb", "lmdb-first", "folder")
    rows = run_sources_benchmark(names, pixels, side, channels, 2, "numba")
    assert [row["source"] for row in rows] == list(names)
    assert [row["of"] for row in rows] == [
        *("simplejpeg", "copy", "copy", "later reading", "simplejpeg")
    ]
    assert all(row["pictures_per_second"] > 0 and row["share"] > 0 for row in rows)


def test_unknown_sources_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown source 'lmbd': .* did you mean 'lmdb'"):
        check_sources(("lmbd",))


def test_first_reading_counts_the_records_that_are_got_and_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "_in_turns", lambda *_given: ([7.0, 8.0], [1.0, 2.0]))
    (row,) = run_sources_benchmark(("lmdb-first",), 32, 16, 3, 2, "numba")
    assert row["pictures_per_second"] == pytest.approx(14 / 9)  # medians of 8 and 10 seconds

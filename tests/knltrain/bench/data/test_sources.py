from __future__ import annotations

import pytest

from knltrain.bench.data import benchmark, sources
from knltrain.bench.data.sources import check_sources, run_sources_benchmark
from knltrain.errors import ConfigError


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PICTURE_BYTES", 40_000)
    monkeypatch.setattr(benchmark, "ENOUGH_SECONDS", 0.0)


@pytest.mark.parametrize(("pixels", "side", "channels"), [(32, 16, 3), (16, 16, 1)])
def test_every_source_is_read_and_compared(pixels: int, side: int, channels: int) -> None:
    names = ("jpeg", "packed", "lmdb")
    rows = run_sources_benchmark(names, pixels, side, channels, 2, "numba")
    assert [row["source"] for row in rows] == list(names)
    assert [row["of"] for row in rows] == ["simplejpeg", "copy", "copy"]
    assert all(row["pictures_per_second"] > 0 and row["share"] > 0 for row in rows)


def test_unknown_sources_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown source 'lmbd': .* did you mean 'lmdb'"):
        check_sources(("lmbd",))

from __future__ import annotations

import pytest

from knltrain.bench.data import benchmark
from knltrain.bench.data.benchmark import run_data_benchmark
from knltrain.errors import ConfigError


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("COPIED_FLOATS", 4096), ("PICTURE_BYTES", 1), ("ENOUGH_SECONDS", 0.0)):
        monkeypatch.setattr(benchmark, name, value)


@pytest.mark.parametrize("implementation", ["numba", "reference"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_recipe_is_measured_beside_a_copy(channels: int, implementation: str) -> None:
    recipes = ("caffe", "inception")
    report = run_data_benchmark(recipes, 20, 16, channels, 5, 3, implementation)
    assert [row["recipe"] for row in report["rows"]] == list(recipes)
    assert report["copy_gbytes_per_second"] > 0
    for row in report["rows"]:
        values = 16 * 16 * channels * row["pictures_per_second"]
        assert row["gbytes_per_second"] == pytest.approx(5 * values / 1e9)
        assert row["share_of_copy"] > 0


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown recipe 'cafe': .* did you mean 'caffe'"):
        run_data_benchmark(("cafe",), 20, 16, 3, 5, 3, "numba")
    with pytest.raises(ConfigError, match="unknown implementation 'onednn'"):
        run_data_benchmark(("none",), 20, 16, 3, 5, 3, "onednn")

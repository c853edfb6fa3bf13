"""The machine's bounds beside a bench that has no contestants in processes."""

from __future__ import annotations

import pytest

from affinity import allowed_cpus
from knltrain.bench.step import bounds


@pytest.mark.slow
def test_bounds_of_a_core_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SECONDS", 0.1)
    found = bounds.bounds_of(allowed_cpus()[:1])
    assert found.keys() == {"sgemm_gflops", "copy_gbytes_per_second"}
    assert min(found.values()) > 0

from __future__ import annotations

import numpy as np
import pytest

from knltrain.errors import ConfigError
from knltrain.exchange.rules.averaged_center import AveragedCenter
from knltrain.exchange.rules.downpour import Downpour
from vectorized_ops.reference import averages, downpour

HEAVY = Downpour(downpour, 0.5)


@pytest.mark.parametrize(("rate", "vectors"), [(None, 4), (0.1, 3)])
def test_vectors_beside_the_center_are_the_rules_the_average_and_the_count(
    rate: float | None, vectors: int
) -> None:
    rule = AveragedCenter(HEAVY, rate, averages)
    assert (rule.center_vectors, rule.follows, rule.remembers) == (vectors, True, True)
    center, kept = np.full(2, 5, np.float32), np.zeros((vectors - 1, 2), np.float32)
    rule.found(center, kept)
    assert kept.tolist() == [[0, 0], [5, 5], [1, 1]][: vectors - 1]
    assert rule.model(center, kept).base is kept


@pytest.mark.parametrize("rate", [0.0, 1.5])
def test_rates_out_of_range_are_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match=r"averaging_rate = .*expected more than 0"):
        AveragedCenter(HEAVY, rate, averages)

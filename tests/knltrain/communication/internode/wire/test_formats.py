from __future__ import annotations

import numpy as np
import pytest

from knltrain.communication.internode.wire.formats import TopK
from knltrain.errors import ConfigError
from vectorized_ops.reference import top_k


@pytest.mark.parametrize("share", [0.0, -1.0, 0.51, float("nan")])
def test_share_that_saves_nothing_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match=r"wire_top_share = .*at most 0\.5"):
        TopK(top_k, share, 10)


def test_top_k_sends_one_value_at_least_and_the_first_of_equal_ones() -> None:
    chosen = TopK(top_k, 0.01, 50)
    row, residual = np.zeros(chosen.bytes_for(50), np.uint8), np.zeros(50, np.float32)
    chosen.encode(np.full(50, 2, np.float32), residual, row)
    total = np.zeros(50, np.float32)
    chosen.decode_add(row, total)
    assert total.tolist() == [2] + [0] * 49
    assert residual.tolist() == [0] + [2] * 49

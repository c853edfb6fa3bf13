"""x"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from knltrain.exchange.transports.team import check_sum_values


@pytest.mark.parametrize("values", [np.zeros(0), np.zeros((2, 2))])
def test_sums_of_none_or_of_rows_are_refused(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="k >= 1"):
        check_sum_values(values)


def test_sums_of_float32_numbers_are_refused() -> None:
    values: Any = np.zeros(2, np.float32)
    with pytest.raises(ValueError, match="float32"):
        check_sum_values(values)

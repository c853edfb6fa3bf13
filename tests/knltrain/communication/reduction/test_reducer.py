from __future__ import annotations

import numpy as np
import pytest

from knltrain.communication.reduction.reducer import check_values
from knltrain.errors import CollectiveError


def read_only() -> np.ndarray:
    values = np.ones(4, np.float32)
    values.flags.writeable = False
    return values


@pytest.mark.parametrize("values", [np.ones(4), np.ones((4, 4), np.float32)[:, :2], read_only()])
def test_values_that_cannot_be_added_up_in_place_are_refused(values: np.ndarray) -> None:
    with pytest.raises(CollectiveError, match="expected contiguous float32 that can be written"):
        check_values(values)


def test_values_of_any_shape_are_taken() -> None:
    check_values(np.ones((2, 3, 4), np.float32)[1])

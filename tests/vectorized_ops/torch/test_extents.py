from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vectorized_ops.torch._extents import pair


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, (3, 3)),
        ((3, 2), (3, 2)),
        ([3, 2], (3, 2)),
        ((3,), (3, 3)),
        (True, None),
        (2.0, None),
        (np.int64(2), None),
        ("same", None),
        ([], None),
        ((1, 2, 3), None),
        (None, None),
    ],
)
def test_only_plain_whole_numbers_are_extents(value: Any, expected: tuple[int, int] | None) -> None:
    assert pair(value) == expected

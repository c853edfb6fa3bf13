from __future__ import annotations

import numpy as np

from vectorized_ops.reference import vectors


def test_operations_worked_out_by_hand() -> None:
    target, source = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    vectors.accumulate(target, source)
    assert target.tolist() == [11, 22]
    vectors.scale(target, 2.0)
    assert target.tolist() == [22, 44]
    vectors.axpby(target, 0.5, source, -1.0)
    assert target.tolist() == [1, 2]
    assert source.tolist() == [10, 20]

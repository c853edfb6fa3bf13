from __future__ import annotations

import numba
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.errors import OperationError
from vectorized_ops.numba.copying import copy
from vectorized_ops.numba.emit.lanes import LANES


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("to", ["float32", "bfloat16"])
@pytest.mark.parametrize("kept", ["float32", "bfloat16"])
def test_whole_vectors_are_copied_to_an_array_of_either_type(
    kept: str, to: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    values = np.random.default_rng(0).standard_normal(7 * LANES).astype(np.float32)
    before = np.full(8 * LANES, 77, np.float32)
    given, out = (
        rounded(array) if kind == "bfloat16" else array.copy()
        for array, kind in ((values, kept), (before, to))
    )
    copy(given, out)
    expected = np.concatenate([widened(given), before[7 * LANES :]])
    assert_array_equal(out, rounded(expected) if to == "bfloat16" else expected)


def test_a_shorter_array_is_refused() -> None:
    with pytest.raises(OperationError, match=r"32 values .* an array of 16"):
        copy(np.zeros(32, np.float32), np.zeros(16, np.uint16))

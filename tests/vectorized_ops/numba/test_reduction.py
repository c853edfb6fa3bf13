from __future__ import annotations

import numpy as np
import pytest

from vectorized_ops.numba.reduction import reduction
from vectorized_ops.reference import reduction as reference
from vectorized_ops.reference.reduction import AND, MEAN, STORED

SIZES = (0, 1, 17, 1024, 5000)


def rows_of(kind: str, size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(size)
    if kind == "bfloat16":
        return [
            (rng.standard_normal(size + 3, np.float32).view(np.uint32) >> 16).astype(np.uint16)
            for _ in range(3)
        ]
    if STORED[kind].kind == "f":
        return [rng.standard_normal(size + 3).astype(STORED[kind]) for _ in range(3)]
    return [rng.integers(0, 100, size + 3).astype(STORED[kind]) for _ in range(3)]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind in ("float32", "bfloat16") else pytest.mark.slow)
        for kind in STORED
    ],
)
def test_results_are_those_of_the_reference_to_the_last_bit(kind: str) -> None:
    floating = STORED[kind].kind == "f" or kind == "bfloat16"
    for operation in range(AND if floating else 8):
        if operation == MEAN and not floating:
            continue
        for size in SIZES:
            rows = rows_of(kind, size)
            out, expected = np.zeros(size, STORED[kind]), np.zeros(size, STORED[kind])
            addresses = np.array([row.ctypes.data for row in rows])
            offset = 3 * STORED[kind].itemsize
            reduction(kind)(out.ctypes.data, addresses, offset, size, operation)
            reference.combine(expected, [row[3:] for row in rows], kind, operation)
            assert out.tobytes() == expected.tobytes(), (operation, size)


def test_result_may_lie_where_one_of_the_vectors_does() -> None:
    rows = rows_of("float32", 3000)
    expected = np.zeros(3003, np.float32)
    reference.combine(expected, rows, "float32", 0)
    addresses = np.array([row.ctypes.data for row in rows])
    reduction("float32")(rows[1].ctypes.data, addresses, 0, 3003, 0)
    assert rows[1].tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_numbers_that_are_none_and_the_ends_of_the_range(kind: str) -> None:
    special = np.array([0x7F80, 0xFF80, 0x7FC1, 0x7C00, 0x7C01, 0x0001, 0x8000, 0x7BFF], np.uint16)
    rows = [special.view(STORED[kind]), special[::-1].copy().view(STORED[kind])]
    out, expected = np.zeros(8, STORED[kind]), np.zeros(8, STORED[kind])
    with np.errstate(all="ignore"):
        reference.combine(expected, rows, kind, 0)
    addresses = np.array([row.ctypes.data for row in rows])
    reduction(kind)(out.ctypes.data, addresses, 0, 8, 0)
    if kind == "bfloat16":
        expected, out = ((it.astype(np.uint32) << 16).view(np.float32) for it in (expected, out))
    np.testing.assert_array_equal(out, expected)

from __future__ import annotations

import numpy as np
import pytest

from vectorized_ops.channels_last import rows as tested
from vectorized_ops.channels_last.rows import (
    Sums,
    bits,
    check_shapes,
    long_rows,
    pass_arguments,
    past_caches,
    rows,
    vector_address,
)
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.emit import non_temporal

WIDE = np.zeros((4, 5, 6, 40), np.float32)


@pytest.mark.parametrize(
    ("array", "apart"),
    [
        (WIDE, 40),
        (WIDE[..., 3:20], 40),
        (WIDE[..., :1], 40),
        (WIDE[:3, ..., 3:20], 40),
        (WIDE[:1, :1, :1, 3:20], 17),
        (WIDE[:, :1, :1, 3:20], 5 * 6 * 40),
        (WIDE[:1, :, :1, 3:20], 6 * 40),
        (WIDE[0, 0, :, 3:20], 40),
        (WIDE[0, 0, 0], 40),
    ],
)
def test_rows_lie_as_far_apart_as_pixels(array: np.ndarray, apart: int) -> None:
    assert rows(array) == (array.ctypes.data, apart)


@pytest.mark.parametrize(
    "array",
    [
        WIDE[:, :4],
        WIDE[:, :, :5],
        WIDE[::2, ::2],
        WIDE[..., ::2],
        WIDE[..., ::-1],
        WIDE.transpose(1, 2, 3, 0),
        np.broadcast_to(WIDE[:1], WIDE.shape),
        WIDE.astype(np.float64),
        WIDE.astype(np.uint16)[..., 3:20],
    ],
)
def test_other_orders_and_types_are_refused(array: np.ndarray) -> None:
    with pytest.raises(OperationError, match="expected float32 in C order"):
        rows(array)


def test_arrays_of_another_shape_are_refused() -> None:
    check_shapes((4, 5, 6, 40), WIDE, None)
    with pytest.raises(OperationError, match=r"\(4, 5, 6, 40\) .* expected \(4, 5\)"):
        check_shapes((4, 5), WIDE)


@pytest.mark.parametrize(
    "vector", [np.zeros(5, np.float32), np.zeros(4), np.zeros(8, np.float32)[::2]]
)
def test_values_of_other_channels_are_refused(vector: np.ndarray) -> None:
    with pytest.raises(OperationError, match=r"expected shape \(4,\), float32"):
        vector_address(vector, 4)


def test_large_results_go_past_the_caches_unless_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(non_temporal, "STREAMED_BYTES", 1000)
    assert past_caches(1000, (640, 32), 16, 128)
    assert not past_caches(100, (640, 32), 16, 128)
    assert not past_caches(1000, (640, 32), 16, 128, 640)
    assert not past_caches(1000, (640, 33), 16)
    assert not past_caches(1000, (644, 32), 16)
    assert not past_caches(1000, (640, 32), 17)


def test_arguments_are_counts_bits_and_addresses() -> None:
    sums = Sums(10, 5, 2)
    assert sums.threads == 1
    out, read = (64, 7), (128, 9)
    found = pass_arguments(2, 5, [out], [read], table=256, scalar=1.5, sums=sums)
    assert found.dtype == np.int64
    expected = [1, 2, 5, 0, bits(1.5), 256, *sums.addresses, 0, *out, *read]
    assert found.tolist() == expected
    assert np.array(bits(1.5)).view(np.float64) == 1.5
    assert all(address % 64 == 0 for address in sums.addresses)
    assert aligned_zeros((1,)).ctypes.data % 64 == 0


def test_rows_of_equal_operations_are_as_long_as_arrays_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, part = WIDE.copy(), WIDE[..., 3:20]
    assert long_rows(whole) == (1, 4800, [(whole.ctypes.data, 4800)])
    assert long_rows(part, part.copy())[:2] == (120, 17)
    assert long_rows(whole.T, whole.T) == (1, 4800, [(whole.ctypes.data, 4800)] * 2)
    monkeypatch.setattr(tested, "threads_for", lambda _: 2)
    assert long_rows(whole, whole)[:2] == (20, 240)
    assert long_rows(whole[0, 0])[:2] == (6, 40)
    with pytest.raises(OperationError, match="number of images"):
        long_rows(whole, whole[:2])

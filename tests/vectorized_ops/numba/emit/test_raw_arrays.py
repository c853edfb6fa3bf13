from typing import Any

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.raw_arrays import (
    array_at,
    contiguous,
    flattened,
    row,
    stack_vector,
)

SIZE = 48
BITS = np.dtype(np.uint16)


@kernel
def written_at(address: int, rows: int) -> Any:
    whole = array_at(address, (rows, 2, 3), np.float32)
    flat = array_at(address, whole.size, np.float32)
    whole[rows - 1, 1, 2] = 7.0
    flat[1] += 5.0
    return whole.shape, whole.strides, flat.shape


def test_memory_is_seen_as_arrays_of_any_shape() -> None:
    memory = np.zeros((4, 2, 3), np.float32)
    shape, strides, flat = written_at(memory.ctypes.data, 4)
    assert (shape, strides, flat) == (memory.shape, memory.strides, (memory.size,))
    assert memory[3, 1, 2] == 7.0
    assert memory[0, 0, 1] == 5.0
    assert memory.sum() == 12.0


@kernel
def first_of(address: int) -> Any:
    return array_at(address, 1, BITS)[0]


def test_elements_may_be_named_by_a_dtype() -> None:
    assert first_of(np.array([40_000], np.uint16).ctypes.data) == 40_000


@kernel
def numbered(rows: Any) -> None:
    for index in range(rows.shape[0]):
        vector = contiguous(row(rows, index))
        for i in range(vector.shape[0]):
            vector[i] = 10 * index + i


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_rows_lie_where_the_matrix_has_them(dtype: type) -> None:
    wide = np.full((3, 9), -1, dtype)
    numbered(wide[:, 2:6])
    assert wide[:, 2:6].tolist() == [[10 * r + c for c in range(4)] for r in range(3)]
    assert (wide[:, [0, 1, 6, 7, 8]] == -1).all()


@kernel
def counted(cube: Any, plane: int) -> None:
    flat = flattened(cube[plane])
    for i in range(flat.shape[0]):
        flat[i] += i


def test_contiguous_elements_are_one_vector() -> None:
    cube = np.zeros((3, 2, 4), np.float32)
    counted(cube, 1)
    assert cube[1].reshape(-1).tolist() == list(range(8))
    assert not cube[[0, 2]].any()


def test_elements_with_gaps_are_no_vector() -> None:
    with pytest.raises(TypingError, match="flattened"):
        counted(np.zeros((3, 2, 8), np.float32)[:, :, :4], 1)


@parallel_kernel
def sums_of_squares(numbers: Any, out: Any) -> None:
    for number in numba.prange(len(numbers)):
        kept, other = stack_vector(SIZE, np.float64), stack_vector(SIZE, np.int32)
        for i in range(SIZE):
            kept[i], other[i] = i * numbers[number], i
        for i in range(SIZE):
            out[number] += kept[i] * other[i]


def test_each_call_has_its_own_vectors_on_the_stack() -> None:
    numbers, out = np.arange(1000.0), np.zeros(1000)
    sums_of_squares(numbers, out)
    assert out.tolist() == (numbers * sum(i * i for i in range(SIZE))).tolist()


def test_kernels_get_no_other_memory() -> None:
    @kernel
    def allocating(size: int) -> float:
        return np.zeros(size).sum()

    with pytest.raises(TypingError, match="array"):
        allocating(3)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import vectorized_ops.torch._team  # noqa: F401 (lends its threads)
from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.layout import STORED
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import Lanes, Value
from vectorized_ops.numba.kernels.channels_last import rows as rows

FLOAT = np.dtype(np.float32)
WIDTHS = [1, 7, 8, 15, 16, 17, 33, 1030]


def compute(
    lanes: Lanes, read: list[Value], constants: list[Value], scalar: Value
) -> tuple[list[Value], list[Value]]:
    """Write a*k2 + scalar and a + the summands, sum up b and a*b."""
    first, second, summed = read
    written = [lanes.fma(first, constants[0], scalar), lanes.add(first, summed)]
    return written, [second, lanes.multiply(first, second)]


everything_pass = rows.pass_over_rows(compute, 2, 2, constants=(2,), sums=2, summing=True)


@kernel
def everything(arguments: Any, element: Any) -> None:
    everything_pass(arguments, element)


class Stream:
    """Rows of whole numbers between others that nobody may write."""

    def __init__(
        self,
        rng: np.random.Generator,
        shape: tuple[int, int],
        between: int,
        kind: np.dtype[Any] = FLOAT,
    ) -> None:
        values = rng.integers(-3, 4, (shape[0], shape[1] + between)).astype(np.float32)
        self.wide = rounded(values) if kind == STORED else values
        self.before, self.between = self.wide.copy(), between

    @property
    def values(self) -> np.ndarray:
        values = self.wide[:, : self.wide.shape[1] - self.between]
        return widened(values).astype(np.float64)

    @property
    def pair(self) -> tuple[int, int]:
        return self.wide.ctypes.data, self.wide.shape[1]

    def untouched(self, written: bool) -> bool:
        start = self.wide.shape[1] - self.between if written else 0
        return np.array_equal(self.wide[:, start:], self.before[:, start:])


def run(
    threads: int,
    shape: tuple[int, int],
    streams: Sequence[Stream],
    table: np.ndarray,
    scalar: float,
) -> np.ndarray:
    """Run the pass; returns the totals of the threads."""
    channels = rows.padded(shape[1])
    sums = np.full((threads, 2, channels), 99, np.float32)
    totals = np.full((threads, 2, channels), 99, np.float64)
    (bits,) = np.array([scalar]).view(np.int64)
    given = [
        threads, *shape, 0, bits, table.ctypes.data, sums.ctypes.data, totals.ctypes.data,
        len(streams) - 4,
    ]  # fmt: skip
    arguments = np.array([*given, *(n for stream in streams for n in stream.pair)], np.int64)
    everything(arguments, streams[0].wide.dtype)
    return totals


@given(
    seed=st.integers(0, 99),
    number=st.integers(1, 150),
    channels=st.sampled_from(WIDTHS),
    threads=st.integers(1, 4),
    summands=st.integers(1, 3),
    kind=st.sampled_from([FLOAT, STORED]),
)
@settings(max_examples=60)
def test_each_row_is_computed_once_and_nothing_beside_it_is_written(
    seed: int, number: int, channels: int, threads: int, summands: int, kind: np.dtype[Any]
) -> None:
    rng, shape = np.random.default_rng(seed), (number, channels)
    streams = [Stream(rng, shape, int(rng.choice([0, 0, 3])), kind) for _ in range(4 + summands)]
    table = rng.integers(-3, 4, (3, rows.padded(channels))).astype(np.float32)
    first, second = streams[2].values, streams[3].values
    totals = run(threads, shape, streams, table, 0.5)
    assert_array_equal(streams[0].values, first * table[2, :channels] + 0.5)
    assert_array_equal(streams[1].values, first + sum(s.values for s in streams[4:]))
    assert_array_equal(totals.sum(0)[0, :channels], second.sum(0))
    assert_array_equal(totals.sum(0)[1, :channels], (first * second).sum(0))
    assert all(stream.untouched(i < 2) for i, stream in enumerate(streams))


def test_sums_of_many_rows_lose_nothing() -> None:
    shape = (50_000, 3)
    rng = np.random.default_rng(0)
    streams = [Stream(rng, shape, 0) for _ in range(5)]
    value = 1 + 2**-10  # float32 cannot add this to sums from 2**14 on
    streams[3].wide[...] = value
    totals = run(2, shape, streams, np.zeros((3, 16), np.float32), 0.0)
    assert totals.sum(0)[0, 0] == 50_000 * value


def test_rows_of_sums_are_whole_vectors_of_either_width() -> None:
    assert [rows.padded(channels) for channels in (1, 16, 17, 64)] == [16, 16, 32, 64]

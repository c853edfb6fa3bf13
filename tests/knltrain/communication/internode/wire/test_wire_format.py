"""The contract of wire formats, which every format keeps with compiled and plain kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from knltrain.communication.internode.wire.formats import Bfloat16, Float4, Int8, TopK
from knltrain.communication.internode.wire.wire_format import (
    ALIGNMENT,
    WireFormat,
    row_for,
    whole_lines,
)
from vectorized_ops import numba as compiled
from vectorized_ops import reference as plain
from vectorized_ops.numba import top_k as compiled_largest
from vectorized_ops.numba import wire as compiled_wire
from vectorized_ops.reference import top_k as plain_largest
from vectorized_ops.reference import wire as plain_wire

SIZES = [1, 2, 63, 256, 257, 5000]
KERNELS = {
    plain.__name__: (plain_wire, plain_largest),
    compiled.__name__: (compiled_wire, compiled_largest),
}
MAKE: dict[str, Callable[..., WireFormat]] = {
    "bfloat16": lambda wire, largest: Bfloat16(wire),
    "int8": lambda wire, largest: Int8(wire),
    "float4": lambda wire, largest: Float4(wire),
    "top_k": lambda wire, largest: TopK(largest, 0.1, max(SIZES)),
}


@pytest.fixture(params=KERNELS)
def kernels(request: pytest.FixtureRequest) -> tuple[object, object]:
    return KERNELS[request.param]


@pytest.fixture(params=MAKE)
def wire_format(request: pytest.FixtureRequest, kernels: tuple[object, object]) -> WireFormat:
    made = MAKE[request.param](*kernels)
    assert made.name == request.param
    return made


def vector(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size, np.float32)


def residual_of(wire_format: WireFormat, size: int) -> np.ndarray:
    return np.zeros(size if wire_format.keeps_residual else 0, np.float32)


def sent(wire_format: WireFormat, values: np.ndarray, residual: np.ndarray) -> np.ndarray:
    row = np.full(wire_format.bytes_for(values.size), 0xA5, np.uint8)
    wire_format.encode(values, residual, row)
    total = np.zeros(values.size, np.float32)
    wire_format.decode_add(row, total)
    return total


@pytest.mark.parametrize("size", SIZES)
def test_what_is_sent_and_what_is_kept_are_what_there_was(
    wire_format: WireFormat, size: int
) -> None:
    values, residual = vector(1, size), residual_of(wire_format, size)
    found = sent(wire_format, values, residual)
    if wire_format.keeps_residual:
        np.testing.assert_allclose(found + residual, values, rtol=0, atol=1e-6)
    else:
        np.testing.assert_allclose(found, values, rtol=2.0**-8)


@pytest.mark.parametrize("size", SIZES)
def test_decoding_adds_to_what_is_there(wire_format: WireFormat, size: int) -> None:
    values = vector(2, size)
    row = np.zeros(wire_format.bytes_for(size), np.uint8)
    wire_format.encode(values, residual_of(wire_format, size), row)
    alone, on_top = np.zeros(size, np.float32), vector(3, size)
    wire_format.decode_add(row, alone)
    wire_format.decode_add(row, on_top)
    assert np.array_equal(on_top, vector(3, size) + alone)


def test_what_is_sent_over_time_has_the_true_mean(wire_format: WireFormat) -> None:
    """Error feedback: what is left behind stays bounded, so that its share vanishes."""
    if not wire_format.keeps_residual:
        pytest.skip("keeps no residual")
    size, times = 700, 300
    values, residual = vector(4, size), residual_of(wire_format, size)
    total = np.zeros(size)
    for _ in range(times):
        total += sent(wire_format, values, residual)
    np.testing.assert_allclose(total + residual, times * values.astype(np.float64), atol=0.05)
    most = np.abs(values).max()
    assert np.abs(residual).max() <= 25 * most
    assert np.abs(total / times - values).max() <= 0.09 * most


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_not_finite_is_not_hidden(wire_format: WireFormat, bad: float) -> None:
    values = vector(5, 600)
    values[[7, 299]] = bad
    found = sent(wire_format, values, residual_of(wire_format, 600))
    assert not np.isfinite(found[[7, 299]]).any()


def test_bytes_are_whole_lines_and_less_than_those_of_float32(wire_format: WireFormat) -> None:
    for size in SIZES:
        assert wire_format.bytes_for(size) % ALIGNMENT == 0
    per_value = wire_format.bytes_for(10**6) / 10**6
    assert per_value == pytest.approx(
        {"bfloat16": 2, "int8": 1 + 4 / 256, "float4": 0.5 + 4 / 256, "top_k": 0.8}[
            wire_format.name
        ],
        abs=1e-3,
    )


def test_lines_are_rounded_up() -> None:
    assert [whole_lines(each) for each in (0, 1, 64, 65)] == [0, 64, 64, 128]


def test_rows_are_whole_lines_of_zeros() -> None:
    row = row_for(3 * ALIGNMENT)
    assert (row.shape, row.dtype, row.ctypes.data % ALIGNMENT) == ((3 * ALIGNMENT,), np.uint8, 0)
    assert not row.any()

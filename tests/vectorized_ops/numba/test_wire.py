from __future__ import annotations

import numpy as np
import pytest
from contracts.vectors import SIZES

from vectorized_ops.numba import wire
from vectorized_ops.reference import wire as reference

KINDS = ["normal", "any bits", "tiny", "halves", "huge"]


def vector(kind: str, size: int, seed: int = 0) -> np.ndarray:
    """A part of a longer vector, which need not begin at a cache line."""
    rng = np.random.default_rng([seed, size, KINDS.index(kind)])
    if kind == "any bits":
        bits = rng.integers(0, 2**32, size + 3, np.uint32)
        return bits.view(np.float32)[3:]
    scale = {"normal": 1, "tiny": 1e-38, "halves": 1, "huge": 1e38}[kind]
    values = scale * rng.standard_normal(size + 3).clip(-3, 3)
    if kind == "halves":  # what lies between two codes
        values = np.round(values * 8) / 2
        values[::BLOCK_STEP] = 127
    return values.astype(np.float32)[3:]


BLOCK_STEP = 50


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether all are equal; a NaN is one, whatever its bits."""
    both_nan = np.isnan(one) & np.isnan(other)
    return bool(np.all((one.view(np.int32) == other.view(np.int32)) | both_nan))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:(invalid|overflow)")
def test_bfloat16_equals_reference_to_the_last_bit(kind: str, size: int) -> None:
    values = vector(kind, size)
    found, expected = np.zeros((2, size), np.uint16)
    wire.encode_bfloat16(values, found)
    reference.encode_bfloat16(values, expected)
    assert np.array_equal(found, expected)
    total, wanted = np.ones((2, size), np.float32)
    wire.add_bfloat16(found, total)
    reference.add_bfloat16(found, wanted)
    assert same_bits(total, wanted)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:(invalid|overflow|divide)")
def test_int8_equals_reference_to_the_last_bit(kind: str, size: int) -> None:
    values, residuals = vector(kind, size), np.stack([vector("normal", size, 1)] * 2)
    codes = np.zeros((2, size), np.int8)
    scales = np.zeros((2, -(-size // reference.BLOCK)), np.float32)
    for number, implementation in enumerate((wire, reference)):
        implementation.encode_int8(values, residuals[number], scales[number], codes[number])
    assert np.array_equal(codes[0], codes[1])
    assert same_bits(scales[0], scales[1])
    assert same_bits(residuals[0], residuals[1])
    total, wanted = np.ones((2, size), np.float32)
    wire.add_int8(scales[0], codes[0], total)
    reference.add_int8(scales[0], codes[0], wanted)
    assert same_bits(total, wanted)


@pytest.mark.parametrize("size", [*SIZES, 255, 2 * reference.BLOCK - 1])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:(invalid|overflow|divide)")
def test_float4_equals_reference_to_the_last_bit(kind: str, size: int) -> None:
    values, residuals = vector(kind, size), np.stack([vector("normal", size, 1)] * 2)
    codes = np.zeros((2, -(-size // 2)), np.uint8)
    scales = np.zeros((2, -(-size // reference.BLOCK)), np.float32)
    for number, implementation in enumerate((wire, reference)):
        implementation.encode_float4(values, residuals[number], scales[number], codes[number])
    assert np.array_equal(codes[0], codes[1])
    assert same_bits(scales[0], scales[1])
    assert same_bits(residuals[0], residuals[1])
    total, wanted = np.ones((2, size), np.float32)
    wire.add_float4(scales[0], codes[0], total)
    reference.add_float4(scales[0], codes[0], wanted)
    assert same_bits(total, wanted)


def test_vectors_of_other_lengths_are_refused() -> None:
    a, b = np.zeros(3, np.float32), np.zeros(4, np.float32)
    one, none = np.zeros(1, np.float32), np.zeros(0, np.float32)
    halves, bytes_ = np.zeros(4, np.uint16), np.zeros(3, np.int8)
    with pytest.raises(ValueError, match="same length"):
        wire.encode_bfloat16(a, halves)
    with pytest.raises(ValueError, match="same length"):
        wire.add_bfloat16(halves, a)
    with pytest.raises(ValueError, match="same length"):
        wire.encode_int8(a, b, one, bytes_)
    with pytest.raises(ValueError, match="one element for each block"):
        wire.encode_int8(a, a.copy(), none, bytes_)
    with pytest.raises(ValueError, match="same length"):
        wire.add_int8(one, bytes_, b)
    with pytest.raises(ValueError, match="one element for each block"):
        wire.add_int8(none, bytes_, a)
    pairs = np.zeros(2, np.uint8)
    with pytest.raises(ValueError, match="same length"):
        wire.encode_float4(a, b, one, pairs)
    with pytest.raises(ValueError, match="one element for each two"):
        wire.encode_float4(a, a.copy(), one, pairs[:1])
    with pytest.raises(ValueError, match="one element for each block"):
        wire.encode_float4(a, a.copy(), none, pairs)
    with pytest.raises(ValueError, match="one element for each two"):
        wire.add_float4(one, pairs[:1], a)
    with pytest.raises(ValueError, match="one element for each block"):
        wire.add_float4(none, pairs, a)

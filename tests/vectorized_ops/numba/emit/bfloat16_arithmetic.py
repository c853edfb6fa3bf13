"""What kernels make of bfloat16, and what the instructions' rule makes of the same.

`python bfloat16_arithmetic.py FILE` writes what the kernels of the processor compiled for give.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numba import types

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.bfloat16 import IS_NATIVE, as_pair, store_element
from vectorized_ops.numba.emit.lanes import LANES, Lanes, tile

LOWER_HALVES = (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)
"""Beside all upper halves: below, at and above ties."""

SPECIAL = np.array(
    [0, 1, 0x7F, 0x80, 0x81, 0xFF, 0x3F80, 0x4000, 0x7F00, 0x7F7F, 0x7F80, 0x7F81, 0x7FC0],
    np.uint32,
)
"""Upper halves: zero, denormals, the smallest, ones, the largest, infinity, NaNs."""

SIGN, EXPONENT = np.uint32(0x80000000), np.uint32(0x7F800000)


@tile
def rounded_tile(typingctx: Any, out: Any, values: Any, index: Any) -> Any:
    """A vector of float32, rounded to bfloat16."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        value = lanes.load(lanes.pointer(1, args[1], args[2]))
        lanes.store(value, lanes.pointer(0, args[0], args[2]))
        return context.get_dummy_value()

    return types.void(out, values, types.int64), generate


@tile
def added_tile(typingctx: Any, out: Any, left: Any, right: Any, addends: Any, index: Any) -> Any:
    """A vector of addends and products of pairs."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        vectors = [lanes.load(lanes.pointer(i, args[i], args[4])) for i in (1, 2, 3)]
        lanes.store(lanes.add_pairs(*vectors), lanes.pointer(0, args[0], args[4]))
        return context.get_dummy_value()

    return types.void(out, left, right, addends, types.int64), generate


@kernel
def round_all(out: Any, single: Any, pairs: Any, values: Any) -> None:
    """Vectors and single numbers, and pairs of each number and the one behind it."""
    for index in range(0, len(values), LANES):
        rounded_tile(out, values, index)
    for index in range(len(values)):
        store_element(single, index, values[index])
        pairs[index] = as_pair(values[index], values[(index + 1) % len(values)])


@kernel
def add_all(out: Any, left: Any, right: Any, addends: Any) -> None:
    """Addends and products of pairs, vector by vector."""
    for index in range(0, len(addends), LANES):
        added_tile(out, left, right, addends, index)


def to_round() -> np.ndarray:
    """All upper halves of float32's bits with some lower ones."""
    lower = np.array(LOWER_HALVES, np.uint32)
    return (np.arange(2**16, dtype=np.uint32)[:, None] << 16 | lower).reshape(-1).view(np.float32)


def rounded_by_rule(values: np.ndarray) -> np.ndarray:
    """To nearest even, denormal numbers to zeros; NaN get their quiet bit."""
    bits = flushed(values).view(np.uint32)
    below, half = bits & np.uint32(0xFFFF0000), bits & np.uint32(0xFFFF)
    odd = (bits >> 16) & 1 == 1
    up = (half > 0x8000) | ((half == 0x8000) & odd)
    upper = (below >> 16) + up
    return np.where(np.isnan(values), bits >> 16 | 0x40, upper).astype(np.uint16)


def to_multiply() -> list[np.ndarray]:
    """Pairs, as float32, pairs to multiply them with, and addends."""
    rng, size = np.random.default_rng(0), 2**14
    halves, addends = [], []
    # Any bits: all magnitudes, of which one term mostly outweighs the others.
    halves.append(rng.integers(0, 2**16, (4, size)))
    addends.append(rng.integers(0, 2**32, size))
    # Terms of like magnitudes, around 1 and where results are denormal or infinite.
    for middle in (0, -126, -135, -149, 127):
        exponents = rng.integers(-12, 13, (3, size)) + middle
        left = rng.integers(-100, 100, (2, size))
        both = np.stack([left, np.clip(exponents[:2] - left, -126, 127)], 1).reshape(4, size)
        halves.append(_bits(rng, np.clip(both, -126, 127), 7))
        addends.append(_bits(rng, np.clip(exponents[2], -127, 127), 23))
    # Everything special with everything else.
    halves.append(rng.choice(SPECIAL, (4, 4 * size)) | rng.choice([0, 0x8000], (4, 4 * size)))
    addends.append(rng.choice(SPECIAL, 4 * size) << 16 | rng.choice([0, 1, 2**31], 4 * size))
    a, b, c, d = np.concatenate(halves, axis=1).astype(np.uint32)
    pairs = [first | second << 16 for first, second in ((a, c), (b, d))]
    return [each.view(np.float32) for each in (*pairs, np.concatenate(addends).astype(np.uint32))]


def _bits(rng: np.random.Generator, exponents: np.ndarray, size: int) -> np.ndarray:
    """Random numbers of these exponents; -127 stands for denormal numbers."""
    signs, fractions = (
        rng.integers(0, 2, exponents.shape),
        rng.integers(0, 2**size, exponents.shape),
    )
    return (signs << (8 + size)) | (exponents + 127 << size) | fractions


def added_by_rule(left: np.ndarray, right: np.ndarray, addends: np.ndarray) -> np.ndarray:
    """Two fused multiply-adds, the second elements first; denormals are zeros everywhere.

    The instructions write zeros also for what is rounded to the smallest number only because there
    are denormal ones: none is
    among `to_multiply`.
    """
    total = flushed(addends)
    for shift, mask in ((0, 0xFFFF0000), (16, 0xFFFFFFFF)):
        factors = [
            flushed(((each.view(np.uint32) & np.uint32(mask)) << shift).view(np.float32))
            for each in (left, right)
        ]
        total = fused(*factors, total)
    return total


def fused(left: np.ndarray, right: np.ndarray, addends: np.ndarray) -> np.ndarray:
    """left*right + addends, rounded once, and to zero if denormal."""
    with np.errstate(all="ignore"):
        product, addend = left.astype(np.float64) * right, addends.astype(np.float64)  # exact
        total = product + addend
        part = total - product
        lost = (product - (total - part)) + (addend - part)
        # An odd number in place of an even one that is not exact: it rounds as the exact one does.
        even = np.isfinite(total) & (total.view(np.int64) & 1 == 0)
        other = np.nextafter(total, np.where(lost > 0, np.inf, -np.inf))
        total = np.where(even & (lost != 0), other, total)
        return flushed(total.astype(np.float32))


def flushed(values: np.ndarray) -> np.ndarray:
    bits = values.view(np.uint32)
    return np.where(bits & EXPONENT, bits, bits & SIGN).astype(np.uint32).view(np.float32)


def found() -> dict[str, np.ndarray]:
    """What kernels give."""
    values, factors = to_round(), to_multiply()
    out, single = (np.empty(len(values), np.uint16) for _ in range(2))
    pairs, sums = np.empty_like(values), np.empty_like(factors[2])
    round_all(out, single, pairs, values)
    add_all(sums, *factors)
    return {"rounded": out, "single": single, "pairs": pairs, "sums": sums}


if __name__ == "__main__":
    np.savez(sys.argv[1], native=IS_NATIVE, **found())

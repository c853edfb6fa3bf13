"""Products of tiles: Intel's definition to the bit, by the instruction too where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import types
from numpy.testing import assert_array_equal

from vectorized_ops.numba.amx_permission import amx_refusal
from vectorized_ops.numba.compiling.compiler import kernel, target_has_amx
from vectorized_ops.numba.compiling.tile_functions import TileFunction, call_tile
from vectorized_ops.numba.emit.amx import TILE, Tiles
from vectorized_ops.numba.emit.lanes import LANES, Lanes, tile

from . import bfloat16_arithmetic as arithmetic

NUMBER = 24


@tile
def product_tile(
    _typing: Any, rows: Any, depth: Any, native: Any, out: Any, left: Any, right: Any, index: Any
) -> Any:
    """Add the product of two tiles to sums, all with rows of TILE and of LANES elements."""
    height, deep = rows.literal_value, depth.literal_value
    signature = types.void(rows, depth, native, out, left, right, types.int64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        tiles = Tiles(lanes, bool(native.literal_value), deep)
        at_left = lanes.pointer(4, args[4], lanes.product(args[6], TILE * TILE))
        shift = lanes.product(args[6], TILE * LANES)
        place, at_right = lanes.pointer(3, args[3], shift), lanes.pointer(5, args[5], shift)
        factors = tiles.left(at_left, TILE, height), tiles.right(at_right, LANES)
        sums = tiles.multiply(tiles.sums(place, LANES, height), *factors, height)
        tiles.store(sums, place, LANES, height)
        return context.get_dummy_value()

    return signature, generate


PRODUCT = TileFunction(product_tile, ("rows", "depth", "native"))


@kernel
def multiply_all(product: int, out: Any, left: Any, right: Any, number: int) -> None:
    for index in range(number):
        call_tile(product, out, left, right, index)


def operands(kind: str) -> list[np.ndarray]:
    """Tiles (number, rows, pairs), (number, pairs, columns) and sums (number, rows, columns)."""
    rng, shapes = np.random.default_rng(3), ((TILE, TILE), (TILE, LANES), (TILE, LANES))
    if kind == "any bits":
        return [_drawn(rng, 2**32, shape) for shape in shapes]
    if kind == "cancelling":  # sums that are far smaller than their terms, some of them denormal
        pairs = [
            rng.choice(np.arange(0x3E80, 0x4000), (2, NUMBER, *shape)).astype(np.uint32)
            | rng.choice([0, 0x8000], (2, NUMBER, *shape)).astype(np.uint32)
            for shape in shapes[:2]
        ]
        left, right = (low | high << 16 for low, high in pairs)
        for factors in (left, right):
            factors[::2] -= np.uint32(0x1F801F80)  # products around 2^-126
        sums = rng.choice([0, 0x00800000, 0x80800001, 1], (NUMBER, *shapes[2]))
        return [each.astype(np.uint32).view(np.float32) for each in (left, right, sums)]
    special = np.array(arithmetic.SPECIAL, np.uint32)
    drawn = []
    for shape in shapes:
        low, high = (rng.choice(special, (NUMBER, *shape)) for _ in range(2))
        keep = rng.random((NUMBER, *shape)) < 0.1  # what is no number spoils whole sums
        bits = np.where(keep, low | high << 16, np.uint32(0x3F80BF80))
        drawn.append(bits.astype(np.uint32).view(np.float32))
    return drawn


def _drawn(rng: np.random.Generator, end: int, shape: tuple[int, ...]) -> np.ndarray:
    bits = rng.integers(0, end, (NUMBER, *shape)).astype(np.uint32)
    # Exponents near 1, so that few sums are infinite.
    bits = bits & np.uint32(0x83FF83FF) | np.uint32(0x3C003C00)
    return bits.view(np.float32)


def _as_pairs(pairs: np.ndarray) -> np.ndarray:
    """Their elements in float64, behind the other axes."""
    low, high = pairs.view(np.uint32) << np.uint32(16), pairs.view(np.uint32) & 0xFFFF0000
    return np.stack([each.astype(np.uint32).view(np.float32) for each in (low, high)], -1).astype(
        np.float64
    )


def by_definition(
    left: np.ndarray, right: np.ndarray, sums: np.ndarray, depth: int = TILE
) -> np.ndarray:
    """TDPBF16PS, of all tiles at a time."""
    totals = []
    for shift in (16, 0):
        halves = [
            arithmetic.flushed(
                (each.view(np.uint32) << np.uint32(shift) & np.uint32(0xFFFF0000)).view(np.float32)
            )
            for each in (left, right)
        ]
        total = np.zeros(sums.shape, np.float32)
        for k in range(depth):
            factors = np.broadcast_arrays(halves[0][:, :, k, None], halves[1][:, k, None, :])
            total = arithmetic.fused(*(np.ascontiguousarray(it) for it in factors), total)
        totals.append(total)
    with np.errstate(all="ignore"):
        both = arithmetic.flushed(totals[0] + totals[1])
        return arithmetic.flushed(arithmetic.flushed(sums) + both)


def bits(values: np.ndarray) -> np.ndarray:
    """Of float32, all NaN being the same one."""
    return np.where(np.isnan(values), 0x7FC00000, values.view(np.uint32))


def found(
    left: np.ndarray, right: np.ndarray, sums: np.ndarray, rows: int, depth: int, native: bool
) -> np.ndarray:
    out = sums.copy()
    product = PRODUCT.address(rows, depth, int(native))
    multiply_all(product, out.reshape(-1), left.reshape(-1), right.reshape(-1), len(sums))
    return out


KINDS = ["any bits", "cancelling", "special"]


@pytest.mark.parametrize(("rows", "depth"), [(TILE, TILE), (3, TILE), (TILE, TILE // 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_emulated_products_are_those_of_the_definition(kind: str, rows: int, depth: int) -> None:
    left, right, sums = operands(kind)
    expected = by_definition(left, right, sums, depth)
    expected[:, rows:] = sums[:, rows:]
    out = found(left, right, sums, rows, depth, native=False)
    assert_array_equal(bits(out), bits(expected))
    assert (bits(out[:, :rows]) != bits(sums[:, :rows])).mean() > 0.5


def test_operands_have_what_is_lost_and_what_is_no_number() -> None:
    for kind in KINDS:
        left, right, sums = operands(kind)
        expected = by_definition(left, right, sums)
        if kind == "special":
            assert np.isnan(expected).any()
            assert np.isinf(expected).any()
        assert np.isfinite(expected).any()
        if kind == "cancelling":
            exact = np.einsum("tmkp,tknp->tmn", *(_as_pairs(it) for it in (left, right))) + sums
            small = (np.abs(exact) < np.finfo(np.float32).tiny) & (exact != 0)
            assert small.mean() > 0.02
            assert (expected[small] == 0).any()


@pytest.mark.skipif(
    not target_has_amx() or amx_refusal() is not None, reason="no AMX in this processor"
)
@pytest.mark.parametrize(("rows", "depth"), [(TILE, TILE), (3, TILE // 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_instruction_gives_the_bits_of_its_emulation(kind: str, rows: int, depth: int) -> None:
    given = operands(kind)
    native, emulated = (found(*given, rows, depth, each) for each in (True, False))
    assert_array_equal(bits(native), bits(emulated))

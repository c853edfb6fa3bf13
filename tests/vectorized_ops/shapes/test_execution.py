from __future__ import annotations

import math
from dataclasses import replace

import pytest

from vectorized_ops.shapes import (
    AdditionShape,
    ConcatenationShape,
    ConvolutionShape,
    MaxPoolingShape,
    PoolingShape,
    SgdShape,
)
from vectorized_ops.shapes.execution import ExecutedCost, executed

WIDE = ConvolutionShape(32, 14, 14, 4096, 4096, (3, 3), padding=(1, 1))
"""So wide that transforms weigh next to nothing."""

PAIRS = 32 * 4096 * 4096


@pytest.mark.parametrize(("images", "padded"), [(32, 32), (20, 32), (1, 16)])
def test_direct_sums_compute_whole_vectors_of_images(images: int, padded: int) -> None:
    shape = replace(WIDE, images=images, channels=8, filters=8)
    cost = shape.costs["forward"]
    moved = cost.compulsory_bytes - 4 * math.prod(shape.weights)
    weights = 3 * 4 * math.prod(shape.weights)  # read, and written and read again packed
    expected = ExecutedCost(cost.flops * padded // images, moved * padded // images + weights)
    assert executed(shape, "forward") == executed(shape, "forward", "direct") == expected


@pytest.mark.parametrize(
    ("algorithm", "multiplications"), [("winograd2", 28 * 28), ("winograd4", 22 * 22)]
)
@pytest.mark.parametrize("direction", ["forward", "backward_data", "backward_weights"])
def test_winograd_multiplies_as_often_as_its_tiles_have_points(
    algorithm: str, multiplications: int, direction: str
) -> None:
    found = executed(WIDE, direction, algorithm).executed_flops
    assert found == pytest.approx(2 * multiplications * PAIRS, rel=0.02)
    assert found > 2 * multiplications * PAIRS


@pytest.mark.parametrize(
    ("direction", "second", "weights"),
    [("forward", 4 * (4 + 2), 10 * (3 + 4)), ("backward_weights", 2 * (2 + 4), 11 * (4 + 3))],
)
def test_transforms_of_one_tile_are_counted(direction: str, second: int, weights: int) -> None:
    """Of F(2, 3): B^T has 4 sums, A^T 4, G 4 sums and 6 products.

    Transposed, A has 4 sums less 4 rows; G's transpose 6 products and 8 terms less 3 rows.
    """
    shape = ConvolutionShape(16, 4, 4, 1, 1, (3, 3))
    products, inputs = 2 * 16, 4 * (4 + 4)
    found = executed(shape, direction, "winograd2").executed_flops
    assert found == 16 * (products + inputs + second) + weights


def test_a_last_odd_pixel_is_not_strassens() -> None:
    even, odd = (
        executed(ConvolutionShape(32, 1, pixels, 64, 64, (1, 1)), "forward", "strassen")
        for pixels in (2, 3)
    )
    assert odd.executed_flops - even.executed_flops == 2 * 32 * 64 * 64


def test_backward_data_has_tiles_on_the_images() -> None:
    shape = replace(WIDE, padding=(0, 0))
    forward, backward = (
        executed(shape, direction, "winograd4").executed_flops
        for direction in ("forward", "backward_data")
    )
    assert forward / backward == pytest.approx((18 / 22) ** 2, rel=0.02)


def test_groups_have_fewer_pairs() -> None:
    one, two = (
        executed(WIDE, "forward", "winograd4"),
        executed(replace(WIDE, groups=2), "forward", "winograd4"),
    )
    assert two.executed_flops / one.executed_flops == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize("direction", ["forward", "backward_data"])
def test_strassen_has_seven_of_eight_products_and_fifteen_sums(direction: str) -> None:
    shape = ConvolutionShape(32, 1, 2, 8, 16, (1, 1))
    inputs, outputs = (8, 16) if direction == "forward" else (16, 8)
    sums = 4 * 8 * 16 // 4 + (4 * inputs + 7 * outputs) * 64 // 4
    found = executed(shape, direction, "strassen")
    assert found.executed_flops == shape.flops * 7 // 8 + sums
    packed = 2 * 4 * 2 * 8 * 16
    assert found.layout_bytes == shape.costs[direction].compulsory_bytes + packed


def test_what_is_bound_by_memory_moves_padding_too() -> None:
    addition = AdditionShape((20, 2, 2, 3))
    assert executed(addition, "forward") == ExecutedCost(32 * 12, 3 * 4 * 32 * 12)
    concatenation = ConcatenationShape((20, 2, 2, 3))
    assert executed(concatenation, "forward").layout_bytes == 2 * 4 * 32 * 12
    pooling = MaxPoolingShape(20, 3, PoolingShape(4, 4, (2, 2), (2, 2)))
    whole = replace(pooling, images=32).costs["forward"]
    assert executed(pooling, "forward") == ExecutedCost(whole.flops, whole.compulsory_bytes)
    assert executed(SgdShape(10), "update") == ExecutedCost(40, 200)

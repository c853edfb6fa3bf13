"""What an algorithm executes and moves, beside what the operation costs by its definition.

`flops` of a `Cost` compare algorithms; bounds and efficiencies need these. Counted is the layout of
the Numba kernels: N images are padded to N', weights are packed once in a call. Transforms are
counted as their matrices say: an operation for each coefficient but the first of a row, and one
more for each that is neither 1 nor -1 (kernels share some of them, and execute fewer).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, cast

from vectorized_ops.layout import padded_images
from vectorized_ops.shapes.operation import FLOAT_BYTES, OperationShape
from vectorized_ops.shapes.weighted import ConvolutionShape
from vectorized_ops.winograd import Matrix, WinogradTransform, transposed, winograd_transform

__all__ = ["ExecutedCost", "executed"]

STRASSEN_PRODUCTS = Fraction(7, 8)
STRASSEN_SUMS = {"weights": 4, "inputs": 4, "outputs": 7}
"""Sums of quarters in one level of Strassen's algorithm, in Winograd's form."""


@dataclass(frozen=True, slots=True)
class ExecutedCost:
    """Operations executed, and bytes moved with padding and packed weights, in one direction."""

    executed_flops: int
    layout_bytes: int


def executed(
    shape: OperationShape,
    direction: str,
    algorithm: str | None = None,
    value_bytes: int = FLOAT_BYTES,
    pads: bool = True,
) -> ExecutedCost:
    """What `algorithm` of `TunedConvolution` does in a direction; None is direct computation.

    Activations have `value_bytes` each. An implementation that `pads` has whole vectors of images.
    """
    padded = _padded(shape) if pads else shape
    cost = padded.costs[direction].kept_in(value_bytes)
    if not isinstance(padded, ConvolutionShape):
        return ExecutedCost(cost.flops, cost.compulsory_bytes)
    packed = math.prod(padded.weights)
    if algorithm == "strassen":
        flops, packed = _strassen(padded, direction)
    elif algorithm is not None and algorithm.startswith("winograd"):
        flops, packed = _winograd(padded, direction, int(algorithm[-1]))
    else:
        flops = cost.flops
    return ExecutedCost(flops, cost.compulsory_bytes + 2 * FLOAT_BYTES * packed)


def _padded(shape: Any) -> OperationShape:
    """The shape with N' images; it has their number by itself, or first in an array's extents."""
    names = {field.name for field in fields(shape)}
    if "images" in names:
        return cast(OperationShape, replace(shape, images=padded_images(shape.images)))
    for name in names & {"inputs", "outputs"}:
        images, *rest = getattr(shape, name)
        return cast(OperationShape, replace(shape, **{name: (padded_images(images), *rest)}))
    return cast(OperationShape, shape)


def _strassen(shape: ConvolutionShape, direction: str) -> tuple[int, int]:
    """Operations, and floats of packed weights: 8 quarters' sums. A last odd pixel is direct."""
    pairs, odd = divmod(shape.lines * shape.pixels, 2)
    weights, paired = shape.filters * shape.channels, 2 * pairs * shape.images
    inputs, outputs = shape.channels, shape.filters
    if direction == "backward_data":
        inputs, outputs = outputs, inputs
    sizes = {"weights": weights, "inputs": inputs * paired, "outputs": outputs * paired}
    sums = sum(STRASSEN_SUMS[what] * size // 4 for what, size in sizes.items())
    products = STRASSEN_PRODUCTS * paired + odd * shape.images
    return int(2 * products * weights) + sums, 2 * weights


def _winograd(shape: ConvolutionShape, direction: str, outputs: int) -> tuple[int, int]:
    """Operations, and floats of transformed weights.

    Tiles at the ends of a map have only the pixels that exist. Backward-weights is the adjoint:
    the transposed maps of outputs and weights serve the gradient and the result.
    """
    taps, backward = shape.kernel[0], direction == "backward_data"
    height, width = shape.inputs[1:3] if backward else shape.outputs[1:3]
    inputs, results = shape.channels, shape.filters
    if backward:
        inputs, results = results, inputs
    pairs = shape.channels * shape.filters // shape.groups
    adjoint = transposed if direction == "backward_weights" else _same
    flops = 0
    for down, lines in _tiles(height, outputs, taps):
        for across, columns in _tiles(width, outputs, taps):
            tile = 2 * down.points * across.points * pairs
            tile += inputs * _in_two_dimensions(down.input_map, across.input_map)
            maps = adjoint(down.output_map), adjoint(across.output_map)
            tile += results * _in_two_dimensions(*maps)
            flops += lines * columns * shape.images * tile
    whole = winograd_transform(outputs, taps)
    weights_map = adjoint(whole.weights_map)
    return flops + pairs * _in_two_dimensions(weights_map, weights_map), pairs * whole.points**2


def _same(matrix: Matrix) -> Matrix:
    return matrix


def _tiles(side: int, outputs: int, taps: int) -> list[tuple[WinogradTransform, int]]:
    """The kinds of tiles along a side, and how many there are of each."""
    whole, rest = divmod(side, outputs)
    kinds = [(winograd_transform(outputs, taps), whole)] if whole else []
    return kinds + ([(winograd_transform(outputs, taps, rest), 1)] if rest else [])


def _in_two_dimensions(down: Matrix, across: Matrix) -> int:
    """Operations of down * tile * across^T: columns first, then the rows of what that gives."""
    return len(across[0]) * _operations(down) + len(down) * _operations(across)


def _operations(matrix: Matrix) -> int:
    """Operations of the matrix and a vector."""
    found = [coefficient for row in matrix for coefficient in row if coefficient]
    products = sum(abs(coefficient) != 1 for coefficient in found)
    return products + len(found) - len(matrix)

"""The contract of convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from contracts.memory import (
    REFERENCE,
    ROUNDED,
    Draw,
    Memory,
    Target,
    check_agreement,
    draw_rng,
    draw_target,
    not_all_numbers,
    whole_numbers,
)
from hypothesis import strategies as st

from vectorized_ops.shapes import ConvolutionShape


def draw_convolution(draw: Draw, counts: Sequence[int]) -> ConvolutionShape:
    """Any shape: odd sides, oblong windows, groups, windows in the padding, maps of one pixel."""
    groups = draw(st.sampled_from([1, 1, 1, 2, 3, 17]))
    few = [count for count in counts if groups == 1 or count <= 4]
    depth, breadth = (draw(st.sampled_from(few)) for _ in ("channels", "filters"))
    sides, kernel, padding, dilation = [], [], [], []
    for _ in "yx":
        kernel.append(draw(st.integers(1, 5)))
        dilation.append(draw(st.sampled_from([1, 1, 2, 3])))
        extent = (kernel[-1] - 1) * dilation[-1] + 1
        padding.append(draw(st.integers(0, extent)))
        least = max(1, extent - 2 * padding[-1])
        sides.append(draw(st.integers(least, least + 8)))
    return ConvolutionShape(
        images=draw(st.integers(1, 32)),
        height=sides[0],
        width=sides[1],
        channels=groups * depth,
        filters=groups * breadth,
        kernel=(kernel[0], kernel[1]),
        stride=(draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([1, 1, 2, 3]))),
        padding=(padding[0], padding[1]),
        dilation=(dilation[0], dilation[1]),
        groups=groups,
    )


@dataclass(frozen=True)
class Operands:
    """What a convolution is given; `summed` is the gradient from which weights get theirs."""

    images: np.ndarray
    weights: np.ndarray
    bias: np.ndarray | None
    gradient: np.ndarray
    summed: np.ndarray
    target: Target
    relu: bool = False

    def results(self, operation: Any, place: Memory) -> list[np.ndarray]:
        """Outputs, and the gradients of images, weights and, if there is one, bias."""
        images, out = place.holding(self.images), place.garbage(*self.gradient.shape)
        weights = place.parameters(self.weights)
        bias = None if self.bias is None else place.parameters(self.bias)
        operation.forward(images, weights, bias, out, relu=self.relu)
        weights_out = place.parameters_out(*weights.shape)
        bias_out = None if self.bias is None else place.parameters_out(len(self.bias))
        summed = place.holding(self.summed, padding=0)
        operation.backward_weights(images, summed, weights_out, bias_out)
        images_out = self.target.out(place)
        operation.backward_data(
            place.holding(self.gradient), weights, images_out, **self.target.options(place)
        )
        number = len(self.images)
        results = [out[:number], images_out[:number], weights_out]
        return results if bias_out is None else [*results, bias_out]

    def exact(self, shape: ConvolutionShape) -> list[np.ndarray]:
        """What the reference makes of them in float64."""
        return self.results(REFERENCE.convolution(shape), Memory(REFERENCE, exact=True))


def normal_operands(shape: ConvolutionShape) -> Operands:
    """Operands of a standard normal distribution; the gradient of the images is overwritten."""
    rng = np.random.default_rng(1)
    sizes = shape.inputs, shape.weights, (shape.filters,), shape.outputs
    drawn = [rng.standard_normal(size).astype(np.float32) for size in sizes]
    return Operands(*drawn, summed=drawn[3], target=Target(shape.inputs, None, None))


def whole_operands(shape: ConvolutionShape) -> Operands:
    """Small whole numbers; the gradient of the images is added and masked, the outputs cut off."""
    rng = np.random.default_rng(2)
    sizes = shape.inputs, shape.weights, (shape.filters,), shape.outputs
    drawn = [whole_numbers(rng, *size) for size in sizes]
    before, mask = (whole_numbers(rng, *shape.inputs) for _ in ("before", "mask"))
    target = Target(shape.inputs, before, mask)
    return Operands(*drawn, summed=drawn[3], target=target, relu=True)


def check_convolution(name: str, draw: Draw, counts: Sequence[int] = range(1, 31)) -> None:
    """All three directions equal the reference for a drawn shape, and so does what is no number.

    The channels and the filters of a group are drawn from `counts`.
    """
    shape, (seed, rng) = draw_convolution(draw, counts), draw_rng(draw)
    values, gradient = whole_numbers(rng, *shape.inputs), whole_numbers(rng, *shape.outputs)
    weights, bias = whole_numbers(rng, *shape.weights), whole_numbers(rng, shape.filters)
    with_bias, relu = draw(st.booleans()), draw(st.booleans())
    target = draw_target(draw, rng, *shape.inputs)
    summed = gradient
    if draw(st.booleans()):
        values, gradient = (not_all_numbers(rng, array) for array in (values, gradient.copy()))
        # Whether a tap in the padding makes NaN of 0 * inf is left to the implementation.
        summed = summed if any(shape.padding) else gradient
    operands = Operands(
        values, weights, bias if with_bias else None, gradient, summed, target, relu
    )
    check_agreement(
        name, seed, lambda place: operands.results(place.operations.convolution(shape), place)
    )


def check_in_bfloat16(
    shape: ConvolutionShape,
    make: Callable[[ConvolutionShape], Any],
    tolerances: Sequence[float] = (),
) -> None:
    """Activations in bfloat16, also slices of channels, give what the reference gives, rounded.

    With all that may be done to the results, and without.
    """
    whole = whole_operands(shape)
    whole = replace(whole, weights=5 * whole.weights)  # so that many results are rounded
    for seed, operands in enumerate(
        [whole, replace(whole, bias=None, relu=False, target=Target(shape.inputs, None, None))] * 2
    ):

        def run(place: Memory, operands: Operands = operands) -> list[np.ndarray]:
            of_reference = place.operations is REFERENCE
            made = REFERENCE.convolution(shape) if of_reference else make(shape)
            return operands.results(made, place)

        check_agreement(ROUNDED, seed, run, tolerances[: 4 - (operands.bias is None)])

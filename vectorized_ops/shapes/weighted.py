"""Operations with weights: convolutions, whose pairs are (y, x), and dense layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import Operations
from vectorized_ops.shapes.operation import (
    FLOAT_BYTES,
    Calls,
    Cost,
    Pair,
    TimedShape,
    by,
    check_least,
    positions,
)

__all__ = ["ConvolutionShape", "DenseShape"]


@dataclass(frozen=True, slots=True)
class ConvolutionShape(TimedShape):
    """A convolution of `images` maps of height x width x channels with `filters` filters.

    Tap (r, s) of the kernel lies `dilation` pixels from the next; windows are `stride` pixels
    apart on the map bordered with `padding` zeros, and may lie in the padding altogether. Of G
    groups, each convolves channels / G with filters / G. Raises OperationError for shapes without
    a window, for counts below 1 and for groups that divide channels or filters with a remainder.
    """

    kind: ClassVar[str] = "convolution"
    is_product: ClassVar[bool] = True

    images: int
    height: int
    width: int
    channels: int
    filters: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    def __post_init__(self) -> None:
        what = "a convolution"
        for name in ("images", "height", "width", "channels", "filters", "groups"):
            check_least(what, name, getattr(self, name), 1)
        for name in ("kernel", "stride", "dilation"):
            check_least(what, name, getattr(self, name), 1)
        check_least(what, "padding", self.padding, 0)
        for name in ("channels", "filters"):
            if getattr(self, name) % self.groups:
                raise OperationError(
                    f"a convolution with {name} = {getattr(self, name)} in {self.groups} groups "
                    f"was asked for: expected a multiple of {self.groups}; change {name} or groups"
                )
        if min(self.lines, self.pixels) < 1:
            raise OperationError(
                f"a kernel of {by(self.kernel)} taps, {by(self.dilation)} pixels apart, was "
                f"asked for on {by((self.height, self.width))} pixels with padding "
                f"{by(self.padding)}: expected one that fits; use a smaller kernel or dilation, "
                "more padding or larger images"
            )

    @property
    def lines(self) -> int:
        """Height H' of the output."""
        return positions(self.height, self._extent(0), self.stride[0], self.padding[0])

    @property
    def pixels(self) -> int:
        """Width W' of the output."""
        return positions(self.width, self._extent(1), self.stride[1], self.padding[1])

    @property
    def inputs(self) -> tuple[int, int, int, int]:
        """Shape (N, H, W, C) of the images."""
        return self.images, self.height, self.width, self.channels

    @property
    def outputs(self) -> tuple[int, int, int, int]:
        """Shape (N, H', W', K) of the output."""
        return self.images, self.lines, self.pixels, self.filters

    @property
    def weights(self) -> tuple[int, int, int, int]:
        """Shape (K, C / groups, R, S) of the weights."""
        return self.filters, self.channels // self.groups, *self.kernel

    @property
    def group_slices(self) -> list[tuple[slice, slice]]:
        """The channels and the filters of each group."""
        channels, filters = self.channels // self.groups, self.filters // self.groups
        return [
            (
                slice(number * channels, (number + 1) * channels),
                slice(number * filters, (number + 1) * filters),
            )
            for number in range(self.groups)
        ]

    @property
    def flops(self) -> int:
        """2 N K C/groups R S H' W', in each of the three directions; padding counts as well."""
        filters, channels, taps_y, taps_x = self.weights
        products = filters * channels * taps_y * taps_x
        return 2 * self.images * self.lines * self.pixels * products

    @property
    def costs(self) -> Mapping[str, Cost]:
        """Any direction: images, weights and outputs once."""
        weights = math.prod(self.weights)
        moved = weights + math.prod(self.inputs) + math.prod(self.outputs)
        cost = Cost(self.flops, FLOAT_BYTES * moved, FLOAT_BYTES * weights)
        return dict.fromkeys(("forward", "backward_data", "backward_weights"), cost)

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import operand, weighted_calls

        values, out = operand(operations, self.inputs), operand(operations, self.outputs)
        made = operations.convolution(self)
        return weighted_calls(made, values, out, self.weights, self.filters)

    def __str__(self) -> str:
        stride = f", stride {self.stride[0]}" if self.stride != (1, 1) else ""
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        return f"{by(self.inputs[1:])} -> {self.filters}, {by(self.kernel)}{stride}{groups}"

    def _extent(self, axis: int) -> int:
        """Pixels from the first tap of the kernel to its last, both included."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1


@dataclass(frozen=True, slots=True)
class DenseShape(TimedShape):
    """A dense layer of `units` outputs for `images` vectors of `inputs` values."""

    kind: ClassVar[str] = "dense"
    is_product: ClassVar[bool] = True

    images: int
    inputs: int
    units: int

    @property
    def costs(self) -> Mapping[str, Cost]:
        """Any direction: 2 N I O operations; inputs, weights and outputs once."""
        weights = self.inputs * self.units
        moved = weights + self.images * (self.inputs + self.units)
        cost = Cost(2 * self.images * weights, FLOAT_BYTES * moved, FLOAT_BYTES * weights)
        return dict.fromkeys(("forward", "backward_data", "backward_weights"), cost)

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import operand, weighted_calls

        values = operand(operations, (self.images, self.inputs))
        out = operand(operations, (self.images, self.units))
        made = operations.dense(self.images, self.inputs, self.units)
        return weighted_calls(made, values, out, (self.units, self.inputs), self.units)

    def __str__(self) -> str:
        return f"{self.inputs} -> {self.units}"

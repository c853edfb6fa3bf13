"""Poolings; pairs are (y, x)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

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

__all__ = [
    "AdaptivePoolingShape",
    "AveragePoolingShape",
    "GlobalAveragePoolingShape",
    "MaxPoolingShape",
    "PoolingShape",
]


@dataclass(frozen=True, slots=True)
class PoolingShape:
    """Windows of `kernel` pixels, `stride` pixels apart, on a bordered map of height x width.

    With `ceil`, a last window that begins inside the image or the padding before it is taken even
    if it leaves the bordered map at its end, as Caffe and PyTorch's `ceil_mode` do; otherwise all
    windows lie within the bordered map. Each window holds a pixel of the image. A mean counts the
    padding's pixels as zeros, or with `counts_padding` False not at all. Raises OperationError for
    shapes without a window, counts below 1 and padding of the kernel or more.
    """

    height: int
    width: int
    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)
    ceil: bool = False
    counts_padding: bool = True

    def __post_init__(self) -> None:
        for name in ("height", "width", "kernel", "stride"):
            check_least("a pooling", name, getattr(self, name), 1)
        check_least("a pooling", "padding", self.padding, 0)
        if self.padding[0] >= self.kernel[0] or self.padding[1] >= self.kernel[1]:
            raise OperationError(
                f"pooling over {by(self.kernel)} pixels with padding {by(self.padding)} was "
                "asked for: expected padding below the kernel, so that no window lies outside the "
                "image; use less padding"
            )
        if min(self.lines, self.pixels) < 1:
            raise OperationError(
                f"pooling over {by(self.kernel)} pixels was asked for on "
                f"{by((self.height, self.width))} pixels with padding {by(self.padding)}: "
                "expected a window that fits; use a smaller kernel, more padding or larger images"
            )

    @property
    def lines(self) -> int:
        """Height H' of the output."""
        return self._positions(self.height, 0)

    @property
    def pixels(self) -> int:
        """Width W' of the output."""
        return self._positions(self.width, 1)

    def starts(self, axis: int) -> tuple[int, ...]:
        """The first line (axis 0) or column (1) of each window, below 0 in the padding."""
        count = self.lines if axis == 0 else self.pixels
        return tuple(number * self.stride[axis] - self.padding[axis] for number in range(count))

    def lengths(self, axis: int) -> tuple[int, ...]:
        """The lines (axis 0) or columns (1) that each window has, some of them outside."""
        return (self.kernel[axis],) * len(self.starts(axis))

    def counted(self, axis: int) -> tuple[int, ...]:
        """Those of them by which a mean divides."""
        extent = self.height if axis == 0 else self.width
        border = self.padding[axis] if self.counts_padding else 0
        return tuple(
            min(start + self.kernel[axis], extent + border) - max(start, -border)
            for start in self.starts(axis)
        )

    def __str__(self) -> str:
        return f"{by(self.kernel)}, stride {self.stride[0]}"

    def _positions(self, extent: int, axis: int) -> int:
        kernel, stride, padding = self.kernel[axis], self.stride[axis], self.padding[axis]
        count = positions(extent + (stride - 1) * self.ceil, kernel, stride, padding)
        begins_outside = (count - 1) * stride >= extent + padding
        return count - (self.ceil and begins_outside)


@dataclass(frozen=True, slots=True)
class AdaptivePoolingShape:
    """`lines` x `pixels` windows of about one size that cover a map of height x width.

    Window i of n along h lines has those from floor(i h / n) to ceil((i + 1) h / n), as PyTorch's
    `adaptive_avg_pool2d` does. Raises OperationError for counts below 1.
    """

    height: int
    width: int
    lines: int
    pixels: int

    def __post_init__(self) -> None:
        for name in ("height", "width", "lines", "pixels"):
            check_least("an adaptive pooling", name, getattr(self, name), 1)

    @property
    def kernel(self) -> Pair:
        """The lines and columns of the largest window."""
        return max(self.lengths(0)), max(self.lengths(1))

    def starts(self, axis: int) -> tuple[int, ...]:
        """See `PoolingShape.starts`."""
        extent, count = self._along(axis)
        return tuple(number * extent // count for number in range(count))

    def lengths(self, axis: int) -> tuple[int, ...]:
        """See `PoolingShape.lengths`."""
        extent, count = self._along(axis)
        return tuple(
            -(-(number + 1) * extent // count) - start
            for number, start in enumerate(self.starts(axis))
        )

    def counted(self, axis: int) -> tuple[int, ...]:
        """All of them."""
        return self.lengths(axis)

    def __str__(self) -> str:
        return f"to {by((self.lines, self.pixels))}"

    def _along(self, axis: int) -> Pair:
        return ((self.height, self.lines), (self.width, self.pixels))[axis]


class WindowPoolingShape(TimedShape):
    """A pooling of `images` maps of `channels` by `windows`."""

    __slots__ = ()

    images: int
    channels: int
    windows: PoolingShape | AdaptivePoolingShape

    @property
    def inputs(self) -> tuple[int, int, int, int]:
        """Shape (N, H, W, C) of the images."""
        return self.images, self.windows.height, self.windows.width, self.channels

    @property
    def outputs(self) -> tuple[int, int, int, int]:
        """Shape (N, H', W', C) of the output."""
        return self.images, self.windows.lines, self.windows.pixels, self.channels

    @property
    @abstractmethod
    def costs(self) -> Mapping[str, Cost]:
        """Images and outputs once."""

    def __str__(self) -> str:
        return f"{by(self.inputs[1:])}, {self.windows}"


@dataclass(frozen=True, slots=True)
class MaxPoolingShape(WindowPoolingShape):
    """Largest value of each window."""

    kind: ClassVar[str] = "max pooling"

    images: int
    channels: int
    windows: PoolingShape

    @property
    def costs(self) -> Mapping[str, Cost]:
        """A comparison per pixel of each window; images and outputs once, and a byte per place."""
        inputs, outputs = math.prod(self.inputs), math.prod(self.outputs)
        moved = FLOAT_BYTES * (inputs + outputs) + outputs
        return {
            "forward": Cost(outputs * math.prod(self.windows.kernel), moved, outputs),
            "backward_data": Cost(outputs, moved, outputs),
        }

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import operand, places

        operation = operations.max_pooling(self.windows)
        values, out = operand(operations, self.inputs), operand(operations, self.outputs)
        which = places(operations, self.outputs)
        runs = {
            "forward": partial(operation.forward, values, out, which),
            "backward_data": partial(operation.backward, out, which, values),
        }
        return Calls(runs)


@dataclass(frozen=True, slots=True)
class AveragePoolingShape(WindowPoolingShape):
    """Mean of each window."""

    kind: ClassVar[str] = "average pooling"

    images: int
    channels: int
    windows: PoolingShape | AdaptivePoolingShape

    @property
    def costs(self) -> Mapping[str, Cost]:
        """An addition per pixel; images and outputs once."""
        inputs, outputs = math.prod(self.inputs), math.prod(self.outputs)
        cost = Cost(inputs, FLOAT_BYTES * (inputs + outputs))
        return dict.fromkeys(("forward", "backward_data"), cost)

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        operation = operations.average_pooling(self.windows)
        return _mean_calls(operation, operations, self.inputs, self.outputs)


@dataclass(frozen=True, slots=True)
class GlobalAveragePoolingShape(TimedShape):
    """Mean of each channel of maps (N, H, W, C)."""

    kind: ClassVar[str] = "global average"

    inputs: tuple[int, int, int, int]

    @property
    def costs(self) -> Mapping[str, Cost]:
        """An addition per pixel; images and outputs once."""
        values, outputs = math.prod(self.inputs), self.inputs[0] * self.inputs[3]
        cost = Cost(values, FLOAT_BYTES * (values + outputs))
        return dict.fromkeys(("forward", "backward_data"), cost)

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        operation, outputs = operations.global_average_pooling(), (self.inputs[0], self.inputs[3])
        return _mean_calls(operation, operations, self.inputs, outputs)

    def __str__(self) -> str:
        return by(self.inputs[1:])


def _mean_calls(
    operation: Any, operations: Operations, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> Calls:
    from vectorized_ops.shapes.arrays import operand

    values, out = operand(operations, inputs), operand(operations, outputs)
    runs = {
        "forward": partial(operation.forward, values, out),
        "backward_data": partial(operation.backward, out, values),
    }
    return Calls(runs)

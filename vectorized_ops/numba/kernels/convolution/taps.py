"""Tables of the taps inside the image at each pixel, for the correlation kernel.

Taps outside the image are left out, not multiplied by zeros. Pixels with the same taps form a
class, and a map has only a few classes (corners, edges, interior; for backward-data with a stride
also the phases of the stride).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import ConvolutionShape

AxisClass = tuple[tuple[int, int], ...]
"""Taps along one axis, each with its distance in input pixels from the window's base."""


@dataclass(frozen=True, slots=True)
class TapTables:
    """For each output pixel its class and base; for each class a range of segments.

    A segment is a triple int64: where its inputs begin relative to the pixel's base (elements),
    which row of the packed weights comes first, and how many steps it has. `bases` (pixels,) are
    elements of the input array, `classes` (pixels,), `first` and `count` (classes,) are int64.
    """

    segments: AnyArray
    first: AnyArray
    count: AnyArray
    classes: AnyArray
    bases: AnyArray


def forward_tables(shape: ConvolutionShape, distance: int, images: int) -> TapTables:
    """Tables that correlate inputs whose pixels lie `distance` elements apart."""
    axes = [
        _forward_axis(
            (shape.lines, shape.pixels)[axis],
            (shape.height, shape.width)[axis],
            shape.kernel[axis],
            shape.stride[axis],
            shape.padding[axis],
            shape.dilation[axis],
        )
        for axis in (0, 1)
    ]
    channels = shape.channels // shape.groups
    dense = distance == channels * images
    return _tables(axes[0], axes[1], shape.width, distance, channels, shape.kernel[1], dense)


def backward_tables(shape: ConvolutionShape, distance: int, images: int) -> TapTables:
    """Tables that turn gradients of the output into those of the input (columns run backwards)."""
    axes = [
        _backward_axis(
            (shape.height, shape.width)[axis],
            (shape.lines, shape.pixels)[axis],
            shape.kernel[axis],
            shape.stride[axis],
            shape.padding[axis],
            shape.dilation[axis],
        )
        for axis in (0, 1)
    ]
    last = shape.kernel[1] - 1
    pixels = (axes[1][0], axes[1][1], [_turned(found, last) for found in axes[1][2]])
    filters = shape.filters // shape.groups
    dense = distance == filters * images
    return _tables(axes[0], pixels, shape.pixels, distance, filters, shape.kernel[1], dense)


Axis = tuple[AnyArray, AnyArray, list[AxisClass]]
"""Class and base of every output position along an axis, and what the classes are."""


def _forward_axis(
    outputs: int, inputs: int, kernel: int, stride: int, padding: int, dilation: int
) -> Axis:
    bases = np.arange(outputs) * stride - padding
    taps = [
        tuple((t, t * dilation) for t in range(kernel) if 0 <= base + t * dilation < inputs)
        for base in bases
    ]
    return _classified(taps, bases)


def _backward_axis(
    inputs: int, outputs: int, kernel: int, stride: int, padding: int, dilation: int
) -> Axis:
    bases = (np.arange(inputs) + padding) // stride
    taps = []
    for position, base in enumerate(bases):
        reached = [(t, position + padding - t * dilation) for t in range(kernel)]
        taps.append(
            tuple(
                (t, at // stride - int(base))
                for t, at in reached
                if at % stride == 0 and 0 <= at // stride < outputs
            )
        )
    return _classified(taps, bases)


def _classified(taps: list[AxisClass], bases: AnyArray) -> Axis:
    known: dict[AxisClass, int] = {}
    classes = np.array([known.setdefault(found, len(known)) for found in taps])
    return classes, bases, list(known)


def _turned(taps: AxisClass, last: int) -> AxisClass:
    """Number the taps from the other end, so that neighbours in weights are also so in pixels."""
    return tuple((last - tap, offset) for tap, offset in reversed(taps))


def _tables(
    lines: Axis, pixels: Axis, width: int, distance: int, channels: int, columns: int, dense: bool
) -> TapTables:
    segments: list[tuple[int, int, int]] = []
    first, count = [], []
    for line_taps in lines[2]:
        for pixel_taps in pixels[2]:
            first.append(len(segments))
            for r, down in line_taps:
                for s, right, length in _runs(pixel_taps, dense):
                    place = (down * width + right) * distance
                    segments.append((place, (r * columns + s) * channels, length * channels))
            count.append(len(segments) - first[-1])
    classes = lines[0][:, None] * len(pixels[2]) + pixels[0]
    bases = (lines[1][:, None] * width + pixels[1]) * distance
    return TapTables(
        np.array(segments, np.int64).reshape(-1),
        np.array(first, np.int64),
        np.array(count, np.int64),
        classes.reshape(-1).astype(np.int64),
        bases.reshape(-1).astype(np.int64),
    )


def _runs(taps: AxisClass, dense: bool) -> list[tuple[int, int, int]]:
    """Return (tap, offset, length) of runs of taps that are neighbours in weights and pixels."""
    runs: list[tuple[int, int, int]] = []
    for tap, offset in taps:
        if runs and dense:
            start, begin, length = runs[-1]
            if (tap, offset) == (start + length, begin + length):
                runs[-1] = (start, begin, length + 1)
                continue
        runs.append((tap, offset, 1))
    return runs

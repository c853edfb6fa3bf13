"""What lies under the windows of a convolution: tables for kernels that take a group of pixels.

Along a line, results form groups whose windows lie a whole number of the kernel's columns apart.
With a dilation, and in backward-data with a stride, these are no neighbours but `step` apart. The
groups of neighbouring columns of results form a strip, which is taken through all lines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import ConvolutionShape

COLUMN, FIRST, REACH, PLACES = range(4)
"""Places in the row of a group: the column of its first result, the first of the kernel's columns
that it meets, how many columns of inputs follow, and from here on these (-1 outside the image)."""

BEGIN, END, LEFT, RIGHT, RESULTS = range(5)
"""Places in the row of a strip: its first group and the one behind its last, the first column of
inputs under its windows and the one behind the last (none: both are 0), and its columns."""

_FAR = 2**40
"""Beyond all lines."""

Meeting = tuple[int, int]
"""A line or column of inputs, and that of the kernel which lies on it."""


def reach(pixels: int, columns: int, stride: int) -> int:
    """Return how many columns of inputs are under so many windows."""
    return (pixels - 1) * stride + columns


@dataclass(frozen=True, slots=True)
class Windows:
    """The strips and groups of a line of results, and what each line of results meets.

    `groups` (number, PLACES + reach) int64; `sizes` are the pixels of each, and the columns of the
    kernel that each meets. `strips` (number, 5) int64 have at most `width` columns of inputs each.
    Windows are `stride` columns apart, the results of a group `step`, and the kernel's columns
    `turn`. Line h of results meets the `count`[h] pairs (line of inputs, line of the kernel) that
    begin at `met`[2 * `first`[h]]. No line from h on meets inputs before line `lowest`[h]; from
    there to the last that line h meets there are at most `span` lines.
    """

    groups: AnyArray
    sizes: tuple[tuple[int, int], ...]
    strips: AnyArray
    width: int
    stride: int
    step: int
    turn: int
    met: AnyArray
    first: AnyArray
    count: AnyArray
    lowest: AnyArray
    span: int


def windows_take(shape: ConvolutionShape) -> bool:
    """Tell whether lines have a stride or a dilation, but not both."""
    return shape.stride[1] == 1 or shape.dilation[1] == 1


def windows(shape: ConvolutionShape, backward: bool, pixels: int, room: int) -> Windows:
    """Return the windows of a shape that `windows_take`, in groups of at most so many pixels.

    A strip has as many columns of results as there is `room` for columns of inputs under them, and
    one group of each phase of the step at least. In backward-data, results are gradients of the
    inputs, and "inputs" those of the outputs.
    """
    stride, dilation = shape.stride[1], shape.dilation[1]
    step = max(stride, dilation) if backward else dilation
    width = shape.width if backward else shape.pixels
    groups: list[list[int]] = []
    sizes, strips = [], []
    for columns in _strips(shape, backward, width, pixels * step, room):
        begin = len(groups)
        for phase in columns[:step]:
            mine = range(phase, columns.stop, step)
            for first in range(0, len(mine), pixels):
                group, size = _group(shape, backward, mine[first : first + pixels])
                groups.append(group)
                sizes.append(size)
        inside = [place for group in groups[begin:] for place in group[PLACES:] if place >= 0]
        left, right = (min(inside), max(inside) + 1) if inside else (0, 0)
        strips.append([begin, len(groups), left, right, len(columns)])
    longest = max(len(group) for group in groups)
    table = np.full((len(groups), longest), -1, np.int64)
    for row, group in zip(table, groups, strict=True):
        row[: len(group)] = group
    met = [
        [
            meeting
            for meeting in _meetings(shape, 0, backward, line)
            if _is_inside(shape, 0, backward, meeting)
        ]
        for line in range(shape.height if backward else shape.lines)
    ]
    count = np.array([len(line) for line in met], np.int64)
    ends = [(line[0][0], line[-1][0]) if line else (_FAR, -1) for line in met]
    lowest = np.minimum.accumulate([low for low, _ in reversed(ends)])[::-1].astype(np.int64)
    pairs = [each for line in met for meeting in line for each in meeting]
    return Windows(
        table,
        tuple(sizes),
        np.array(strips, np.int64),
        max(right - left for _, _, left, right, _ in strips),
        1 if backward else stride,
        step,
        -stride if backward else 1,
        np.array(pairs or [0, 0], np.int64),
        np.cumsum(count) - count,
        count,
        lowest,
        max(1, *(high + 1 - low for (_, high), low in zip(ends, lowest.tolist(), strict=True))),
    )


def _strips(
    shape: ConvolutionShape, backward: bool, width: int, unit: int, room: int
) -> list[range]:
    """Divide columns of results into strips of about the same size, multiples of a unit."""
    around, most = (shape.kernel[1] - 1) * shape.dilation[1], width
    if room < (shape.pixels if backward else shape.width):
        most = room * shape.stride[1] - around if backward else (room - around) // shape.stride[1]
    number = -(-width // max(most // unit * unit, unit))
    size = -(-width // (number * unit)) * unit
    return [range(begin, min(begin + size, width)) for begin in range(0, width, size)]


def _meetings(shape: ConvolutionShape, axis: int, backward: bool, place: int) -> list[Meeting]:
    """Return what the kernel meets at a line or column of results, in the order of the inputs."""
    stride, padding, dilation = (
        each[axis] for each in (shape.stride, shape.padding, shape.dilation)
    )
    taps = range(shape.kernel[axis])
    if not backward:
        return [(place * stride - padding + tap * dilation, tap) for tap in taps]
    met = [(place + padding - tap * dilation, tap) for tap in reversed(taps)]
    return [(at // stride, tap) for at, tap in met if at % stride == 0]


def _is_inside(shape: ConvolutionShape, axis: int, backward: bool, meeting: Meeting) -> bool:
    inputs = (shape.lines, shape.pixels) if backward else (shape.height, shape.width)
    return 0 <= meeting[0] < inputs[axis]


def _group(
    shape: ConvolutionShape, backward: bool, columns: range
) -> tuple[list[int], tuple[int, int]]:
    """Return the row of a group, and its pixels and the columns of the kernel that it meets."""
    met = _meetings(shape, 1, backward, columns[0])
    if not met:
        return [columns[0], 0, 0], (len(columns), 0)
    unit = shape.dilation[1] if shape.stride[1] == 1 else 1
    number = reach(len(columns), len(met), 1 if backward else shape.stride[1])
    places = [met[0][0] + i * unit for i in range(number)]
    inside = [place if _is_inside(shape, 1, backward, (place, 0)) else -1 for place in places]
    return [columns[0], met[0][1], number, *inside], (len(columns), len(met))

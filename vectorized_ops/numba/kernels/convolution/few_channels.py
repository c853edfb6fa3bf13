"""Backward-weights for few channels: neighbouring taps of a line are treated as channels.

In an image (H, W, C, N) without gaps, S neighbouring pixels are S*C neighbouring rows of N floats.
So the gradient of a kernel (R, S) over C channels is that of a kernel (R, 1) over S*C channels, on
a padded copy of the image. The rows of a register tile are channels: three of them alone would
leave most of the arithmetic units idle.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numba

from vectorized_ops.numba.compiling.compiler import parallel_kernel
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.shapes import ConvolutionShape

MOST_CHANNELS = 4
"""Channels of which tiles alone keep the arithmetic units busy, or nearly."""


def widens(shape: ConvolutionShape) -> bool:
    """Tell whether the weights' gradient is summed over wide pixels."""
    neighbours = shape.kernel[1] > 1 and shape.dilation[1] == 1
    return neighbours and shape.groups == 1 and shape.channels <= MOST_CHANNELS


def widened(shape: ConvolutionShape) -> ConvolutionShape:
    """Return the convolution of wide pixels, whose outputs are those of `shape`."""
    return replace(
        shape,
        height=bordered_size(shape)[0],
        width=(shape.pixels - 1) * shape.stride[1] + 1,
        channels=shape.kernel[1] * shape.channels,
        kernel=(shape.kernel[0], 1),
        padding=(0, 0),
    )


def bordered_size(shape: ConvolutionShape) -> tuple[int, int]:
    """Return lines and pixels of an image with its borders, as far as the outputs see."""
    height, width = (
        (outputs - 1) * stride + (taps - 1) * dilation + 1
        for outputs, stride, taps, dilation in zip(
            (shape.lines, shape.pixels), shape.stride, shape.kernel, shape.dilation, strict=True
        )
    )
    return height, width


@parallel_kernel
def copy_with_borders(
    inputs: Any,
    distance: int,
    size: tuple[int, int],
    padding: tuple[int, int],
    pixel: int,
    out: Any,
    out_size: tuple[int, int],
    out_distance: int,
    threads: int,
) -> None:
    """Write images with borders of zeros to flat out (lines, pixels, `out_distance` elements).

    `pixel` elements are those of a pixel of the images; what is behind them becomes zero.
    """
    lines, pixels = out_size
    for thread in numba.prange(threads):
        for line in range(part(lines, thread, threads), part(lines, thread + 1, threads)):
            y = line - padding[0]
            for column in range(pixels):
                x, begin = column - padding[1], (line * pixels + column) * out_distance
                known = 0
                if 0 <= y < size[0] and 0 <= x < size[1]:
                    source, known = (y * size[1] + x) * distance, pixel
                    for i in range(pixel):
                        out[begin + i] = inputs[source + i]
                out[begin + known : begin + out_distance] = 0

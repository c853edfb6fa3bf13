"""The forward pass over an odd number of channels in bfloat16, with another channel of zeros.

Products are made of pairs of channels. Pictures have three.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from vectorized_ops.layout import (
    STORED,
    AnyArray,
    images_last_in,
    images_last_size,
    padded_images,
    pixels,
)
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.kernels.convolution.few_channels import copy_with_borders
from vectorized_ops.shapes import ConvolutionShape

if TYPE_CHECKING:
    from vectorized_ops.numba.convolution import Convolution
    from vectorized_ops.numba.moments import Moments

LEAST_CHANNELS: Final = 3
"""Of one channel pairs would make as many products as single values."""

LEAST_PRODUCTS: Final = 400
"""Of a value of the images: of fewer the copy takes longer than single values take."""


def evens(shape: ConvolutionShape, kept: np.dtype[np.generic]) -> bool:
    """Whether inputs of a shape, `kept` in a type, are worth another channel."""
    odd = shape.channels % 2 == 1 and shape.channels >= LEAST_CHANNELS
    products = shape.flops / 2 / math.prod(shape.inputs)
    return kept == STORED and odd and shape.groups == 1 and products >= LEAST_PRODUCTS


@final
class EvenedForward:
    """Copies images, and convolves the copies; `convolution` is made for one channel more."""

    def __init__(self, shape: ConvolutionShape, convolution: type[Convolution]) -> None:
        self._shape = replace(shape, channels=shape.channels + 1)
        self._convolution = convolution(self._shape)
        self._weights = np.zeros(self._shape.weights, np.float32)
        self._copied = images_last_size(self._shape.inputs) // 2

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        return self._copied + self._convolution.forward_size

    def forward(
        self,
        images: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None,
        out: AnyArray,
        relu: bool,
        moments: Moments | None,
        memory: AnyArray,
        threads: int,
    ) -> None:
        """See `Convolution.forward`; `memory` has `scratch_size` floats."""
        copies = images_last_in(memory[: self._copied].view(STORED), self._shape.inputs)
        number, (height, width, channels) = padded_images(self._shape.images), images.shape[1:]
        copy_with_borders(
            *pixels(images), (height, width), (0, 0), channels * number, pixels(copies)[0],
            (height, width), (channels + 1) * number, threads,
        )  # fmt: skip
        _copy_rows(*(each.reshape(len(weights), -1) for each in (weights, self._weights)))
        self._convolution.use_scratch(memory[self._copied :])
        self._convolution.forward(copies, self._weights, bias, out, relu, moments)


@kernel
def _copy_rows(rows: Any, out: Any) -> None:
    """Write rows (n, m) to the first m columns of `out`."""
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            out[row, column] = rows[row, column]

"""What Winograd's convolutions have in common, whatever their vectors hold."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numba

from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.emit.operand_checks import Operands
from vectorized_ops.numba.emit.scratch import ScratchUser
from vectorized_ops.numba.kernels.convolution.destination import ADD, MASK, RELU
from vectorized_ops.shapes import ConvolutionShape

OUTPUTS, TAPS = (2, 4), (3, 5)
"""Pixels on a side of an output tile, and of a kernel."""

MOST_GROUPS = 4
"""Groups come one after another; of many each would have too few channels to be worth it."""


def is_square(shape: ConvolutionShape) -> bool:
    """Tell whether there is a transform for the kernel of a shape, and groups are few."""
    plain = (shape.stride, shape.dilation) == ((1, 1), (1, 1)) and shape.groups <= MOST_GROUPS
    side = shape.kernel[0]
    square = shape.kernel == (side, side) and side in TAPS
    return plain and square and max(shape.padding) < side


class GroupedWinograd(ScratchUser):
    """The three directions of F(outputs x outputs, r x r), one group after another.

    Backward-data is the forward pass of the gradient, with the weights turned round.
    """

    _zeros: AnyArray
    """As many as channels or filters of a group."""

    def __init__(self, shape: ConvolutionShape, outputs: int, operands: Operands) -> None:
        self.shape, self._operands = shape, operands
        self._group = replace(
            shape,
            channels=shape.channels // shape.groups,
            filters=shape.filters // shape.groups,
            groups=1,
        )
        self._outputs, self._taps = outputs, shape.kernel[0]
        self._points = (outputs + self._taps - 1) ** 2
        self._threads = numba.get_num_threads()

    def forward(
        self,
        images: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None,
        out: AnyArray,
        relu: bool = False,
    ) -> None:
        """Write the correlation of images and weights, plus bias, cut off at zero with `relu`."""
        self._operands.check(images, out, weights, bias)
        for inputs, filters in self.shape.group_slices:
            given = self._zeros if bias is None else bias[filters]
            self._convolve(
                images[..., inputs], weights[filters], given, out[..., filters],
                self.shape.padding, None, RELU * relu, False,
            )  # fmt: skip

    def backward_data(
        self,
        gradient: AnyArray,
        weights: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the images, or add it; zero where `mask` is not positive."""
        self._operands.check(out, gradient, weights, mask=mask)
        last = self._taps - 1
        padding = last - self.shape.padding[0], last - self.shape.padding[1]
        mode = ADD * add | MASK * (mask is not None)
        for inputs, filters in self.shape.group_slices:
            self._convolve(
                gradient[..., filters], weights[filters], self._zeros, out[..., inputs], padding,
                None if mask is None else mask[..., inputs], mode, True,
            )  # fmt: skip

    def backward_weights(
        self,
        images: AnyArray,
        gradient: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray | None,
    ) -> None:
        """Write the gradients of weights and, unless it is None, of the bias."""
        self._operands.check(images, gradient, weights_out, bias_out)
        for inputs, filters in self.shape.group_slices:
            self._sum_up(
                images[..., inputs], gradient[..., filters], weights_out[filters],
                None if bias_out is None else bias_out[filters],
            )  # fmt: skip

    @abstractmethod
    def _convolve(
        self,
        inputs: AnyArray,
        weights: AnyArray,
        bias: AnyArray,
        out: AnyArray,
        padding: tuple[int, int],
        mask: AnyArray | None,
        mode: int,
        backward: bool,
    ) -> None:
        """Correlate one group; `mode` is as in `destination`."""

    @abstractmethod
    def _sum_up(
        self,
        images: AnyArray,
        gradient: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray | None,
    ) -> None:
        """Write the gradients of one group."""

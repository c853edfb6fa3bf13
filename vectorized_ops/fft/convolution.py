"""Convolution by fast Fourier transforms of the maps and of the filters."""

from __future__ import annotations

from typing import Final

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import images_tensor, tensor
from vectorized_ops.onednn.gradient import write_gradient
from vectorized_ops.shapes import ConvolutionShape

_AXES: Final = (-2, -1)
_FACTORS: Final = (2, 3, 5)


class Convolution:
    """See `vectorized_ops.reference.convolution.Convolution`; arrays in C order.

    A correlation of maps is a product of their transforms, one of them conjugate (Mathieu, Henaff,
    LeCun, arXiv 1312.5851). Maps are bordered by zeros up to the next length of factors 2, 3 and 5.
    With strides all windows are computed, and most of them dropped. Errors are those of sums in any
    order, about 1e-6 of the largest value.
    """

    def __init__(self, shape: ConvolutionShape) -> None:
        self._shape = shape
        (height, width), (y, x) = (shape.height, shape.width), shape.padding
        self._bordered = height + 2 * y, width + 2 * x
        self._length = _next_length(self._bordered[0]), _next_length(self._bordered[1])

    def forward(
        self,
        images: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None,
        out: AnyArray,
        relu: bool = False,
    ) -> None:
        """Write the correlation of images and weights, plus bias, and rectify it."""
        maps, filters = self._of_images(images), self._of_weights(weights)
        found = self._back(torch.einsum("ngcyx,gkcyx->ngkyx", maps, filters.conj())).flatten(1, 2)
        (down, right), (lines, pixels) = self._shape.stride, self._windows()
        result = found[:, :, :lines:down, :pixels:right]
        if bias is not None:
            result = result + tensor(bias)[:, None, None]
        target = images_tensor(out)
        target.copy_(torch.relu(result) if relu else result)

    def backward_data(
        self,
        gradient: AnyArray,
        weights: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the images."""
        maps, filters = self._of_gradient(gradient), self._of_weights(weights)
        found = self._back(torch.einsum("ngkyx,gkcyx->ngcyx", maps, filters)).flatten(1, 2)
        (y, x), (height, width) = self._shape.padding, out.shape[1:3]
        value = found[:, :, y : y + height, x : x + width]
        write_gradient(
            value, images_tensor(out), add, None if mask is None else images_tensor(mask)
        )

    def backward_weights(
        self, images: AnyArray, gradient: AnyArray, weights_out: AnyArray, bias_out: AnyArray | None
    ) -> None:
        """Write the gradients of weights and, unless it is None, bias."""
        maps, gradients = self._of_images(images), self._of_gradient(gradient)
        found = self._back(torch.einsum("ngcyx,ngkyx->gkcyx", maps, gradients.conj())).flatten(0, 1)
        (down, right), (high, wide) = self._shape.dilation, self._extent()
        tensor(weights_out).copy_(found[:, :, :high:down, :wide:right])
        if bias_out is not None:
            torch.sum(tensor(gradient), (0, 1, 2), out=tensor(bias_out))

    def _of_images(self, images: AnyArray) -> torch.Tensor:
        """The transforms (N, G, C / G, ...) of bordered images."""
        y, x = self._shape.padding
        bordered = torch.nn.functional.pad(images_tensor(images), (x, x, y, y))
        return self._transformed(bordered, 1)

    def _of_gradient(self, gradient: AnyArray) -> torch.Tensor:
        """The transforms (N, G, K / G, ...) of a gradient, with zeros where there was no window."""
        (down, right), given = self._shape.stride, images_tensor(gradient)
        spread = given.new_zeros((*given.shape[:2], *self._windows()))
        spread[:, :, ::down, ::right] = given
        return self._transformed(spread, 1)

    def _of_weights(self, weights: AnyArray) -> torch.Tensor:
        """The transforms (G, K / G, C / G, ...) of filters whose taps are `dilation` apart."""
        (down, right), given = self._shape.dilation, tensor(weights)
        spread = given.new_zeros((*given.shape[:2], *self._extent()))
        spread[:, :, ::down, ::right] = given
        return self._transformed(spread, 0)

    def _transformed(self, maps: torch.Tensor, axis: int) -> torch.Tensor:
        """The transforms of the last two axes; this axis becomes two: groups and their members."""
        found: torch.Tensor = torch.fft.rfft2(maps, s=self._length, dim=_AXES)
        before, after = maps.shape[:axis], found.shape[axis + 1 :]
        return found.reshape(*before, self._shape.groups, -1, *after)

    def _back(self, product: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.fft.irfft2(product, s=self._length, dim=_AXES)
        return found

    def _extent(self) -> tuple[int, int]:
        """Pixels from the first tap to the last, both included."""
        (taps_y, taps_x), (down, right) = self._shape.kernel, self._shape.dilation
        return (taps_y - 1) * down + 1, (taps_x - 1) * right + 1

    def _windows(self) -> tuple[int, int]:
        """How many windows there are without a stride."""
        (height, width), (high, wide) = self._bordered, self._extent()
        return height - high + 1, width - wide + 1


def _next_length(least: int) -> int:
    """The least length from `least` on with no other prime factors than 2, 3 and 5."""
    length = least
    while (rest := length) > 1:
        for factor in _FACTORS:
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            break
        length += 1
    return length

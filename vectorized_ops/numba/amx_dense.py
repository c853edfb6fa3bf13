"""Dense layers of bfloat16 by AMX's tiles: a dense layer is a 1x1 convolution of one pixel."""

from __future__ import annotations

from typing import final

from vectorized_ops.layout import STORED, AnyArray
from vectorized_ops.numba.amx_convolution import AmxConvolution
from vectorized_ops.numba.amx_permission import amx_refusal
from vectorized_ops.numba.dense import Dense
from vectorized_ops.shapes import ConvolutionShape


@final
class AmxDense(Dense):
    """See `Dense`; outputs and inputs' gradients are products by AMX, or unless `native` the same.

    Their operands in float32 are rounded, as is the gradient of logits. Weights' gradients are
    those of `Dense`: memory bounds them.
    """

    def __init__(self, images: int, inputs: int, outputs: int, native: bool = True) -> None:
        super().__init__(images, inputs, outputs, STORED)
        shape = ConvolutionShape(images, 1, 1, inputs, outputs, (1, 1))
        self._convolution = AmxConvolution(shape, native)

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        return max(super().scratch_size, self._convolution.correlation_size)

    def use_scratch(self, memory: AnyArray) -> None:
        """Work in flat float32 `memory` of at least `scratch_size`, aligned to 64 bytes."""
        super().use_scratch(memory)
        self._convolution.use_scratch(memory)

    def forward(
        self,
        inputs: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None,
        out: AnyArray,
        relu: bool = False,
    ) -> None:
        """Write inputs @ weights^T + bias, cut off at zero with `relu`."""
        self._flat(inputs, self._inputs)
        self._flat(out, self._outputs)
        self._convolution.forward(_pixel(inputs), _taps(weights), bias, _pixel(out), relu)

    def backward_data(
        self,
        gradient: AnyArray,
        weights: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write gradient @ weights, or add it; zero where `mask` is not positive."""
        self._flat(gradient, self._outputs)
        self._flat(out, self._inputs)
        masking = None if mask is None else _pixel(mask)
        self._convolution.backward_data(_pixel(gradient), _taps(weights), _pixel(out), add, masking)


def rounded_dense(images: int, inputs: int, outputs: int) -> Dense:
    """Return a dense layer of bfloat16, by AMX if this process may use it."""
    if amx_refusal() is None:
        return AmxDense(images, inputs, outputs)
    return Dense(images, inputs, outputs, STORED)


def _pixel(vectors: AnyArray) -> AnyArray:
    """Vectors (N, I) as images (N, 1, 1, I)."""
    return vectors[:, None, None, :]


def _taps(weights: AnyArray) -> AnyArray:
    """Weights (O, I) as (O, I, 1, 1)."""
    return weights[:, :, None, None]

"""Dense layers of bfloat16 by AMX's tiles: a dense layer is a 1x1 convolution of one pixel."""

from __future__ import annotations

from functools import partial
from typing import Final, final

import numpy as np

from vectorized_ops.layout import STORED, AnyArray, padded_images, zeros_images_last
from vectorized_ops.numba.amx_convolution import AmxConvolution
from vectorized_ops.numba.amx_permission import amx_refusal
from vectorized_ops.numba.compiling.autotuning import chosen
from vectorized_ops.numba.compiling.sources import digest_of_imports
from vectorized_ops.numba.dense import Dense
from vectorized_ops.numba.kernels.convolution.amx import depth_of
from vectorized_ops.numba.kernels.convolution.direct import PANEL_BYTES
from vectorized_ops.numba.tuned_convolution import AMX_PRODUCT, cautious, pair_cost
from vectorized_ops.shapes import FLOAT_BYTES, ConvolutionShape

MOST_PANEL_BYTES: Final = 4 * PANEL_BYTES
"""Each thread has a panel of all inputs, or outputs: larger ones would leave its cache."""

PACKED_WEIGHT: Final = 20.0
"""The expected time of packing a weight, in multiplications of float32.

Measured on an AMD EPYC (Zen 4): 0.1 to 0.5 ns, more where rows of weights lie pages apart.
"""


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
    """Return a dense layer of bfloat16: by AMX if this process may use it and it is faster."""
    plain = Dense(images, inputs, outputs, STORED)
    padded = padded_images(images)
    panel = depth_of(max(inputs, outputs), 1) * padded * FLOAT_BYTES
    if amx_refusal() is not None or panel > MOST_PANEL_BYTES:
        return plain
    made = {"pairs": plain, "amx": AmxDense(images, inputs, outputs)}
    vectors = [zeros_images_last((padded, size), STORED) for size in (inputs, outputs)]
    weights = np.zeros((outputs, inputs), np.float32)

    def compute(operation: Dense) -> None:
        operation.forward(vectors[0], weights, None, vectors[1])
        operation.backward_data(vectors[1], weights, vectors[0])

    candidates = {name: partial(compute, operation) for name, operation in made.items()}
    question = f"dense of {images} images, {inputs} inputs, {outputs} outputs in bfloat16"
    expected = {"pairs": images * pair_cost(), "amx": images * AMX_PRODUCT + PACKED_WEIGHT}
    sources = digest_of_imports(__name__)
    return made[chosen(question, candidates, cautious(expected), sources).name]


def _pixel(vectors: AnyArray) -> AnyArray:
    """Vectors (N, I) as images (N, 1, 1, I)."""
    return vectors[:, None, None, :]


def _taps(weights: AnyArray) -> AnyArray:
    """Weights (O, I) as (O, I, 1, 1)."""
    return weights[:, :, None, None]

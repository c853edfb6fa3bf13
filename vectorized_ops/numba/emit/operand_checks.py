"""Refuses what a convolution's kernels would read or write past its end: they check nothing."""

from __future__ import annotations

from typing import Any, TypeAlias, final

import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import STORED, AnyArray, padded_images
from vectorized_ops.shapes import ConvolutionShape

Types: TypeAlias = tuple[np.dtype[Any], ...]

_FLOAT = np.dtype(np.float32)
_ACTIVATIONS: Types = (_FLOAT, STORED)
FLOAT_ONLY: Types = (_FLOAT,)


@final
class Operands:
    """What arrays of a convolution of some shape look like; activations may be of bfloat16.

    They have whole vectors of images unless another number is given.
    """

    def __init__(
        self,
        shape: ConvolutionShape,
        activations: Types = _ACTIVATIONS,
        images: int | None = None,
    ) -> None:
        self._activations = activations
        images = padded_images(shape.images) if images is None else images
        self._shape, self._weights = shape, shape.weights
        self._inputs, self._outputs = (images, *shape.inputs[1:]), (images, *shape.outputs[1:])

    def check(
        self,
        images: AnyArray,
        outputs: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None = None,
        mask: AnyArray | None = None,
    ) -> None:
        """Raise OperationError for other shapes or types, and for weights not in C order."""
        self._check("images", images, self._inputs)
        self._check("outputs", outputs, self._outputs)
        self._check("weights", weights, self._weights, ordered=True)
        if bias is not None:
            self._check("bias", bias, self._weights[:1], ordered=True)
        if mask is not None:
            self._check("mask", mask, self._inputs)

    def _check(
        self, name: str, array: AnyArray, expected: tuple[int, ...], ordered: bool = False
    ) -> None:
        lies = not ordered or array.flags.c_contiguous
        kinds = (_FLOAT,) if ordered else self._activations
        if array.shape != expected or array.dtype not in kinds or not lies:
            raise OperationError(
                f"{name} of shape {array.shape}, type {array.dtype} and strides {array.strides} "
                f"were given to {self._shape}: expected shape {expected}, "
                f"{' or '.join(map(str, kinds))}{' in C order' * ordered}"
            )

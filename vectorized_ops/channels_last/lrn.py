"""Local response normalisation across channels: a window moves along the channels of a pixel."""

from __future__ import annotations

import math

import numpy as np

from vectorized_ops.channels_last.rows import FLOAT, bits, check_shapes, past_caches, rows
from vectorized_ops.channels_last.team import threads_for
from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.kernels.channels_last import lrn as kernels
from vectorized_ops.reference.lrn import LocalResponseNormalisation as Definition

_NOTHING = (0, 0)


class LocalResponseNormalisation:
    """See `vectorized_ops.reference.lrn.LocalResponseNormalisation`; channels run fastest.

    The reference computes windows of more than 17 channels, and a beta that is no multiple of 1/4
    up to 1.
    """

    def __init__(self, size: int, alpha: float, beta: float, bias: float) -> None:
        self._definition = Definition(size, alpha, beta, bias)
        self._has_kernels = kernels.has_kernel(size, beta)
        if not self._has_kernels:
            return
        factor = alpha / size
        self._numbers = [bits(each) for each in (bias, factor, -2 * factor * beta, math.nan)]
        self._forward, self._backward = kernels.kernels(size // 2, size // 2, int(4 * beta))

    def forward(self, values: AnyArray, out: AnyArray) -> None:
        """Write y: one read and one write."""
        if not self._has_kernels:
            self._definition.forward(values, out)
            return
        check_shapes(values.shape, out)
        self._forward(self._arguments(rows(out), values, rows(values), _NOTHING), FLOAT)

    def backward(
        self,
        values: AnyArray,
        gradient: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write, or add to `out`, the gradient of the values: two reads and one write."""
        if not self._has_kernels:
            self._definition.backward(values, gradient, out, add, mask)
            return
        check_shapes(values.shape, gradient, out, mask)
        masking = _NOTHING if mask is None else rows(mask)
        arguments = self._arguments(
            rows(out), values, rows(values), rows(gradient), add, mask is not None, masking
        )
        self._backward(arguments, FLOAT)

    def _arguments(
        self,
        out: tuple[int, int],
        values: AnyArray,
        read: tuple[int, int],
        gradient: tuple[int, int],
        add: bool = False,
        masked: bool = False,
        mask: tuple[int, int] = _NOTHING,
    ) -> AnyArray:
        channels, size = values.shape[-1], values.size
        past = not add and past_caches(size, out, channels, read[0], gradient[0])
        places, distances = zip(out, read, gradient, strict=True)
        return np.array(
            [
                threads_for(size), size // channels, channels, past, *self._numbers, *places,
                *distances, add, masked, *mask,
            ],
            np.int64,
        )  # fmt: skip

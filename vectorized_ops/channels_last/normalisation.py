"""Batch normalisation: the statistics in one read, their gradient in one read of both arrays."""

from __future__ import annotations

import math

import numpy as np

from vectorized_ops.channels_last.rectifier import Rectifier
from vectorized_ops.channels_last.rows import (
    FLOAT,
    Sums,
    check_shapes,
    pass_arguments,
    rows,
    vector_address,
)
from vectorized_ops.epilogue import IDENTITY, RECTIFIER, RELU, Epilogue
from vectorized_ops.layout import AnyArray, aligned_zeros
from vectorized_ops.numba.kernels.arithmetic.batch_normalisation import TABLE_ROWS
from vectorized_ops.numba.kernels.channels_last import normalisation as kernels
from vectorized_ops.numba.kernels.channels_last.rows import padded
from vectorized_ops.reference.activation import Activation
from vectorized_ops.reference.normalisation import BatchNormalisation as Definition


class BatchNormalisation:
    """See `vectorized_ops.reference.normalisation.BatchNormalisation`; channels run fastest.

    Results are the same to the last bit for the same number of threads. A rectifier that is both
    leaky and clipped is left to the reference.
    """

    def __init__(self, images: int, height: int, width: int, channels: int, epsilon: float) -> None:
        self._shape, self._epsilon = (images, height, width, channels), epsilon
        self._images, self._rows, self._channels = images, images * height * width, channels
        self._sums = Sums(self._rows * channels, channels, 2)
        self._pivots = aligned_zeros((padded(channels),))
        self._table, self._back_table = (
            aligned_zeros((TABLE_ROWS, padded(channels))) for _ in range(2)
        )
        self._pivots_address, self._address, self._back_address = (
            int(each.__array_interface__["data"][0])
            for each in (self._pivots, self._table, self._back_table)
        )
        self._parameters, self._slopes = np.zeros(4, np.int64), np.zeros(2, np.int64)

    def statistics(self, values: AnyArray, mean: AnyArray, variance: AnyArray) -> None:
        """Write mean and biased variance of each channel: one read."""
        self._check(values)
        for vector in (mean, variance):
            vector_address(vector, self._channels)
        arguments = pass_arguments(
            self._rows, self._channels, [], [rows(values)], self._pivots_address, sums=self._sums
        )
        kernels.moments(arguments, FLOAT)
        kernels.write_statistics(arguments, mean, variance)

    def forward(
        self,
        values: AnyArray,
        mean: AnyArray,
        variance: AnyArray,
        scale: AnyArray,
        shift: AnyArray,
        out: AnyArray,
        addend: AnyArray | None = None,
        epilogue: Epilogue = IDENTITY,
    ) -> None:
        """Write the normalised values: one read (with an addend two) and one write."""
        self._check(values)
        check_shapes(values.shape, out, addend)
        self._fill_table(mean, variance, scale, shift)
        joined = addend is not None
        behind = joined and epilogue not in (IDENTITY, RELU)
        passes, scalar = kernels.passes_of(
            IDENTITY if behind or _is_bent(epilogue) else epilogue, -math.inf
        )
        given = [rows(values), *([rows(addend)] if addend is not None else [])]
        count = values.size // self._channels
        (kernels.join if joined else passes.normalise)(
            pass_arguments(count, self._channels, [rows(out)], given, self._address, scalar), FLOAT
        )
        if behind or _is_bent(epilogue):
            epilogue.operation(Rectifier, Activation).forward(out, out)

    def backward(
        self,
        values: AnyArray,
        gradient: AnyArray,
        mean: AnyArray,
        variance: AnyArray,
        scale: AnyArray,
        shift: AnyArray,
        epilogue: Epilogue,
        scale_out: AnyArray,
        shift_out: AnyArray,
        out: AnyArray,
        add: bool = False,
        fixed: bool = False,
    ) -> None:
        """Write the gradients of scale, shift and values: four reads and one write."""
        self._check(values)
        check_shapes(values.shape, gradient, out)
        if _is_bent(epilogue):
            defined = Definition(*self._shape, self._epsilon)
            given = values, gradient, mean, variance, scale, shift, epilogue, scale_out, shift_out
            defined.backward(*given, out, add, fixed)
            return
        self._fill_table(mean, variance, scale, shift)
        passes, scalar = kernels.passes_of(epilogue, math.nan)
        read, count, channels = [rows(values), rows(gradient)], self._rows, self._channels
        summed = pass_arguments(count, channels, [], read, self._address, scalar, self._sums)
        passes.gradient_sums(summed, FLOAT)
        self._slopes[:] = vector_address(scale_out, channels), vector_address(shift_out, channels)
        kernels.slopes(summed, self._back_address, self._slopes, not fixed)
        target = rows(out)
        read += [target] * add
        (passes.add_denormalised if add else passes.denormalise)(
            pass_arguments(count, channels, [target], read, self._back_address, scalar), FLOAT
        )
        if not add:
            out[self._images :] = 0

    def _fill_table(
        self, mean: AnyArray, variance: AnyArray, scale: AnyArray, shift: AnyArray
    ) -> None:
        vectors = scale, shift, mean, variance
        self._parameters[:] = [vector_address(each, self._channels) for each in vectors]
        kernels.running_statistics(self._channels, self._address, self._parameters, self._epsilon)

    def _check(self, values: AnyArray) -> None:
        images, *rest = self._shape
        check_shapes((max(images, len(values)), *rest), values)


def _is_bent(epilogue: Epilogue) -> bool:
    """Tell whether a rectifier is both leaky and clipped: kernels know one limit."""
    clipped = epilogue.function == RECTIFIER and epilogue.ceiling < math.inf
    return clipped and epilogue.slope != 0

"""Batch normalisation, defined (Ioffe and Szegedy 2015, arXiv 1502.03167)."""

from __future__ import annotations

import numpy as np

from vectorized_ops.epilogue import IDENTITY, Epilogue
from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.activation import Activation
from vectorized_ops.reference.gradient import write_gradient
from vectorized_ops.reference.rectifier import Rectifier


class BatchNormalisation:
    """Each channel's values less their mean, over their standard deviation, scaled and shifted.

    values, gradient, addend and out (N', H, W, C), mean, variance, scale and shift (C,), all
    float32. The first `images` of the N' make up the batch, the others only fill up a vector:
    whatever they hold, finite or not, no sum takes note of them.
    """

    def __init__(self, images: int, height: int, width: int, channels: int, epsilon: float) -> None:
        self._images, self._epsilon = images, epsilon
        self._count = images * height * width
        self._channels = channels

    @np.errstate(invalid="ignore")
    def statistics(self, values: AnyArray, mean: AnyArray, variance: AnyArray) -> None:
        """Write the mean and the (biased, never negative) variance of each channel.

        Without the cancellation of mean(x^2) - mean(x)^2 in float32.
        """
        batch = values[: self._images]
        mean[...] = batch.mean(axis=(0, 1, 2), dtype=np.float64)
        variance[...] = batch.var(axis=(0, 1, 2), dtype=np.float64)

    @np.errstate(invalid="ignore")
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
        """Write z = (values - mean) / sqrt(variance + epsilon) * scale + shift, plus `addend`.

        The epilogue is done to that sum, NaN staying NaN. Mean and variance are the batch's in
        training, the running ones in inference. `out` may be `values` or `addend`.
        """
        z = (values - mean) / self._deviation(variance) * scale + shift
        if addend is not None:
            z += addend
        epilogue.operation(Rectifier, Activation).forward(z, out)

    @np.errstate(invalid="ignore")
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
        """Write the gradients of scale, shift and values, mean and variance being the batch's.

        With g the gradient of z and v = (values - mean) / sqrt(variance + epsilon): shift_out =
        sum g, scale_out = sum g v, and out = scale / sqrt(variance + epsilon) * (g - mean of g
        - v * mean of g v), zero in the images beyond the batch. The gradient that arrives is that
        of the epilogue of z, without addend; z is computed again. With `add`, what `out` holds is
        added; without, `out` may be `gradient`. With `fixed` mean and variance do not depend on the
        values, and neither mean is subtracted.
        """
        deviation = self._deviation(variance)
        batch = (values[: self._images] - mean) / deviation
        passed = np.empty_like(batch)
        operation = epilogue.operation(Rectifier, Activation)
        operation.backward(gradient[: self._images], batch * scale + shift, passed)
        shift_sum = passed.sum(axis=(0, 1, 2))
        scale_sum = (passed * batch).sum(axis=(0, 1, 2))
        result = np.zeros_like(out)
        if not fixed:
            passed = passed - shift_sum / self._count - batch * scale_sum / self._count
        result[: self._images] = scale / deviation * passed
        shift_out[...], scale_out[...] = shift_sum, scale_sum
        write_gradient(result, out, add, mask=None)

    def _deviation(self, variance: AnyArray) -> AnyArray:
        deviation: AnyArray = np.sqrt(variance + self._epsilon)
        return deviation


def running_gradient(running: AnyArray, found: AnyArray, factor: float, out: AnyArray) -> None:
    """Write running - factor * found, rounded twice, for a statistic (C,) of each channel.

    `found` is that of the batch. A step of size 1 - decay moves the running one towards it.
    """
    np.multiply(found, np.float32(factor), out=out)
    np.subtract(running, out, out=out)

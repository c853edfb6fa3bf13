"""Layer normalisation over channels, defined (Ba, Kiros and Hinton 2016, arXiv 1607.06450)."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient
from vectorized_ops.reference.scaling import check_per_channel


class LayerNormalisation:
    """Each pixel's channels less their mean, over their standard deviation, scaled and shifted.

    values, gradient and out (N, H, W, C) or (N, C), scale and shift (C,), all float32. The variance
    is the biased one.
    """

    def __init__(self, epsilon: float) -> None:
        self._epsilon = epsilon

    @np.errstate(invalid="ignore")
    def forward(self, values: AnyArray, scale: AnyArray, shift: AnyArray, out: AnyArray) -> None:
        """Write (values - mean) / sqrt(variance + epsilon) * scale + shift; may be in place."""
        check_per_channel(values, scale, shift)
        normalised, _ = self._normalised(values)
        out[...] = normalised * scale + shift

    @np.errstate(invalid="ignore")
    def backward(
        self,
        values: AnyArray,
        gradient: AnyArray,
        scale: AnyArray,
        scale_out: AnyArray,
        shift_out: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradients of scale, shift and values; mean and variance are computed again.

        With v = (values - mean) / sqrt(variance + epsilon): scale_out = sum of gradient * v and
        shift_out = sum of gradient over images and pixels. out = (g - mean of g - v * mean of
        g v) / sqrt(variance + epsilon), where g = gradient * scale and means are over channels.
        Without `add`, `out` may be `gradient`; `add` and `mask` as in
        `vectorized_ops.reference.gradient.write_gradient`. In images that only fill up a vector
        the gradient must be zero.
        """
        check_per_channel(values, scale, scale_out, shift_out)
        normalised, deviation = self._normalised(values)
        all_but_channels = tuple(range(values.ndim - 1))
        scale_out[...] = (gradient * normalised).sum(axis=all_but_channels)
        shift_out[...] = gradient.sum(axis=all_but_channels)
        scaled = gradient * scale
        level = scaled.mean(axis=-1, keepdims=True)
        tilt = (scaled * normalised).mean(axis=-1, keepdims=True)
        write_gradient((scaled - level - normalised * tilt) / deviation, out, add, mask)

    def _normalised(self, values: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return v and the standard deviations (N, H, W, 1) or (N, 1)."""
        centred = values - values.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        deviation: AnyArray = np.sqrt(variance + self._epsilon)
        return centred / deviation, deviation

"""Channels times trained factors, defined: layer scale (Touvron et al. 2021, arXiv 2103.17239)."""

from __future__ import annotations

import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient


def check_per_channel(values: AnyArray, *parameters: AnyArray) -> None:
    """Raise OperationError unless each of the parameters has a value for every channel."""
    for each in parameters:
        if each.shape != values.shape[-1:]:
            raise OperationError(
                f"parameters of shape {each.shape} were given for values of shape {values.shape}: "
                f"expected one for each channel, {values.shape[-1:]}"
            )


class ChannelScale:
    """Each channel of maps (N, H, W, C) or vectors (N, C) times its factor (C,), all float32."""

    @np.errstate(invalid="ignore")
    def forward(self, values: AnyArray, scale: AnyArray, out: AnyArray) -> None:
        """Write values * scale; `out` may be `values`."""
        check_per_channel(values, scale)
        out[...] = values * scale

    @np.errstate(invalid="ignore")
    def backward_scale(self, values: AnyArray, gradient: AnyArray, out: AnyArray) -> None:
        """Write the sums over images and pixels of gradient * values, (C,).

        In images that only fill up a vector the gradient must be zero.
        """
        check_per_channel(values, out)
        out[...] = (gradient * values).sum(axis=tuple(range(values.ndim - 1)))

    @np.errstate(invalid="ignore")
    def backward(
        self,
        gradient: AnyArray,
        scale: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write gradient * scale; `out` may be `gradient` without `add`.

        `add` and `mask` as in `vectorized_ops.reference.gradient.write_gradient`.
        """
        check_per_channel(gradient, scale)
        write_gradient(gradient * scale, out, add, mask)

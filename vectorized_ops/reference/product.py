"""Products of channels with factors of their own, defined."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient


class ChannelProduct:
    """Each channel of maps (N, H, W, C) times a factor of the image (N, C), all float32.

    The end of a squeeze-and-excitation block (Hu et al., CVPR 2018, equation 4).
    """

    @np.errstate(invalid="ignore")
    def forward(self, maps: AnyArray, factors: AnyArray, out: AnyArray) -> None:
        """Write maps * factors; `out` may be `maps`."""
        out[...] = maps * factors[:, None, None, :]

    @np.errstate(invalid="ignore")
    def backward_maps(
        self,
        gradient: AnyArray,
        factors: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write gradient * factors; `out` may be `gradient` without `add`.

        `add` and `mask` as in `vectorized_ops.reference.gradient.write_gradient`.
        """
        write_gradient(gradient * factors[:, None, None, :], out, add, mask)

    @np.errstate(invalid="ignore")
    def backward_factors(
        self,
        gradient: AnyArray,
        maps: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the sums over pixels of gradient * maps, (N, C); `add` and `mask` as above."""
        write_gradient((gradient * maps).sum(axis=(1, 2)), out, add, mask)

"""Dropout without a stored mask: the kernels of images, to which 16 neighbours look like 16."""

from __future__ import annotations

import numba
import numpy as np

from vectorized_ops.channels_last.neighbours import as_images
from vectorized_ops.layout import IMAGE_LANES, AnyArray, pixels
from vectorized_ops.numba.dropout import keep
from vectorized_ops.numba.emit.non_temporal import streamed
from vectorized_ops.reference.dropout import Dropout as Definition
from vectorized_ops.reference.dropout import drop_below, key_halves


class Dropout:
    """See `vectorized_ops.reference.dropout.Dropout`.

    The reference drops whole images, and in slices of channels and sizes of no whole vectors.
    """

    def __init__(self, rate: float, per_image: bool = False) -> None:
        self._definition, self._per_image = Definition(rate, per_image), per_image
        self._drop_below, self._factor = int(drop_below(rate)), np.float32(1 / (1 - rate))

    def forward(self, values: AnyArray, out: AnyArray, key: int, first_image: int = 0) -> None:
        """Write the values that are kept, and zeros; `out` may be `values`."""
        if not self._kept(values, out, key, False, None, first_image):
            self._definition.forward(values, out, key, first_image)

    def backward(
        self,
        gradient: AnyArray,
        out: AnyArray,
        key: int,
        add: bool = False,
        mask: AnyArray | None = None,
        first_image: int = 0,
    ) -> None:
        """Write the gradient of the values that were kept under this key, and zeros."""
        if not self._kept(gradient, out, key, add, mask, first_image):
            self._definition.backward(gradient, out, key, add, mask, first_image)

    def _kept(
        self,
        values: AnyArray,
        out: AnyArray,
        key: int,
        add: bool,
        mask: AnyArray | None,
        first_image: int,
    ) -> bool:
        """Deliver the values that are kept, if kernels can; tell so."""
        seen = None if self._per_image else as_images(values, out, out if mask is None else mask)
        if seen is None or seen[0].ndim > 2:  # numbers of neighbouring pixels are far apart
            return False
        source, target, cut = (pixels(array) for array in seen)
        past = not add and streamed(target[0], out.nbytes, source[0])
        first = first_image * (out.size // len(out))
        keep(
            *source, *target, *cut, 1, out.size // IMAGE_LANES, IMAGE_LANES, first, IMAGE_LANES, 1,
            *key_halves(key), self._drop_below, self._factor, add, mask is not None, past,
            numba.get_num_threads(),
        )  # fmt: skip
        return True

"""The k values of a vector that are largest by magnitude, sent in its place, in NumPy.

The others are kept in a ``residual``, which is added to the next vector that is encoded. Aji,
Heafield, "Sparse communication for distributed gradient descent", EMNLP 2017; Stich, Cordonnier,
Jaggi, "Sparsified SGD with memory", NeurIPS 2018.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import FloatArray

MAGNITUDE_BITS = 0x7FFFFFFF
"""All bits of a float32 but its sign: as integers, they are ordered as magnitudes are."""


def candidates_for(count: int) -> int:
    """Return how much scratch memory `encode_largest` can use to choose ``count`` values."""
    return 4 * count + 2048


def encode_largest(
    values: FloatArray,
    residual: FloatArray,
    places: npt.NDArray[np.int32],
    chosen: FloatArray,
    candidates: npt.NDArray[np.int32],  # noqa: ARG001
) -> None:
    """Write the largest k of ``values`` + ``residual`` (n,) to ``chosen`` (k,), rising by place.

    ``places`` (k,) says where they were, 1 <= k <= n. Of equal magnitudes the first are taken. NaN
    counts as larger than infinity. ``residual`` becomes the sum, with 0 at these places.
    ``candidates`` (c,) is scratch memory for implementations; `candidates_for` tells a good c.
    """
    residual += values
    magnitudes = residual.view(np.int32) & np.int32(MAGNITUDE_BITS)
    places[:] = np.sort(np.argsort(-magnitudes, kind="stable")[: places.size])
    chosen[:] = residual[places]
    residual[places] = 0


def add_largest(places: npt.NDArray[np.int32], chosen: FloatArray, total: FloatArray) -> None:
    """Add ``chosen`` (k,) to ``total`` (n,) at ``places`` (k,), which differ."""
    total[places] += chosen

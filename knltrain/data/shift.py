"""Training images moved by a few pixels, differently in each epoch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from knltrain.vectors import FloatArray


def bordered(images_nhwc: FloatArray, pixels: int) -> FloatArray:
    """Images (N,H,W,C) padded by `pixels` on each side with the smallest of all pixel values.

    Without any the array itself, not a copy of it.
    """
    if not pixels:
        return images_nhwc
    border = (pixels, pixels)
    darkest = images_nhwc.min()
    return np.pad(images_nhwc, ((0, 0), border, border, (0, 0)), constant_values=darkest)


def epoch_shifts(images: int, seed: int, epoch: int, pixels: int) -> npt.NDArray[np.int64]:
    """Lines and columns int64 (images, 2), each 0 to 2 * pixels, by position in the epoch.

    Like the order of the images a function of seed and epoch alone, by raw Philox numbers.
    """
    stream = np.random.Philox(np.random.SeedSequence((seed, epoch, pixels)))
    words = np.asarray(stream.random_raw((images, 2)), np.uint64) % np.uint64(2 * pixels + 1)
    shifts: npt.NDArray[np.int64] = words.astype(np.int64)
    return shifts

"""Training images moved by a few pixels, differently in each epoch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def epoch_shifts(images: int, seed: int, epoch: int, pixels: int) -> npt.NDArray[np.int64]:
    """Lines and columns int64 (images, 2), each 0 to 2 * pixels, by number of the picture.

    Like the order of the images a function of seed and epoch alone, by raw Philox numbers.
    """
    stream = np.random.Philox(np.random.SeedSequence((seed, epoch, pixels)))
    words = np.asarray(stream.random_raw((images, 2)), np.uint64) % np.uint64(2 * pixels + 1)
    shifts: npt.NDArray[np.int64] = words.astype(np.int64)
    return shifts

"""The order in which images are seen: a function of (seed, epoch, position) and nothing else."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from knltrain.data.dataset import Batch, LabelledImages
from knltrain.data.shift import bordered, epoch_shifts
from knltrain.errors import DataError
from knltrain.vectors import FloatArray

_GATHERED_VALUES = 2**18
"""So many images are gathered at a time, in 1 MiB beside the batch."""


def epoch_order(images: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The permutation int64 (images,) of one epoch.

    Sorts raw Philox numbers, which NumPy keeps stable between versions and machines.
    """
    stream = np.random.Philox(np.random.SeedSequence((seed, epoch)))
    return np.argsort(stream.random_raw(images), kind="stable").astype(np.int64, copy=False)


class ShardedBatches:
    """Each worker's share of every global batch.

    The global batch of a step is the same whatever the number of workers: rows [position * batch :
    (position + 1) * batch] of its epoch's order, of which worker `rank` takes the `rank`-th equal
    part. Images that do not fill a last batch are left out of the epoch. With `shift_pixels` every
    image is moved by up to so many pixels, differently in each epoch. A step takes `iter_size`
    batches, one after another in that order. Raises DataError when a step's batches exceed the
    images or a batch cannot be divided evenly.
    """

    def __init__(
        self,
        images: LabelledImages,
        batch: int,
        rank: int,
        workers: int,
        seed: int,
        shift_pixels: int = 0,
        iter_size: int = 1,
    ) -> None:
        if batch % workers:
            raise DataError(
                f"a batch of {batch} images does not divide evenly among {workers} workers: "
                f"set train.batch to a multiple of {workers}"
            )
        if batch * iter_size > len(images):
            several = "" if iter_size == 1 else f"a step of {iter_size} times "
            lower = "lower train.batch" if iter_size == 1 else "lower train.batch, train.iter_size"
            raise DataError(
                f"{several}a batch of {batch} images is larger than the {len(images)} training "
                f"images: {lower} or use more images"
            )
        if not 0 <= rank < workers:
            raise ValueError(f"rank {rank} of {workers} workers")
        self.iter_size = iter_size
        self.steps_per_epoch = len(images) // (batch * iter_size)
        self.images_per_worker = batch // workers
        self.images_per_step = self.images_per_worker * iter_size
        self.label_shape = images.label_shape
        self._labels = images.labels
        self._images_nhwc = bordered(images.images_nhwc, shift_pixels)
        self._windows = _windows(self._images_nhwc, images.image_shape)
        self._shift_pixels = shift_pixels
        self._batch = batch
        self._rank = rank
        self._seed = seed
        self._epoch = -1
        self._order = self._shifts = np.empty(0, np.int64)

    def fill(self, step: int, out: Batch, number: int = 0) -> None:
        """Write this worker's images, labels and key of batch `number` of global `step` to `out`.

        Both count from 0.
        """
        batch = step * self.iter_size + number
        sources = np.random.SeedSequence([self._seed, batch, self._rank])
        out.key[:] = sources.generate_state(1, np.uint64)
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._begin(epoch)
        start = (
            position * self.iter_size + number
        ) * self._batch + self._rank * self.images_per_worker
        rows = self._order[start : start + self.images_per_worker]
        # mode="clip" writes straight into `out`; the default would go through a buffer.
        np.take(self._labels, rows, axis=0, out=out.labels, mode="clip")
        if not self._shift_pixels:
            np.take(self._images_nhwc, rows, axis=0, out=out.images_nhwc, mode="clip")
            return
        shifts = self._shifts[start : start + self.images_per_worker]
        few = max(1, _GATHERED_VALUES // out.images_nhwc[0].size)
        for begin in range(0, len(rows), few):
            part = slice(begin, begin + few)
            down, right = shifts[part].T
            out.images_nhwc[part] = self._windows[rows[part], down, right]

    def _begin(self, epoch: int) -> None:
        images = len(self._labels)
        self._order = epoch_order(images, self._seed, epoch)
        self._shifts = epoch_shifts(images, self._seed, epoch, self._shift_pixels)
        self._epoch = epoch


def _windows(images_nhwc: FloatArray, shape: tuple[int, int, int]) -> FloatArray:
    """Parts of bordered images, as a view (N,Y,X,H,W,C): [i,y,x] begins at row y, column x."""
    parts = np.lib.stride_tricks.sliding_window_view(images_nhwc, shape[:2], axis=(1, 2))
    return np.moveaxis(parts, 3, -1)

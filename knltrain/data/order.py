"""The order in which images are seen: a function of (seed, epoch, position) and nothing else."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from knltrain.data.dataset import Batch, LabelledImages
from knltrain.data.preprocessing import Draws
from knltrain.errors import DataError


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
    part. Images that do not fill a last batch are left out of the epoch. A step takes `iter_size`
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
        self._images = images
        self._batch = batch
        self._rank = rank
        self._seed = seed
        self._epoch = -1
        self._order = np.empty(0, np.int64)

    def fill(self, step: int, out: Batch, number: int = 0) -> None:
        """Write this worker's images, labels and key of batch `number` of global `step` to `out`.

        Both count from 0.
        """
        batch = step * self.iter_size + number
        sources = np.random.SeedSequence([self._seed, batch, self._rank])
        out.key[:] = sources.generate_state(1, np.uint64)
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = epoch_order(len(self._images), self._seed, epoch)
            self._epoch = epoch
        start = (
            position * self.iter_size + number
        ) * self._batch + self._rank * self.images_per_worker
        rows = self._order[start : start + self.images_per_worker]
        self._images.write(rows, out, Draws(self._seed, epoch))

"""The order in which images are seen: a function of (seed, epoch, position) and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.data.dataset import Batch, LabelledImages
from knltrain.data.preprocessing import Draws
from knltrain.data.source import Rows
from knltrain.errors import DataError


def epoch_order(images: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The permutation int64 (images,) of one epoch.

    Sorts raw Philox numbers, which NumPy keeps stable between versions and machines.
    """
    stream = np.random.Philox(np.random.SeedSequence((seed, epoch)))
    return np.argsort(stream.random_raw(images), kind="stable").astype(np.int64, copy=False)


@final
class EpochOrders:
    """The orders of the last `kept` epochs that were asked for, by any thread.

    With `images.block_images` blocks are shuffled (`knltrain.data.blocks`), and read ahead.
    """

    def __init__(self, images: LabelledImages, seed: int, kept: int = 1) -> None:
        self._images, self._seed, self._kept = len(images), seed, kept
        self._block, self._ahead = images.block_images, None
        if self._block is not None:
            from knltrain.data.blocks import BlocksAhead

            self._ahead = BlocksAhead(images.source, self._block, seed)
        self._orders: dict[int, npt.NDArray[np.int64]] = {}
        self._lock = threading.Lock()

    def reach(self, epoch: int, begin: int, end: int) -> None:
        """Rows `begin` to before `end` of that epoch's order are to be read now."""
        if self._ahead is not None:
            self._ahead.reach(epoch, begin, end)

    def of(self, epoch: int) -> npt.NDArray[np.int64]:
        """The permutation int64 (images,) of that epoch."""
        with self._lock:
            if epoch not in self._orders:
                while len(self._orders) >= self._kept:
                    del self._orders[next(iter(self._orders))]
                self._orders[epoch] = self._order(epoch)
            return self._orders[epoch]

    def _order(self, epoch: int) -> npt.NDArray[np.int64]:
        if self._block is None:
            return epoch_order(self._images, self._seed, epoch)
        from knltrain.data.blocks import block_order

        return block_order(self._images, self._block, self._seed, epoch)


class ShardedBatches:
    """Each worker's share of every global batch.

    The global batch of a step is the same whatever the number of workers: rows [position * batch :
    (position + 1) * batch] of its epoch's order, of which worker `rank` takes the `rank`-th part,
    `shares[rank]` images, by default as many as the others. Images that do not fill a last batch
    are left out of the epoch. A step takes `iter_size` batches, one after another in that order.
    Those of several workers in one process may have the same `orders`. Raises DataError when a
    step's batches exceed the images or a batch cannot be divided evenly.
    """

    def __init__(
        self,
        images: LabelledImages,
        batch: int,
        rank: int,
        workers: int,
        seed: int,
        iter_size: int = 1,
        orders: EpochOrders | None = None,
        shares: Sequence[int] | None = None,
    ) -> None:
        if shares is None and batch % workers:
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
        self.shares = (batch // workers,) * workers
        self.label_shape = images.label_shape
        self._images = images
        self._batch = batch
        self._rank = rank
        self._seed = seed
        self._orders = EpochOrders(images, seed) if orders is None else orders
        if shares is not None:
            self.share_out(shares)

    @property
    def images_per_worker(self) -> int:
        """Images of a batch that this worker takes."""
        return self.shares[self._rank]

    def share_out(self, shares: Sequence[int]) -> None:
        """From here on worker r takes `shares[r]` images of each batch, which all belong to one."""
        if len(shares) != len(self.shares) or min(shares) < 0 or sum(shares) != self._batch:
            raise ValueError(f"shares {shares} of {self._batch} images, {len(self.shares)} workers")
        self.shares = tuple(shares)

    def images_in(self, steps: Sequence[int]) -> int:
        """Images that workers take in so many steps of each, by rank."""
        pairs = zip(steps, self.shares, strict=True)
        return sum(count * images for count, images in pairs) * self.iter_size

    def fill(self, step: int, out: Batch, number: int = 0) -> None:
        """Write this worker's images, labels and key of batch `number` of global `step` to `out`.

        Both count from 0. Several threads may fill batches at once.
        """
        batch = step * self.iter_size + number
        sources = np.random.SeedSequence([self._seed, batch, self._rank])
        out.key[:] = sources.generate_state(1, np.uint64)
        rows, draws = self._rows_and_draws(step, number)
        if len(rows):
            self._images.write(rows, out, draws)

    def rows_read(self, step: int, number: int = 0) -> Rows:
        """The pictures that `fill` reads: those of the batch, and what they are mixed with."""
        return self._images.rows_read(*self._rows_and_draws(step, number))

    def _rows_and_draws(self, step: int, number: int) -> tuple[Rows, Draws]:
        epoch, position = divmod(step, self.steps_per_epoch)
        begin = (position * self.iter_size + number) * self._batch
        self._orders.reach(epoch, begin, begin + self._batch)
        start = begin + sum(self.shares[: self._rank])
        rows = self._orders.of(epoch)[start : start + self.images_per_worker]
        return rows, Draws(self._seed, epoch)

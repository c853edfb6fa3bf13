"""An order for disks that are slow to seek: blocks of pictures that lie side by side are shuffled.

It is no true shuffle. Pictures of a block are always seen near each other, among those of the other
blocks of a window. Each block is read ahead as a whole, a window before its pictures are needed.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final, final

import numpy as np
import numpy.typing as npt

from knltrain.data.source import ImageSource
from knltrain.errors import BrokenPicture

WINDOW: Final = 8
"""Blocks among which pictures are shuffled; two windows of them lie in the page cache."""
BLOCK_BYTES: Final = 64 * 2**20
"""Of a block, if the user asks for no number of pictures."""

_SAMPLED: Final = 16
"""Pictures at equal distances that tell the size of all."""


def block_images(source: ImageSource, wanted: int | None = None) -> int:
    """How many pictures a block has: as many as are wanted, else those of 64 MiB."""
    if wanted is not None:
        return min(wanted, len(source))
    count = min(len(source), 1 if source.image_shape else _SAMPLED)
    sizes = []
    for row in (np.arange(count) * len(source) // count).tolist():
        with suppress(BrokenPicture):
            found = source.encoded(row)
            sizes.append(source.picture(row).nbytes if found is None else len(found))
    mean = sum(sizes) / len(sizes) if sizes else BLOCK_BYTES
    return int(np.clip(BLOCK_BYTES // max(1, mean), 1, len(source)))


def chosen_blocks(source: ImageSource, wanted: int | None = None) -> tuple[int, tuple[str, ...]]:
    """How many pictures a block has, as `block_images`, and what the user is to know of it."""
    block = block_images(source, wanted)
    return block, told_blocks(len(source), block)


def blocks_of(images: int, block: int) -> int:
    """How many blocks there are; the last one may be smaller."""
    return -(-images // block)


def block_turns(blocks: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The blocks int64 (blocks,) in the order of one epoch."""
    stream = np.random.Philox(np.random.SeedSequence((seed, epoch, 1)))
    return np.argsort(stream.random_raw(blocks), kind="stable").astype(np.int64, copy=False)


def block_order(images: int, block: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The permutation int64 (images,) of one epoch.

    The blocks' order is cut into windows, and the pictures of each window are shuffled. Raw Philox
    numbers are sorted, as in `knltrain.data.order.epoch_order`.
    """
    turns = block_turns(blocks_of(images, block), seed, epoch)
    window = np.empty_like(turns)
    window[turns] = np.arange(len(turns)) // WINDOW
    stream = np.random.Philox(np.random.SeedSequence((seed, epoch)))
    found = np.lexsort((stream.random_raw(images), window[np.arange(images) // block]))
    return found.astype(np.int64, copy=False)


def told_blocks(images: int, block: int) -> tuple[str, ...]:
    """What the user is to know of this order: nothing of so few blocks that all are shuffled."""
    blocks = blocks_of(images, block)
    if blocks <= WINDOW:
        return ()
    return (
        f"data.order = 'blocks' is no true shuffle: {blocks:,} blocks of {block:,} images that lie "
        f"side by side are shuffled, and images among those of {WINDOW} blocks; data sorted by "
        "class train worse so",
    )


@final
class BlocksAhead:
    """Has each block read a window before its first picture can be asked for.

    `block` is its number of pictures. Several threads may use it.
    """

    def __init__(self, source: ImageSource, block: int, seed: int) -> None:
        self._source, self._block, self._seed = source, block, seed
        self._images, self._blocks = len(source), blocks_of(len(source), block)
        self._next = 0
        self._lock = threading.Lock()

    def reach(self, epoch: int, begin: int, end: int) -> None:
        """Pictures `begin` to before `end` of an epoch's order are to be asked for now."""
        past = epoch * self._blocks
        window = past + begin // self._block // WINDOW * WINDOW
        # One more: the block that is smaller may have been among those before.
        last = past + (end - 1) // self._block + WINDOW + 1
        with self._lock:
            first, self._next = max(self._next, window), max(self._next, last + 1)
        for number in range(first, last + 1):
            turn, place = divmod(number, self._blocks)
            block = int(block_turns(self._blocks, self._seed, turn)[place])
            rows = np.arange(block * self._block, min((block + 1) * self._block, self._images))
            self._source.read_ahead(rows)

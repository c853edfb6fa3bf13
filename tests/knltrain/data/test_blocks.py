"""Blocks of neighbours are shuffled and read as a whole, before their pictures are needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from knltrain.data.blocks import (
    BLOCK_BYTES,
    WINDOW,
    BlocksAhead,
    block_images,
    block_order,
    block_turns,
    told_blocks,
)
from knltrain.data.contents import HalfContents
from knltrain.data.dataset import Batch, LabelledImages
from knltrain.data.order import ShardedBatches
from knltrain.data.source import ArraySource, ImageSource, Pixels, Rows
from tests.knltrain.data.given import given_images, source_of


def _images(count: int, block: int) -> LabelledImages:
    index = np.arange(count)
    made = given_images(index.astype(np.float32).reshape(-1, 1, 1, 1), index)
    return replace(made, block_images=block)


@pytest.mark.parametrize(("images", "block"), [(1000, 7), (1000, 10), (90, 100), (90, 1)])
def test_each_image_is_seen_once_an_epoch_among_those_of_its_window(images, block) -> None:
    for epoch in range(2):
        order = block_order(images, block, 3, epoch)
        assert sorted(order) == list(range(images))
        turns, begin = block_turns(-(-images // block), 3, epoch), 0
        for first in range(0, len(turns), WINDOW):
            blocks = set(turns[first : first + WINDOW].tolist())
            count = sum(min(block, images - each * block) for each in blocks)
            assert set((order[begin : begin + count] // block).tolist()) == blocks
            begin += count


def test_epochs_seeds_and_windows_are_shuffled() -> None:
    orders = {tuple(block_order(200, 5, seed, epoch)) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9
    first = block_order(200, 5, 1, 0)[: WINDOW * 5]
    assert len(np.flatnonzero(np.diff(first) == 1)) < 10, "images are in the order of the file"


def test_blocks_have_64_mib_of_pictures_unless_the_user_says_how_many() -> None:
    pixels = np.zeros((1, 512, 1024, 3), np.uint8)
    many = source_of(np.broadcast_to(pixels, (100, 512, 1024, 3)), np.zeros(100, np.int64))
    assert block_images(many) == BLOCK_BYTES // (512 * 1024 * 3)
    assert block_images(many, 7) == 7
    assert block_images(many, 700) == 100
    assert "9 blocks of 20 images" in told_blocks(180, 20)[0]
    assert told_blocks(160, 20) == ()


@pytest.mark.parametrize("workers", [1, 4])
def test_workers_and_resuming_change_no_batch(workers: int) -> None:
    images, seen = _images(100, 6), []
    for step in range(12):  # each by batches made anew, as after resuming
        for rank in range(workers):
            batches = ShardedBatches(images, 8, rank, workers, 5)
            out = Batch.allocate(batches.images_per_worker, (1, 1, 1))
            batches.fill(step, out)
            seen += out.labels.tolist()
    assert seen == block_order(100, 6, 5, 0)[:96].tolist()


class Recorded(ImageSource):
    """Notes what is read ahead."""

    def __init__(self, source: ArraySource) -> None:
        super().__init__(source.labels, source.class_names, source.channels, source.image_shape)
        self.source = source
        self.ahead: list[list[int]] = []

    def picture(self, row: int) -> Pixels:
        return self.source.picture(row)

    def read_ahead(self, rows: Rows) -> None:
        self.ahead.append(rows.tolist())

    @property
    def held_bytes(self) -> int:
        return self.source.held_bytes

    def picture_name(self, row: int) -> str:
        return self.source.picture_name(row)

    def contents(self) -> HalfContents:
        return self.source.contents()


@pytest.mark.parametrize("start", [0, 5, 31])
@pytest.mark.parametrize("images", [103, 32, 200])
def test_blocks_are_read_whole_and_once_an_epoch_before_their_pictures(images, start) -> None:
    block, batch, steps = 4, 3, images // 3
    source = Recorded(source_of(np.zeros((images, 1, 1, 1), np.uint8), np.arange(images)))
    made = BlocksAhead(source, block, seed=5)
    for epoch in range(2):
        order = block_order(images, block, 5, epoch)
        for step in range(start if epoch == 0 else 0, steps):
            if not source.ahead:
                made.reach(epoch, step * batch, (step + 1) * batch)
            read = {row for rows in source.ahead for row in rows}  # before it is asked for
            assert read >= set(order[step * batch : (step + 1) * batch].tolist())
            made.reach(epoch, step * batch, (step + 1) * batch)
        if start == 0:  # no block a second time, but those of the next epoch
            assert len(source.ahead) <= (epoch + 1) * -(-images // block) + WINDOW + 2
    for rows in source.ahead:
        assert rows == list(range(rows[0], min(rows[0] + block, images)))
        assert rows[0] % block == 0

"""Moving images by a few pixels."""

from __future__ import annotations

import numpy as np

from knltrain.data.shift import bordered, epoch_shifts


def test_border_is_as_dark_as_the_darkest_pixel() -> None:
    images = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4, 1) - 5
    wide = bordered(images, 2)
    assert wide.shape == (2, 7, 8, 1)
    assert wide.dtype == np.float32
    assert np.array_equal(wide[:, 2:-2, 2:-2], images)
    assert (wide[:, :2] == -5).all()
    assert (wide[:, :, -2:] == -5).all()


def test_no_border_leaves_the_images_as_they_are() -> None:
    images = np.ones((1, 2, 2, 1), np.float32)
    assert bordered(images, 0) is images


def test_shifts_reach_every_pixel_and_no_further() -> None:
    shifts = epoch_shifts(1000, seed=1, epoch=0, pixels=2)
    assert shifts.shape == (1000, 2)
    assert set(shifts.reshape(-1).tolist()) == {0, 1, 2, 3, 4}


def test_shifts_depend_on_seed_and_epoch_alone() -> None:
    assert np.array_equal(epoch_shifts(9, 1, 2, 3), epoch_shifts(9, 1, 2, 3))
    drawn = {epoch_shifts(20, s, e, 2).tobytes() for s in range(3) for e in range(3)}
    assert len(drawn) == 9

"""Moving images by a few pixels."""

from __future__ import annotations

import numpy as np

from knltrain.data.shift import epoch_shifts


def test_shifts_reach_every_pixel_and_no_further() -> None:
    shifts = epoch_shifts(1000, seed=1, epoch=0, pixels=2)
    assert shifts.shape == (1000, 2)
    assert set(shifts.reshape(-1).tolist()) == {0, 1, 2, 3, 4}


def test_shifts_depend_on_seed_and_epoch_alone() -> None:
    assert np.array_equal(epoch_shifts(9, 1, 2, 3), epoch_shifts(9, 1, 2, 3))
    drawn = {epoch_shifts(20, s, e, 2).tobytes() for s in range(3) for e in range(3)}
    assert len(drawn) == 9

from __future__ import annotations

import numpy as np

from vectorized_ops.reference.downpour import downpour_update, momentum_downpour_update


def vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_progress_moves_the_center_and_the_local_takes_it_over() -> None:
    local, center, pulled = vector(5.0), vector(10.0), vector(3.0)
    downpour_update(local, center, pulled)
    assert local.tolist() == center.tolist() == pulled.tolist() == [12.0]


def test_heavy_ball_keeps_a_share_of_the_velocity() -> None:
    local, center, pulled, velocity = vector(5.0), vector(10.0), vector(3.0), vector(4.0)
    momentum_downpour_update(local, center, pulled, velocity, 0.5, False)
    assert velocity.tolist() == [4.0]  # 0.5 * 4 + 2
    assert local.tolist() == center.tolist() == pulled.tolist() == [14.0]


def test_nesterov_looks_ahead_along_the_new_velocity() -> None:
    local, center, pulled, velocity = vector(5.0), vector(10.0), vector(3.0), vector(8.0)
    momentum_downpour_update(local, center, pulled, velocity, 0.5, True)
    assert velocity.tolist() == [6.0]  # 0.5 * 8 + 2
    assert center.tolist() == [15.0]  # 10 + 0.5 * 6 + 2

"""Updates by one thread, while another one has Numba's threads."""

from __future__ import annotations

import threading

import numba
import numpy as np

from vectorized_ops.numba.compiling.single_thread import alone
from vectorized_ops.numba.sgd import SGDUpdate
from vectorized_ops.parameter_groups import Clipping, ParameterGroups

SIZE = 100_003
SEGMENTS = ParameterGroups(
    np.array([0, 70_001, SIZE]),
    np.ones(2, np.float32),
    np.zeros(2, np.float32),
    np.array([np.nan, 0.1], np.float32),
)


def updated(times: int) -> np.ndarray:
    update = SGDUpdate(SEGMENTS, Clipping(), 0.9, False)
    weights, velocity = np.zeros((2, SIZE), np.float32)
    gradient = np.linspace(-1, 1, SIZE, dtype=np.float32)
    for _ in range(times):
        update(weights, gradient, velocity, 0.1)
    return weights


def test_number_of_threads_is_what_it_was_after_that() -> None:
    before = numba.get_num_threads()
    with alone():
        assert numba.get_num_threads() == 1
    assert numba.get_num_threads() == before


def test_updates_go_on_beside_those_of_all_threads_to_the_same_bits() -> None:
    found: list[np.ndarray] = []

    def beside() -> None:
        with alone():
            found.append(updated(200))

    with alone():
        expected = updated(200)
    thread = threading.Thread(target=beside)
    thread.start()
    assert np.array_equal(updated(200), expected)
    thread.join()
    assert np.array_equal(found[0], expected)

from __future__ import annotations

import mmap

import numpy as np
import pytest

from knltrain.exchange.rules.averaging import ModelAveraging
from knltrain.exchange.transports.loopback import Loopback
from vectorized_ops.reference.elastic import synchronous_average


def test_is_the_one_worker_of_its_run() -> None:
    transport = Loopback(7)
    assert (transport.rank, transport.workers) == (0, 1)
    transport.barrier()
    transport.check()


def test_vectors_are_zero_writable_and_begin_at_a_page() -> None:
    transport = Loopback(3000)
    for vector in (transport.local, transport.center):
        assert not vector.any()
        assert vector.ctypes.data % mmap.PAGESIZE == 0
        vector[:] = 1


def test_average_of_one_worker_is_its_local() -> None:
    transport = Loopback(4)
    transport.local[:] = [1, 2, 3, 4]
    transport.exchange(ModelAveraging(1, synchronous_average))
    assert transport.local.tolist() == transport.center.tolist() == [1, 2, 3, 4]


def test_sum_is_a_copy() -> None:
    values = np.array([1.5, 2.5])
    total = Loopback(1).all_sum(values)
    values[0] = 0
    assert total.tolist() == [1.5, 2.5]


def test_its_own_steps_are_those_of_all() -> None:
    transport = Loopback(1)
    assert transport.progress(7).tolist() == [7]
    assert transport.progress(8).tolist() == [8]


def test_vector_without_elements_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 element"):
        Loopback(0)


def test_vectors_are_gone_after_close() -> None:
    transport = Loopback(4)
    transport.close()
    assert transport.local.size == transport.center.size == 0

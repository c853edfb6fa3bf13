"""What kernels must do whatever they compute: the same bits again, with and without caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose

from vectorized_ops.numba.compiling.compiler import SETTINGS
from vectorized_ops.numba.emit import non_temporal


@contextmanager
def threads_kept() -> Iterator[None]:
    """Afterwards Numba has as many threads as before."""
    threads = numba.get_num_threads()
    yield
    numba.set_num_threads(threads)


@contextmanager
def storing_past_the_caches(past: bool) -> Iterator[None]:
    """Operations store all they can past the caches, or nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(non_temporal, "STREAMED_BYTES", -1 if past else 1 << 62)
        yield


def check_same_bits(
    compute: Callable[[], Sequence[np.ndarray]], summed_by_thread: Sequence[int] = ()
) -> None:
    """A computation, built anew, gives the same bits with the same number of threads.

    It gives the same bits with any other number too, but for the results numbered in
    `summed_by_thread`: each thread sums over images of its own, so these are only nearly equal.
    """
    numba.set_num_threads(1)
    alone = compute()
    assert all(np.isfinite(array).all() and array.any() for array in alone)
    for threads in range(1, min(4, SETTINGS.NUMBA_NUM_THREADS) + 1):
        numba.set_num_threads(threads)
        results = compute()
        for number, (result, again) in enumerate(zip(results, compute(), strict=True)):
            assert result.tobytes() == again.tobytes(), (threads, number)
            if number in summed_by_thread:
                largest = np.abs(alone[number]).max()
                assert_allclose(result, alone[number], rtol=0, atol=2e-5 * largest)
            else:
                assert result.tobytes() == alone[number].tobytes(), (threads, number)

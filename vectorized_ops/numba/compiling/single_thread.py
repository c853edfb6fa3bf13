"""Runs kernels in the calling thread alone, while other threads run theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numba


@contextmanager
def alone() -> Iterator[None]:
    """Let kernels that are called inside use the calling thread and no other.

    Numba's threads serve one caller at a time; a second one would end the process.
    """
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(before)

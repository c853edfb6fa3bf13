from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray, aligned_zeros
from vectorized_ops.numba.emit.scratch import ScratchUser


class Counting(ScratchUser):
    def __init__(self, size: int) -> None:
        self.size = size

    @property
    def scratch_size(self) -> int:
        return self.size

    def take(self, size: int) -> AnyArray:
        return self._memory(size)


def test_who_was_given_memory_works_in_its_beginning() -> None:
    memory = aligned_zeros((20,))
    users = Counting(8), Counting(16)
    for user in users:
        user.use_scratch(memory)
        taken = user.take(5)
        assert taken.shape == (5,)
        assert taken.ctypes.data == memory.ctypes.data


def test_who_was_given_none_makes_its_own_once_for_all_its_calls() -> None:
    user, other = Counting(16), Counting(16)
    first = user.take(5)
    assert first.dtype == np.float32
    assert first.ctypes.data % 64 == 0
    assert user.take(16).ctypes.data == first.ctypes.data
    assert not np.shares_memory(other.take(16), first)

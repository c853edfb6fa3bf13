from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray, aligned_zeros
from vectorized_ops.numba.emit.scratch import ScratchUser, size_of_pieces


class Counting(ScratchUser):
    def __init__(self, size: int) -> None:
        self.size = size

    @property
    def scratch_size(self) -> int:
        return self.size

    def take(self, size: int) -> AnyArray:
        return self._memory(size)

    def take_pieces(self, *sizes: int) -> list[AnyArray]:
        return self._pieces(sizes)


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


def test_pieces_begin_at_cache_lines_and_do_not_overlap() -> None:
    sizes = 5, 0, 17, 16
    user, memory = Counting(size_of_pieces(sizes)), aligned_zeros((100,))
    assert user.scratch_size == 16 + 32 + 16
    user.use_scratch(memory)
    pieces = user.take_pieces(*sizes)
    assert [len(piece) for piece in pieces] == list(sizes)
    assert all(piece.ctypes.data % 64 == 0 for piece in pieces if len(piece))
    for number, piece in enumerate(pieces, start=1):
        piece[:] = number
    assert [(memory == number).sum() for number in range(1, 5)] == list(sizes)
    assert not memory[user.scratch_size :].any()

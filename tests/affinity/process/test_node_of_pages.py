from __future__ import annotations

import ctypes
import errno
import mmap
from collections import Counter
from collections.abc import Callable

import pytest

from affinity.errors import MemoryPolicyError
from affinity.process.node_of_pages import nodes_of

PAGE = mmap.PAGESIZE


def test_more_pages_than_fit_one_call_are_all_told(node: int) -> None:
    memory = mmap.mmap(-1, 70_000 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    memory[69_999 * PAGE] = 1
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    found = nodes_of(range(start, start + len(memory), PAGE))
    assert Counter(found) == {-1: 69_999, node: 1}


def test_kernel_that_does_not_tell_is_an_error_that_names_the_other_way(
    refuse: Callable[..., None],
) -> None:
    refuse("move_pages", errno.EPERM)
    with pytest.raises(MemoryPolicyError, match=r"not permitted; /proc/self/numa_maps") as caught:
        list(nodes_of([0]))
    assert caught.value.errno == errno.EPERM


def test_no_pages_ask_nothing(refuse: Callable[..., None]) -> None:
    refuse("move_pages", errno.EPERM)
    assert list(nodes_of([])) == []

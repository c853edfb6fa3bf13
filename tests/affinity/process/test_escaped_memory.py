from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable, Iterator

import pytest

from affinity.placement.plan import MemoryPlan
from affinity.process.escaped_memory import bring_back
from affinity.process.kernel_call import kernel_call
from affinity.process.mapping import address_of
from affinity.process.memory_policy import memory_policy

SIZE = 16 * mmap.PAGESIZE
_PREFERRED = 1  # and no node: the one of the cpu that touches a page


def _make_local(memory: mmap.mmap) -> None:
    kernel_call("mbind", address_of(memory), SIZE, _PREFERRED, None, 0, 0)


@pytest.fixture
def buffer(node: int) -> mmap.mmap:
    """Memory that a library has asked to be local, as OpenBLAS does."""
    memory = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _make_local(memory)
    memory[:] = b"x" * SIZE
    return memory


@pytest.fixture
def segment(node: int) -> Iterator[mmap.mmap]:
    fd = os.memfd_create("segment")
    os.ftruncate(fd, SIZE)
    memory = mmap.mmap(fd, SIZE)
    os.close(fd)
    _make_local(memory)
    yield memory
    memory.close()


def test_memory_that_was_made_local_comes_back_with_what_it_holds(
    buffer: mmap.mmap, node: int
) -> None:
    assert bring_back(MemoryPlan(policy="strict", mode="bind", nodes=(node,))) >= SIZE
    assert str(memory_policy(address_of(buffer))) == f"bind:{node}"
    assert buffer[:] == b"x" * SIZE
    assert bring_back(MemoryPlan(policy="strict", mode="bind", nodes=(node,))) == 0


def test_segments_stay_where_their_creator_put_them(segment: mmap.mmap, node: int) -> None:
    before = memory_policy(address_of(segment))
    bring_back(MemoryPlan(policy="strict", mode="bind", nodes=(node,)))
    assert memory_policy(address_of(segment)) == before


def test_without_a_policy_nothing_changes(buffer: mmap.mmap) -> None:
    before = memory_policy(address_of(buffer))
    assert bring_back(MemoryPlan()) == 0
    assert memory_policy(address_of(buffer)) == before


def test_where_policies_are_forbidden_memory_stays(
    buffer: mmap.mmap, node: int, refuse: Callable[..., None]
) -> None:
    refuse("mbind", errno.EPERM)
    assert bring_back(MemoryPlan(policy="strict", mode="bind", nodes=(node,))) == 0

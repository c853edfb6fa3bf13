from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from affinity.errors import MemoryPolicyError
from affinity.process.mapping import address_of
from affinity.process.shared_mapping import collapse, map_shared

HUGE = 2 * 2**20


@pytest.fixture
def memfd() -> Iterator[int]:
    fd = os.memfd_create("test")
    yield fd
    os.close(fd)


def mappings(fd: int) -> int:
    inode = os.fstat(fd).st_ino
    return Path("/proc/self/maps").read_text().count(f" {inode} ")


@pytest.mark.parametrize("bytes_", [1, 4096, 5000, HUGE, 3 * HUGE + 4096])
def test_mapping_is_aligned_shared_and_as_long_as_asked(memfd: int, bytes_: int) -> None:
    os.ftruncate(memfd, bytes_)
    memory = map_shared(memfd, bytes_, HUGE)
    assert memory.nbytes == bytes_
    assert address_of(memory) % HUGE == 0
    memory[-1] = 7
    assert os.pread(memfd, 1, bytes_ - 1) == b"\7"
    os.pwrite(memfd, b"\3", 0)
    assert memory[0] == 3


def test_mapping_goes_with_the_last_array_on_it(memfd: int) -> None:
    os.ftruncate(memfd, HUGE)
    array = np.frombuffer(map_shared(memfd, HUGE, HUGE), np.float32)
    part = array[5:9]
    del array
    part[:] = 1
    assert mappings(memfd) == 1
    del part
    assert mappings(memfd) == 0


def test_nothing_beside_the_mapping_stays_reserved(memfd: int) -> None:
    os.ftruncate(memfd, HUGE)
    before = Path("/proc/self/statm").read_text().split()[0]
    memory = map_shared(memfd, HUGE, HUGE)
    after = Path("/proc/self/statm").read_text().split()[0]
    assert (int(after) - int(before)) * mmap.PAGESIZE < 2 * HUGE
    memory.release()


def test_closed_file_is_named_an_error() -> None:
    with pytest.raises(MemoryPolicyError, match="cannot map 4096 bytes of shared memory: Bad file"):
        map_shared(1_000_000, 4096, HUGE)


def test_collapse_puts_huge_pages_in_place_and_keeps_the_content(memfd: int) -> None:
    os.ftruncate(memfd, 2 * HUGE)
    memory = map_shared(memfd, 2 * HUGE, HUGE)
    numbers = np.frombuffer(memory, np.int64)
    numbers[:] = np.arange(numbers.size)
    start = f"{address_of(memory):x}-"
    worked = collapse(memory)
    if not worked and tuple(map(int, os.uname().release.split(".")[:2])) < (6, 1):
        pytest.skip("Linux collapses pages from 6.1 on")
    assert (numbers == np.arange(numbers.size)).all()
    smaps = Path("/proc/self/smaps").read_text().splitlines()
    first = next(i for i, line in enumerate(smaps) if line.startswith(start))
    mapped = next(line for line in smaps[first:] if line.startswith("ShmemPmdMapped"))
    assert worked
    assert int(mapped.split()[1]) * 1024 == 2 * HUGE

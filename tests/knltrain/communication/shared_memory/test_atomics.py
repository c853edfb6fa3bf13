from __future__ import annotations

import platform
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numba import int64, jit, njit

from knltrain.communication.shared_memory import atomics as kernels
from knltrain.communication.shared_memory.atomics import (
    ABORTED,
    give_back,
    publish,
    publish_and_read,
    read,
    take,
    take_over,
    watch,
)

GOES_ON = np.zeros(1, np.int64)
WORDS, ANY_STRIDE = int64[::1], int64[:]
ATOMIC_ACCESS = re.compile(
    r"\b(load|store|cmpxchg|atomicrmw add)\b(?: atomic)? [^\n]*?"
    r"\b(unordered|monotonic|acquire|release|acq_rel|seq_cst)(?: (acquire|monotonic|seq_cst))?\b"
)
"""An instruction of LLVM and its order; that of failure, too, for an exchange."""


def compiled(kernel: Any, *types: Any) -> Any:
    # What comes from the cache cannot be looked into: compile it again.
    return jit(types, **kernel.targetoptions)(kernel.py_func)


def test_published_number_lands_in_the_word_of_its_rank_alone() -> None:
    words = np.zeros(12, np.int64)
    publish(words[1::4], 2, 7)
    assert words.tolist() == [0] * 9 + [7, 0, 0]


@pytest.mark.parametrize(
    "reached, found",
    [([5, 5, 5], 3), ([9, 5, 6], 3), ([4, 5, 5], 0), ([5, 4, 3], 1), ([6, 5, 4], 2)],
)
def test_watch_returns_first_rank_missing_or_number_of_workers(
    reached: list[int], found: int
) -> None:
    words = np.zeros(12, np.int64)
    words[0::4] = reached
    assert watch(words[0::4], GOES_ON, 5, 3, 3) == found


def test_watch_sees_the_abort_word() -> None:
    assert watch(np.array([1, 0]), np.array([143]), 1, 1, 0) == ABORTED


def test_arrival_of_all_outweighs_the_abort_word() -> None:
    assert watch(np.array([1, 1]), np.array([143]), 1, 1, 0) == 2


def test_words_of_all_are_read_after_the_own_one_was_written() -> None:
    words, found = np.arange(12), np.zeros(3, np.int64)
    publish_and_read(words[1::4], 1, 77, found)
    assert found.tolist() == [1, 77, 9]
    assert words.tolist() == [0, 1, 2, 3, 4, 77, 6, 7, 8, 9, 10, 11]


@njit(nogil=True)  # compiled anew each time, with the words of now
def _missed(arrived, counts, goes_on, rank, missed):  # type: ignore[no-untyped-def]
    """Publish and read at the same time as the other does, again and again."""
    found = np.zeros(2, np.int64)
    for number in range(1, missed.size + 1):
        publish(arrived, rank, number)
        while watch(arrived, goes_on, number, 1000, 1) != 2:
            pass
        for _ in range(number % 100 if rank else 50):
            read(goes_on, 0)  # now the one is earlier, now the other
        publish_and_read(counts, rank, number, found)
        missed[number - 1] = found[1 - rank] < number


def test_of_two_that_publish_and_read_at_once_one_finds_the_other() -> None:
    words, missed = np.zeros(64, np.int64), np.zeros((2, 100_000), np.bool_)
    arrived, counts = words[:32:16], words[32::16]

    def look(rank: int) -> None:
        _missed(arrived, counts, GOES_ON, rank, missed[rank])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(look, range(2)))
    assert missed.any()  # or they never met
    assert not missed.all(axis=0).any()


def test_lock_of_who_has_ended_is_taken_over_once() -> None:
    locks = np.array([0, 5, 0])
    assert take(locks, 1, 6, 3) == 5
    assert take_over(locks, 1, 5, 6) == 5
    assert take_over(locks, 1, 5, 7) == 6
    assert locks.tolist() == [0, 6, 0]
    give_back(locks, 1)
    assert take(locks, 1, 7, 1) == 0


@pytest.mark.parametrize(
    "kernel, types, accesses",
    [
        ("publish", (WORDS, int64, int64), {"store release"}),
        ("give_back", (WORDS, int64), {"store release"}),
        ("read", (WORDS, int64), {"load acquire"}),
        ("watch", (ANY_STRIDE, WORDS, int64, int64, int64), {"load acquire"}),
        ("add", (WORDS, int64, int64), {"atomicrmw add acq_rel"}),
        ("take", (WORDS, int64, int64, int64), {"load acquire", "cmpxchg acq_rel acquire"}),
        ("take_over", (WORDS, int64, int64, int64), {"cmpxchg acq_rel acquire"}),
    ],
)
def test_words_are_accessed_by_instructions_that_order_memory(
    kernel: str, types: Any, accesses: set[str]
) -> None:
    """So that other processors than x86, whose plain accesses order nothing, keep the protocols."""
    (code,) = compiled(getattr(kernels, kernel), *types).inspect_llvm().values()
    assert {" ".join(filter(None, found)) for found in ATOMIC_ACCESS.findall(code)} == accesses


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for x86 instructions")
@pytest.mark.parametrize(
    "kernel, types, instruction",
    [
        ("add", (WORDS, int64, int64), "xadd"),
        ("take", (WORDS, int64, int64, int64), "cmpxchg"),
        ("take_over", (WORDS, int64, int64, int64), "cmpxchg"),
    ],
)
def test_changes_of_words_are_whole(kernel: str, types: Any, instruction: str) -> None:
    (assembly,) = compiled(getattr(kernels, kernel), *types).inspect_asm().values()
    locked = [line for line in assembly.splitlines() if "lock" in line.split()]
    assert any(instruction in line for line in locked)

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

import pytest
from own_process import words_of

from vectorized_ops.errors import OperationError
from vectorized_ops.torch import memory

FAULTS = """
import resource, sys
import torch
if sys.argv[1] != "default":
    from vectorized_ops.torch import keep_memory
    keep_memory(huge_pages=sys.argv[1] == "huge")
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [torch.ones(10_000_000) for _ in range(2)]  # glibc maps 32 MiB and more each time
    del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
first, *later = (faults() for _ in range(9))
print(first, sorted(later[2:])[len(later[2:]) // 2])  # the kernel moves pages now and then
"""


@cache
def faults(kind: str) -> list[int]:
    """Page faults of allocating 80 MB for the first time and, their median, for later times."""
    return [int(word) for word in words_of(FAULTS, kind)]


@pytest.mark.slow
def test_memory_that_was_used_before_costs_no_page_faults() -> None:
    pages = 80_000_000 // os.sysconf("SC_PAGE_SIZE")
    assert faults("default")[1] > 0.9 * pages
    assert faults("kept")[1] < 0.1 * pages


@pytest.mark.slow
def test_huge_pages_take_fewer_faults_from_the_first_time_on() -> None:
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not setting.exists() or "[never]" in setting.read_text(encoding="utf-8"):
        pytest.skip("this kernel gives no transparent huge pages")
    assert faults("huge")[0] < faults("kept")[0] / 10


class LibraryWithoutMallopt:
    def __init__(self, _name: object) -> None:
        pass


def test_other_c_libraries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", LibraryWithoutMallopt)
    with pytest.raises(OperationError, match=r"keep_memory=False"):
        memory.keep_memory()


class Refusing:
    """A C library that gives out at most so many bytes at a time."""

    def __init__(self, most: int) -> None:
        self.most, self.asked, self.advised, self.freed = most, [], [], []
        self.malloc, self.free, self.madvise = (
            Function(self.give),
            Function(self.take),
            Function(self.advise),
        )

    def give(self, size: int) -> int | None:
        self.asked.append(size)
        return (1 << 40) + 16 if size <= self.most else None

    def take(self, block: int) -> None:
        self.freed.append(block)

    def advise(self, first: int, length: int, _advice: int) -> int:
        self.advised.append((first, length))
        return 0


class Function:
    def __init__(self, function: object) -> None:
        self._function = function

    def __call__(self, *arguments: int) -> int | None:
        return self._function(*arguments)  # type: ignore[operator]


def test_a_smaller_heap_is_asked_for_where_the_system_refuses_a_large_one() -> None:
    library = Refusing(most=300 << 20)
    found = memory._ask_for_huge_pages(library)  # type: ignore[arg-type]
    assert library.asked == sorted(library.asked, reverse=True)
    (advised,) = library.advised
    assert advised[0] % (2 << 20) == 0
    assert found == advised[1] > 100 << 20
    assert advised[0] + advised[1] <= (1 << 40) + 16 + library.asked[-1]
    assert library.freed == [(1 << 40) + 16]
    assert memory._ask_for_huge_pages(Refusing(most=0)) == 0  # type: ignore[arg-type]

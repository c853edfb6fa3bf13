from __future__ import annotations

import errno
import gc
import mmap
from collections.abc import Callable

import pytest

from affinity.errors import MemoryPolicyError
from affinity.process import allocation, mapping
from affinity.process.allocation import allocate
from affinity.process.mapping import touch
from affinity.process.memory_policy import memory_policy
from affinity.process.node_memory import free_huge_pages, transparent_huge_page_bytes
from affinity.process.policy import Policy
from affinity.process.residency import mapping_at, pages_by_node


def test_new_memory_is_zero_and_comes_from_its_node_whatever_the_thread_has(node: int) -> None:
    memory = allocate(3_000_000, "bind", (node,))
    assert memory.buffer.nbytes == 3_000_000
    assert memory.address % mmap.PAGESIZE == 0
    assert memory_policy(memory.address) == Policy("bind", (node,))
    touch(memory.buffer)
    assert pages_by_node(memory.address, 3_000_000) == {node: 733}
    assert not any(memory.buffer)
    assert memory.policy == ("bind", (node,), ())


def test_memory_lasts_as_long_as_a_part_of_it_is_referred_to() -> None:
    part = allocate(1 << 22).buffer[1 << 21 :].cast("f")
    gc.collect()
    part[5] = 1.5
    assert part[5] == 1.5


def test_huge_memory_starts_at_a_huge_page_and_gets_some(node: int) -> None:
    unit = transparent_huge_page_bytes()
    if not unit:
        pytest.skip("this kernel has no transparent huge pages")
    memory = allocate(4 * unit + mmap.PAGESIZE, "bind", (node,))
    assert memory.address % unit == 0
    touch(memory.buffer)
    assert _huge_kilobytes(memory.address) > 0
    assert memory.notes == ()


def test_no_huge_pages_where_they_are_not_wanted(node: int) -> None:
    memory = allocate(8 << 20, huge="never")
    touch(memory.buffer)
    assert _huge_kilobytes(memory.address) == 0


def _huge_kilobytes(address: int) -> int:
    with open("/proc/self/smaps", encoding="utf-8") as smaps:  # noqa: PTH123
        lines = iter(smaps)
        for line in lines:
            first, _, rest = line.partition("-")
            if rest and first.isalnum() and int(first, 16) == address:
                break
        fields = (line.split() for line in lines)
        return int(next(words[1] for words in fields if words[0] == "AnonHugePages:"))


def test_kernel_without_transparent_huge_pages_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "transparent_huge_page_bytes", lambda: 0)
    memory = allocate(4 << 20)
    assert memory.buffer.nbytes == 4 << 20
    assert memory.notes == (
        "no transparent huge pages: the kernel has none, or they are switched off",
    )


def test_pages_of_the_pool_are_used_when_asked_for(huge_pages: int, node: int) -> None:
    before = free_huge_pages(node)
    memory = allocate(huge_pages + 1, "bind", (node,), huge="hugetlb")
    touch(memory.buffer)
    found = mapping_at(memory.address)
    assert found is not None
    assert (found.hugetlb, found.private) == (True, True)
    assert found.bytes_by_node == {node: 2 * huge_pages}
    assert memory.buffer.nbytes == huge_pages + 1
    assert before - free_huge_pages(node) == 2
    assert memory.notes == ()


def test_pool_that_is_too_small_is_an_error_beforehand(huge_pages: int, node: int) -> None:
    size = (free_huge_pages(node) + 1) * huge_pages
    for nodes in ((node,), ()):
        with pytest.raises(MemoryPolicyError, match="let root write") as caught:
            allocate(size, "bind" if nodes else "default", nodes, huge="hugetlb")
        assert caught.value.errno == errno.ENOMEM


def test_pool_of_the_preferred_node_that_is_too_small_is_a_note(
    huge_pages: int, node: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation, "free_huge_pages", lambda node: 1)
    memory = allocate(2 * huge_pages, "preferred", (node,), huge="hugetlb")
    assert memory.notes == (f"the pool of node {node} has 1 of the 2 huge pages, others the rest",)


def test_kernel_without_a_pool_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (allocation, mapping):
        monkeypatch.setattr(module, "huge_page_bytes", lambda: 0)
    with pytest.raises(MemoryPolicyError, match="ask for huge='advise'"):
        allocate(1 << 20, huge="hugetlb")


@pytest.mark.parametrize("size", [0, -5])
def test_size_that_is_none_is_refused(size: int) -> None:
    with pytest.raises(MemoryPolicyError, match=f"cannot allocate {size} bytes"):
        allocate(size)


def test_more_than_the_node_has_is_refused_before_the_kernel_kills(node: int) -> None:
    with pytest.raises(MemoryPolicyError, match=r"1.0 TiB do not fit: node \d+ has .* left"):
        allocate(1 << 40, "bind", (node,))


def test_forbidden_policy_is_a_note_or_an_error(node: int, refuse: Callable[..., None]) -> None:
    refuse("mbind", errno.EPERM)
    assert "SYS_NICE" in allocate(4096, "bind", (node,)).notes[0]
    with pytest.raises(MemoryPolicyError, match="SYS_NICE"):
        allocate(4096, "bind", (node,), required=True)

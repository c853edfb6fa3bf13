"""x"""

from __future__ import annotations

import errno
import gc
import mmap
from collections.abc import Callable

import pytest

from affinity.errors import MemoryPolicyError, PlacementError
from affinity.placement.plan import Arena, MemoryPlan, Placement
from affinity.process import arena as arenas
from affinity.process import mapping
from affinity.process.arena import allocate, allocate_in, arena
from affinity.process.mapping import touch
from affinity.process.memory_policy import memory_policy, set_memory_policy
from affinity.process.node_memory import free_huge_pages, transparent_huge_page_bytes
from affinity.process.own import PLACEMENT_VARIABLE, encode_placement
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
    monkeypatch.setattr(arenas, "transparent_huge_page_bytes", lambda: 0)
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
    monkeypatch.setattr(arenas, "free_huge_pages", lambda node: 1)
    memory = allocate(2 * huge_pages, "preferred", (node,), huge="hugetlb")
    assert memory.notes == (f"the pool of node {node} has 1 of the 2 huge pages, others the rest",)


def test_kernel_without_a_pool_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (arenas, mapping):
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


@pytest.fixture
def split(node: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """A worker with the arenas "weights", preferred, and "data", bound, on this node."""
    arenas = (Arena("weights", "preferred", (node,)), Arena("data", "bind", (node,)))
    placement = Placement(0, (0,), 1, (0,), memory=MemoryPlan("split", arenas=arenas))
    monkeypatch.setenv(PLACEMENT_VARIABLE, encode_placement(placement))
    return node


def test_thread_has_the_policy_of_the_arena_within_it_and_its_own_again_after(split: int) -> None:
    set_memory_policy("interleave", (split,))
    with arena("weights") as applied:
        assert memory_policy() == Policy("preferred", (split,)) == applied[:2]
        with arena("data"):
            assert memory_policy() == Policy("bind", (split,))
        assert memory_policy() == Policy("preferred", (split,))
    assert memory_policy() == Policy("interleave", (split,))


def test_policy_is_restored_after_an_error(split: int) -> None:
    set_memory_policy("default")
    with pytest.raises(ZeroDivisionError), arena("data"):
        raise ZeroDivisionError
    assert memory_policy() == Policy("default")


def test_memory_of_an_arena_knows_its_place(split: int) -> None:
    memory = allocate_in("data", 1 << 20)
    assert memory_policy(memory.address) == Policy("bind", (split,))
    assert memory.buffer.nbytes == 1 << 20


def test_unknown_arena_is_an_error_that_names_the_known_ones(split: int) -> None:
    for use in (lambda: allocate_in("weight", 1), lambda: arena("weight").__enter__()):
        with pytest.raises(PlacementError) as caught:
            use()
        assert "has weights, data; did you mean 'weights'?" in str(caught.value)


def test_without_arenas_nothing_changes(node: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", encode_placement(Placement(0, (0,), 1, (0,)))):
        monkeypatch.setenv(PLACEMENT_VARIABLE, value)
        set_memory_policy("interleave", (node,))
        with arena("anything") as applied:
            assert memory_policy() == Policy("interleave", (node,))
        assert applied.mode == "default"
        assert memory_policy(allocate_in("anything", 4096).address) == Policy("default")


def test_forbidden_policies_are_a_note(split: int, refuse: Callable[..., None]) -> None:
    refuse("get_mempolicy", errno.EPERM)
    with arena("weights") as applied:
        assert applied.mode == "default"
        assert applied.notes[0].startswith("arena weights: the memory policy cannot be read")

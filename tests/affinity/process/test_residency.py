from __future__ import annotations

import ctypes
import mmap
import os

import pytest

from affinity.process.residency import (
    Residency,
    mapping_at,
    node_mappings,
    pages_by_node,
    parse_mapping,
    process_residency,
    residency_of,
    stack_policy,
)

PAGE = mmap.PAGESIZE


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def test_touched_pages_are_on_their_node_and_others_nowhere(node: int) -> None:
    memory = mmap.mmap(-1, 10 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in (0, 1, 7):
        memory[page * PAGE] = 1
    assert pages_by_node(_address(memory), len(memory)) == {-1: 7, node: 3}


def test_bytes_within_two_pages_count_both(node: int) -> None:
    memory = mmap.mmap(-1, 4 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = bytes([1]) * len(memory)
    assert pages_by_node(_address(memory) + PAGE - 1, 2) == {node: 2}


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        (
            "7f3a00000000 bind:2 anon=5 dirty=5 active=0 N2=4 N3=1 kernelpagesize_kB=4",
            Residency(anonymous={2: 16384, 3: 4096}),
        ),
        ("5581f000 default heap anon=2 dirty=2 N0=2 kernelpagesize_kB=4", Residency({0: 8192})),
        (
            "7f3a0000 prefer:3 file=/memfd:segment\\040(deleted) dirty=512 N3=512 "
            "kernelpagesize_kB=4",
            Residency(shared={3: 2 << 20}),
        ),
        (
            "7f3a0000 bind:2 file=/anon_hugepage\\040(deleted) huge anon=4 dirty=4 N2=4 "
            "kernelpagesize_kB=2048",
            Residency(anonymous={2: 8 << 20}),
        ),
        (
            "7f3a0000 default file=/usr/lib/libc.so.6 mapped=30 mapmax=40 N0=20 N1=10 "
            "kernelpagesize_kB=4",
            Residency(file={0: 81920, 1: 40960}),
        ),
        (
            "7f3a0000 default file=/usr/lib/libc.so.6 anon=5 dirty=5 mapped=10 N0=10 "
            "kernelpagesize_kB=4",
            Residency(anonymous={0: 20480}, file={0: 20480}),
        ),
        ("7f3a0000 default file=/usr/lib/libc.so.6", Residency()),
        ("7f3a0000 default stack anon=3 dirty=3 N10=3", Residency({10: 3 * PAGE})),
    ],
)
def test_lines_of_the_kernel_are_own_shared_or_file_memory(line: str, sizes: Residency) -> None:
    assert _without_zeros(residency_of([parse_mapping(line)])) == sizes


def _without_zeros(sizes: Residency) -> Residency:
    parts = (sizes.anonymous, sizes.shared, sizes.file)
    return Residency(*({node: n for node, n in part.items() if n} for part in parts))


def test_memory_on_nodes_is_own_and_shared_but_not_files() -> None:
    sizes = Residency(anonymous={0: 1, 2: 10}, shared={2: 100, 3: 1000}, file={2: 10_000})
    assert sizes.on((2, 2, 7)) == 110
    assert sizes.on((2, 3)) == 1110


def test_own_and_shared_memory_of_this_process_is_seen_to_grow(node: int) -> None:
    before = process_residency()
    own = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    fd = os.memfd_create("segment")
    os.ftruncate(fd, 4 << 20)
    shared = mmap.mmap(fd, 4 << 20)
    os.close(fd)
    for memory in (own, shared):
        memory[:] = bytes([1]) * len(memory)
    after = process_residency()
    assert before is not None and after is not None
    assert sum(after.shared.values()) - sum(before.shared.values()) == 4 << 20
    assert 8 << 20 <= sum(after.anonymous.values()) - sum(before.anonymous.values()) < 20 << 20


def test_mapping_around_an_address_is_found(node: int) -> None:
    fd = os.memfd_create("segment")
    os.ftruncate(fd, 4 * PAGE)
    memory = mmap.mmap(fd, 4 * PAGE)
    os.close(fd)
    found = mapping_at(_address(memory) + 2 * PAGE)
    assert found is not None
    assert (found.address, found.shared, found.private) == (_address(memory), True, False)
    assert found.file.startswith("/memfd:segment")


def test_process_that_may_not_be_looked_at_has_no_residency() -> None:
    assert process_residency(2**22 + 1) is None
    with pytest.raises(FileNotFoundError):
        next(node_mappings(2**22 + 1))


@pytest.mark.parametrize(
    ("words", "policy"),
    [
        ("bind:2-3", "bind:2-3"),
        ("bind=static|balancing:2", "bind:2"),
        ("prefer:4", "preferred:4"),
        ("prefer (many):4-5", "preferred-many:4-5"),
        ("weighted interleave:0,2", "weighted-interleave:0,2"),
        ("interleave:0-1", "interleave:0-1"),
        ("default", "default"),
        ("local", "local"),
    ],
)
def test_policy_is_read_from_the_line_of_the_stack(words: str, policy: str) -> None:
    text = (
        "55d0a5a00000 default file=/bin/x mapped=1 N0=1\n"
        f"7ffd23b87000 {words} stack anon=3 dirty=3 N0=3 kernelpagesize_kB=4\n"
        "7ffd23bf9000 default\n"
    )
    assert str(stack_policy(map(parse_mapping, text.splitlines()))) == policy


def test_process_without_a_stack_shows_no_policy() -> None:
    assert stack_policy([]) is None

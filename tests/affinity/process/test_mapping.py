from __future__ import annotations

import errno
import json
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from affinity.errors import MemoryPolicyError
from affinity.process import mapping
from affinity.process.mapping import address_of, check_pool, check_room, place_mapping, touch
from affinity.process.memory_policy import AppliedPolicy, memory_policy
from affinity.process.policy import Policy
from affinity.process.residency import pages_by_node

PAGE = mmap.PAGESIZE
MFD_HUGETLB = 4

LOOK_FROM_ANOTHER_PROCESS = """
import json, mmap, sys
from affinity.process.mapping import address_of, touch
from affinity.process.memory_policy import memory_policy
from affinity.process.residency import pages_by_node
memory = mmap.mmap(int(sys.argv[1]), 0)
touch(memory)
print(json.dumps([str(memory_policy(address_of(memory))), memory[0],
                  sum(pages_by_node(address_of(memory), len(memory)).values())]))
"""


@pytest.fixture
def segment(node: int) -> Iterator[tuple[int, mmap.mmap]]:
    """A segment of 8 pages in a memfd, and its descriptor."""
    fd = os.memfd_create("segment")
    os.ftruncate(fd, 8 * PAGE)
    with mmap.mmap(fd, 8 * PAGE) as memory:
        yield fd, memory
    os.close(fd)


def _seen_by_another_process(fd: int) -> list[object]:
    command = [sys.executable, "-c", LOOK_FROM_ANOTHER_PROCESS, str(fd)]
    result = subprocess.run(
        command, pass_fds=[fd], check=True, capture_output=True, text=True, timeout=60
    )
    seen: list[object] = json.loads(result.stdout)
    return seen


def test_policy_of_a_segment_holds_in_every_process_that_maps_it(
    segment: tuple[int, mmap.mmap], node: int
) -> None:
    fd, memory = segment
    assert place_mapping(memory, "bind", (node,)) == AppliedPolicy("bind", (node,), ())
    memory[0] = 42
    assert _seen_by_another_process(fd) == [f"bind:{node}", 42, 8]


def test_policy_of_a_hugetlb_segment_does_not_and_that_is_said(huge_pages: int, node: int) -> None:
    fd = os.memfd_create("segment", MFD_HUGETLB)
    os.ftruncate(fd, huge_pages)
    with mmap.mmap(fd, huge_pages) as memory:
        applied = place_mapping(memory, "bind", (node,))
        assert applied.mode == "bind"
        assert len(applied.notes) == 1
        assert "let each process place its own mapping" in applied.notes[0]
        assert _seen_by_another_process(fd)[0] == "default"
    os.close(fd)


def test_touched_pages_stay_or_are_moved_on_request(node: int) -> None:
    memory = mmap.mmap(-1, 4 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = bytes([7]) * len(memory)
    assert place_mapping(memory, "bind", (node,), move=True).mode == "bind"
    assert memory_policy(address_of(memory)) == Policy("bind", (node,))
    assert (memory[0], memory[-1]) == (7, 7)


def test_pages_that_are_in_use_elsewhere_cannot_be_moved(
    segment: tuple[int, mmap.mmap], node: int, refuse: Callable[..., None]
) -> None:
    refuse("mbind", errno.EIO)
    with pytest.raises(MemoryPolicyError, match="set the policy before they are touched"):
        place_mapping(segment[1], "bind", (node,), move=True)


def test_older_kernel_gets_the_weaker_mode(
    segment: tuple[int, mmap.mmap], node: int, old_kernel: None
) -> None:
    applied = place_mapping(segment[1], "preferred-many", (node,))
    assert (applied.mode, len(applied.notes)) == ("preferred", 1)
    assert memory_policy(address_of(segment[1])) == Policy("preferred", (node,))


def test_forbidden_policy_is_a_note_or_an_error(
    segment: tuple[int, mmap.mmap], node: int, refuse: Callable[..., None]
) -> None:
    refuse("mbind", errno.EPERM)
    assert "SYS_NICE" in place_mapping(segment[1], "bind", (node,)).notes[0]
    with pytest.raises(MemoryPolicyError, match="SYS_NICE"):
        place_mapping(segment[1], "bind", (node,), required=True)


def test_more_than_is_left_is_refused_before_the_kernel_kills(
    segment: tuple[int, mmap.mmap], node: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "free_bytes", lambda node: 5 * PAGE)
    with pytest.raises(MemoryPolicyError) as caught:
        place_mapping(segment[1], "bind", (node,))
    assert f"32.0 KiB do not fit: node {node} has 20.0 KiB left" in str(caught.value)
    assert place_mapping(segment[1], "preferred", (node,)).mode == "preferred"
    for page in range(3):
        segment[1][page * PAGE] = 1
    # Three pages are there already, and five are left.
    assert place_mapping(segment[1], "bind", (node,)).mode == "bind"


def test_room_is_counted_over_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "free_bytes", {2: 3 << 30, 3: 1 << 30}.__getitem__)
    check_room(4 << 30, (2, 3))
    with pytest.raises(MemoryPolicyError, match=r"node 2 has 3.0 GiB and node 3 has 1.0 GiB left"):
        check_room((4 << 30) + 1, (2, 3))


def test_pool_without_enough_huge_pages_is_an_error_with_the_file_to_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mapping, "huge_page_bytes", lambda: 2 << 20)
    monkeypatch.setattr(mapping, "free_huge_pages", lambda node: 2)
    check_pool(8 << 20, (2, 3))
    with pytest.raises(MemoryPolicyError) as caught:
        check_pool((8 << 20) + 1, (2, 3))
    assert "5 huge pages of 2.0 MiB were asked for" in str(caught.value)
    assert "the pool of nodes 2-3 has 4 to give" in str(caught.value)
    assert "/node2/hugepages/" in str(caught.value)


def test_touching_brings_in_every_page_and_changes_nothing(node: int) -> None:
    memory = mmap.mmap(-1, 6 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[PAGE] = 9
    touch(memory)
    assert pages_by_node(address_of(memory), len(memory)).get(-1, 0) == 0
    assert (memory[0], memory[PAGE]) == (0, 9)


def test_touching_a_part_leaves_the_pages_around_it(node: int) -> None:
    memory = mmap.mmap(-1, 6 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    touch(memoryview(memory)[PAGE + 100 : 3 * PAGE])
    assert pages_by_node(address_of(memory), len(memory))[-1] == 4


def test_kernel_that_cannot_populate_has_its_pages_written(
    node: int, refuse: Callable[..., None]
) -> None:
    refuse("madvise", errno.EINVAL)
    memory = mmap.mmap(-1, 6 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[PAGE : PAGE + 3] = b"abc"
    touch(memoryview(memory)[10:])
    assert pages_by_node(address_of(memory), len(memory)).get(-1, 0) == 0
    assert memory[PAGE - 1 : PAGE + 4] == b"\0abc\0"


def test_pages_that_cannot_be_had_are_an_error_not_a_signal(refuse: Callable[..., None]) -> None:
    refuse("madvise", errno.EFAULT)
    with pytest.raises(MemoryPolicyError, match="cannot be brought in: Bad address"):
        touch(mmap.mmap(-1, PAGE))

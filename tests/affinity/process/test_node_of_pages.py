"""NUMA nodes of single pages, and those that were changed."""

from __future__ import annotations

import ctypes
import errno
import mmap
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from affinity.errors import MemoryPolicyError
from affinity.process import residency
from affinity.process.node_of_pages import changed_bytes_by_node, mapping_ends, nodes_of
from affinity.process.residency import NodeMapping, residency_of

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


@pytest.fixture
def private_copy(tmp_path: Path) -> mmap.mmap:
    """Ten pages of a file, of which three are changed and four others were read."""
    path = tmp_path / "library"
    path.write_bytes(b"x" * 10 * PAGE)
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE)
    for page in (0, 4, 9):
        memory[page * PAGE] = 1
    assert memory[PAGE : 4 * PAGE : PAGE] + memory[5 * PAGE : 6 * PAGE : PAGE] == b"xxxx"
    return memory


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def test_changed_pages_are_counted_and_read_ones_are_not(
    private_copy: mmap.mmap, node: int
) -> None:
    start = _address(private_copy)
    assert changed_bytes_by_node(start, start + len(private_copy)) == {node: 3 * PAGE}


def test_a_mapping_ends_where_the_next_begins_or_before(private_copy: mmap.mmap) -> None:
    start = _address(private_copy)
    assert mapping_ends()[start] == start + len(private_copy)


def test_another_process_can_be_looked_at(node: int, tmp_path: Path) -> None:
    path = tmp_path / "library"
    path.write_bytes(b"x" * 8 * PAGE)
    script = (
        "import ctypes, mmap, sys\n"
        "file = open(sys.argv[1], 'rb')\n"
        "memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=3)\n"
        "memory[0] = memory[mmap.PAGESIZE] = 1\n"
        "print(ctypes.addressof(ctypes.c_char.from_buffer(memory)), flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        start = int(process.stdout.readline())
        assert mapping_ends(process.pid)[start] >= start + 8 * PAGE
        assert changed_bytes_by_node(start, start + 8 * PAGE, process.pid) == {node: 2 * PAGE}
        process.communicate("\n")


def test_changed_pages_count_as_own_where_they_are_known() -> None:
    on_both = {0: 8 * PAGE, 2: 4 * PAGE}
    library = NodeMapping(0, "/usr/lib/libtorch.so", False, 4 * PAGE, on_both, {2: 4 * PAGE})
    assert residency_of([library]).anonymous == {0: 0, 2: 4 * PAGE}
    assert residency_of([library]).file == {0: 8 * PAGE, 2: 0}
    estimated = residency_of([library._replace(changed_by_node=None)]).anonymous
    assert estimated == {0: 8 * PAGE // 3, 2: 4 * PAGE // 3}


def test_a_file_on_two_nodes_is_looked_into(
    private_copy: mmap.mmap, node: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = _address(private_copy)
    sizes = {node: 5 * PAGE, 77: 2 * PAGE}
    mapping = NodeMapping(start, "/usr/lib/libtorch.so", False, 3 * PAGE, sizes)
    monkeypatch.setattr(residency, "node_mappings", lambda _: iter([mapping]))
    found = residency.process_residency()
    assert found is not None
    assert found.anonymous == {node: 3 * PAGE, 77: 0}
    assert found.file == {node: 2 * PAGE, 77: 2 * PAGE}


def test_where_the_kernel_does_not_tell_pages_are_taken_to_be_spread(
    private_copy: mmap.mmap, node: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {node: 5 * PAGE, 77: PAGE}
    mapping = NodeMapping(_address(private_copy), "/usr/lib/lib.so", False, 3 * PAGE, sizes)
    monkeypatch.setattr(residency, "node_mappings", lambda _: iter([mapping]))

    def refuse(*_: object) -> dict[int, int]:
        raise PermissionError("pagemap")

    monkeypatch.setattr(residency, "changed_bytes_by_node", refuse)
    found = residency.process_residency()
    assert found is not None
    assert found.anonymous == {node: 5 * PAGE // 2, 77: PAGE // 2}

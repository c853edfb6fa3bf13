from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from affinity.errors import MemoryPolicyError
from affinity.process.node_memory import (
    free_bytes,
    free_huge_pages,
    huge_page_bytes,
    huge_page_pool,
    transparent_huge_page_bytes,
)

Write = Callable[[str, str], Path]
MEMINFO = """Node 2 MemTotal:         515000 kB
Node 2 MemFree:          400000 kB
Node 2 Active:            90000 kB
Node 2 Active(anon):      40000 kB
Node 2 Inactive(anon):        0 kB
Node 2 Active(file):      30000 kB
Node 2 Inactive(file):    20000 kB"""
ZONEINFO = """Node 0, zone   Normal
  pages free     7
        high     99999
Node 2, zone   Normal
  pages free     100000
        min      500
        low      750
        high     1000
        spanned  130000
        nr_free_pages 100000
Node 2, zone  Movable
        high     250
Node 22, zone   Normal
        high     99999"""


@pytest.fixture
def node_2(write: Write, tmp_path: Path) -> Path:
    write("sys/devices/system/node/node2/meminfo", MEMINFO)
    write("proc/meminfo", "MemTotal: 1 kB\nHugepagesize:       2048 kB")
    return tmp_path


def test_free_and_file_pages_can_be_taken_less_what_the_kernel_keeps(
    node_2: Path, write: Write
) -> None:
    assert free_bytes(2, node_2) == 450_000 * 1024
    write("proc/zoneinfo", ZONEINFO)
    assert free_bytes(2, node_2) == 450_000 * 1024 - 1250 * 4096


def test_node_that_is_kept_back_whole_has_nothing_free(node_2: Path, write: Write) -> None:
    write("proc/zoneinfo", "Node 2, zone Normal\n        high     99999999")
    assert free_bytes(2, node_2) == 0


def test_missing_node_is_an_error_that_names_it(node_2: Path) -> None:
    with pytest.raises(MemoryPolicyError, match=r"node 3 has no readable .*node3/meminfo"):
        free_bytes(3, node_2)


def test_pool_of_huge_pages_is_that_of_the_default_size(node_2: Path, write: Write) -> None:
    folder = "sys/devices/system/node/node2/hugepages"
    write(f"{folder}/hugepages-2048kB/free_hugepages", "7")
    write(f"{folder}/hugepages-1048576kB/free_hugepages", "1")
    assert huge_page_bytes(node_2) == 2 << 20
    assert huge_page_pool(2, node_2) == node_2 / folder / "hugepages-2048kB"
    assert free_huge_pages(2, node_2) == 7
    assert free_huge_pages(3, node_2) == 0


def test_kernel_without_huge_pages_has_none(tmp_path: Path) -> None:
    assert (huge_page_bytes(tmp_path), transparent_huge_page_bytes(tmp_path)) == (0, 0)


@pytest.mark.parametrize(
    ("enabled", "size"),
    [
        ("always [madvise] never", 2 << 20),
        ("[always] madvise never", 2 << 20),
        ("always madvise [never]", 0),
    ],
)
def test_transparent_huge_pages_are_there_unless_switched_off(
    enabled: str, size: int, write: Write, tmp_path: Path
) -> None:
    write("sys/kernel/mm/transparent_hugepage/hpage_pmd_size", str(2 << 20))
    write("sys/kernel/mm/transparent_hugepage/enabled", enabled)
    assert transparent_huge_page_bytes(tmp_path) == size


def test_this_machine_tells_its_free_memory(node: int) -> None:
    assert 1 << 20 < free_bytes(node) < 1 << 50

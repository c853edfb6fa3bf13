from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from affinity.errors import TopologyError
from affinity.machine.files import (
    FolderFiles,
    find_cpus,
    numbers,
    read_cpuinfo,
    read_cpus,
    read_first_processor,
    read_int,
    read_list,
    read_meminfo,
)


@pytest.fixture
def files(tmp_path: Path) -> FolderFiles:
    return FolderFiles(tmp_path)


def _write(files: FolderFiles, path: str, text: str) -> None:
    file = Path(files.name) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_missing_files_are_none_or_empty_not_errors(files: FolderFiles) -> None:
    assert files.read_text("absent") is None
    assert files.read_bytes("absent/below") is None
    assert files.names("absent") == ()
    assert files.link("absent") is None
    assert read_int(files, "absent") is None
    assert read_list(files, "absent") is None
    assert read_cpuinfo(files) == {}
    assert read_first_processor(files) == {}
    assert read_meminfo(files, "absent") == (None, None, 0)


def test_folder_where_a_file_belongs_counts_as_missing(files: FolderFiles) -> None:
    _write(files, "core_id/inside", "1")
    assert files.read_text("core_id") is None


def test_file_is_read_whole_or_as_far_as_asked(files: FolderFiles) -> None:
    _write(files, "long", "x" * 200_000)
    assert files.read_bytes("long") == b"x" * 200_000
    assert files.read_bytes("long", limit=3) == b"xxx"


def test_file_that_the_kernel_hands_out_in_pieces_is_read_whole(
    files: FolderFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(files, "cpuinfo", "processor : 0")
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: read(descriptor, min(size, 5)))
    assert files.read_bytes("cpuinfo") == b"processor : 0"
    assert files.read_bytes("cpuinfo", limit=7) == b"process"


def test_names_are_sorted_and_chosen_by_prefix(files: FolderFiles) -> None:
    for name in ("cpu10", "cpu9", "cpufreq", "online"):
        _write(files, f"cpu/{name}", "")
    assert files.names("cpu") == ("cpu10", "cpu9", "cpufreq", "online")
    assert files.names("cpu", "cpuf") == ("cpufreq",)
    assert numbers(files, "cpu", "cpu") == (9, 10)


def test_link_is_given_as_it_is_written(files: FolderFiles) -> None:
    (Path(files.name) / "dax0.0").symlink_to("../platform/hmem.0/dax0.0")
    assert files.link("dax0.0") == "../platform/hmem.0/dax0.0"


def test_garbage_where_a_number_belongs_names_file_and_content(files: FolderFiles) -> None:
    _write(files, "core_id", "two\n")
    with pytest.raises(TopologyError, match=r"/core_id holds 'two' where a whole number"):
        read_int(files, "core_id")


def test_garbage_where_a_list_belongs_names_file_and_content(files: FolderFiles) -> None:
    _write(files, "online", "0-x\n")
    with pytest.raises(TopologyError, match=r"/online: bad cpu list '0-x'"):
        read_list(files, "online")


@pytest.mark.parametrize("mask", ["", "0\n", "no mask\n"])
def test_mask_is_preferred_to_list_but_where_it_tells_nothing(
    files: FolderFiles, mask: str
) -> None:
    """As in captures that were altered by hand, the L2 caches of hwloc's 64amd64-4s2n4ca2co."""
    _write(files, "node0/cpulist", "0-1\n")
    _write(files, "node0/cpumap", mask)
    assert read_cpus(files, "node0") == (0, 1)
    _write(files, "node0/cpumap", "ff\n")
    assert read_cpus(files, "node0") == tuple(range(8))


def test_mask_of_several_words_is_read_from_the_right(files: FolderFiles) -> None:
    _write(files, "node0/cpumap", "00000001,80000005\n")
    assert read_cpus(files, "node0") == (0, 2, 31, 32)


def test_empty_list_means_no_cpus_but_no_file_is_an_error(files: FolderFiles) -> None:
    assert find_cpus(files, "node0", "cpulist", "cpumap") is None
    with pytest.raises(TopologyError, match="node0 has neither a cpulist nor a cpumap"):
        read_cpus(files, "node0")
    _write(files, "node0/cpulist", "\n")
    assert read_cpus(files, "node0") == ()


def test_meminfo_of_machine_and_of_node_are_read_in_bytes(files: FolderFiles) -> None:
    _write(files, "meminfo", "MemTotal:  100 kB\nMemFree: 7 kB\nMemAvailable: 50 kB\n")
    assert read_meminfo(files, "meminfo") == (102_400, 7168, 0)
    _write(files, "meminfo", "Node 3 MemTotal: 10 kB\nNode 3 MemFree: 0 kB\n")
    assert read_meminfo(files, "meminfo") == (10_240, 0, 0)


def test_clean_pages_of_files_can_be_reclaimed_and_shared_memory_cannot(files: FolderFiles) -> None:
    told = "MemTotal 1000 MemFree 200 FilePages 700 Shmem 300 SReclaimable 40 Active(anon) 250 "
    told += "Active(file) 150 Inactive(file) 250 Dirty 30 Writeback 5 WritebackTmp 7"
    _write(files, "meminfo", re.sub(r"(\S+) (\d+) ?", r"Node 0 \1: \2 kB\n", told))
    assert read_meminfo(files, "meminfo").reclaimable == (150 + 250 - 30 - 5) * 1024
    _write(files, "meminfo", "Node 0 Active(file): 1 kB\nNode 0 Dirty: 30 kB\n")
    assert read_meminfo(files, "meminfo").reclaimable == 0


def test_cpuinfo_skips_blocks_without_a_processor(files: FolderFiles) -> None:
    _write(
        files,
        "proc/cpuinfo",
        "processor\t: 0\nmodel name\t: A: B\n\nprocessor : 12\n\nHardware : board\n",
    )
    assert read_cpuinfo(files) == {
        0: {"processor": "0", "model name": "A: B"},
        12: {"processor": "12"},
    }
    assert read_first_processor(files) == {"processor": "0", "model name": "A: B"}


def test_zero_that_ends_a_file_is_no_part_of_it(files: FolderFiles) -> None:
    _write(files, "online", "0-7\n\0")
    _write(files, "core_id", "3\0\n")
    _write(files, "node0/cpumap", "ff\n\0")
    assert read_list(files, "online") == tuple(range(8))
    assert read_int(files, "core_id") == 3
    assert read_cpus(files, "node0") == tuple(range(8))


def test_empty_file_of_a_number_tells_nothing(files: FolderFiles) -> None:
    _write(files, "core_id", "")
    assert read_int(files, "core_id") is None

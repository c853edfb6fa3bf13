from __future__ import annotations

from pathlib import Path

import pytest

from affinity.errors import TopologyError
from affinity.kernel_files import read_cpuinfo, read_cpus, read_int, read_meminfo, read_text


def test_missing_files_are_none_or_empty_not_errors(tmp_path: Path) -> None:
    assert read_text(tmp_path / "absent") is None
    assert read_int(tmp_path / "absent") is None
    assert read_cpuinfo(tmp_path / "absent") == {}
    assert read_meminfo(tmp_path / "absent") == (0, 0)


def test_garbage_where_a_number_belongs_names_file_and_content(tmp_path: Path) -> None:
    (tmp_path / "core_id").write_text("two\n", encoding="utf-8")
    with pytest.raises(TopologyError, match=r"core_id holds 'two'"):
        read_int(tmp_path / "core_id")


def test_cpu_list_is_preferred_to_mask(tmp_path: Path) -> None:
    (tmp_path / "cpumap").write_text("ff\n", encoding="utf-8")
    assert read_cpus(tmp_path) == tuple(range(8))
    (tmp_path / "cpulist").write_text("0-1\n", encoding="utf-8")
    assert read_cpus(tmp_path) == (0, 1)


def test_mask_of_several_words_is_read_from_the_right(tmp_path: Path) -> None:
    (tmp_path / "cpumap").write_text("00000001,80000005\n", encoding="utf-8")
    assert read_cpus(tmp_path) == (0, 2, 31, 32)


def test_empty_list_means_no_cpus_but_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="neither a cpulist nor a cpumap"):
        read_cpus(tmp_path)
    (tmp_path / "cpulist").write_text("\n", encoding="utf-8")
    assert read_cpus(tmp_path) == ()


def test_meminfo_of_machine_and_of_node_are_read_in_bytes(tmp_path: Path) -> None:
    path = tmp_path / "meminfo"
    path.write_text("MemTotal:  100 kB\nMemFree: 7 kB\nMemAvailable: 50 kB\n", encoding="utf-8")
    assert read_meminfo(path) == (102_400, 7168)
    path.write_text("Node 3 MemTotal: 10 kB\nNode 3 MemFree: 0 kB\n", encoding="utf-8")
    assert read_meminfo(path) == (10_240, 0)


def test_cpuinfo_skips_blocks_without_a_processor(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(
        "processor\t: 0\nmodel name\t: A: B\n\nprocessor : 12\n\nHardware : board\n",
        encoding="utf-8",
    )
    assert read_cpuinfo(path) == {
        0: {"processor": "0", "model name": "A: B"},
        12: {"processor": "12"},
    }

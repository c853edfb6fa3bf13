from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affinity.errors import TopologyError
from affinity.machine.description import Description
from affinity.machine.files import FolderFiles
from affinity.machine.sysfs import describe_sysfs

Machines = Callable[[str], Any]
CPU = "sys/devices/system/cpu"


def _describe(machine: Any, allowed: tuple[int, ...] = ()) -> Description:
    return describe_sysfs(FolderFiles(machine.root), allowed)


def _cores(description: Description) -> list[tuple[int, int, list[int]]]:
    """Package, core id and threads of each core, in the order of the first threads."""
    cores: dict[object, list[int]] = {}
    for cpu, place in description.threads.items():
        cores.setdefault(place, []).append(cpu)
    return [
        (description.threads[cpus[0]].package, description.threads[cpus[0]].core, cpus)
        for cpus in cores.values()
    ]


def test_knights_landing_has_four_threads_per_core_and_is_named(machine_files: Machines) -> None:
    description = _describe(machine_files("knights_landing"))
    processor = description.processor
    assert (processor.vendor, processor.family, processor.model) == ("GenuineIntel", 6, 87)
    assert processor.name == "Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz"
    assert "avx512er" in processor.flags
    assert _cores(description)[:2] == [(0, 0, [0, 8, 16, 24]), (0, 1, [1, 9, 17, 25])]
    assert list(description.threads) == list(range(32))


def test_cores_of_two_sockets_with_equal_ids_stay_apart(machine_files: Machines) -> None:
    assert _cores(_describe(machine_files("two_sockets"))) == [
        (0, 0, [0, 6]),
        (0, 1, [1, 7]),
        (0, 2, [2, 8]),
        (1, 0, [3, 9]),
        (1, 1, [4, 10]),
        (1, 2, [5, 11]),
    ]


def test_cores_of_two_dies_with_equal_ids_stay_apart(machine_files: Machines) -> None:
    machine = machine_files("small_vm")
    machine.write(f"{CPU}/cpu1/topology/core_id", "0")
    assert _cores(_describe(machine)) == [(0, 0, [0]), (0, 0, [1])]


def test_die_counts_where_no_siblings_are_shown(machine_files: Machines) -> None:
    machine = machine_files("small_vm")
    for cpu in range(2):
        machine.write(f"{CPU}/cpu{cpu}/topology/core_id", "0")
        machine.write(f"{CPU}/cpu{cpu}/topology/die_id", str(cpu))
        machine.remove(f"{CPU}/cpu{cpu}/topology/thread_siblings_list")
    assert _cores(_describe(machine)) == [(0, 0, [0]), (0, 0, [1])]
    machine.write(f"{CPU}/cpu1/topology/die_id", "0")
    assert _cores(_describe(machine)) == [(0, 0, [0, 1])]


def test_siblings_are_also_read_from_masks(machine_files: Machines) -> None:
    machine = machine_files("two_sockets")
    for cpu in range(12):
        machine.remove(f"{CPU}/cpu{cpu}/topology/thread_siblings_list")
        machine.write(f"{CPU}/cpu{cpu}/topology/thread_siblings", f"{0x41 << cpu % 6:x}")
    assert _cores(_describe(machine))[:2] == [(0, 0, [0, 6]), (0, 1, [1, 7])]


def test_package_that_the_kernel_does_not_know_is_the_first(machine_files: Machines) -> None:
    machine = machine_files("small_vm")
    machine.write(f"{CPU}/cpu0/topology/physical_package_id", "-1")
    assert _describe(machine).threads[0].package == 0


def test_sources_say_what_was_read(machine_files: Machines) -> None:
    description = _describe(machine_files("small_vm"))
    assert description.sources == [
        "cores: /sys/devices/system/cpu",
        "caches: /sys/devices/system/cpu/cpu*/cache",
        "memory: /sys/devices/system/node",
    ]
    assert description.notes == []


def test_offline_cpus_belong_to_no_core_and_are_named(write_machine: Any, tmp_path: Path) -> None:
    machine = write_machine(tmp_path, clusters=(4,), threads=2, offline=(3, 7, 6))
    description = _describe(machine)
    assert list(description.threads) == [0, 1, 2, 4, 5]
    assert description.offline_cpus == (3, 6, 7)
    assert all(not {3, 6, 7}.intersection(cache.cpus) for cache in description.caches)


def test_cpus_that_could_be_added_are_not_offline(machine_files: Machines) -> None:
    machine = machine_files("small_vm")
    machine.write(f"{CPU}/present", "0-1")
    machine.write(f"{CPU}/possible", "0-127")
    machine.write(f"{CPU}/offline", "2-127")
    assert _describe(machine).offline_cpus == ()
    machine.write(f"{CPU}/present", "0-2")
    assert _describe(machine).offline_cpus == (2,)


def test_cpu_that_runs_but_is_not_listed_as_online_keeps_its_core(machine_files: Machines) -> None:
    machine = machine_files("two_sockets")
    machine.write(f"{CPU}/online", "0-1")
    description = _describe(machine)
    assert _cores(description)[-1] == (1, 2, [5, 11])
    assert list(description.threads) == list(range(12))
    assert "some of whose cpus are not listed as online" in description.sources[0]


def test_allowed_cpu_that_no_file_shows_is_a_core_of_its_own(machine_files: Machines) -> None:
    description = _describe(machine_files("small_vm"), allowed=(1, 5, 7))
    assert _cores(description) == [(0, 0, [0]), (0, 1, [1]), (0, 5, [5]), (0, 7, [7])]
    assert "cpus 5,7: allowed but not shown, each a core" in description.sources[0]


def test_without_list_of_online_cpus_the_folders_are_counted(machine_files: Machines) -> None:
    machine = machine_files("two_sockets")
    machine.remove(f"{CPU}/online")
    machine.write(f"{CPU}/cpufreq/boost", "1")
    assert len(_cores(_describe(machine))) == 6


def test_without_sysfs_cores_come_from_cpuinfo_and_memory_is_one_node(
    machine_files: Machines,
) -> None:
    machine = machine_files("two_sockets")
    whole = _describe(machine)
    shutil.rmtree(machine.root / "sys")
    machine.write("proc/meminfo", "MemTotal:  2048 kB\nMemFree: 1024 kB")
    description = _describe(machine)
    assert _cores(description) == _cores(whole)
    assert list(description.nodes) == [0]
    node = description.nodes[0]
    assert (node.cpus, node.memory_bytes, node.free_bytes) == (tuple(range(12)), 2**21, 2**20)
    assert description.sources == [
        "cores: /proc/cpuinfo, as /sys/devices/system/cpu does not tell them",
        "caches: /sys/devices/system/cpu/cpu*/cache: none shown, so nothing tells which cores "
        "share one",
        "memory: /proc/meminfo, as /sys/devices/system/node is missing",
    ]
    assert description.notes == ["the kernel shows no NUMA nodes, so all memory counts as one"]


def test_processors_without_core_ids_count_as_cores(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "proc/cpuinfo"
    cpuinfo.parent.mkdir()
    cpuinfo.write_text(
        "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x46\n\nprocessor\t: 1\n",
        encoding="utf-8",
    )
    description = describe_sysfs(FolderFiles(tmp_path))
    assert _cores(description) == [(0, 0, [0]), (0, 1, [1])]
    processor = description.processor
    assert (processor.vendor, processor.flags) == ("0x46", ("fp", "asimd", "sve"))
    assert (processor.family, processor.model, processor.name) == (None, None, "unknown")


def test_processor_that_nothing_names_is_noted(machine_files: Machines) -> None:
    machine = machine_files("small_vm")
    machine.remove("proc/cpuinfo")
    description = _describe(machine)
    assert description.processor.name == "unknown"
    assert description.notes == ["/proc/cpuinfo cannot be read, so the processor is not known"]
    assert list(description.threads) == [0, 1]


def test_model_that_is_a_name_is_no_number(machine_files: Machines) -> None:
    machine = machine_files("small_vm")
    machine.write("proc/cpuinfo", "processor : 0\ncpu : POWER9\nmodel : 8335-GTH")
    processor = _describe(machine).processor
    assert (processor.name, processor.model) == ("POWER9", None)


def test_no_file_at_all_is_an_error_that_names_both_places(tmp_path: Path) -> None:
    with pytest.raises(TopologyError) as caught:
        describe_sysfs(FolderFiles(tmp_path))
    assert f"{tmp_path}/sys/devices/system/cpu/cpu*/topology" in str(caught.value)
    assert f"{tmp_path}/proc/cpuinfo" in str(caught.value)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (f"{CPU}/cpu1/topology/core_id", "?"),
        (f"{CPU}/online", "0-"),
        (f"{CPU}/present", "all"),
        (f"{CPU}/cpu0/cache/index0/size", "bigK"),
        (f"{CPU}/cpu0/cache/index0/level", "L1"),
        (f"{CPU}/cpu0/cache/index0/shared_cpu_list", "0-z"),
        ("sys/devices/system/node/node0/distance", "10 x"),
    ],
)
def test_garbage_in_a_kernel_file_is_an_error_that_names_it(
    machine_files: Machines, path: str, text: str
) -> None:
    machine = machine_files("small_vm")
    machine.write(path, text)
    with pytest.raises(TopologyError) as caught:
        _describe(machine)
    assert f"{machine.root}/{path}" in str(caught.value)


def test_each_shared_cache_is_told_once(write_machine: Any, tmp_path: Path) -> None:
    machine = write_machine(tmp_path, clusters=(4,), threads=2, tile=2, l3="package")
    caches = [
        (cache.level, cache.kind, cache.size_bytes, cache.cpus)
        for cache in _describe(machine).caches
    ]
    pairs = [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert caches == [
        *((1, "data", 32_768, pair) for pair in pairs),
        *((1, "instruction", 32_768, pair) for pair in pairs),
        (2, "unified", 2**20, (0, 1, 4, 5)),
        (2, "unified", 2**20, (2, 3, 6, 7)),
        (3, "unified", 2**25, tuple(range(8))),
    ]


def test_cache_of_old_kernels_with_a_mask_in_megabytes_is_read(machine_files: Machines) -> None:
    machine = machine_files("small_vm")
    for cpu in range(2):
        machine.remove(f"{CPU}/cpu{cpu}/cache/index2/shared_cpu_list")
        machine.write(f"{CPU}/cpu{cpu}/cache/index2/shared_cpu_map", "00000000,00000003")
        machine.write(f"{CPU}/cpu{cpu}/cache/index2/size", "2M")
    (cache,) = [cache for cache in _describe(machine).caches if cache.level == 2]
    assert (cache.cpus, cache.size_bytes, cache.line_bytes) == ((0, 1), 2 * 2**20, 64)


def test_cache_of_unknown_size_still_tells_who_shares_it(machine_files: Machines) -> None:
    machine = machine_files("small_vm")
    machine.remove(f"{CPU}/cpu0/cache/index2/size")
    machine.remove(f"{CPU}/cpu0/cache/index2/coherency_line_size")
    first = next(cache for cache in _describe(machine).caches if cache.level == 2)
    assert (first.cpus, first.size_bytes, first.line_bytes) == ((0,), 0, 0)


def test_cache_without_sharers_level_or_known_type_is_left_out(machine_files: Machines) -> None:
    machine = machine_files("small_vm")
    machine.remove(f"{CPU}/cpu0/cache/index0/shared_cpu_list")
    machine.remove(f"{CPU}/cpu0/cache/index1/level")
    machine.write(f"{CPU}/cpu0/cache/index2/type", "Trace")
    assert [cache.cpus for cache in _describe(machine).caches] == [(1,), (1,), (1,)]


def test_this_machine_has_every_allowed_cpu_once_and_some_memory() -> None:
    allowed = os.sched_getaffinity(0)
    description = describe_sysfs(FolderFiles(Path("/")), allowed)
    assert allowed <= set(description.threads)
    assert sum(node.memory_bytes for node in description.nodes.values()) > 2**28
    assert not set(description.offline_cpus) & set(description.threads)


@pytest.mark.slow
def test_480_threads_are_read_with_few_thousand_files(
    write_machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = write_machine(tmp_path, packages=2, clusters=(30,) * 8, threads=2, l3="package")
    read = []
    real = FolderFiles.read_bytes

    def counted(self: FolderFiles, path: str, limit: int | None = None) -> bytes | None:
        content = real(self, path, limit)
        read.extend([path] if content is not None else [])
        return content

    monkeypatch.setattr(FolderFiles, "read_bytes", counted)
    description = _describe(machine)
    assert len(description.threads) == 480
    assert len(description.caches) == 3 * 240 + 2
    assert len(read) < 11 * 480  # with all caches of all threads it were 26 for each


def test_performance_and_efficiency_cores_are_noted(machine_files: Machines) -> None:
    machine = machine_files("small_vm")
    assert not any("two kinds" in note for note in _describe(machine).notes)
    machine.write("sys/devices/cpu_core/cpus", "0")
    machine.write("sys/devices/cpu_atom/cpus", "1")
    (note,) = [note for note in _describe(machine).notes if "two kinds" in note]
    assert note.startswith("cores are of two kinds, performance (cpus 0) and efficiency (cpus 1):")

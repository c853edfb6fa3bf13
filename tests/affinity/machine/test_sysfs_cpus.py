"""Files of old and new kernels, of containers and of captures: some there, some not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from affinity.errors import TopologyError
from affinity.machine.files import FolderFiles
from affinity.machine.read import read_topology
from affinity.machine.sysfs_cpus import Cpus, read_cpus_and_cores

Write = Callable[..., Any]
CPU = "sys/devices/system/cpu"


def _read(machine: Any) -> Cpus:
    return read_cpus_and_cores(FolderFiles(machine.root))


def _cores(cpus: Cpus) -> list[list[int]]:
    cores: dict[object, list[int]] = {}
    for cpu, place in sorted(cpus.places.items()):
        cores.setdefault(place, []).append(cpu)
    return list(cores.values())


def _packages(cpus: Cpus) -> list[int]:
    return [cpus.places[cpu].package for cpu in sorted(cpus.places)]


def _remove(machine: Any, cpus: Iterable[int], *names: str) -> None:
    for cpu in cpus:
        for name in names:
            machine.remove(f"{CPU}/cpu{cpu}/topology/{name}")


PAIRS = [[0, 4], [1, 5], [2, 6], [3, 7]]


@pytest.fixture
def pairs(write_machine: Write, tmp_path: Path) -> Any:
    """Four cores with two threads each, in two packages."""
    return write_machine(tmp_path, packages=2, clusters=(2, 2), threads=2)


@pytest.mark.parametrize("without", [(2,), (2, 6), range(8)])
def test_core_ids_that_are_missing_leave_the_siblings(pairs: Any, without: Iterable[int]) -> None:
    _remove(pairs, without, "core_id")
    pairs.remove("proc/cpuinfo")
    cpus = _read(pairs)
    assert _cores(cpus) == PAIRS
    listed = {1: "2", 2: "2,6", 8: "0-7"}[len(list(without))]
    assert cpus.notes == [f"no core_id of cpus {listed}: their cores are known by siblings"]


def test_cpu_that_tells_nothing_is_where_another_names_it(pairs: Any) -> None:
    _remove(pairs, [5], "core_id", "thread_siblings_list", "physical_package_id")
    cpus = _read(pairs)
    assert _cores(cpus) == PAIRS
    assert cpus.places[5] == cpus.places[1]


def test_cpu_that_nothing_names_is_where_cpuinfo_says(pairs: Any) -> None:
    _remove(pairs, [1, 5], "core_id", "thread_siblings_list", "physical_package_id")
    cpus = _read(pairs)
    assert _cores(cpus) == PAIRS
    assert cpus.notes[0] == f"/{CPU} does not tell the core of cpus 1,5: taken from /proc/cpuinfo"
    pairs.remove("proc/cpuinfo")
    cpus = _read(pairs)
    assert _cores(cpus) == [[0, 4], [1], [2, 6], [3, 7], [5]]
    assert cpus.notes[0] == "nothing tells the core of cpus 1,5: each counts as one"


@pytest.mark.parametrize("kind", ["die", "cluster", None])
def test_cpu_that_only_cpuinfo_tells_joins_one_that_tells_its_core_id(
    write_machine: Write, tmp_path: Path, kind: str | None
) -> None:
    machine = write_machine(tmp_path, clusters=(2,), threads=2, adjacent=True)
    _remove(machine, range(4), "thread_siblings_list")
    for cpu in range(4) if kind else ():
        machine.write(f"{CPU}/cpu{cpu}/topology/{kind}_id", "5")
    _remove(machine, [3], "core_id", "physical_package_id", *([f"{kind}_id"] if kind else []))
    cpus = _read(machine)
    assert _cores(cpus) == [[0, 1], [2, 3]]
    assert cpus.notes[0] == f"/{CPU} does not tell the core of cpus 3: taken from /proc/cpuinfo"


def test_cpu_whose_die_nothing_tells_joins_none_of_several(
    write_machine: Write, tmp_path: Path
) -> None:
    machine = write_machine(tmp_path, clusters=(5,))
    _remove(machine, range(5), "thread_siblings_list")
    for cpu in range(5):
        machine.write(f"{CPU}/cpu{cpu}/topology/core_id", "0")
    for cpu in range(4):
        machine.write(f"{CPU}/cpu{cpu}/topology/die_id", str(cpu // 2))
    assert _cores(_read(machine)) == [[0, 1], [2, 3], [4]]
    machine.write(f"{CPU}/cpu3/topology/die_id", "0")
    _remove(machine, [2], "die_id")
    assert _cores(_read(machine)) == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("siblings", "cores", "torn"),
    [
        ({0: "0,4", 4: "4"}, PAIRS, "4"),
        ({0: "0-1,4"}, PAIRS, "0-1,4-5"),
        ({0: "0", 4: "4,6"}, [[0], [1, 5], [2, 4, 6], [3, 7]], "2,4,6"),
        ({0: "0", 4: "0-1,4"}, [[0, 1, 4, 5], [2, 6], [3, 7]], "0-1,4-5"),
    ],
)
def test_siblings_that_do_not_agree_are_one_core_and_noted(
    pairs: Any, siblings: dict[int, str], cores: list[list[int]], torn: str
) -> None:
    if cores != PAIRS:  # Else these part them.
        _remove(pairs, range(8), "core_id", "physical_package_id")
        pairs.remove("proc/cpuinfo")
    for cpu, text in siblings.items():
        pairs.write(f"{CPU}/cpu{cpu}/topology/thread_siblings_list", text)
    cpus = _read(pairs)
    assert _cores(cpus) == cores
    assert cpus.notes[0] == (
        f"the siblings of cpus {torn} are not those that others tell: sets that overlap count as "
        "one core, but for other core_ids"
    )


@pytest.mark.parametrize("text", ["0,4", "4,0", "0,4\0", "0,4-4", " 0,4 "])
def test_siblings_are_sets_and_no_text(pairs: Any, text: str) -> None:
    pairs.write(f"{CPU}/cpu4/topology/thread_siblings_list", text)
    assert _cores(_read(pairs)) == PAIRS


def test_newer_names_are_read_too(pairs: Any) -> None:
    _remove(pairs, range(8), "core_id", "thread_siblings_list", "physical_package_id")
    for cpu in range(8):
        package = "0-1,4-5" if cpu % 4 < 2 else "2-3,6-7"
        pairs.write(f"{CPU}/cpu{cpu}/topology/core_cpus_list", f"{cpu % 4},{cpu % 4 + 4}")
        pairs.write(f"{CPU}/cpu{cpu}/topology/package_cpus_list", package)
    cpus = _read(pairs)
    assert _cores(cpus) == PAIRS
    assert _packages(cpus) == [0, 0, 1, 1] * 2
    assert any("gives no number to the packages of cpus 0-7" in note for note in cpus.notes)


@pytest.mark.parametrize("kind", ["die", "cluster"])
def test_core_ids_that_repeat_in_a_package_are_told_apart(
    write_machine: Write, tmp_path: Path, kind: str
) -> None:
    machine = write_machine(tmp_path, clusters=(4,))
    _remove(machine, range(4), "thread_siblings_list")
    for cpu in range(4):
        machine.write(f"{CPU}/cpu{cpu}/topology/core_id", str(cpu % 2))
    assert _cores(_read(machine)) == [[0, 2], [1, 3]]
    for cpu in range(4):
        machine.write(f"{CPU}/cpu{cpu}/topology/{kind}_cpus_list", "0-1" if cpu < 2 else "2-3")
    assert _cores(_read(machine)) == [[0], [1], [2], [3]]


@pytest.mark.parametrize("number", ["-1", "4294967295", ""])
def test_packages_without_a_number_are_told_apart_by_their_cpus(pairs: Any, number: str) -> None:
    for cpu in range(8):
        pairs.write(f"{CPU}/cpu{cpu}/topology/physical_package_id", number)
        mask = "33" if cpu % 4 < 2 else "cc"
        pairs.write(f"{CPU}/cpu{cpu}/topology/core_siblings", f"00000000,000000{mask}")
    cpus = _read(pairs)
    assert _packages(cpus) == [0, 0, 1, 1] * 2
    assert _cores(cpus) == PAIRS


def test_package_that_nothing_tells_is_noted(pairs: Any) -> None:
    pairs.write(f"{CPU}/cpu3/topology/physical_package_id", "-1")
    assert _packages(_read(pairs)) == [0, 0, 1, 1] * 2  # as its sibling says
    for cpu in range(8):
        pairs.write(f"{CPU}/cpu{cpu}/topology/physical_package_id", "-1")
    assert _packages(_read(pairs)) == [0, 0, 1, 1] * 2  # as cpuinfo says
    pairs.remove("proc/cpuinfo")
    cpus = _read(pairs)
    assert _packages(cpus) == [0] * 8
    assert cpus.notes == ["nothing tells the package of cpus 0-7: it counts as the first"]


def test_cpu_that_its_own_file_calls_offline_does_not_run(pairs: Any) -> None:
    for cpu in range(1, 8):
        pairs.write(f"{CPU}/cpu{cpu}/online", str(int(cpu not in (3, 5))))
    for listed in (True, False):
        cpus = _read(pairs)
        assert _cores(cpus) == [[0, 4], [1], [2, 6], [7]]
        assert cpus.offline == (3, 5)
        if listed:
            pairs.remove(f"{CPU}/online")


def test_cpu_in_the_list_of_offline_ones_does_not_run(pairs: Any) -> None:
    pairs.write(f"{CPU}/online", "0-5")
    pairs.write(f"{CPU}/offline", "6-7,8-63")
    cpus = _read(pairs)
    assert sorted(cpus.places) == [0, 1, 2, 3, 4, 5]
    assert cpus.offline == (6, 7)
    pairs.write(f"{CPU}/cpu6/online", "1")  # Containers show other lists than the machine's.
    assert sorted(_read(pairs).places) == [0, 1, 2, 3, 4, 5, 6]


def test_folder_without_topology_is_an_offline_cpu_unless_cpuinfo_has_it(pairs: Any) -> None:
    _remove(pairs, [7], "core_id", "thread_siblings_list", "physical_package_id")
    _remove(pairs, [3], "thread_siblings_list")
    pairs.remove(f"{CPU}/online")
    assert 7 in _read(pairs).places
    del pairs.processors[7]
    pairs.write_cpuinfo()
    pairs.remove(f"{CPU}/online")
    assert _read(pairs).offline == (7,)


def test_plan_gives_no_worker_an_offline_cpu(pairs: Any) -> None:
    from affinity import Request, place_workers
    from affinity.process.allowed import AllowedResources

    for cpu in (1, 5):
        pairs.write(f"{CPU}/cpu{cpu}/online", "0")
    topology = read_topology(pairs.root)
    plan = place_workers(topology, AllowedResources(cpus=topology.cpus), Request(workers="core"))
    assert [worker.cpus for worker in plan.workers] == [(0, 4), (2, 6), (3, 7)]


def test_cpus_of_a_kernel_without_topology_count_as_cores(tmp_path: Path) -> None:
    for cpu in range(3):
        (tmp_path / f"{CPU}/cpu{cpu}").mkdir(parents=True)
    cpus = read_cpus_and_cores(FolderFiles(tmp_path))
    assert _cores(cpus) == [[0], [1], [2]]
    assert cpus.notes == ["nothing tells the cores of cpus 0-2: each cpu counts as one"]


@pytest.fixture
def bare(write_machine: Write, tmp_path: Path) -> Any:
    """Two cores with two threads each by ``/proc/cpuinfo``, of which sysfs tells no topology."""
    machine = write_machine(tmp_path, clusters=(2,), threads=2)
    _remove(machine, range(4), "core_id", "thread_siblings_list", "physical_package_id")
    return machine


@pytest.mark.parametrize("file", ["cpu2/online", "offline"])
def test_offline_cpu_does_not_run_where_only_cpuinfo_tells_cores(bare: Any, file: str) -> None:
    assert _cores(_read(bare)) == [[0, 2], [1, 3]]
    bare.write(f"{CPU}/online", "0-1,3")
    bare.write(f"{CPU}/{file}", "0" if file == "cpu2/online" else "2")
    cpus = _read(bare)
    assert _cores(cpus) == [[0], [1, 3]]
    assert (cpus.offline, cpus.notes) == ((2,), [])


def test_online_cpu_that_cpuinfo_does_not_show_counts_as_a_core(bare: Any) -> None:
    for cpu in (1, 2):
        del bare.processors[cpu]
    bare.processors[3]["core id"] = "2"  # no reason to be the core of cpu 2
    bare.write_cpuinfo()
    bare.write(f"{CPU}/online", "0-3")
    cpus = _read(bare)
    assert _cores(cpus) == [[0], [1], [2], [3]]
    assert cpus.offline == ()
    assert cpus.notes == ["nothing tells the cores of cpus 1-2: each cpu counts as one"]


def test_folders_that_nothing_calls_online_are_offline_where_cpuinfo_lacks_them(bare: Any) -> None:
    del bare.processors[3]
    bare.write_cpuinfo()
    bare.remove(f"{CPU}/online")
    cpus = _read(bare)
    assert (_cores(cpus), cpus.offline) == ([[0, 2], [1]], (3,))


def test_machine_of_which_every_cpu_is_switched_off_is_an_error(bare: Any) -> None:
    bare.remove(f"{CPU}/online")
    for cpu in range(4):
        bare.write(f"{CPU}/cpu{cpu}/online", "0")
    with pytest.raises(TopologyError, match="tells of one that runs"):
        _read(bare)


@pytest.mark.parametrize(
    ("cpuinfo", "count"),
    [
        ("vendor_id : IBM/S390\n# processors : 2\nprocessor 0: version = FF\nprocessor 1: x", 2),
        ("cpu : Alpha\ncpu model : EV68CB\ncpus detected : 4\n", 4),
    ],
)
def test_processors_that_have_no_block_of_their_own_are_counted(
    tmp_path: Path, cpuinfo: str, count: int
) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(cpuinfo, encoding="utf-8")
    cpus = read_cpus_and_cores(FolderFiles(tmp_path))
    assert _cores(cpus) == [[cpu] for cpu in range(count)]


def test_zero_at_the_end_of_every_file_changes_nothing(pairs: Any) -> None:
    whole = read_topology(pairs.root)
    for file in pairs.root.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes() + b"\0")
    assert read_topology(pairs.root) == whole


def test_empty_files_of_a_capture_tell_nothing(pairs: Any) -> None:
    for cpu in (2, 6):
        for name in ("core_id", "physical_package_id"):
            (pairs.root / f"{CPU}/cpu{cpu}/topology/{name}").write_bytes(b"")
    assert _cores(_read(pairs)) == PAIRS


def test_nothing_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="cannot tell the cpus of this machine"):
        read_cpus_and_cores(FolderFiles(tmp_path))

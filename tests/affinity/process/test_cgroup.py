"""x"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from affinity.process.cgroup import (
    CpuQuota,
    Cpuset,
    MemoryLimit,
    available_bytes,
    is_frozen,
    read_cpu_quota,
    read_cpuset,
    read_memory_limit,
)

Write = Callable[[str, str], Path]
V2 = "sys/fs/cgroup"
V2_MOUNT = "30 23 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1_MOUNTS = "\n".join(
    f"{number} 31 0:{number} / /sys/fs/cgroup/{names} rw shared:7 - cgroup cgroup rw,{names}"
    for number, names in ((37, "cpuset"), (32, "cpu,cpuacct"), (36, "memory"))
)


def test_version_2_tells_what_is_in_effect(write: Write, tmp_path: Path) -> None:
    write("proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda rw\n" + V2_MOUNT)
    write("proc/self/cgroup", "0::/slurm/job_7/step_0")
    write(f"{V2}/slurm/job_7/step_0/cpuset.cpus", "")
    write(f"{V2}/slurm/job_7/step_0/cpuset.cpus.effective", "0-3,8")
    write(f"{V2}/slurm/job_7/step_0/cpuset.mems.effective", "0-1")
    assert read_cpuset(tmp_path) == Cpuset("cgroup v2 /slurm/job_7/step_0", (0, 1, 2, 3, 8), (0, 1))


def test_group_without_the_controller_is_limited_by_the_one_around_it(
    write: Write, tmp_path: Path
) -> None:
    write("proc/self/mountinfo", V2_MOUNT)
    write("proc/self/cgroup", "0::/job/task")
    write(f"{V2}/job/task/cgroup.procs", "1")
    write(f"{V2}/job/cpuset.cpus.effective", "4-7")
    assert read_cpuset(tmp_path) == Cpuset("cgroup v2 /job", (4, 5, 6, 7), None)


def test_version_1_is_found_by_its_controller(write: Write, tmp_path: Path) -> None:
    write("proc/self/mountinfo", V1_MOUNTS)
    write("proc/self/cgroup", "9:cpu,cpuacct:/a\n3:cpuset:/slurm/job_7\n0::/")
    write("sys/fs/cgroup/cpuset/slurm/job_7/cpuset.effective_cpus", "2-3")
    write("sys/fs/cgroup/cpuset/slurm/job_7/cpuset.cpus", "2-9")
    write("sys/fs/cgroup/cpuset/slurm/job_7/cpuset.mems", "0")
    assert read_cpuset(tmp_path) == Cpuset("cgroup v1 /slurm/job_7", (2, 3), (0,))


def test_container_sees_its_group_mounted_as_the_root(write: Write, tmp_path: Path) -> None:
    mount = "37 31 0:33 /docker/ab /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset"
    write("proc/self/mountinfo", mount)
    write("proc/self/cgroup", "3:cpuset:/docker/ab")
    write("sys/fs/cgroup/cpuset/cpuset.cpus", "0-1")
    assert read_cpuset(tmp_path) == Cpuset("cgroup v1 /", (0, 1), None)
    write("proc/self/cgroup", "3:cpuset:/docker/ab/inner")
    write("sys/fs/cgroup/cpuset/inner/cpuset.cpus", "1")
    assert read_cpuset(tmp_path) == Cpuset("cgroup v1 /inner", (1,), None)
    write("proc/self/cgroup", "3:cpuset:/../other")
    assert read_cpuset(tmp_path) == Cpuset("cgroup v1 /", (0, 1), None)


def test_quota_is_the_smallest_on_the_way_to_the_root(write: Write, tmp_path: Path) -> None:
    write("proc/self/mountinfo", V2_MOUNT)
    write("proc/self/cgroup", "0::/pod/container")
    write(f"{V2}/pod/container/cpu.max", "max 100000")
    assert read_cpu_quota(tmp_path) is None
    write(f"{V2}/pod/cpu.max", "250000 100000")
    assert read_cpu_quota(tmp_path) == CpuQuota("cgroup v2 /pod", 2.5)
    write(f"{V2}/pod/container/cpu.max", "400000 100000")
    assert read_cpu_quota(tmp_path) == CpuQuota("cgroup v2 /pod", 2.5)


@pytest.mark.parametrize(("quota", "cpus"), [("-1", None), ("150000", 1.5)])
def test_quota_of_version_1_is_read_from_two_files(
    quota: str, cpus: float | None, write: Write, tmp_path: Path
) -> None:
    write("proc/self/mountinfo", V1_MOUNTS)
    write("proc/self/cgroup", "5:cpuacct,cpu:/a")
    write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", quota)
    write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000")
    found = read_cpu_quota(tmp_path)
    assert (found and found.cpus) == cpus


def test_memory_limit_is_the_one_on_the_way_to_the_root_that_leaves_least(
    write: Write, tmp_path: Path
) -> None:
    write("proc/self/mountinfo", V2_MOUNT)
    write("proc/self/cgroup", "0::/pod/container")
    write(f"{V2}/pod/container/memory.max", "max")
    assert read_memory_limit(tmp_path) is None
    write(f"{V2}/pod/memory.max", "8000")
    assert read_memory_limit(tmp_path) == MemoryLimit("cgroup v2 /pod", 8000, 8000)
    write(f"{V2}/pod/memory.current", "5000")
    write(f"{V2}/pod/memory.stat", "anon 4000\nactive_file 200\ninactive_file 400\nslab 9")
    assert read_memory_limit(tmp_path) == MemoryLimit("cgroup v2 /pod", 8000, 3600)
    write(f"{V2}/pod/container/memory.max", "4000")
    write(f"{V2}/pod/container/memory.current", "100")
    assert read_memory_limit(tmp_path) == MemoryLimit("cgroup v2 /pod", 8000, 3600)
    write(f"{V2}/pod/container/memory.current", "5000")
    narrow = MemoryLimit("cgroup v2 /pod/container", 4000, 0)
    assert read_memory_limit(tmp_path) == narrow


@pytest.mark.parametrize(("limit", "left"), [("9223372036854771712", None), ("6000", 2500)])
def test_memory_limit_of_version_1_is_read_with_all_groups_below(
    limit: str, left: int | None, write: Write, tmp_path: Path
) -> None:
    write("proc/self/mountinfo", V1_MOUNTS)
    write("proc/self/cgroup", "4:memory:/a")
    folder = "sys/fs/cgroup/memory/a"
    write(f"{folder}/memory.limit_in_bytes", limit)
    write(f"{folder}/memory.usage_in_bytes", "4000")
    write(
        f"{folder}/memory.stat",
        "active_file 7\ntotal_cache 900\ntotal_active_file 300\ntotal_inactive_file 200",
    )
    found = read_memory_limit(tmp_path)
    assert (found and found.left_bytes) == left


def test_hidden_or_senseless_files_tell_nothing(write: Write, tmp_path: Path) -> None:
    assert (read_cpuset(tmp_path), read_cpu_quota(tmp_path)) == (None, None)
    write("proc/self/mountinfo", f"short\n30 23 - cgroup2\n{V2_MOUNT}")
    write("proc/self/cgroup", "what\n\n0::/gone")
    assert (read_cpuset(tmp_path), read_cpu_quota(tmp_path)) == (None, None)
    write(f"{V2}/memory.max", "soon")
    assert read_memory_limit(tmp_path) is None
    write(f"{V2}/memory.max", "50")
    write(f"{V2}/memory.current", "?")
    write(f"{V2}/memory.stat", "inactive_file \ninactive_file")
    assert read_memory_limit(tmp_path) == MemoryLimit("cgroup v2 /", 50, 50)


@pytest.fixture
def narrow_group() -> Iterator[tuple[Path, int]]:
    """A cpuset of version 1 on this machine with its last cpu alone."""
    folder = Path("/sys/fs/cgroup/cpuset/affinity-test")
    cpu = max(os.sched_getaffinity(0))
    try:
        folder.mkdir()
        (folder / "cpuset.cpus").write_text(str(cpu), encoding="utf-8")
        (folder / "cpuset.mems").write_text("0", encoding="utf-8")
    except OSError as error:
        pytest.skip(f"no cpuset of version 1 can be made here: {error}")
    yield folder, cpu
    folder.rmdir()


def test_real_group_of_a_process_is_found(
    narrow_group: tuple[Path, int], run_python: Callable[..., str]
) -> None:
    folder, cpu = narrow_group
    script = (
        "import os, pathlib, sys\n"
        "pathlib.Path(sys.argv[1], 'cgroup.procs').write_text(str(os.getpid()))\n"
        "from affinity.process.allowed import read_allowed\n"
        "allowed = read_allowed(environment={})\n"
        "print(allowed.cpus, allowed.said_by[0])"
    )
    told = run_python(script, str(folder))
    assert told.startswith(f"({cpu},) cgroup v1 /affinity-test: cpus {cpu} of ")


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A group of version 1 on this machine that may use 256 MiB."""
    folder = Path("/sys/fs/cgroup/memory/affinity-test")
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(256 << 20), encoding="utf-8")
    except OSError as error:
        pytest.skip(f"no memory group of version 1 can be made here: {error}")
    yield folder
    folder.rmdir()


def test_real_limit_of_a_process_shrinks_by_what_it_takes(
    small_group: Path, run_python: Callable[..., str]
) -> None:
    script = (
        "import os, pathlib, sys\n"
        "pathlib.Path(sys.argv[1], 'cgroup.procs').write_text(str(os.getpid()))\n"
        "from affinity.process.cgroup import read_memory_limit\n"
        "before = read_memory_limit(pathlib.Path('/'))\n"
        "block = b'x' * (100 << 20)\n"
        "after = read_memory_limit(pathlib.Path('/'))\n"
        "print(before.limit_bytes >> 20, (before.left_bytes - after.left_bytes) >> 20)"
    )
    limit, taken = map(int, run_python(script, str(small_group)).split())
    assert limit == 256
    assert 90 < taken < 110


@pytest.mark.parametrize(("state", "frozen"), [("FROZEN", True), ("THAWED", False)])
def test_freezer_of_version_1_is_that_of_the_process(
    write: Write, tmp_path: Path, state: str, frozen: bool
) -> None:
    mount = "37 31 0:33 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer"
    write("proc/self/mountinfo", mount)
    write("proc/self/cgroup", "6:freezer:/mine")
    write("proc/77/cgroup", "6:freezer:/jobs/7")
    write("sys/fs/cgroup/freezer/mine/freezer.state", "THAWED")
    write("sys/fs/cgroup/freezer/jobs/7/freezer.state", state)
    assert is_frozen(tmp_path, 77) is frozen


@pytest.mark.parametrize(("number", "frozen"), [(1, True), (0, False)])
def test_group_of_version_2_tells_whether_it_is_frozen(
    write: Write, tmp_path: Path, number: int, frozen: bool
) -> None:
    write("proc/self/mountinfo", V2_MOUNT)
    write("proc/77/cgroup", "0::/job/step")
    write(f"{V2}/job/step/cgroup.events", f"populated 1\nfrozen {number}")
    assert is_frozen(tmp_path, 77) is frozen


def test_process_that_is_gone_is_not_frozen(write: Write, tmp_path: Path) -> None:
    write("proc/self/mountinfo", V2_MOUNT)
    assert not is_frozen(tmp_path, 77)


def test_memory_that_is_free_is_what_the_kernel_and_the_group_leave(tmp_path):
    assert 0 < available_bytes() < 2**50
    files = {
        "proc/meminfo": "MemTotal: 900 kB\nMemAvailable: 300 kB\n",
        "proc/self/cgroup": "0::/job\n",
        "proc/self/mountinfo": "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/job/memory.max": "200000\n",
        "sys/fs/cgroup/job/memory.current": "150000\n",
        "sys/fs/cgroup/job/memory.stat": "inactive_file 50000\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_bytes(tmp_path) == 100_000
    (tmp_path / "sys/fs/cgroup/job/memory.max").write_text("max\n")
    assert available_bytes(tmp_path) == 300 * 1024
    (tmp_path / "proc/meminfo").write_text("MemTotal: 900 kB\nMemFree: 70 kB\nCached: 30 kB\n")
    assert available_bytes(tmp_path) == 100 * 1024


@pytest.mark.parametrize(
    ("text", "available"),
    [
        ("Note: a: b\nno colon\nMemFree: 10 kB\nMemAvailable:\t70 kB\n", 70 * 1024),
        ("MemFree: 10 kB\nMemAvailable: ? kB\nCached: 20 kB\n", 30 * 1024),
        ("\n", None),
        (None, None),
    ],
)
def test_odd_lines_are_passed_over_and_without_any_all_memory_counts_as_free(
    tmp_path, text, available
):
    if text is not None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/meminfo").write_text(text)
    everything = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert available_bytes(tmp_path) == (everything if available is None else available)

"""How much memory there is to take."""

import os

import pytest

from affinity.process.available import available_bytes


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

from __future__ import annotations

from pathlib import Path

import pytest

from affinity.cli.checking.settings import setting_findings
from affinity.machine.files import FolderFiles

_THP = "sys/kernel/mm/transparent_hugepage"


def _found(root: Path, **files: str) -> dict[str, tuple[str, str]]:
    paths = {
        "balancing": "proc/sys/kernel/numa_balancing",
        "demotion": "sys/kernel/mm/numa/demotion_enabled",
        "huge": f"{_THP}/enabled",
        "shared": f"{_THP}/shmem_enabled",
        "reclaim": "proc/sys/vm/zone_reclaim_mode",
    }
    for name, text in files.items():
        path = root / paths[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")
    findings = setting_findings(FolderFiles(root))
    return {found.subject: (found.level, found.way_out) for found in findings}


def test_settings_that_leave_pages_alone_are_well(tmp_path: Path) -> None:
    found = _found(
        tmp_path,
        balancing="0",
        demotion="false",
        huge="always [madvise] never",
        shared="always within_size [advise] never deny force",
        reclaim="0",
    )
    assert found == {
        "NUMA balancing": ("ok", ""),
        "demotion": ("ok", ""),
        "huge pages": ("ok", ""),
        "huge pages, shared": ("ok", ""),
    }


def test_settings_that_move_or_shrink_pages_are_told_with_the_way_out(tmp_path: Path) -> None:
    found = _found(
        tmp_path,
        balancing="2",
        demotion="true",
        huge="always madvise [never]",
        shared="always within_size advise [never] deny force",
        reclaim="1",
    )
    assert found == {
        "NUMA balancing": ("warn", "as root: sysctl kernel.numa_balancing=0"),
        "demotion": ("warn", "as root: echo false > /sys/kernel/mm/numa/demotion_enabled"),
        "huge pages": ("warn", f"as root: echo madvise > /{_THP}/enabled"),
        "huge pages, shared": ("note", f"as root: echo advise > /{_THP}/shmem_enabled"),
        "zone reclaim": ("warn", "as root: sysctl vm.zone_reclaim_mode=0"),
    }


def test_balancing_of_pages_without_policy_is_worth_knowing(tmp_path: Path) -> None:
    assert _found(tmp_path, balancing="1") == {"NUMA balancing": ("note", "")}


@pytest.mark.parametrize("root", ["", "empty"])
def test_kernel_that_shows_no_settings_gives_no_findings(root: str, tmp_path: Path) -> None:
    assert _found(tmp_path / root) == {}

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knltrain.doctor import software
from vectorized_ops.numba.compiling import compiler, packages
from vectorized_ops.numba.compiling.cache_folder import CacheFolder


def test_installed_package_is_told_with_its_version() -> None:
    finding = software.required_package("numpy")
    assert (finding.level, finding.text) == ("ok", np.__version__)


def test_missing_required_package_fails_and_says_how_to_install_it() -> None:
    finding = software.required_package("knltrain-no-such-package")
    assert (finding.level, finding.text) == ("fail", "not installed")
    assert finding.way_out == f"{sys.executable} -m pip install knltrain-no-such-package"


def test_every_kind_of_software_is_reported_once() -> None:
    findings = list(software.software_findings())
    assert [finding.subject for finding in findings] == [
        *("python", "numpy", "numba", "torch"),
        *("IPEX", "oneCCL", "MPI", "hwloc", "GPU", "Slurm"),
    ]
    assert {finding.level for finding in findings} == {"ok"}
    assert all(finding.text for finding in findings)


def test_programs_on_the_path_are_found_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("srun", "mpiexec"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    texts = {finding.subject: finding.text for finding in software.software_findings()}
    assert texts["Slurm"] == f"srun at {tmp_path}/srun"
    assert texts["MPI"].endswith(f"mpiexec at {tmp_path}/mpiexec")
    assert "nvidia-smi" not in texts["GPU"]


def test_what_is_missing_but_not_required_is_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (slurm,) = (f for f in software.software_findings() if f.subject == "Slurm")
    assert (slurm.level, slurm.text) == ("ok", "not found, not required")


def test_versions_are_told_without_importing_the_packages() -> None:
    script = (
        "import sys\n"
        "from knltrain.doctor.software import software_findings\n"
        "list(software_findings())\n"
        "sys.exit(' '.join({'numpy', 'numba', 'torch', 'mpi4py'} & set(sys.modules)) or None)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_folder_of_compiled_kernels_is_told() -> None:
    finding = software.kernel_cache_finding()
    assert (finding.level, finding.text) == ("ok", str(compiler.cache_folder()))


def test_kernels_that_cannot_be_kept_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "cache_is_writable", lambda: False)
    finding = software.kernel_cache_finding()
    assert finding.level == "warn"
    assert finding.text.startswith(f"{compiler.cache_folder()} cannot be written")
    assert "NUMBA_CACHE_DIR" in finding.way_out


def test_folder_that_others_may_write_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "cache_refusal", lambda: "/k may be written by others")
    finding = software.kernel_cache_finding()
    assert finding.level == "warn"
    assert finding.text.startswith("/k may be written by others; until then every worker compiles")
    assert "NUMBA_CACHE_DIR" in finding.way_out


def test_kernels_that_every_worker_compiles_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "cache_has_locks", lambda: False)
    finding = software.kernel_cache_finding()
    assert finding.level == "warn"
    assert finding.text.startswith(f"{compiler.cache_folder()} has no file locks")
    assert "knltrain warmup" in finding.way_out


def test_a_package_with_damaged_kernels_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CacheFolder(tmp_path / "kernels", is_shared=True)
    for name in "abc":
        folder.write(name, b"one")
    found = packages.Package(tmp_path, folder, None)
    monkeypatch.setattr(packages, "kernel_packages", lambda _: (found,))
    assert software.kernel_packages_finding().level == "ok"
    for name in "bc":
        (folder.path / f"{name}.kernel").write_bytes(b"torn")
    finding = software.kernel_packages_finding()
    assert finding.level == "warn"
    assert finding.text == f"{folder.path}: b is damaged, by its checksum and 1 more"


def test_kernel_cache_is_unknown_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, Any] = sys.modules
    monkeypatch.setitem(modules, "vectorized_ops.numba.compiling", None)
    finding = software.kernel_cache_finding()
    assert (finding.level, "does not start" in finding.text) == ("warn", True)


def test_library_that_is_missing_or_is_not_hwloc_is_not_found() -> None:
    assert software.hwloc_version("libknltrain-no-such-library.so.15") is None
    assert software.hwloc_version("libc.so.6") is None


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_hwloc_version_is_what_the_library_answers(tmp_path: Path) -> None:
    source, library = tmp_path / "hwloc.c", tmp_path / "libhwloc-like.so"
    source.write_text(
        "unsigned hwloc_get_api_version(void) { return 0x00020c00; }\n", encoding="utf-8"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    assert software.hwloc_version(str(library)) == f"{library}, API 2.12"

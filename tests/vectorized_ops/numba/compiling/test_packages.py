"""Packages of ready kernels: found, used and refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding
import pytest

from vectorized_ops.numba.compiling import packages
from vectorized_ops.numba.compiling.compiler import CACHE_FOLDER, versions_told
from vectorized_ops.numba.compiling.packages import MANIFEST, PROCESSORS, packaged_processor

ROOT = Path(__file__).parents[4]
PROGRAM = """
import sys, warnings
warnings.simplefilter("always")
import numpy as np
from vectorized_ops.numba.addition import add
from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.compiling.recording import recording
from vectorized_ops.numba.compiling.journal import JOURNAL
from vectorized_ops.numba.kernels.convolution.row_tiles import TRANSPOSE_ROWS
left, right, out = (activations((16, 3)) for _ in range(3))
left[...], right[...] = 1.0, 2.0

def work():
    TRANSPOSE_ROWS.address(3)
    add(left, right, out)

if sys.argv[1:] == ["make"]:
    with recording() as recorder:
        work()
    for wanted in recorder.wanted:
        wanted.make()
else:
    work()
    assert (out == 3.0).all()
print(*(f"{one.name}:{one.compiled:d}" for one in JOURNAL.made))
"""


def run(folder: Path, *words: str, **settings: str) -> tuple[list[str], str]:
    """The kernels that were made, with whether they were compiled; and what was warned of."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder), **settings},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kernels for the processor that packaged kernels are taken for on this machine."""
    processor = packaged_processor()
    if processor not in PROCESSORS:
        pytest.skip(f"there are no packaged kernels for {llvmlite.binding.get_host_cpu_name()}")
    cache, root = (tmp_path_factory.mktemp(name) for name in ("cache", "package"))
    settings = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
    made, _ = run(cache, "make", **settings)
    assert made == ["transpose_rows_tile:1", "_add:1"]
    (root / processor).mkdir()
    for entry in cache.glob("*/*.kernel"):
        shutil.copy(entry, root / processor)
    manifest(root, processors=[processor])
    return root


def manifest(root: Path, **changes: Any) -> None:
    known = {"digest": CACHE_FOLDER.name, "versions": versions_told(), "processors": []}
    (root / MANIFEST).write_text(json.dumps({**known, **changes}))


@pytest.mark.slow
def test_packaged_kernels_are_used_and_need_no_cache(package: Path, tmp_path: Path) -> None:
    made, told = run(tmp_path / "cache", KNLTRAIN_KERNELS=str(package))
    assert made == ["transpose_rows_tile:0", "_add:0"]
    assert told == ""
    assert not list(tmp_path.glob("cache/*/*.kernel"))
    made, _ = run(tmp_path / "cache", KNLTRAIN_KERNELS="none")
    assert made == ["transpose_rows_tile:1", "_add:1"]


@pytest.mark.slow
def test_an_installed_package_is_found(package: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(package, site / "knltrain_kernels")
    (site / "knltrain_kernels/__init__.py").write_text("")
    path = os.pathsep.join((str(ROOT), str(site)))
    made, told = run(tmp_path / "cache", PYTHONPATH=path)
    assert (made, told) == (["transpose_rows_tile:0", "_add:0"], "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda root: manifest(root, digest="other", versions="numba 0.1"),
            "of numba 0.1 (digest other), and",
        ),
        (lambda root: manifest(root, processors=["vax"]), "kernels for vax, and none for "),
        (lambda root: (root / MANIFEST).write_text("{"), "kernels.json cannot be read"),
        (lambda root: (root / MANIFEST).write_text("[]"), "kernels.json cannot be read"),
        (lambda root: manifest(root, processors=5), "processors = 5: expected a list of names"),
        (lambda root: manifest(root, processors="vax"), "processors = 'vax': expected a list"),
        (lambda root: (root / MANIFEST).unlink(), "kernels.json cannot be read"),
        (lambda root: shutil.rmtree(next(root.glob("*/"))), "cannot be read"),
        (lambda root: next(root.glob("*/")).chmod(0o777), "may be written by others"),
    ],
)
def test_a_package_that_cannot_be_used_is_told_and_kernels_are_compiled(
    package: Path, tmp_path: Path, spoil: Any, words: str
) -> None:
    copy = tmp_path / "package"
    shutil.copytree(package, copy)
    spoil(copy)
    made, told = run(tmp_path / "cache", KNLTRAIN_KERNELS=str(copy))
    assert made == ["transpose_rows_tile:1", "_add:1"]
    assert "packaged kernels are not used: " in told
    assert words in told
    assert str(copy) in told


def test_a_damaged_kernel_is_compiled(package: Path, tmp_path: Path) -> None:
    copy = tmp_path / "package"
    shutil.copytree(package, copy)
    (entry,) = copy.glob("*/_add-*.kernel")
    entry.write_bytes(entry.read_bytes()[:-1])
    made, told = run(tmp_path / "cache", KNLTRAIN_KERNELS=str(copy))
    assert made == ["transpose_rows_tile:0", "_add:1"]
    assert "not all packaged kernels are used: " in told
    assert f"{entry.stem} is damaged, by its checksum; knltrain doctor lists" in told


@pytest.mark.parametrize(
    ("name", "lacking", "expected"),
    [
        ("znver4", set(), "znver4"),
        ("znver4", {"avx512bf16"}, "skylake-avx512"),
        ("cascadelake", {"avx512bf16", "avx512vbmi"}, "skylake-avx512"),
        ("graniterapids", set(), "sapphirerapids"),
        ("knl", {"avx512bw", "avx512vl", "avx512dq"}, "knl"),
        ("generic", {"avx512f"}, "haswell"),
        ("nehalem", {"avx2"}, None),
    ],
)
def test_the_most_capable_that_runs_here_is_taken(
    monkeypatch: pytest.MonkeyPatch, name: str, lacking: set[str], expected: str | None
) -> None:
    features = {one: one not in lacking for used in PROCESSORS.values() for one in used}
    if name == "znver4":
        features["avx512fp16"] = features["avxvnni"] = False
    binding = packages.llvmlite.binding
    monkeypatch.setattr(binding, "get_host_cpu_name", lambda: name)
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: features)
    assert packages._fitting.__wrapped__(None, None) == expected


def test_chosen_processors_have_packages_without_chosen_features() -> None:
    assert packages._fitting("knl", "") == "knl"
    assert packages._fitting("knl", None) is None, "with the features of the host"
    assert packages._fitting("", "+avx2") is None

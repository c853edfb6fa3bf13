"""Findings about installed software; only Numba is imported, for its cache."""

from __future__ import annotations

import ctypes
import importlib.metadata
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from knltrain.doctor.finding import Finding

REQUIRED_PACKAGES = ("numpy", "numba", "torch")

_HWLOC_LIBRARY = "libhwloc.so.15"
_ONECCL_LIBRARY = "libccl.so.2"


def software_findings() -> Iterator[Finding]:
    """Python and the packages that every run needs, then those that some runs can use."""
    yield Finding("python", "ok", f"{platform.python_version()} at {sys.executable}")
    for name in REQUIRED_PACKAGES:
        yield required_package(name)
    yield _optional("IPEX", _package("intel-extension-for-pytorch"))
    yield _optional("oneCCL", _package("oneccl") or _oneccl_library())
    yield _optional("MPI", _package("mpi4py"), _program("mpiexec"))
    yield _optional("hwloc", hwloc_version())
    yield _optional("GPU", _nvidia_devices(), _program("nvidia-smi"))
    yield _optional("Slurm", _program("srun"))


def required_package(name: str) -> Finding:
    """The installed version of a required package."""
    found = _package(name)
    if found:
        return Finding(name, "ok", found.removeprefix(f"{name} "))
    return Finding(name, "fail", "not installed", f"{sys.executable} -m pip install {name}")


def kernel_cache_finding() -> Finding:
    """The cache of compiled kernels, and whether workers can share it; starts Numba."""
    subject = "kernel cache"
    try:
        from vectorized_ops.numba.compiling import compiler
    except ImportError as error:
        way_out = "repair the installation of numba"
        return Finding(subject, "warn", f"unknown, as Numba does not start: {error}", way_out)
    folder = str(compiler.cache_folder())
    if (refusal := compiler.cache_refusal()) is not None:
        return Finding(
            subject,
            "warn",
            f"{refusal}; until then every worker compiles all kernels at each start",
            "or set NUMBA_CACHE_DIR to a folder that only people you trust can write",
        )
    if not compiler.cache_is_writable():
        return Finding(
            subject,
            "warn",
            f"{folder} cannot be written: every worker compiles at each start what is not in it",
            "set NUMBA_CACHE_DIR to a folder that can be",
        )
    if not compiler.cache_has_locks():
        return Finding(
            subject,
            "warn",
            f"{folder} has no file locks: workers that start at once all compile the same kernels",
            "run knltrain warmup before a run, or set NUMBA_CACHE_DIR to a folder with locks",
        )
    return Finding(subject, "ok", folder)


def kernel_packages_finding() -> Finding:
    """Which packages of ready kernels are used, and why others are not."""
    subject = "kernel packages"
    try:
        from vectorized_ops.numba.compiling.compiler import cache_folder
        from vectorized_ops.numba.compiling.packages import kernel_packages, packaged_processor
    except ImportError:
        return Finding(subject, "ok", "unknown, as Numba does not start")
    packages = kernel_packages(cache_folder().name)
    refusals = [package.refusal for package in packages if package.refusal]
    if refusals:
        way_out = "build them anew by scripts/build_kernels; until then kernels are compiled"
        return Finding(subject, "warn", "; ".join(refusals), way_out)
    folders = [package.folder for package in packages if package.folder is not None]
    faults = [
        f"{each.path}: {name} is {why}" for each in folders for name, why in each.faults().items()
    ]
    if faults:
        more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
        way_out = "copy the package anew; until then these kernels are compiled"
        return Finding(subject, "warn", f"{faults[0]}{more}", way_out)
    used = ", ".join(str(package.root) for package in packages)
    found = f"{used}, for {packaged_processor()}" if used else "not found, not required"
    return Finding(subject, "ok", found)


def hwloc_version(library: str = _HWLOC_LIBRARY) -> str | None:
    """Name and API version of the hwloc library that the dynamic linker finds, if any."""
    try:
        number = ctypes.CDLL(library).hwloc_get_api_version() & 0xFFFFFFFF
    except (OSError, AttributeError):
        return None
    return f"{library}, API {number >> 16}.{number >> 8 & 0xFF}"


def _optional(subject: str, *found: str | None) -> Finding:
    return Finding(subject, "ok", ", ".join(filter(None, found)) or "not found, not required")


def _package(name: str) -> str | None:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return None


def _program(name: str) -> str | None:
    path = shutil.which(name)
    return f"{name} at {path}" if path else None


def _oneccl_library() -> str | None:
    installed = Path(sys.prefix, "lib", _ONECCL_LIBRARY)
    if installed.exists():
        return str(installed)
    try:
        ctypes.CDLL(_ONECCL_LIBRARY)
    except OSError:
        return None
    return _ONECCL_LIBRARY


def _nvidia_devices(folder: Path = Path("/dev")) -> str | None:
    return ", ".join(sorted(map(str, folder.glob("nvidia[0-9]*")))) or None

"""The one place that says how Numba compiles our kernels, and for which processor.

Numba's disk cache notices a change of the kernel's own file only. Kernels here are built from
several files (vector emitters, tiles), so the cache folder carries a digest of all of them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding
import numba

Function = TypeVar("Function", bound=Callable[..., Any])

SETTINGS: Any = numba.config
"""Numba makes its settings at run time, out of sight of a type checker."""

_AVX512_PROCESSORS = (
    "knl", "knm", "skylake-avx512", "cascadelake", "cooperlake", "cannonlake", "icelake-client",
    "icelake-server", "tigerlake", "rocketlake", "sapphirerapids", "emeraldrapids",
    "graniterapids", "graniterapids-d", "diamondrapids", "znver4", "znver5", "x86-64-v4",
)  # fmt: skip


def target_has_avx512() -> bool:
    """Tell whether kernels are compiled for a processor with AVX-512F (32 registers of 16 floats).

    Numba's own settings win over the host. To compile for another processor set both of them,
    NUMBA_CPU_NAME=knl and an empty NUMBA_CPU_FEATURES: with the name alone Numba goes on using the
    instructions of the host.
    """
    features = SETTINGS.CPU_FEATURES or ""
    if "+avx512f" in features or "-avx512f" in features:
        return "+avx512f" in features
    if SETTINGS.CPU_NAME:
        return SETTINGS.CPU_NAME in _AVX512_PROCESSORS
    return bool(llvmlite.binding.get_host_cpu_features().get("avx512f", False))


def cache_folder() -> Path:
    """Return the folder of compiled kernels: below NUMBA_CACHE_DIR, or ~/.cache/knltrain."""
    package = Path(__file__).parents[1]  # the matrices of Winograd's transforms lie beside us
    sources = sorted([*package.glob("*.py"), *package.glob("numba/*.py")])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    chosen = SETTINGS.CACHE_DIR
    base = Path(chosen or "~/.cache/knltrain/kernels").expanduser()
    return base / digest


def cache_is_writable() -> bool:
    """Tell whether compiled kernels can be kept; where not, every process compiles its own."""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(cache_folder(), os.W_OK)


_CACHE_FOLDER = str(cache_folder())
_CACHE = cache_is_writable()


def _compile(function: Function, **options: Any) -> Function:
    before = SETTINGS.CACHE_DIR
    SETTINGS.CACHE_DIR = _CACHE_FOLDER
    try:
        return numba.njit(nogil=True, cache=_CACHE, error_model="numpy", **options)(function)  # type: ignore[no-any-return]
    finally:
        SETTINGS.CACHE_DIR = before


def kernel(function: Function) -> Function:
    """Compile `function` for one thread; it releases the GIL and follows IEEE arithmetic."""
    return _compile(function)


def parallel_kernel(function: Function) -> Function:
    """Compile `function` with `numba.prange` loops spread over Numba's threads."""
    return _compile(function, parallel=True)

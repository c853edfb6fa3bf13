"""Compiler settings of all kernels: options, target processor, cache folder."""

from __future__ import annotations

import hashlib
import os
import sysconfig
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import llvmlite.binding
import numba
import numpy as np

from vectorized_ops.numba.compiling.cache import keep, shared_kernels
from vectorized_ops.numba.compiling.cache_folder import DIGEST_LENGTH, CacheFolder, UntrustedError
from vectorized_ops.numba.compiling.fingerprint import fingerprint
from vectorized_ops.numba.compiling.kernel_dispatcher import KernelDispatcher
from vectorized_ops.numba.compiling.parallel_loops import with_parallel_loops

Function = TypeVar("Function", bound=Callable[..., Any])

SETTINGS: Any = numba.config
"""Numba makes its settings at run time, out of sight of a type checker."""

_FORMAT = 5
"""That of a kernel's file, of the digest in its name, and of what compiles it in this folder."""

_AVX512_PROCESSORS = (
    "knl", "knm", "skylake-avx512", "cascadelake", "cooperlake", "cannonlake", "icelake-client",
    "icelake-server", "tigerlake", "rocketlake", "sapphirerapids", "emeraldrapids",
    "graniterapids", "graniterapids-d", "diamondrapids", "znver4", "znver5", "x86-64-v4",
)  # fmt: skip

_BFLOAT16_PROCESSORS = (
    "cooperlake", "sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d",
    "diamondrapids", "znver4", "znver5",
)  # fmt: skip

_AMX_PROCESSORS = (
    "sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids",
)  # fmt: skip


def target_name() -> str:
    """Return the processor that kernels are compiled for, and what of it is used."""
    features = SETTINGS.CPU_FEATURES
    if features is None:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    return f"{SETTINGS.CPU_NAME or llvmlite.binding.get_host_cpu_name()} {features}"


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


def target_selects_bytes() -> bool:
    """Tell whether kernels are compiled for a processor with AVX-512BW and VL: masks of bytes."""
    features = SETTINGS.CPU_FEATURES or ""
    if "avx512bw" in features or "avx512vl" in features:
        return "+avx512bw" in features and "+avx512vl" in features
    if SETTINGS.CPU_NAME:
        return SETTINGS.CPU_NAME in set(_AVX512_PROCESSORS) - {"knl", "knm"}
    host = llvmlite.binding.get_host_cpu_features()
    return bool(host.get("avx512bw", False) and host.get("avx512vl", False))


def target_has_bfloat16() -> bool:
    """Tell whether kernels are compiled for a processor with AVX512_BF16: products of pairs."""
    features = SETTINGS.CPU_FEATURES or ""
    if "avx512bf16" in features:
        return "+avx512bf16" in features
    if SETTINGS.CPU_NAME:
        return SETTINGS.CPU_NAME in _BFLOAT16_PROCESSORS
    return bool(llvmlite.binding.get_host_cpu_features().get("avx512bf16", False))


def target_has_amx() -> bool:
    """Tell whether kernels are compiled for a processor with AMX's tiles of bfloat16."""
    features = SETTINGS.CPU_FEATURES or ""
    if "amx-bf16" in features or "-amx-tile" in features:
        return "+amx-tile" in features and "+amx-bf16" in features
    if SETTINGS.CPU_NAME:
        return SETTINGS.CPU_NAME in _AMX_PROCESSORS
    host = llvmlite.binding.get_host_cpu_features()
    return bool(host.get("amx-tile", False) and host.get("amx-bf16", False))


def target_sums_pairs_faster() -> bool:
    """Tell whether AVX512_BF16 sums products faster than AVX-512 those of float32, if it is there.

    Processors with AMX leave bfloat16 to it: AVX512_BF16 has half the speed of float32 on Emerald
    Rapids (docs/precision.md), and twice its speed on Zen 4.
    """
    name = SETTINGS.CPU_NAME or llvmlite.binding.get_host_cpu_name()
    return name not in _AMX_PROCESSORS and not target_has_amx()


def cache_folder() -> Path:
    """Return the folder of compiled kernels: below NUMBA_CACHE_DIR, or ~/.cache/knltrain.

    Its name is a digest of the versions that compile; each kernel in it is named by all else.
    """
    digest = hashlib.sha256(f"{_FORMAT} {versions_told()}".encode())
    return _base() / digest.hexdigest()[:DIGEST_LENGTH]


def versions_told() -> str:
    """Return the versions of Numba and its compilers, as text."""
    python = sysconfig.get_config_var("EXT_SUFFIX")
    return (
        f"numba {numba.__version__}, llvmlite {llvmlite.__version__}, numpy {np.__version__}, "
        f"Python {python}"
    )


def _base() -> Path:
    chosen = SETTINGS.CACHE_DIR
    try:
        return Path(chosen or "~/.cache/knltrain/kernels").expanduser()
    except RuntimeError:
        if chosen:
            raise ValueError(
                f"NUMBA_CACHE_DIR={chosen}: expected a folder, but there is no such user; name "
                "another folder, or unset NUMBA_CACHE_DIR"
            ) from None
    return Path(tempfile.gettempdir()) / f"knltrain-kernels-{os.geteuid()}"  # a user without home


def cache_is_writable() -> bool:
    """Tell whether compiled kernels can be kept; if not, missing ones are compiled every time."""
    try:
        folder = kernels_in(cache_folder())
        folder.make()
    except OSError:
        return False
    return os.access(folder.path, os.W_OK)


def cache_refusal() -> str | None:
    """The reason why the cache folder is not trusted, and so not used; else None."""
    try:
        folder = kernels_in(cache_folder())
        folder.make()
        folder.check()
    except UntrustedError as error:
        return str(error)
    except OSError:
        return None
    return None


def cache_has_locks() -> bool:
    """Tell whether locks let one process compile a kernel that several need.

    Without locks, all processes that start at once compile it.
    """
    name, folder = f"test-{uuid.uuid4().hex}", kernels_in(cache_folder())
    try:
        if folder.lock(name):
            folder.unlock(name)
    except OSError:
        return False
    return True


def kernels_in(path: Path) -> CacheFolder:
    """The folder as a cache; one that the user has named may be shared with other users."""
    return CacheFolder(path, is_shared=bool(SETTINGS.CACHE_DIR))


CACHE_FOLDER: Final = cache_folder()
"""That of this process."""


def kernels_not_kept() -> list[tuple[str, OSError]]:
    """Return the kernels that this process has compiled and could not write, and why."""
    return shared_kernels(CACHE_FOLDER, is_shared=bool(SETTINGS.CACHE_DIR)).lost


def _compile(function: Function, as_compiled: Any = None) -> Function:
    """`as_compiled(function)` is what Numba compiles in its place."""
    if function.__closure__:
        # Numba names machine code by this and by how many functions a process has compiled before.
        # Two kernels of one factory, compiled in two processes, would be one to the linker.
        function.__qualname__ += f"_{fingerprint(function)[:12]}"
    options = {
        "nopython": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True,
        "_nrt": False,
    }  # fmt: skip
    dispatcher: Any = KernelDispatcher(function, options, as_compiled)
    keep(dispatcher, CACHE_FOLDER, is_shared=bool(SETTINGS.CACHE_DIR), made_by=as_compiled)
    return dispatcher  # type: ignore[no-any-return]


def kernel(function: Function) -> Function:
    """Compile `function` for one thread; it releases the GIL and follows IEEE arithmetic.

    It is given all its arrays: Numba's memory management (NRT) is off. See `raw_arrays`.
    """
    return _compile(function)


def parallel_kernel(function: Function) -> Function:
    """Compile `function` with `numba.prange` loops spread over Numba's threads."""
    return _compile(function, with_parallel_loops)

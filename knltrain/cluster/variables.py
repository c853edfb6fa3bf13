"""Environment variables of other libraries in this process, and numbers as launchers write them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from affinity.numbers import whole_number
from knltrain.errors import ConfigError

PROCESSOR_SETTINGS = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "ONEDNN_MAX_CPU_ISA")
"""Variables that make Numba or oneDNN compile for another processor than this one."""

THREADING_LAYERS = ("default", "safe", "forksafe", "threadsafe", "omp", "tbb", "workqueue")
"""Valid values of NUMBA_THREADING_LAYER."""

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def processor_settings(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return those of PROCESSOR_SETTINGS that are set, in os.environ by default."""
    values = os.environ if environment is None else environment
    return {name: values[name] for name in PROCESSOR_SETTINGS if name in values}


def import_numpy_with_one_thread() -> None:
    """Import NumPy, for a process that starts others and computes next to nothing itself.

    Otherwise NumPy's OpenBLAS starts a thread for each cpu, and each first spins for 0.1 s. Where
    OPENBLAS_NUM_THREADS is set, that number counts.
    """
    if _BLAS_THREADS in os.environ:
        return
    os.environ[_BLAS_THREADS] = "1"
    try:
        import_module("numpy")
    finally:
        del os.environ[_BLAS_THREADS]


def check_compiling_settings(environment: Mapping[str, str] | None = None) -> None:
    """Raise ConfigError for a setting of Numba with which there would be no kernels."""
    values = os.environ if environment is None else environment
    if _number(values, "NUMBA_DISABLE_JIT", 0) != 0:
        raise ConfigError(
            f"NUMBA_DISABLE_JIT={values['NUMBA_DISABLE_JIT']}: kernels would not be compiled, and "
            "knltrain computes by nothing else: expected it not to be set; unset NUMBA_DISABLE_JIT"
        )
    if _number(values, "NUMBA_NUM_THREADS", 1) < 1:
        raise ConfigError(
            f"NUMBA_NUM_THREADS={values['NUMBA_NUM_THREADS']}: expected 1 or more; unset "
            "NUMBA_NUM_THREADS, and give the threads of a worker by backend.threads"
        )
    layer = values.get("NUMBA_THREADING_LAYER") or THREADING_LAYERS[0]
    if layer.lower() not in THREADING_LAYERS:
        raise ConfigError(
            f"NUMBA_THREADING_LAYER={layer}: expected one of {', '.join(THREADING_LAYERS)}; unset "
            "NUMBA_THREADING_LAYER, and Numba chooses one"
        )
    if (name := values.get("NUMBA_CPU_NAME")) and not _is_processor(name):
        raise ConfigError(
            f"NUMBA_CPU_NAME={name}: expected a processor by its name in LLVM, such as haswell or "
            "znver4; unset NUMBA_CPU_NAME to compile for this one"
        )
    try:
        Path(values.get("NUMBA_CACHE_DIR", "")).expanduser()
    except RuntimeError:
        raise ConfigError(
            f"NUMBA_CACHE_DIR={values['NUMBA_CACHE_DIR']}: expected a folder, but there is no such "
            "user; name another one, or unset NUMBA_CACHE_DIR to have ~/.cache/knltrain"
        ) from None


def _is_processor(name: str) -> bool:
    """Tell whether LLVM knows a processor; it ends a process that compiles for another one."""
    done = subprocess.run(
        [sys.executable, "-c", _COMPILES, name], stdin=subprocess.DEVNULL, capture_output=True
    )
    return done.returncode == 0 and b"not a recognized processor" not in done.stderr


_COMPILES = """
import sys
from llvmlite import binding
binding.initialize_native_target()
binding.initialize_native_asmprinter()
machine = binding.Target.from_default_triple().create_target_machine(cpu=sys.argv[1], features="")
machine.emit_object(binding.parse_assembly("define void @f() { ret void }"))
"""


def _number(values: Mapping[str, str], name: str, usual: int) -> int:
    """Return a variable as Numba reads it: text that is no number counts as unset."""
    with suppress(KeyError, ValueError):
        return int(values[name])
    return usual


def set_unless_set(values: Mapping[str, str]) -> None:
    """Set variables for libraries that are loaded later, unless the user has set them."""
    for name, value in values.items():
        os.environ.setdefault(name, value)


def value_of(name: str) -> str | None:
    """Return the value of a variable; None if it is not set."""
    return os.environ.get(name)


_MOST_DIGITS = 9


def plain_number(text: str | None) -> int | None:
    """Return the number of a text of up to nine ASCII digits; None for any other text."""
    return whole_number(text, _MOST_DIGITS)

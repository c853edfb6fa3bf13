"""Read-only packages of kernels that were compiled elsewhere, for processors by name.

They are the Python package `knltrain_kernels`, or folders in KNLTRAIN_KERNELS, separated by colons,
made by `scripts/build_kernels`. With KNLTRAIN_KERNELS=none none are used. A kernel has the same
name there as in a cache for that processor, so a kernel of other sources, types or settings is
never found.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import llvmlite.binding
import numba

from vectorized_ops.numba.compiling.cache_folder import CacheFolder, UntrustedError

SETTINGS: Any = numba.config

MANIFEST: Final = "kernels.json"
CHOICES: Final = "choices.json"
VARIABLE: Final = "KNLTRAIN_KERNELS"
PYTHON_PACKAGE: Final = "knltrain_kernels"

_AVX2: Final = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt")
_SKYLAKE: Final = (*_AVX2, "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl")
_ICELAKE: Final = (
    *_SKYLAKE, "avx512vnni", "avx512vbmi", "avx512vbmi2", "avx512ifma", "avx512bitalg",
    "avx512vpopcntdq", "gfni", "vaes", "vpclmulqdq",
)  # fmt: skip

PROCESSORS: Final[Mapping[str, tuple[str, ...]]] = {
    "sapphirerapids": (*_ICELAKE, "avx512bf16", "avx512fp16", "avxvnni"),
    "znver4": (*_ICELAKE, "avx512bf16"),
    "skylake-avx512": _SKYLAKE,
    "knl": (*_AVX2, "avx512f", "avx512cd"),
    "haswell": _AVX2,
}
"""Those that kernels are packaged for, the most capable first, and what of each is used (LLVM)."""


@dataclass(frozen=True, slots=True)
class Package:
    """Kernels for the processor that this process compiles for, or why there are none."""

    root: Path
    folder: CacheFolder | None
    refusal: str | None

    def choices(self) -> dict[str, str]:
        """The algorithms that were measured to be the fastest, by question."""
        return {} if self.folder is None else choices_in(self.folder.path / CHOICES)


def choices_in(path: Path) -> dict[str, str]:
    """Return the answers in a file by their questions; none where it is not there, or no such."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(question): str(name) for question, name in found.items()}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


def packaged_processor() -> str | None:
    """Return the processor of the packaged kernels for this process: its own name, or a lesser one.

    None where the user has chosen features, or none of them runs here.
    """
    return _fitting(SETTINGS.CPU_NAME, SETTINGS.CPU_FEATURES)


@cache
def _fitting(chosen: str | None, chosen_features: str | None) -> str | None:
    if chosen or chosen_features:
        return chosen if chosen_features == "" else None
    name, features = llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features()
    fitting = [it for it, used in PROCESSORS.items() if all(features.get(one) for one in used)]
    fitting = [it for it in fitting if it != "knl" or name in ("knl", "knm")]
    return name if name in fitting else next(iter(fitting), None)


@cache
def kernel_packages(versions: str) -> tuple[Package, ...]:
    """Return all packages that there are; `versions` is a digest of those that compile here."""
    if os.environ.get(VARIABLE) == "none":
        return ()
    named = [Path(it).expanduser() for it in os.environ.get(VARIABLE, "").split(":") if it]
    return tuple(_opened(root, versions) for root in (*named, *_installed()))


def _installed() -> Iterator[Path]:
    found = importlib.util.find_spec(PYTHON_PACKAGE)
    if found is not None:
        yield from map(Path, found.submodule_search_locations or ())


def _opened(root: Path, versions: str) -> Package:
    try:
        manifest = json.loads((root / MANIFEST).read_text(encoding="utf-8"))
        processors, of, told = (manifest[name] for name in ("processors", "digest", "versions"))
        if not (isinstance(processors, list) and all(isinstance(it, str) for it in processors)):
            raise TypeError(f"processors = {processors!r}: expected a list of names")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = f"{MANIFEST} cannot be read ({error})"
        return Package(root, None, f"{root}: {why}: expected what build_kernels makes")
    processor = packaged_processor()
    refusal = _refusal(processors, of, told, processor, versions)
    if refusal is not None:
        return Package(root, None, f"{root}: {refusal}")
    folder = CacheFolder(root / str(processor), is_shared=True)
    try:
        folder.check()
    except UntrustedError as error:
        return Package(root, None, str(error))
    except OSError as error:
        return Package(root, None, f"{root}: cannot be read ({error})")
    return Package(root, folder, None)


def _refusal(
    processors: list[str], of: Any, told: Any, processor: str | None, versions: str
) -> str | None:
    if of != versions:
        return (
            f"its kernels are of {told} (digest {of}), and not of what is here ({versions}): build "
            "them anew"
        )
    if processor is None:
        return "this processor runs none of them, or NUMBA_CPU_FEATURES chooses others"
    if processor not in processors:
        known = ", ".join(sorted(processors)) or "no processor"
        return f"it has kernels for {known}, and none for {processor}"
    return None

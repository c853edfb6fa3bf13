"""What engines of the torch backend need: Intel's extension, or a compiler."""

from __future__ import annotations

import importlib.metadata
import sys
import sysconfig
from pathlib import Path

from knltrain.errors import ConfigError

IPEX = "intel-extension-for-pytorch"
RELEASE = "2.8"
"""The last one (the project is archived); it works with the PyTorch of the same number alone."""


def check_ipex() -> None:
    """Refuse to go on without torch 2.8 and IPEX 2.8: `ConfigError` with the versions found."""
    found = {name: _version(name) for name in ("torch", IPEX)}
    if all(f"{version}.".startswith(f"{RELEASE}.") for version in found.values()):
        return
    has = ", ".join(f"{name} {version or 'missing'}" for name, version in found.items())
    raise ConfigError(
        f"backend.engine = 'ipex' needs torch {RELEASE} and {IPEX} {RELEASE}, but {sys.executable} "
        f'has {has}: pip install "knltrain[ipex]" in an environment of its own, as scripts/setup '
        "--ipex makes it in .venv-ipex, or leave engine at 'eager'"
    )


def check_compiler(device: str) -> None:
    """Refuse to go on where `torch.compile` would find no compiler for the host: `ConfigError`.

    For devices it needs Triton, which PyTorch's builds for them bring along.
    """
    if device != "cpu":
        return
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    header = Path(sysconfig.get_path("include"), "Python.h")
    try:
        get_cpp_compiler()
        missing = None if header.exists() else str(header)
    except InvalidCxxCompiler:
        missing = "g++"
    if missing:
        raise ConfigError(
            "backend.engine = 'compile' needs a C++ compiler and Python's headers, but there is "
            f"no {missing}: install g++ and python3-dev, name one by CXX, or leave engine at "
            "'eager'"
        )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None

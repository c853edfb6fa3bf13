"""Whether IPEX or a compiler is here, and what is said where it is not."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import sysconfig
from pathlib import Path

import pytest
from torch._inductor import cpp_builder
from torch._inductor.exc import InvalidCxxCompiler

from knltrain.backends.torch.installed import IPEX, RELEASE, check_compiler, check_ipex
from knltrain.config.reading import tomllib
from knltrain.errors import ConfigError


def _installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(package: str) -> str:
        try:
            return versions[package.replace("-", "_")]
        except KeyError:
            raise importlib.metadata.PackageNotFoundError(package) from None

    monkeypatch.setattr(importlib.metadata, "version", version)


@pytest.mark.parametrize("version", ["2.8", "2.8.0", "2.8.1+cpu"])
def test_release_that_is_needed_passes(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    _installed(monkeypatch, torch=version, intel_extension_for_pytorch="2.8.0")
    check_ipex()


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        ({"torch": "2.13.0"}, "torch 2.13.0, intel-extension-for-pytorch missing"),
        ({}, "torch missing, intel-extension-for-pytorch missing"),
        (
            {"torch": "2.8.0", "intel_extension_for_pytorch": "2.7.0"},
            "torch 2.8.0, intel-extension-for-pytorch 2.7.0",
        ),
        (
            {"torch": "2.80.0", "intel_extension_for_pytorch": "2.8.0"},
            "torch 2.80.0, intel-extension-for-pytorch 2.8.0",
        ),
    ],
)
def test_anything_else_is_refused_with_what_is_there_and_the_way_out(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], found: str
) -> None:
    _installed(monkeypatch, **versions)
    with pytest.raises(ConfigError) as refused:
        check_ipex()
    message = str(refused.value)
    assert f"{sys.executable} has {found}" in message
    assert 'pip install "knltrain[ipex]"' in message
    assert "scripts/setup --ipex" in message


def test_extra_brings_the_release_that_is_needed() -> None:
    pyproject = Path(__file__).parents[4] / "pyproject.toml"
    extras = tomllib.loads(pyproject.read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(extras["ipex"]) == {f"{name}=={RELEASE}.*" for name in ("torch", IPEX)}


@pytest.mark.parametrize("lacks", ["compiler", "header"])
def test_torch_compile_needs_a_compiler_on_the_host_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacks: str
) -> None:
    def compiler() -> str:
        if lacks == "compiler":
            raise InvalidCxxCompiler
        return "g++"

    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", compiler)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    missing = "g++" if lacks == "compiler" else str(tmp_path / "Python.h")
    with pytest.raises(ConfigError, match=re.escape(f"there is no {missing}: install g++")):
        check_compiler("cpu")
    check_compiler("cuda")
    (tmp_path / "Python.h").touch()
    if lacks == "header":
        check_compiler("cpu")

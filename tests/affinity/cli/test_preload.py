from __future__ import annotations

import sys
from pathlib import Path

import pytest

from affinity.cli import preload
from affinity.cli.preload import preload_value
from affinity.errors import AffinityError


def _library(folder: Path, name: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"")
    return str(folder / name)


def test_short_name_finds_the_library_of_any_version(tmp_path: Path) -> None:
    _library(tmp_path, "libtcmalloc_minimal.so.4")
    wanted = _library(tmp_path, "libtcmalloc.so.4.5.9")
    assert preload_value(["tcmalloc"], {"LD_LIBRARY_PATH": str(tmp_path)}) == wanted


def test_pythons_own_libraries_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = _library(tmp_path / "lib", "libiomp5.so")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert preload_value(["iomp5"], {}) == wanted


def test_linkers_libraries_are_found() -> None:
    path = preload_value(["c"], {})
    assert Path(path).name.startswith("libc.so")


def test_what_is_preloaded_already_comes_after(tmp_path: Path) -> None:
    first, second = _library(tmp_path, "liba.so"), _library(tmp_path, "libb.so")
    environment = {"LD_LIBRARY_PATH": str(tmp_path), "LD_PRELOAD": "libold.so"}
    assert preload_value([first, "b"], environment) == f"{first}:{second}:libold.so"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no-such", "cannot preload no-such: no libno-such.so in LD_LIBRARY_PATH, "),
        ("./no/lib.so", "cannot preload ./no/lib.so: there is no such file"),
    ],
)
def test_missing_library_is_refused(
    name: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preload, "_LDCONFIG", ("/no/such/ldconfig",))
    with pytest.raises(AffinityError) as caught:
        preload_value([name], {})
    assert str(caught.value).startswith(reason)

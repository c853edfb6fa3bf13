from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from knltrain.communication.mpi import library
from knltrain.communication.mpi.library import MpiLibrary, mpi_library, prepare
from knltrain.errors import ConfigError

ROOT = Path(__file__).parents[4]


def test_the_library_of_mpi4py_is_found_and_not_initialised_by_that():
    pytest.importorskip("mpi4py")
    command = (
        "from knltrain.communication.mpi.library import mpi_library; f = mpi_library();"
        "print(f.version);"
        "print(f.initialised(), f.initialise(), f.initialised(), f.finalise())"
    )
    found = subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    if "pip install" in found.stderr:
        pytest.skip("there is no MPI library")
    version, calls = found.stdout.splitlines()
    assert "MPI" in version
    assert calls == "False 0 True 0"


@pytest.mark.parametrize(
    ("version", "speaks"),
    [
        ("Intel(R) MPI Library 2021.18.1 for Linux* OS", True),
        ("MPICH Version:      5.0.2", True),
        ("Open MPI v5.0.11, package: Open MPI", False),
    ],
)
def test_libraries_of_the_mpich_family_speak_pmi(version, speaks):
    assert MpiLibrary(library.ctypes.CDLL(None), version).speaks_pmi is speaks


def test_without_mpi4py_the_way_out_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    mpi_library.cache_clear()
    with pytest.raises(ConfigError, match=r"MPI cannot be used here: .*pip install 'knltrain\[mpi"):
        mpi_library()


def test_a_library_that_cannot_be_loaded_is_told_with_the_reason(tmp_path):
    pytest.importorskip("mpi4py")
    (tmp_path / "libmpi.so").write_text("no library")
    command = "from knltrain.communication.mpi.library import mpi_library; mpi_library()"
    found = subprocess.run(
        [sys.executable, "-c", command],
        cwd=ROOT,
        env={**os.environ, "MPI4PY_LIBMPI": str(tmp_path / "libmpi.so")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    last = found.stderr.splitlines()[-1]
    assert "ConfigError: MPI cannot be used here: cannot load MPI library" in last
    assert "pip install" in last


def test_settings_leave_what_the_user_has_set(monkeypatch):
    for name in (*library.SETTINGS, "FI_TCP_IFACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("I_MPI_PIN", "1")
    prepare("127.0.0.1")
    assert os.environ["I_MPI_PIN"] == "1"
    assert os.environ["I_MPI_THREAD_YIELD"] == "3"
    assert os.environ["FI_TCP_IFACE"] == "lo"


def test_without_an_address_no_interface_is_chosen(monkeypatch):
    for name in (*library.SETTINGS, "FI_TCP_IFACE"):
        monkeypatch.setenv(name, "x")
    monkeypatch.delenv("FI_TCP_IFACE")
    prepare(None)
    assert "FI_TCP_IFACE" not in os.environ

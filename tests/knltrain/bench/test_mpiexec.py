from __future__ import annotations

import sys
from pathlib import Path

import pytest

from knltrain.bench import mpiexec as mpiexec_module
from knltrain.bench.mpiexec import mpiexec
from knltrain.bench.step.peer_process import PeerError


def test_mpi_that_is_not_there_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PeerError, match=r"no mpiexec: pip install 'knltrain\[mpi\]', and impi-rt"):
        mpiexec()
    (tmp_path / "mpiexec").write_text("#!/bin/sh\n")
    (tmp_path / "mpiexec").chmod(0o755)
    monkeypatch.setattr(mpiexec_module.importlib.util, "find_spec", lambda _: object())
    assert mpiexec() == str(tmp_path / "mpiexec")
    monkeypatch.setattr(mpiexec_module.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(PeerError, match="no mpi4py"):
        mpiexec()

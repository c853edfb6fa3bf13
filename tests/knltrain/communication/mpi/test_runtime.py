from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from knltrain.communication.mpi.runtime import load_mpi
from knltrain.errors import ConfigError

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("initialize", [True, False])
def test_mpi_is_initialised_with_threads_or_left_to_others(mpi_version, initialize):
    begin, end = (
        ("", "") if initialize else ("mpi_library().initialise()", "mpi_library().finalise()")
    )
    command = f"""
from knltrain.communication.mpi.library import mpi_library
from knltrain.communication.mpi.runtime import load_mpi
{begin}
mpi = load_mpi({initialize})
print(mpi.Query_thread() == mpi.THREAD_MULTIPLE, mpi.COMM_WORLD.size)
{end}
"""
    found = subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert found.stdout.strip() == "True 1", found.stderr
    assert found.returncode == 0


def test_without_mpi4py_the_way_out_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ConfigError, match=r"MPI cannot be used here: .*pip install 'knltrain\[mpi"):
        load_mpi()

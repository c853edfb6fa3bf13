from __future__ import annotations

from pathlib import Path

import pytest

from ...mpi_ranks import expect_success, needs_mpi, run_ranks

PROGRAMS = Path(__file__).with_name("programs.py")


@pytest.mark.slow
@needs_mpi
def test_error_of_mpi_is_told() -> None:
    expect_success(run_ranks(2, str(PROGRAMS), "error_of_mpi_is_told"))

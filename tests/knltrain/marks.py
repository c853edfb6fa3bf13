"""Which of many like tests run when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from .mpi_ranks import needs_mpi

OF_ONE_MPI_JOB = ("caffegpi", "caffe_mpi")
"""Methods that cannot run without MPI."""


def by_cost(names: Iterable[str], *slow: str, quick: str = "") -> list[Any]:
    """Parameters of a test: one quick name, some `slow` ones; all others are `long`.

    The name of a method that needs MPI is skipped where there is none.
    """

    def marks(name: str) -> Any:
        needed = [needs_mpi] if name in OF_ONE_MPI_JOB else []
        if name == quick:
            return needed
        return [*needed, pytest.mark.slow if name in slow else pytest.mark.long]

    return [pytest.param(name, marks=marks(name)) for name in names]

"""The MPI library that tests of communication have."""

from __future__ import annotations

import pytest

from knltrain.communication.mpi.library import mpi_library
from knltrain.errors import ConfigError


@pytest.fixture(scope="session")
def mpi_version() -> str:
    """The MPI library here, or a skip."""
    try:
        return mpi_library().version
    except ConfigError as error:
        pytest.skip(str(error))

"""Programs of several ranks, a file beside these tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ....mpi_ranks import expect_success, run_ranks

Run = Callable[..., str]


@pytest.fixture
def run() -> Run:
    """Run programs of `programs.py` by their names, one after the other, by three ranks."""
    path = Path(__file__).with_name("programs.py")

    def do(*names: str, over: dict[str, str] | None = None) -> str:
        return expect_success(run_ranks(3, str(path), *names, environment=over))

    return do

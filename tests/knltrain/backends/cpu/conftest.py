"""Every implementation of the operations, one after the other."""

from __future__ import annotations

import pytest

from vectorized_ops.implementations import IMPLEMENTATIONS, Operations, operations


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest) -> str:
    """The name of each implementation; what is promised of one alone has tests of its own."""
    return str(request.param)


@pytest.fixture
def ops(implementation: str) -> Operations:
    """The operations of each implementation, without algorithms that are chosen by measurement."""
    return operations(implementation, winograd=False)

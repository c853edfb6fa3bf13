"""Ranks of a node that are threads of this process, each with a mapping of its own."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from knltrain.communication.reduction import NodeReducer


@pytest.fixture
def in_ranks() -> Callable[..., list[Any]]:
    """in_ranks(ranks, work, limit_seconds): what `work(reducer)` returns for each rank."""

    def run(
        ranks: int, work: Callable[[NodeReducer], Any], limit_seconds: float = 20.0
    ) -> list[Any]:
        address = f"test-{secrets.token_hex(6)}"

        def one(rank: int) -> Any:
            with closing(NodeReducer.meet(address, rank, ranks, limit_seconds)) as reducer:
                return work(reducer)

        with ThreadPoolExecutor(ranks) as pool:
            return list(pool.map(one, range(ranks)))

    return run

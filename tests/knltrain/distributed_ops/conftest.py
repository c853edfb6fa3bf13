"""Reducers whose sums end when a test says so, and arrays in the order of an implementation."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numba
import numpy as np
import pytest

from knltrain.distributed_ops import NodeReducer, Options, Reducer, Reduction
from knltrain.vectors import FloatArray

LIMIT_SECONDS = 20.0


class HeldVectors(Reduction):
    """Ends when `release` is set, or with an error."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.error: Exception | None = None

    def wait(self) -> float:
        assert self.release.wait(LIMIT_SECONDS)
        if self.error is not None:
            raise self.error
        return time.perf_counter()


class HoldingReducer(Reducer):
    """Rank 0 of 2, whose sums are all under way until they are released; `sizes` are theirs."""

    rank, ranks = 0, 2

    def __init__(self) -> None:
        self.held: list[HeldVectors] = []
        self.values: list[FloatArray] = []

    def start(self, values: FloatArray, average: bool = False) -> Reduction:
        self.held.append(HeldVectors())
        self.values.append(values)
        return self.held[-1]

    def release(self) -> None:
        for each in self.held:
            each.release.set()

    def close(self) -> None:
        """Nobody to leave."""


@pytest.fixture(autouse=True)
def threads_stay_as_they_were() -> Iterator[None]:
    threads = numba.get_num_threads()
    yield
    numba.set_num_threads(threads)


@pytest.fixture
def holding() -> HoldingReducer:
    return HoldingReducer()


@pytest.fixture(params=["reference", "numba", "onednn", "channels_last"])
def options(request: pytest.FixtureRequest) -> Options:
    """Each implementation, without measurements."""
    return Options(implementation=str(request.param), winograd=False)


@pytest.fixture(scope="session")
def laid_out() -> Callable[[Options, Any], Any]:
    """laid_out(options, values): the same values in the order of an implementation."""

    def lay_out(options: Options, values: Any) -> Any:
        array = options.operations.activations(values.shape)
        array[: len(values)] = values
        return array

    return lay_out


@pytest.fixture(scope="session")
def random() -> Callable[..., Any]:
    """random(*shape, seed=0): normal float32 values."""

    def draw(*shape: int, seed: int = 0) -> Any:
        return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)

    return draw


@pytest.fixture
def in_ranks() -> Callable[..., list[Any]]:
    """in_ranks(ranks, work): what `work(reducer)` returns for ranks that are threads."""

    def run(ranks: int, work: Callable[[NodeReducer], Any]) -> list[Any]:
        address = f"test-{secrets.token_hex(6)}"

        def one(rank: int) -> Any:
            with closing(NodeReducer.meet(address, rank, ranks, LIMIT_SECONDS)) as reducer:
                return work(reducer)

        with ThreadPoolExecutor(ranks) as pool:
            return list(pool.map(one, range(ranks)))

    return run

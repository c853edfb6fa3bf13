"""What a run's workers do in a step and between steps, done by one process before them."""

from __future__ import annotations

import pytest

from knltrain.assembly.names import build_network
from knltrain.assembly.rehearsal import exchange_once, take_step
from knltrain.data.dataset import Batch
from vectorized_ops.numba.compiling.recording import recording

NUMBA = {"backend__name": "cpu", "backend__implementation": "numba"}


@pytest.mark.parametrize("method", ["sync_sgd", "sync_easgd", "seasgd", "easgd", "caffegpi"])
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_exchange_once(config, method: str, workers: int) -> None:
    exchange_once(config(exchange__method=method, workers=workers))


def test_exchange_of_a_worker_alone_ends_without_its_kernels(config) -> None:
    """As in the process that compiles, which only notes them."""
    with recording():
        exchange_once(config(exchange__method="sync_sgd", workers=1, **NUMBA))


def test_step_computes_and_evaluates(config) -> None:
    run = config(backend__name="cpu", backend__implementation="reference")
    network = build_network(run)
    take_step(run, network, Batch.allocate(4, network.input_shape), threads=1)

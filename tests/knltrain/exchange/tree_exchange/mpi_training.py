"""Training by real ranks: `mpiexec ... -m (this module) NAME`."""

from __future__ import annotations

import sys
import time

import numpy as np

from knltrain.communication.gaspi import AddressSpace, MPIRanks
from knltrain.exchange.tree_exchange import TreeExchange

from .training import LAYERS, SIZE, batch_training, start_weights, train

ITERATIONS = 6


def equals_batch() -> None:
    """Two trainings in one space, with chunks and rings that are small and large."""
    space = AddressSpace(MPIRanks(), timeout_seconds=60)
    expected = batch_training(space.size, ITERATIONS)
    for options in ({"chunk_floats": 64, "slots": 2}, {"chunk_floats": 4096, "slots": 1}):
        weights = train(space, ITERATIONS, nap_seconds=0.002, **options)
        assert np.array_equal(weights, expected), (space.rank, np.abs(weights - expected).max())
    space.close()
    if space.rank == 0:
        print("equal", flush=True)


def one_stays_away() -> None:
    """Rank 1 gives no gradient; whoever waits for it raises, which ends the run."""
    space = AddressSpace(MPIRanks(), timeout_seconds=60)
    exchange = TreeExchange(space, LAYERS, lambda _layer, _total: None, timeout_seconds=60)
    exchange.start_from(start_weights() if space.rank == 0 else None)
    if space.rank == 1:
        time.sleep(60)
    for layer in reversed(LAYERS):
        exchange.gradient[exchange.part(layer)] = np.zeros(SIZE, np.float32)[exchange.part(layer)]
        exchange.gradient_ready(layer)
    exchange.await_weights("conv", timeout_seconds=0.5)


if __name__ == "__main__":
    {"equals_batch": equals_batch, "one_stays_away": one_stays_away}[sys.argv[1]]()

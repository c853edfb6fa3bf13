"""The messages of a star, by real ranks of MPI."""

from __future__ import annotations

import json

import pytest

from ...mpi_ranks import expect_success, needs_mpi, run_ranks

PROGRAM = """
import json, sys
import numpy as np
from knltrain.bench.nodes.star_exchange import StarExchange
from knltrain.errors import KnltrainError
from knltrain.communication.mpi.runtime import load_mpi

mpi = load_mpi()
world = mpi.COMM_WORLD
exchange = StarExchange(mpi, 100_000, timeout_seconds=float(sys.argv[1]))
weights, gradient = np.full(100_000, 10.0, np.float32), np.zeros(100_000, np.float32)

def move():
    np.subtract(weights, gradient, out=weights)

if len(sys.argv) > 2 and world.rank == 1:
    world.recv(source=0)  # it comes too late
    sys.exit()
try:
    for step in range(3):
        gradient.fill(world.rank + step)
        exchange.step(gradient, weights, move)
    exchange.barrier()
except KnltrainError as error:
    print(json.dumps([type(error).__name__, str(error)]), flush=True)
    world.send(None, 1)
    world.Abort(0)
clocks = exchange.communication.seconds, exchange.update.seconds
found = world.gather([world.rank, sorted(set(weights.tolist())), *clocks])
if world.rank == 0:
    print(json.dumps(found), flush=True)
"""


@needs_mpi
@pytest.mark.parametrize("ranks", [1, 3])
def test_all_get_the_weights_that_the_master_moves_by_the_mean(ranks: int) -> None:
    told = expect_success(run_ranks(ranks, "-c", PROGRAM, "60"))
    found = json.loads(told.splitlines()[-1])
    mean = sum(range(ranks)) / ranks
    assert [each[:2] for each in found] == [[n, [10.0 - 3 * mean - 3]] for n in range(ranks)]
    for rank, _, communication, update in found:
        assert communication >= 0
        assert (update > 0) == (rank == 0)


@pytest.mark.slow
@needs_mpi
def test_a_rank_that_does_not_come_in_time_is_told() -> None:
    found = run_ranks(2, "-c", PROGRAM, "0.5", "late")
    assert "ExchangeTimeout" in found.stdout
    assert "waited 0.5 s in vain for the other ranks of the star" in found.stdout

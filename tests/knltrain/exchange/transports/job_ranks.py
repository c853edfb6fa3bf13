"""What a rank of MPI does in a test of workers that are one job."""

from __future__ import annotations

import sys

import numpy as np

from knltrain.communication.mpi.runtime import load_mpi
from knltrain.errors import ExchangeTimeout
from knltrain.exchange.transports.job_team import JobTeam
from knltrain.exchange.transports.mpi_team import MpiTeam
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.segment import Segment
from knltrain.exchange.tree_exchange import TreeExchange


def team(mpi, own):
    """Adds up, tells of steps, moves weights, and leaves together with the others."""
    one = JobTeam.of_job(own, mpi, 30.0)
    total = one.all_sum(np.array([1.0, one.rank]))
    assert total.tolist() == [one.workers, sum(range(one.workers))]
    rate = one.link_rate(1 << 16)
    assert rate is not None
    assert rate > 0
    assert one.progress(10 + one.rank).tolist() == [10 + rank for rank in range(one.workers)]
    exchange = TreeExchange(one.space, {"only": 5}, lambda _layer, _total: None)
    exchange.start_from(np.arange(5, dtype=np.float32) if one.rank == 0 else None)
    assert exchange.weights.tolist() == [0, 1, 2, 3, 4]
    exchange.close()
    one.barrier()
    assert one.at_peace
    one.close()


def leaves_alone(mpi, own):
    """Rank 0 waits for nobody when it ends in the middle of a run."""
    one = JobTeam.of_job(own, mpi, 30.0)
    one.barrier()
    one.at_peace = False
    one.close()


def meetings(mpi, own):
    """What one alone does not come to is given up in time."""
    together = MpiTeam(mpi, 30.0, own.check)
    values = np.array([together.rank])
    assert together.gathered(values).reshape(-1).tolist() == list(range(together.workers))
    together.broadcast(values)
    assert values.tolist() == [0]
    assert together.link_rate(100, together.workers) is None
    sent: list[int] = []
    together.gathered = lambda values: sent.append(values.nbytes)
    rate = together.link_rate(100, 1)
    assert rate is not None
    assert rate > 0
    assert sent == [56]  # to each of two others
    del together.gathered
    assert (together.later(None), together.later(5), together.later(50)) == (30, 30, 50)
    if together.rank == 0:
        try:
            together.barrier(0.3)
        except ExchangeTimeout as error:
            assert "0.3 s in vain for the other workers; if they can" in str(error)
        else:
            raise AssertionError("nobody else was there")
        for rank in range(1, together.workers):
            mpi.COMM_WORLD.send("now", dest=rank)
    else:
        mpi.COMM_WORLD.recv(source=0)
        together.barrier()
    together.barrier()
    own.close()


if __name__ == "__main__":
    own = NodeShared(Segment.create(16, 1), 0)
    scene = {"team": team, "leaves_alone": leaves_alone, "meetings": meetings}[sys.argv[1]]
    scene(load_mpi(), own)
    print("well", flush=True)

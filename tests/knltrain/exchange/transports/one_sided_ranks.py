"""Ranks of MPI, a node each, who come to one center: `python -m mpi4py one_sided_ranks.py SCENE`.

Each prints a line of JSON for each thing that it has found.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

import numpy as np

from knltrain.communication.mpi.runtime import load_mpi
from knltrain.errors import ConfigError
from knltrain.exchange.rules.downpour import Downpour, MeanProgress
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.one_sided_center import OneSidedCenter
from knltrain.exchange.transports.segment import Segment
from vectorized_ops.reference import downpour, elastic

SIZE, VISITS = 100_003, 20


def tell(transport: OneSidedCenter, what: Any) -> None:
    line = json.dumps([transport.rank, what])
    os.write(sys.stdout.fileno(), f"{line}\n".encode())  # at once, lest ranks mix theirs


def of_all(values: np.ndarray) -> np.ndarray:
    """The sum of a vector over all ranks, in double precision."""
    total = np.zeros(values.size)
    load_mpi().COMM_WORLD.Allreduce(values.astype(np.float64), total)
    return total


def elastic_averages(transport: OneSidedCenter) -> None:
    """What leaves the locals enters the center, whoever comes when."""
    rule, contribution = EASGD(0.25, elastic), np.zeros(SIZE, np.float32)
    transport.start_from(np.ones(SIZE, np.float32) if transport.rank == 0 else None)
    transport.local[:] += np.float32(transport.rank)
    before = of_all(transport.local) + transport.center
    for _ in range(VISITS):
        transport.visit(rule, contribution, "first_come")
    transport.barrier()
    after = of_all(transport.local) + transport.center
    tell(transport, bool(np.allclose(before, after, rtol=1e-5)))
    tell(transport, bool((transport.center > 1).all()))


def pushes(transport: OneSidedCenter) -> None:
    """Steps of all add up in the center, those of statistics to their mean; all take it over."""
    rule = Downpour(downpour, of_statistics=MeanProgress(transport.workers))
    rule.statistics, pulled = (slice(3, 5),), np.zeros(SIZE, np.float32)
    transport.start_from(np.zeros(SIZE, np.float32) if transport.rank == 0 else None)
    rule.begin(transport.center, pulled)
    for _ in range(VISITS):
        transport.local[:] += np.float32(transport.rank + 1)
        transport.visit(rule, pulled, "lock_free")
    transport.barrier()
    total = VISITS * sum(range(1, transport.workers + 1))
    expected = np.full(SIZE, total, np.float32)
    expected[3:5] /= transport.workers
    tell(transport, bool(np.allclose(transport.center, expected, rtol=1e-5)))


def starts_late(transport: OneSidedCenter) -> None:
    """Who is late at the center does not spoil what all start from."""
    rule, contribution = EASGD(0.5, elastic), np.zeros(SIZE, np.float32)
    if transport.rank:
        time.sleep(0.3)
        transport.visit(rule, contribution, "first_come")
    transport.start_from(np.full(SIZE, 3, np.float32) if transport.rank == 0 else None)
    tell(transport, bool((transport.center == 3).all() and (transport.local == 3).all()))


def updates(transport: OneSidedCenter) -> None:
    """A thread adds to the center while the worker tells its progress; nothing is lost."""
    rule, one = EASGD(0.5, elastic), np.ones(SIZE, np.float32)
    transport.start_from(np.zeros(SIZE, np.float32) if transport.rank == 0 else None)
    thread = threading.Thread(
        target=lambda: [transport.push(rule, one, "first_come") for _ in range(VISITS)]
    )
    thread.start()
    steps = 0
    while thread.is_alive():
        steps += 1
        assert transport.progress(steps)[transport.rank] == steps
    thread.join()
    transport.barrier()
    tell(transport, bool((transport.center == VISITS * transport.workers).all()))


def refusals(transport: OneSidedCenter) -> None:
    rule = EASGD(0.5, elastic)
    together = Method("together", rule, SynchronousStrategy)
    for refused in (transport.await_turn, lambda: strategy_in(together, transport)):
        try:
            refused()
        except ConfigError as error:
            tell(transport, "workers visit the center" in str(error))


def team(transport: OneSidedCenter) -> None:
    transport.start_from(np.zeros(SIZE, np.float32) if transport.rank == 0 else None)
    tell(transport, transport.all_sum(np.array([1.0, transport.rank])).tolist())
    transport.progress(10 + transport.rank)
    transport.barrier()
    tell(transport, transport.progress(10 + transport.rank).tolist())
    tell(transport, [transport.rank, transport.workers, transport.keeps_center])


def main() -> None:
    mpi = load_mpi()
    segment = Segment.create(SIZE, 1)
    transport = OneSidedCenter(NodeShared(segment, 0), mpi, 30.0)
    scenes = {"elastic_averages": elastic_averages, "pushes": pushes, "team": team}
    scenes |= {"starts_late": starts_late, "updates": updates, "refusals": refusals}
    scenes[sys.argv[1]](transport)
    transport.barrier()
    transport.close()


if __name__ == "__main__":
    main()

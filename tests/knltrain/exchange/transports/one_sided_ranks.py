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
from knltrain.errors import ConfigError, ExchangeTimeout
from knltrain.exchange.rules.averaged_center import AveragedCenter
from knltrain.exchange.rules.downpour import Downpour, MeanProgress
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.one_sided_center import OneSidedCenter
from knltrain.exchange.transports.segment import Segment
from vectorized_ops.reference import averages as reference_averages
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


def velocities(transport: OneSidedCenter) -> None:
    """A center that has a velocity gets each step of all whole, velocity and all."""
    rule = Downpour(downpour, momentum=0.5)
    pulled = np.zeros(SIZE, np.float32)
    transport.start_from(np.zeros(SIZE, np.float32) if transport.rank == 0 else None)
    rule.begin(transport.center, pulled)
    for _ in range(VISITS):
        transport.local[:] += 1
        transport.visit(rule, pulled, "first_come")
    transport.barrier()
    velocity = center = np.float32(0)
    for _ in range(VISITS * transport.workers):  # of equal steps the order does not matter
        velocity = velocity * np.float32(0.5) + 1
        center = center + velocity
    tell(transport, bool((transport.kept[0] == velocity).all()))
    tell(transport, bool(np.allclose(transport.center, center, rtol=1e-5)))


def turns(transport: OneSidedCenter) -> None:
    """Workers visit in rank order, each after the one before has left."""
    transport.start_from(np.zeros(SIZE, np.float32) if transport.rank == 0 else None)
    rule, contribution = EASGD(0.5, elastic), np.zeros(SIZE, np.float32)
    center, locals_ = 0.0, [float(1 + rank) for rank in range(transport.workers)]
    transport.local[:] = locals_[transport.rank]
    for _ in range(VISITS):
        time.sleep(0.001 * (transport.workers - transport.rank))  # the last would come first
        transport.visit(rule, contribution, "round_robin")
        for rank, local in enumerate(locals_):
            move = 0.5 * (local - center)
            locals_[rank], center = local - move, center + move
    transport.barrier()
    tell(transport, bool(np.allclose(transport.center, center, rtol=1e-5)))
    tell(transport, bool(np.allclose(transport.local, locals_[transport.rank], rtol=1e-5)))


def averages(transport: OneSidedCenter) -> None:
    """The mean of all centers so far, of which there is one for each visit, starts from the first.

    Then all go on from the vectors of a checkpoint, which rank 0 alone has.
    """
    rule = AveragedCenter(Downpour(downpour), None, reference_averages)
    part = strategy_in(
        Method("averages", rule, AsynchronousStrategy, schedule="first_come"), transport
    )
    assert isinstance(part, AsynchronousStrategy)
    part.start_from(np.ones(SIZE, np.float32) if transport.rank == 0 else None)
    part.begin()
    for step in range(VISITS):
        part.parameters[:] += 1
        part.exchange(step)
    transport.barrier()
    last = 1 + VISITS * transport.workers
    tell(transport, bool((transport.center == last).all()))
    tell(transport, bool(np.allclose(part.model, (1 + last) / 2, rtol=1e-5)))
    kept = {name: np.full(SIZE, 7, np.float32) for name in ("kept0", "kept1", "center")}
    part.restore(
        np.zeros(SIZE, np.float32), part.parameters.copy(), kept if not transport.rank else {}
    )
    transport.barrier()
    tell(transport, [float(one[-1]) for one in (transport.center, *transport.kept)])


def one_server(transport: OneSidedCenter) -> None:
    """All vectors lie at rank 2, however many visit them."""
    assert [part.stop - part.start for part in transport._shared.parts] == [SIZE]
    assert transport._box._window.ranks == [2]
    velocities(transport)


def late_turn(transport: OneSidedCenter) -> None:
    """A worker that does not take its turn is named."""
    transport.start_from(np.zeros(SIZE, np.float32) if transport.rank == 0 else None)
    if transport.rank:
        try:
            transport.await_turn()
        except ExchangeTimeout as error:
            tell(transport, "in vain for worker 0, whose turn it is" in str(error))
    transport.barrier(30.0)


def refusals(transport: OneSidedCenter) -> None:
    together = Method("together", EASGD(0.5, elastic), SynchronousStrategy)
    try:
        strategy_in(together, transport)
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
    scenes = (
        *(elastic_averages, pushes, team, starts_late, updates, refusals),
        *(velocities, turns, averages, late_turn, one_server),
    )
    scene = {each.__name__: each for each in scenes}[sys.argv[1]]
    vectors = {velocities: 2, averages: 3, one_server: 2}.get(scene, 1)
    patience, servers = {late_turn: 0.5}.get(scene, 30.0), {one_server: [2]}.get(scene)
    transport = OneSidedCenter(NodeShared(segment, 0), mpi, patience, vectors, servers)
    scene(transport)
    transport.barrier()
    transport.close()


if __name__ == "__main__":
    main()

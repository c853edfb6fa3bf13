"""Ranks of MPI, a node each, who come to one center: `python -m mpi4py one_sided_ranks.py SCENE`.

With another word, visits are written in this wire format.

Each prints a line of JSON for each thing that it has found.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from affinity import own_placement
from knltrain.clocks import ACCUMULATE, VISIT, WRITE_INCREMENT
from knltrain.communication.internode.wire.traffic import visit_bytes
from knltrain.communication.internode.wire.wire_format import CenterFormats, WireFormat
from knltrain.communication.mpi.runtime import load_mpi
from knltrain.errors import ConfigError, ExchangeTimeout, SegmentError
from knltrain.exchange.rules.averaged_center import AveragedCenter
from knltrain.exchange.rules.downpour import Downpour, MeanProgress
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy, OverlappedPushStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.one_sided_center import OneSidedCenter
from knltrain.exchange.transports.segment import Segment
from knltrain.timeline import Timeline
from tests.knltrain.communication.internode.wire.formats import FORMATS
from vectorized_ops.reference import averages as reference_averages
from vectorized_ops.reference import downpour, elastic

SIZE, VISITS = 100_003, 20
WRITTEN = sys.argv[2] if len(sys.argv) > 2 else ""
"""The wire format, by its name; none for float32."""


def tell(transport: OneSidedCenter, what: Any) -> None:
    line = json.dumps([transport.rank, what])
    os.write(sys.stdout.fileno(), f"{line}\n".encode())  # at once, lest ranks mix theirs


def vector(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SIZE, np.float32)


def parts(transport: OneSidedCenter) -> list[slice]:
    """Where the shards lie in the vector, by rank."""
    return transport._shared.parts


def formats_of(name: str) -> CenterFormats:
    return CenterFormats(FORMATS[name](SIZE), FORMATS["bfloat16"](SIZE))


def decoded(written: WireFormat, values: np.ndarray, residual: np.ndarray) -> np.ndarray:
    row = np.zeros(written.bytes_for(values.size), np.uint8)
    written.encode(np.ascontiguousarray(values), residual, row)
    found = np.zeros(values.size, np.float32)
    written.decode_add(row, found)
    return found


class Counting:
    """A communicator that tells how many bytes this worker has sent and received by it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.sent: list[int] = []
        self.received: list[int] = []

    def Isend(self, values: np.ndarray, *where: int) -> Any:  # noqa: N802
        self.sent.append(values.nbytes)
        return self._inner.Isend(values, *where)

    def Irecv(self, values: np.ndarray, *where: int) -> Any:  # noqa: N802
        self.received.append(values.nbytes)
        return self._inner.Irecv(values, *where)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


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
    rounding = 0.01 if WRITTEN else 1e-5
    tell(transport, bool(np.allclose(transport.center, center, rtol=rounding)))
    tell(transport, bool(np.allclose(transport.local, locals_[transport.rank], rtol=rounding)))


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


def written(transport: OneSidedCenter) -> None:
    """What leaves the locals enters the center, as far as the format says, and is sent so."""
    rule, contribution = EASGD(0.25, elastic), np.zeros(SIZE, np.float32)
    transport.start_from(vector(99) if transport.rank == 0 else None)
    assert np.array_equal(transport.center, vector(99))  # the start is exact
    transport.barrier()
    transport.local[:] = vector(transport.rank)
    before = of_all(transport.local) + transport.center
    for _ in range(VISITS):
        transport.visit(rule, contribution, "first_come")
    assert not transport.residual.any()
    transport.barrier()
    after = of_all(transport.local) + transport.center
    kept = transport.residual.size > 0
    tell(transport, bool(np.abs(after - before).max() < (1e-4 if kept else 0.05)))
    tell(transport, bool(np.abs(after - before).max() > (0 if kept else 1e-4)))
    apart = of_all(np.abs(transport.local - transport.center))
    tell(transport, float(apart.mean()) < (4 if WRITTEN == "top_k" else 0.3))


def written_values(transport: OneSidedCenter) -> None:
    """One visit after another has the values of NumPy: encoded for shards of other nodes alone.

    The center is read as bfloat16. What a contribution lacks is kept by who does not take it back.
    """
    rule, formats = Downpour(downpour), FORMATS[WRITTEN](SIZE)
    read, pulled, shares = FORMATS["bfloat16"](SIZE), np.zeros(SIZE, np.float32), parts(transport)
    transport.start_from(vector(99) if transport.rank == 0 else None)
    rule.begin(transport.center, pulled)
    center, residuals = vector(99), np.zeros((transport.workers, SIZE), np.float32)
    for visit in range(4):
        for rank in range(transport.workers):
            progress = vector(10 * visit + rank)
            if rank == transport.rank:
                transport.local[:] = pulled + progress
                progress = transport.local - pulled  # rounded as the rule has it
                transport.visit(rule, pulled, "first_come")
            progress = load_mpi().COMM_WORLD.bcast(progress, rank)  # one visit at a time
            for owner, part in enumerate(shares):
                rest = residuals[rank, part] if formats.keeps_residual else np.zeros(0, np.float32)
                moved = progress[part]
                if owner != rank:
                    moved = decoded(formats, progress[part], rest)
                center[part] += moved
            if rank == transport.rank:
                seen = decoded(read, center, np.zeros(0, np.float32))
                seen[shares[rank]] = center[shares[rank]]
                assert np.array_equal(transport.local, seen)
    transport.barrier()
    tell(transport, bool(np.array_equal(transport.center, center)))
    if formats.keeps_residual:
        assert residuals[transport.rank].any()
        assert np.array_equal(transport.residual, residuals[transport.rank])


def written_state(transport: OneSidedCenter) -> None:
    """Every worker keeps what was not sent, and goes on with it; nothing is lost."""
    rule = Downpour(downpour)
    part = strategy_in(
        Method("downpour", rule, AsynchronousStrategy, schedule="first_come"), transport
    )
    assert isinstance(part, AsynchronousStrategy)
    part.start_from(vector(99))
    part.begin()
    for step in range(3):
        part.parameters[:] += vector(step + 5 * transport.rank)
        part.exchange(step)
    transport.barrier()
    center, local = transport.center.copy(), part.parameters.copy()
    state = {name: values.copy() for name, values in part.state().items()}
    assert ("residual" in state) == FORMATS[WRITTEN](1).keeps_residual
    assert all(values.any() for values in state.values())
    transport.barrier()
    part.start_from(vector(1))
    assert not transport.residual.any()
    part.restore(center, local, state)
    assert {name: values.tolist() for name, values in part.state().items()} == {
        name: values.tolist() for name, values in state.items()
    }
    moved = sum(vector(step + 5 * rank) for step in range(3) for rank in range(transport.workers))
    arrived = transport.center + of_all(
        transport.residual if transport.residual.size else np.zeros(SIZE, np.float32)
    )
    off = float(np.abs(arrived - vector(99) - moved).max())
    tell(transport, off < (0.05 if "residual" in state else 0.3))


def written_bytes(transport: OneSidedCenter) -> None:
    """Messages to other nodes have the bytes of the formats, and no more are sent."""
    assert transport._encoded is not None
    counting = transport._encoded._group = Counting(transport._encoded._group)
    transport.start_from(vector(99) if transport.rank == 0 else None)
    transport.barrier()
    transport.visit(EASGD(0.25, elastic), np.zeros(SIZE, np.float32), "first_come")
    transport.barrier()
    far = [part for owner, part in enumerate(parts(transport)) if owner != transport.rank]
    sizes = [part.stop - part.start for part in far]
    added = [FORMATS[WRITTEN](SIZE).bytes_for(size) for size in sizes]
    read = [FORMATS["bfloat16"](SIZE).bytes_for(size) for size in sizes]
    assert counting.sent == [0, 0, *added], (counting.sent, added)
    assert counting.received == [*read, 0, 0], (counting.received, read)
    total, of_reading = visit_bytes(formats_of(WRITTEN), SIZE, transport.workers)
    tell(transport, abs(sum(added) + sum(read) - total) < 1024 and of_reading < total)


def written_marks(transport: OneSidedCenter) -> None:
    """An increment is written until its messages have left; then it is accumulated."""
    assert transport._encoded is not None
    transport.start_from(vector(99) if transport.rank == 0 else None)
    completion, happened = transport._encoded._completion, list[Any]()
    completing, timeline = completion.of, Timeline(16)

    def of(requests: Any, awaited: Any) -> None:
        happened.append(len(requests))
        completing(requests, awaited)

    completion.of = of  # type: ignore[method-assign]
    transport.push_marks = SimpleNamespace(
        mark=lambda number: (happened.append(VISIT[number]), timeline.mark(number))
    )
    timeline.mark(-1)
    contribution = vector(transport.rank)
    transport.encode(EASGD(0.25, elastic), contribution)
    transport.push(EASGD(0.25, elastic), contribution, "first_come")
    timeline.mark(ACCUMULATE)
    far, (written, accumulated) = transport.workers - 1, timeline.take().numbers.tolist()
    assert (written, accumulated) == (WRITE_INCREMENT, ACCUMULATE)
    tell(transport, happened == [far, "twwi", far])


def written_beside(transport: OneSidedCenter) -> None:
    """A thread pushes encoded contributions while its worker tells its progress and computes."""
    method = Method("seasgd", EASGD(0.25, elastic), OverlappedPushStrategy, 1, "first_come", "step")
    part = strategy_in(method, transport)
    part.start_from(vector(99))
    part.begin()
    transport.barrier()
    part.parameters[:] = vector(transport.rank)
    before = of_all(part.parameters) + transport.center
    transport.barrier()
    for step in range(VISITS):
        part.stepped(step)
        transport.progress(step + 1)
    part.settle()
    transport.barrier()
    off = float(np.abs(of_all(part.parameters) + transport.center - before).max())
    tell(transport, off < (1e-4 if transport.residual.size else 0.05))


def server_fails(transport: OneSidedCenter) -> None:
    """An error of a shard's server ends its worker, and who waits for its answer."""
    assert transport._encoded is not None
    server = transport._encoded._server
    assert server is not None

    def fail(*_: Any) -> None:
        raise SegmentError("broken")

    if transport.rank == 0:
        server._buffer = SimpleNamespace(lend=fail)
    transport.start_from(vector(99) if transport.rank == 0 else None)
    transport.barrier()
    if transport.rank == 0:
        server._thread.join()
        try:
            transport.check()
        except SegmentError as error:
            tell(transport, str(error) == "broken")
        server._failure = None
    else:
        try:
            transport.read_center()
        except ExchangeTimeout as error:
            tell(transport, "an answer of rank 0" in str(error))
    transport.barrier(30.0)


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
    rate = transport.link_rate(1 << 16)
    tell(transport, rate is not None and rate > 0)
    transport.progress(10 + transport.rank)
    transport.barrier()
    tell(transport, transport.progress(10 + transport.rank).tolist())
    tell(transport, [transport.rank, transport.workers, transport.keeps_center])


def progress(transport: OneSidedCenter) -> None:
    """Where the thread runs that serves MPI while this worker computes."""
    (thread,) = (each for each in threading.enumerate() if each.name == "MPI progress")
    assert thread.native_id is not None
    tell(transport, sorted(os.sched_getaffinity(thread.native_id)))
    transport.start_from(np.zeros(SIZE, np.float32) if transport.rank == 0 else None)


def pin_computing_threads() -> None:
    """Pin this thread to the first CPU of its place, as workers that compute do."""
    if (place := own_placement()) is not None:
        os.sched_setaffinity(0, place.cpus[:1])


def main() -> None:
    pin_computing_threads()
    mpi = load_mpi()
    segment = Segment.create(SIZE, 1)
    scenes = (
        *(elastic_averages, pushes, team, starts_late, updates, refusals),
        *(velocities, turns, averages, late_turn, one_server),
        *(written, written_values, written_state, written_bytes),
        *(written_marks, written_beside, server_fails, progress),
    )
    scene = {each.__name__: each for each in scenes}[sys.argv[1]]
    vectors = {velocities: 2, averages: 3, one_server: 2}.get(scene, 1)
    patience, servers = {late_turn: 0.5, server_fails: 2}.get(scene, 30.0), {one_server: [2]}
    formats = formats_of(WRITTEN) if WRITTEN else None
    transport = OneSidedCenter(
        NodeShared(segment, 0), mpi, patience, vectors, servers.get(scene), formats
    )
    scene(transport)
    transport.barrier()
    transport.close()


if __name__ == "__main__":
    main()

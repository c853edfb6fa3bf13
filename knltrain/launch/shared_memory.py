"""Creates what a node's workers share, in the processes that start them: memory and data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from knltrain.assembly import build_dataset, network_size, plain_method
from knltrain.launch.data_cores import told_of_pool
from knltrain.launch.plan import RunPlan

if TYPE_CHECKING:
    from knltrain.config import RunConfig
    from knltrain.exchange.strategies.method import Method
    from knltrain.exchange.strategies.node_memory import NodeMemory
    from knltrain.input.batch_ring import BatchRing
    from knltrain.launch.job_peers import JobPeers
    from knltrain.launch.node_input import NodeInput
    from knltrain.launch.node_share import NodeShare


_WORDS_ALONE = 16
"""Values of a vector where MPI holds the weights: workers share words of synchronisation only."""

Placed: TypeAlias = "tuple[NodeMemory | None, tuple[str, ...]]"
"""A node's memory, and notes on where it differs from the configuration."""


@contextmanager
def shared_memory(plan: RunPlan, job_peers: JobPeers | None) -> Iterator[Placed]:
    """The memory of this node, as long as the block lasts.

    The first share of a node creates it; the others attach to it. A single worker needs none.
    """
    if plan.workers == 1:
        yield None, ()
        return
    with ExitStack() as open_:
        memory = _memory(plan, job_peers, open_)
        yield memory, memory.place(plan.placements)


def _memory(plan: RunPlan, job_peers: JobPeers | None, open_: ExitStack) -> NodeMemory:
    config = plan.config
    method = plain_method(config, plan.workers)
    size = _WORDS_ALONE if method.strategy.is_one_mpi_job else network_size(config)
    return node_memory(config, method, size, plan.node_share, job_peers, open_)


def node_memory(
    config: RunConfig,
    method: Method,
    size: int,
    node_share: NodeShare,
    job_peers: JobPeers | None,
    open_: ExitStack,
) -> NodeMemory:
    """The memory of a node for vectors of `size` values, until `open_` is closed.

    The first share of the node creates it, and hands it to the others while it is open.
    """
    from knltrain.exchange.strategies.node_memory import NodeMemory

    workers, kind = int(config.workers), config.exchange.segment
    if node_share.share:
        assert job_peers is not None
        fds = job_peers.memory_fds(NodeMemory.segments_for(method, workers))
        memory = NodeMemory.attach(fds, method, kind)
        open_.callback(memory.close)
        return memory
    memory = NodeMemory(size, workers, method, kind, node_share.nodes)
    open_.callback(memory.close)
    if job_peers is not None and node_share.shares > 1:
        for keeper in job_peers.doorkeepers(memory.all_fds):
            open_.callback(keeper.close)
    return memory


@dataclass(frozen=True, slots=True)
class Shared:
    """What this process's workers have in common: a node's memory, its data set, and batches.

    `part` tells what the node holds of a distributed data set, if this process reads it.
    """

    memory: NodeMemory | None
    data_fd: int | None
    ring: BatchRing | None
    notes: tuple[str, ...]
    part: Mapping[str, int | float | str] | None = None

    def abort(self, code: int) -> None:
        """Tell all to give up."""
        if self.memory is not None:
            self.memory.abort(code)
        if self.ring is not None:
            self.ring.abort(code)

    def fds_of(self, rank: int) -> tuple[int, ...]:
        """The descriptors that a worker inherits."""
        found = [] if self.memory is None else list(self.memory.fds_of(rank))
        found += [] if self.data_fd is None else [self.data_fd]
        return (*found, *([] if self.ring is None else [self.ring.fd]))


@contextmanager
def shared_by_workers(
    plan: RunPlan, job_peers: JobPeers | None, data: NodeInput
) -> Iterator[Shared]:
    """All that this process's workers share, as long as the block lasts."""
    with ExitStack() as open_:
        memory, notes = open_.enter_context(shared_memory(plan, job_peers))
        read = partial(build_dataset, plan.config)
        for close in data.share(plan.node_share, job_peers, read):
            open_.callback(close)
        part = data.part
        if part is not None:
            from knltrain.launch.distributed_data import told_of_part, way_of_pictures

            part = {**part, "others_by": way_of_pictures(plan.config)}
            notes = (*notes, told_of_part(part))
        ring = None
        if plan.pool is not None:
            ring = _ring(plan)
            open_.callback(ring.close)
            places = enumerate(plan.placements)
            placed = (note for at, place in places for note in ring.place(at, place.memory))
            told = told_of_pool(plan.config, plan.pool, len(plan.placements))
            notes = (*notes, told, *dict.fromkeys(placed))
        yield Shared(memory, data.fd, ring, notes, part)


def _ring(plan: RunPlan) -> BatchRing:
    from knltrain.input.batch_ring import BatchRing

    assert plan.batch is not None
    return BatchRing.create(len(plan.placements), plan.config.data.batches_ahead, plan.batch)

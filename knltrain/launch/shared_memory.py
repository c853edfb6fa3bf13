"""Creates the shared memory of a node's workers, in the processes that start them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

from knltrain.assembly import network_size, plain_method
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.launch.job_peers import JobPeers
from knltrain.launch.plan import RunPlan

_WORDS_ALONE = 16
"""Values of a vector where MPI holds the weights: workers share words of synchronisation only."""

Placed: TypeAlias = tuple[NodeMemory | None, tuple[str, ...]]
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
    config, node_share = plan.config, plan.node_share
    method = plain_method(config, plan.workers)
    size = _WORDS_ALONE if method.strategy.is_one_mpi_job else network_size(config)
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

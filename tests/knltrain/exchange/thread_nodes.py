"""Nodes that are threads of one process, and a collective between them, for tests."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from knltrain.communication.internode.collective import NodeCollective
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.exchange.strategies.synchronous import MasterStrategy, SynchronousStrategy
from knltrain.exchange.transports.across_nodes import CrossNodeTransport
from knltrain.exchange.transports.joining import join_across_nodes

PATIENCE_SECONDS = 20.0
SIZE = 70_001
NODES, OF_NODE = 2, 3


class ThreadNodes:
    """What the collectives of all nodes share."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.barrier = threading.Barrier(nodes, timeout=PATIENCE_SECONDS)
        self.given: list[np.ndarray] = [np.zeros(0)] * nodes
        self.closed: list[int] = []

    def collective(self, node: int) -> ThreadCollective:
        return ThreadCollective(self, node)


class ThreadCollective(NodeCollective):
    name = "threads"

    def __init__(self, shared: ThreadNodes, node: int) -> None:
        self.node, self.nodes = node, shared.nodes
        self._shared = shared

    def all_reduce(self, values: np.ndarray, at: int = 0) -> None:
        values[:] = np.sum(self._exchanged(values), axis=0, dtype=np.float32)

    def reduce(self, values: np.ndarray) -> None:
        total = np.sum(self._exchanged(values), axis=0, dtype=np.float32)
        values[:] = total if self.node == 0 else np.nan

    def broadcast(self, values: np.ndarray) -> None:
        values[:] = self._exchanged(values)[0]

    def gather(self, values: np.ndarray, timeout_seconds: float | None = None) -> np.ndarray:
        return self._exchanged(values)

    def all_gather(self, given: np.ndarray, found: np.ndarray) -> None:
        found[:] = self._exchanged(given)

    def all_to_all(self, given: np.ndarray, found: np.ndarray) -> None:
        found[:] = self._exchanged(given)[:, self.node]

    def close(self) -> None:
        self._shared.closed.append(self.node)

    def _exchanged(self, values: np.ndarray) -> np.ndarray:
        self._shared.given[self.node] = values.copy()
        self._shared.barrier.wait()
        found = np.stack(self._shared.given)
        self._shared.barrier.wait()
        return found


def vector(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size, np.float32)


def across(
    work: Callable[[CrossNodeTransport], Any],
    rule: SynchronousRule,
    *,
    nodes: int = NODES,
    of_node: int = OF_NODE,
    size: int = SIZE,
    at_master: bool = False,
    written: Callable[[NodeCollective], NodeCollective] = lambda collective: collective,
) -> list[Any]:
    """What `work` returns for each of ``nodes`` times ``of_node`` workers, which are threads.

    The first one of each node has what is ``written`` of a collective between them.
    """
    strategy = MasterStrategy if at_master else SynchronousStrategy
    method = Method("any", rule, strategy)
    memories = [NodeMemory(size, of_node, method, "memfd", nodes) for _ in range(nodes)]
    between = ThreadNodes(nodes)

    def one(rank: int) -> Any:
        node, local_rank = divmod(rank, of_node)
        fds = [os.dup(fd) for fd in memories[node].fds_of(local_rank)]
        collective = None if local_rank else written(between.collective(node))
        team = join_across_nodes(fds, local_rank, 20, node, nodes, collective)
        assert isinstance(team, CrossNodeTransport)
        try:
            return work(team)
        except BaseException:
            between.barrier.abort()
            memories[node].abort(1)
            raise
        finally:
            team.close()

    try:
        with ThreadPoolExecutor(nodes * of_node) as threads:
            found = list(threads.map(one, range(nodes * of_node)))
    finally:
        for memory in memories:
            memory.close()
    assert sorted(between.closed) == list(range(nodes))
    return found

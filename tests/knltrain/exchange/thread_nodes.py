"""Nodes that are threads of one process, and a collective between them, for tests."""

from __future__ import annotations

import threading

import numpy as np

from knltrain.exchange.node_collective import NodeCollective

PATIENCE_SECONDS = 20.0


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

"""The parameter server's exchange: gradients to a master, weights from it, by two-sided MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from knltrain.clocks import Clock
from knltrain.communication.mpi.completion import Completion
from knltrain.vectors import FloatArray


@final
class StarExchange:
    """The exchange of one rank of ``mpi``.COMM_WORLD, whose rank 0 is the master.

    Vectors are float32 (size,). `communication` is the time in messages, waiting included; `update`
    is the master's time to sum and to move. A rank that is later than ``timeout_seconds`` is an
    ExchangeTimeout.
    """

    def __init__(self, mpi: Any, size: int, timeout_seconds: float) -> None:
        self._world = mpi.COMM_WORLD
        self._completion = Completion(mpi, timeout_seconds)
        self.communication, self.update = Clock(), Clock()
        others = self._world.size - 1 if self._world.rank == 0 else 0
        self._received = np.zeros((others, size), np.float32)

    def barrier(self) -> None:
        """Wait until all are here."""
        self._finish([self._world.Ibarrier()])

    def step(self, gradient: FloatArray, weights: FloatArray, move: Callable[[], None]) -> None:
        """Let the master ``move`` its weights by the mean gradient, and send them to all."""
        if self._world.rank == 0:
            self._lead(gradient, weights, move)
            return
        with self.communication:
            self._finish([self._world.Isend(gradient, 0)])
            self._finish([self._world.Irecv(weights, 0)])

    def _lead(self, gradient: FloatArray, weights: FloatArray, move: Callable[[], None]) -> None:
        with self.communication:
            coming = [self._world.Irecv(each, 1 + i) for i, each in enumerate(self._received)]
        for request, received in zip(coming, self._received, strict=True):
            with self.communication:
                self._finish([request])
            with self.update:
                np.add(gradient, received, out=gradient)
        with self.update:
            np.divide(gradient, self._world.size, out=gradient)
            move()
        with self.communication:
            self._finish([self._world.Isend(weights, to) for to in range(1, self._world.size)])

    def _finish(self, requests: list[Any]) -> None:
        self._completion.of(requests, lambda: "the other ranks of the star")

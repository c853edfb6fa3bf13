"""Exchanges along trees, layer by layer: gradients up, and the weights that come of them down."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import TypeAlias, final

import numpy as np

from knltrain.communication.communication_cores import made_there
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import Strategy
from knltrain.exchange.transports.tree_team import TreeTeam
from knltrain.exchange.tree_exchange import TreeExchange
from knltrain.vectors import FloatArray

StepLayer: TypeAlias = Callable[[int, int, FloatArray, FloatArray], None]
"""Takes step t, from 0, of layer l, from 0: moves its weights (k,) by its mean gradient (k,)."""


@final
class LayerTreeStrategy(Strategy):
    """CaffeGPI's training (Kuehn, Keuper, Pfreundt, arXiv 1706.00095) by a `TreeExchange`.

    A layer's gradient sets out when its backward pass is done; rank 0 takes the step of each layer
    with the mean over all workers, by ``step_layer``, in the exchange's thread, and sends the
    weights. A worker waits for them before its next step, for all at once: they come in the order
    of the backward pass, the first layer last, and without that no forward pass can begin.
    """

    def __init__(self, method: Method, team: TreeTeam, step_layer: StepLayer) -> None:
        self.method = method
        self.team = self._team = team
        self._step_layer = step_layer
        self._step = self._given = 0
        self._set_out = False
        self._names = [name for name, _ in method.trees]
        self._layers = {name: layer for layer, name in enumerate(self._names)}
        bounds = accumulate((size for _, size in method.trees), initial=0)
        self._parts = [slice(*ends) for ends in pairwise(bounds)]
        self._exchange = made_there(
            lambda: TreeExchange(
                team.space,
                dict(method.trees),
                self._update,
                timeout_seconds=team.timeout_seconds,
                check=team.check,
            )
        )
        self._weights, self._gradient = self._exchange.weights, self._exchange.gradient

    @property
    def parameters(self) -> FloatArray:
        """The weights that have come."""
        return self._weights

    @property
    def gradient(self) -> FloatArray:
        """This worker's gradient; when it is given, also sums of others."""
        return self._gradient

    @property
    def model(self) -> FloatArray:
        """The weights, which are the same at all workers."""
        return self._weights

    def start_from(self, values: FloatArray) -> None:
        """Give all the weights of rank 0 (collective)."""
        self._team.barrier()  # rank 0 may not write while another one still computes
        self._exchange.start_from(values if self._team.rank == 0 else None)
        self._exchange.measure(self._team.clocks.beside)
        self._set_out = True

    def step_begins(self, step: int) -> None:
        """Wait for the weights that the last step has led to."""
        with self._team.clocks.waiting:
            self._exchange.await_all_weights()
        self._step, self._given = step, 0
        self._team.at_peace = False

    def gradient_done_from(self, offset: int) -> None:
        """Let all layers set out that are done, the last one first."""
        while self._given < len(self._parts):
            layer = len(self._parts) - 1 - self._given
            if self._parts[layer].start < offset:
                return
            self._given += 1
            self._exchange.gradient_ready(self._names[layer])

    def gradient_ready(self, step: int) -> None:  # noqa: ARG002
        """Let the rest set out."""
        self.gradient_done_from(0)

    def stepped(self, step: int) -> None:
        """Nothing is left to do."""

    def exchange(self, step: int) -> None:
        """Take the step at rank 0, by its own gradient: all that can be before the start."""
        if self._team.rank == 0:
            for layer, part in enumerate(self._parts):
                self._step_layer(step, layer, self._weights[part], self._gradient[part])

    def settle(self) -> None:
        """Wait for all weights."""
        if self._set_out:
            self._exchange.await_all_weights()

    def state(self) -> dict[str, FloatArray]:
        """Nothing: between two steps all is in the weights."""
        return {}

    def close(self) -> None:
        """End the exchange, together where all have met, and let go of all vectors."""
        self._weights = self._gradient = np.zeros(0, np.float32)
        try:
            if self._team.at_peace and self._set_out:
                self._exchange.close()
            else:
                self._exchange.abandon()
        finally:
            self._team.close()

    def _update(self, name: str, total: FloatArray) -> None:
        layer = self._layers[name]
        np.divide(total, np.float32(self._team.workers), out=total)
        self._step_layer(self._step, layer, self._weights[self._parts[layer]], total)

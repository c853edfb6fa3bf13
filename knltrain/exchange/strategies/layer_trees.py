"""Exchanges along trees, layer by layer: gradients up, updated weights down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import numpy as np

from knltrain.clocks import UNOBSERVED, Marks
from knltrain.communication.communication_cores import made_there
from knltrain.exchange.strategies.method import Method, OwnSettings
from knltrain.exchange.strategies.one_job import OneJobStrategy
from knltrain.exchange.strategies.strategy import MasterStep, Moment, Touched
from knltrain.network.layer_slices import layer_sizes
from knltrain.vectors import FloatArray

if TYPE_CHECKING:
    from knltrain.config.exchange_table import ExchangeConfig
    from knltrain.exchange.transports.job_team import JobTeam
    from knltrain.network.layer_slices import PackedLayers


@final
class LayerTreeStrategy(OneJobStrategy):
    """CaffeGPI's training (Kuehn, Keuper, Pfreundt, arXiv 1706.00095) by a `TreeExchange`.

    A layer's gradient is sent when its backward pass is done. Rank 0 updates each layer with the
    mean gradient of all workers, by ``step``, in the exchange's thread, and sends the weights.
    Where a step needs the gradients of all layers, it waits for the last one. A worker waits for
    the weights of all layers before its next step: they arrive in the order of the backward pass,
    and the forward pass begins with the layer that arrives last.
    """

    hears_of_parts = True
    marks_arrivals = True

    def __init__(self, method: Method, team: JobTeam, step: MasterStep) -> None:
        from knltrain.exchange.tree_exchange import TreeExchange

        super().__init__(method, team, step)
        self._step = self._given = 0
        self._marks: Marks = UNOBSERVED
        self._set_out = False
        self._names = [name for name, _ in method.layers]
        self._parts = method.layer_parts
        self._layers = {name: layer for layer, name in enumerate(self._names)}
        self._exchange = made_there(
            lambda: TreeExchange(
                team.space,
                dict(method.layers),
                self._update,
                updates_all=step.needs_all,
                reduction_branches=method.branches[0],
                branches=method.branches[1],
                timeout_seconds=team.timeout_seconds,
                check=team.check,
            )
        )
        self._weights, self._gradient = self._exchange.weights, self._exchange.gradient

    @classmethod
    def own_settings(cls, chosen: ExchangeConfig, network: PackedLayers) -> OwnSettings:
        """Return the layers: each is exchanged by itself, however the vectors are packed."""
        branches = chosen.reduction_branches, chosen.broadcast_branches
        return {"layers": layer_sizes(network), "branches": branches}

    @classmethod
    def overlapped_share(cls, method: Method) -> float:  # noqa: ARG003
        """Return 1: the whole exchange overlaps."""
        return 1.0

    @property
    def exchanged_parts(self) -> Sequence[slice]:
        """All layers, from the last one on."""
        return self._parts[::-1]

    def observe(self, marks: Marks, beside: Marks) -> None:
        """Mark when a layer's gradient is handed to the thread, and when its weights have come."""
        beside.mark(-1)  # here, and from now on in the exchange's thread
        self._marks, self._exchange.marks = marks, beside

    def start_from(self, values: FloatArray) -> None:
        """Set all weights to those of rank 0 (collective)."""
        self._team.barrier()  # rank 0 must not write while another rank still computes
        self._exchange.start_from(values if self._team.rank == 0 else None)
        self._exchange.measure(self._team.clocks.beside)
        self._set_out = True

    def touched(self, moment: Moment, step: int) -> Touched:  # noqa: ARG002
        """Return the gradient when it is ready, and the weights, which may arrive at any time."""
        if moment == "gradient":
            return Touched((self._gradient,), (self._gradient, self._weights))
        return Touched(written=(self._weights,))

    def step_begins(self, step: int) -> None:
        """Wait for the weights after the last step."""
        with self._team.clocks.waiting:
            self._exchange.await_all_weights()
        self._step, self._given = step, 0
        self._marks.mark(-1)
        self._team.at_peace = False

    def gradient_done_from(self, offset: int) -> None:
        """Send all layers that are done, the last one first."""
        while self._given < len(self._parts):
            layer = len(self._parts) - 1 - self._given
            if self._parts[layer].start < offset:
                return
            self._marks.mark(self._given)
            self._given += 1
            self._exchange.gradient_ready(self._names[layer])

    def gradient_ready(self, step: int) -> None:  # noqa: ARG002
        """Send the remaining layers."""
        self.gradient_done_from(0)

    def exchange(self, step: int) -> None:
        """Take the step at rank 0 with its own gradient, before a run starts."""
        if self._team.rank == 0:
            self._take.take_all(step, self._weights, self._gradient)

    def settle(self) -> None:
        """Wait for all weights."""
        if self._set_out:
            self._exchange.await_all_weights()

    def close(self) -> None:
        """End the exchange and release all vectors; collective if nothing is under way."""
        self._weights = self._gradient = np.zeros(0, np.float32)
        try:
            if self._team.at_peace and self._set_out:
                self._exchange.close()
            else:
                self._exchange.abandon()
        finally:
            self._team.close()

    def _update(self, name: str | None, total: FloatArray) -> None:
        layer, part = 0, slice(0, None)
        if name is not None:
            layer = self._layers[name]
            part = self._parts[layer]
        np.divide(total, np.float32(self._team.workers), out=total)
        self._take.take(self._step, layer, self._weights[part], total)

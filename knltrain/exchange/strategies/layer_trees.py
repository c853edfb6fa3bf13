"""Exchanges along trees, layer by layer: gradients up, updated weights down."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, final

import numpy as np

from knltrain.communication.communication_cores import made_there
from knltrain.errors import ConfigError
from knltrain.exchange.strategies.method import Method, OwnSettings
from knltrain.exchange.strategies.overlapped import check_gradients
from knltrain.exchange.strategies.strategy import MasterStep, Moment, Strategy, Touched
from knltrain.exchange.transports.team import Team
from knltrain.network.layer_slices import layer_sizes
from knltrain.vectors import FloatArray

if TYPE_CHECKING:
    from knltrain.config import RunConfig
    from knltrain.config.exchange_table import ExchangeConfig
    from knltrain.exchange.transports.team import TeamFactory
    from knltrain.exchange.transports.tree_team import TreeTeam
    from knltrain.network.layer_slices import PackedLayers


@final
class LayerTreeStrategy(Strategy):
    """CaffeGPI's training (Kuehn, Keuper, Pfreundt, arXiv 1706.00095) by a `TreeExchange`.

    A layer's gradient is sent when its backward pass is done. Rank 0 updates each layer with the
    mean gradient of all workers, by ``step``, in the exchange's thread, and sends the weights.
    Where a step needs the gradients of all layers, it waits for the last one. A worker waits for
    the weights of all layers before its next step: they arrive in the order of the backward pass,
    and the forward pass begins with the layer that arrives last.
    """

    emulates_links = False
    hears_of_parts = True
    steps_by_layer = True
    is_one_mpi_job = True

    def __init__(self, method: Method, team: TreeTeam, step: MasterStep) -> None:
        from knltrain.exchange.tree_exchange import TreeExchange

        self.method = method
        self.team = self._team = team
        self._take = step
        self._step = self._given = 0
        self._set_out = False
        self._names = [name for name, _ in method.layers]
        self._layers = {name: layer for layer, name in enumerate(self._names)}
        bounds = accumulate((size for _, size in method.layers), initial=0)
        self._parts = [slice(*ends) for ends in pairwise(bounds)]
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
    def of(cls, method: Method, team: Team, step: MasterStep) -> LayerTreeStrategy:
        """Make the strategy of a worker of the job."""
        from knltrain.exchange.transports.tree_team import TreeTeam

        assert isinstance(team, TreeTeam)
        return cls(method, team, step)

    @classmethod
    def join(cls, teams: TeamFactory, *, comes_alone: bool) -> Team:  # noqa: ARG003
        """Join the team: all workers are ranks of one MPI job."""
        return teams.along_trees()

    @classmethod
    def own_settings(cls, chosen: ExchangeConfig, network: PackedLayers) -> OwnSettings:
        """Return the layers: each is exchanged by itself, however the vectors are packed."""
        branches = chosen.reduction_branches, chosen.broadcast_branches
        return {"layers": layer_sizes(network), "branches": branches}

    @classmethod
    def check(cls, method: Method) -> None:
        """Refuse what is not computed layer by layer."""
        check_gradients(method)

    @classmethod
    def check_run(cls, method: Method, config: RunConfig) -> None:
        """Refuse another form of what is written."""
        if (chosen_format := config.exchange.wire_format) != "float32":
            raise ConfigError(
                f"exchange.wire_format = '{chosen_format}': '{method.name}' writes gradients and "
                "weights from memory to memory, in float32: expected 'float32'"
            )

    @classmethod
    def overlaps(cls, method: Method) -> bool:  # noqa: ARG003
        """Return True: the whole exchange overlaps."""
        return True

    @classmethod
    def sent_bytes(cls, method: Method, exchanged: int) -> int | None:  # noqa: ARG003
        """Return None: the number depends on a node's place in the trees."""
        return None

    @property
    def parameters(self) -> FloatArray:
        """The weights that have arrived."""
        return self._weights

    @property
    def gradient(self) -> FloatArray:
        """This worker's gradient; once it is sent, partial sums with those of others."""
        return self._gradient

    @property
    def model(self) -> FloatArray:
        """The weights, the same at all workers."""
        return self._weights

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
        self._team.at_peace = False

    def gradient_done_from(self, offset: int) -> None:
        """Send all layers that are done, the last one first."""
        while self._given < len(self._parts):
            layer = len(self._parts) - 1 - self._given
            if self._parts[layer].start < offset:
                return
            self._given += 1
            self._exchange.gradient_ready(self._names[layer])

    def gradient_ready(self, step: int) -> None:  # noqa: ARG002
        """Send the remaining layers."""
        self.gradient_done_from(0)

    def stepped(self, step: int) -> None:
        """Do nothing: rank 0 takes the step."""

    def exchange(self, step: int) -> None:
        """Take the step at rank 0 with its own gradient, before a run starts."""
        if self._team.rank:
            return
        parts = [slice(0, None)] if self._take.needs_all else self._parts
        for layer, part in enumerate(parts):
            self._take.take(step, layer, self._weights[part], self._gradient[part])

    def settle(self) -> None:
        """Wait for all weights."""
        if self._set_out:
            self._exchange.await_all_weights()

    def state(self) -> dict[str, FloatArray]:
        """Return nothing: between two steps the weights are the whole state."""
        return {}

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

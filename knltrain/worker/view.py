"""The view of a worker for other modules than the loop, and its state between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from knltrain.backends.backend import Backend
from knltrain.checkpoint.contents import WorkerState
from knltrain.clocks import Clocks
from knltrain.evaluation import Evaluation
from knltrain.exchange.strategies.strategy import Strategy
from knltrain.exchange.transports.board import RunLoss
from knltrain.exchange.transports.team import Team
from knltrain.optimizers.optimizer import Optimizer
from knltrain.vectors import FloatArray
from knltrain.worker.termination import RunProgress, Synchronisation


class WorkerView(Protocol):
    """A worker as observers see it between two of its steps; see `Worker`."""

    step: int
    stopped: bool
    evaluation: Evaluation | None

    @property
    def team(self) -> Team:
        """All workers of the run."""

    @property
    def clocks(self) -> Clocks:
        """Measured times of its parts."""

    @property
    def progress(self) -> RunProgress:
        """The progress of the run."""

    @property
    def synchronisation(self) -> Synchronisation:
        """Its part in meetings."""

    @property
    def backend(self) -> Backend:
        """The backend that computes its gradients."""

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer that moves its parameters."""

    @property
    def strategy(self) -> Strategy:
        """Its part in exchanges."""

    @property
    def parameters(self) -> FloatArray:
        """Its parameters, (n,) float32."""

    @property
    def model(self) -> FloatArray:
        """The parameters that are evaluated and kept, (n,) float32."""

    @property
    def run_loss(self) -> RunLoss:
        """The training loss of all workers, as far as this one knows."""

    @property
    def images_done(self) -> int:
        """Training images that all workers together have taken, as far as this one knows."""

    def share_out(self, shares: Sequence[int]) -> None:
        """From the next step on worker r takes `shares[r]` images of each batch."""

    def rehearse(self) -> None:
        """Let the backend prepare for the worker's share, outside the clocks (collective)."""

    def evaluated(self, evaluation: Evaluation) -> None:
        """Record an evaluation of the current model."""

    def kept(self, seconds: float) -> None:
        """Record a checkpoint and the seconds that it took."""

    def unwritten(self, what: str, lacks: str) -> None:
        """Record what could not be written; the run goes on without it."""


def state_of(worker: WorkerView) -> WorkerState:
    """The state that a worker would go on from; its arrays are views, not copies."""
    return WorkerState(
        step=worker.step,
        center=worker.model,
        local=worker.parameters,
        optimizer=worker.optimizer.state,
        exchange=worker.strategy.state(),
        seconds=worker.clocks.seconds(),
    )


def restore(worker: WorkerView, state: WorkerState) -> None:
    """Restore a worker that is already at the step of `state` (collective).

    An optimizer vector that `state` lacks is zero. An exchange vector that it lacks is what the
    rule derives from the center.
    """
    strategy = worker.strategy
    strategy.restore(state.center, state.local, state.exchange)
    strategy.space.changed(strategy.parameters, strategy.gradient)
    for name, values in worker.optimizer.state.items():
        values[:] = state.optimizer.get(name, 0)
    worker.optimizer.state_written()
    worker.clocks.go_on_from(state.seconds)

"""The state of a worker between two steps: taken for a checkpoint, and restored."""

from __future__ import annotations

from knltrain.checkpoint.contents import WorkerState
from knltrain.worker.view import WorkerView


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
    strategy.start_from(state.center)
    worker.parameters[:] = state.local
    for name, values in worker.optimizer.state.items():
        values[:] = state.optimizer.get(name, 0)
    strategy.begin()
    for name, vector in strategy.state().items():
        if name in state.exchange:
            vector[:] = state.exchange[name]
    worker.clocks.go_on_from(state.seconds)

"""The state of a worker between two steps: taken for a checkpoint, and restored."""

from __future__ import annotations

from knltrain.checkpoint import WorkerState
from knltrain.worker.view import WorkerView


def state_of(worker: WorkerView) -> WorkerState:
    """What a worker would need to go on from here; its arrays are views, not copies."""
    return WorkerState(
        step=worker.step,
        center=worker.model,
        local=worker.parameters,
        optimizer=worker.optimizer.state,
        exchange=worker.strategy.state(),
        seconds=worker.clocks.seconds(),
    )


def restore(worker: WorkerView, state: WorkerState) -> None:
    """Give a worker that is at the step of `state` all the rest of it (collective).

    The state of its optimizer is zero where that says nothing of it; of its exchanges, it is what
    the rule makes of the center.
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

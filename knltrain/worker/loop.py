"""The loop over the steps: one worker's data, backend, optimizer and transport at work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from knltrain.backends.backend import Backend
from knltrain.checkpoint import WorkerState
from knltrain.data.dataset import Batch
from knltrain.data.order import ShardedBatches
from knltrain.errors import NonFiniteLoss
from knltrain.evaluation import Evaluation
from knltrain.exchange.method import Method
from knltrain.exchange.transport import Transport
from knltrain.metrics import Clocks
from knltrain.network.parameters import aligned_zeros
from knltrain.optimizers.optimizer import Optimizer
from knltrain.worker.observer import Observer, RunResult

START_SECONDS = 1800.0
"""How long workers wait for each other before the first step: one may be compiling kernels."""


@final
class Worker:
    """Trains one local model and lets it take part in the exchanges of its run.

    `parameters` and `gradient` are float32 vectors of the packed size; the one that the method
    moves is `transport.local` itself, so an exchange copies nothing.
    """

    def __init__(
        self,
        *,
        start: WorkerState,
        total_steps: int,
        batches: ShardedBatches,
        image_shape: tuple[int, int, int],
        backend: Backend,
        optimizer: Optimizer,
        learning_rate: Callable[[int], float],
        method: Method,
        transport: Transport,
        observers: Sequence[Observer] = (),
    ) -> None:
        own = aligned_zeros(transport.local.size)
        moves_parameters = method.moves == "parameters"
        self.parameters, self.gradient = (
            (transport.local, own) if moves_parameters else (own, transport.local)
        )
        self.model = transport.center if moves_parameters else self.parameters
        self.step = start.step
        self.total_steps = total_steps
        self.batches = batches
        self.backend = backend
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.method = method
        self.transport = transport
        self.observers = list(observers)
        self.clocks = Clocks()
        self.evaluation: Evaluation | None = None
        self._start: WorkerState | None = start
        self._batch = Batch.allocate(batches.images_per_worker, image_shape)

    def run(self) -> RunResult:
        """Train until `total_steps` steps are done; collective over all workers of the run.

        Raises `NonFiniteLoss` when the loss is not finite, and what the transport raises when
        another worker fails or the run is stopped.
        """
        try:
            self._set_out()
            self._take_steps()
        except NonFiniteLoss as error:
            for observer in self.observers:
                observer.diverged(error.step)
            raise
        return self._finish()

    def _take_steps(self) -> None:
        self.clocks.set_out()
        for step in range(self.step, self.total_steps):
            self.transport.check()
            with self.clocks.compute:
                loss = self._loss_and_gradient(step)
            if self.method.due(step):
                with self.clocks.exchange:
                    self.transport.exchange(self.method.rule)
            with self.clocks.compute:
                learning_rate = self.learning_rate(step)
                self.optimizer.step(self.parameters, self.gradient, learning_rate)
            self.step = step + 1
            self.clocks.step_done()
            for observer in self.observers:
                observer.step_done(self, self.step, loss, learning_rate)

    def close(self) -> None:
        """Close observers, backend and transport; the vectors are empty afterwards.

        Closes all of them even if some cannot be closed, and then raises the first error.
        """
        self.parameters = self.gradient = self.model = np.zeros(0, np.float32)
        errors: list[Exception] = []
        closing = [observer.close for observer in self.observers]
        for close in (*closing, self.backend.close, self.transport.close):
            try:
                close()
            except Exception as error:  # noqa: BLE001  (the others still hold something)
                errors.append(error)
        if errors:
            raise errors[0]

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def evaluated(self, evaluation: Evaluation) -> None:
        """Take note of an evaluation of the model as it is now."""
        self.evaluation = evaluation
        for observer in self.observers:
            observer.evaluated(self, evaluation)

    def state(self) -> WorkerState:
        """What this worker would need to go on from here; its arrays are views, not copies."""
        return WorkerState(
            step=self.step,
            center=self.model,
            local=self.parameters,
            optimizer=self.optimizer.state,
            seconds=self.clocks.seconds(),
        )

    def _set_out(self) -> None:
        self._rehearse()
        start, self._start = self._start, None  # vectors that nobody needs from here on
        assert start is not None
        self.transport.start_from(start.center if self.transport.rank == 0 else None)
        self.parameters[:] = start.local
        for name, values in self.optimizer.state.items():
            values[:] = start.optimizer.get(name, 0)  # the rehearsal has left its trace in them
        self.clocks.go_on_from(start.seconds)
        for observer in self.observers:
            observer.started(self)
        self.transport.barrier()

    def _rehearse(self) -> None:
        """One step that leaves no trace, so that no kernel is compiled while the clocks run."""
        self.parameters.fill(0.0)
        self.batches.fill(0, self._batch)
        self.backend.loss_and_gradient(self._batch, self.parameters, self.gradient)
        self.transport.barrier(START_SECONDS)
        if self.method.due(0):
            self.transport.exchange(self.method.rule)
        self.optimizer.step(self.parameters, self.gradient, 0.0)

    def _loss_and_gradient(self, step: int) -> float:
        self.batches.fill(step, self._batch)
        loss = self.backend.loss_and_gradient(self._batch, self.parameters, self.gradient)
        if not math.isfinite(loss):
            layer = self.backend.first_non_finite(self._batch, self.parameters)
            raise NonFiniteLoss(step, layer)
        return loss

    def _finish(self) -> RunResult:
        result = self._result()
        for observer in self.observers:
            observer.finished(self, result)
        self.transport.barrier()
        return result

    def _result(self) -> RunResult:
        clocks = np.array([self.clocks.train_seconds, self.clocks.exchange_share], np.float64)
        train_seconds, share = (self.transport.all_sum(clocks) / self.transport.workers).tolist()
        images = self.step * len(self._batch.labels) * self.transport.workers
        found = self.evaluation
        return RunResult(
            steps=self.step,
            test_accuracy=found.accuracy if found else None,
            test_loss=found.loss if found else None,
            test_images=found.images if found else None,
            images_per_second=images / train_seconds if train_seconds else 0.0,
            exchange_share=share,
            train_seconds=train_seconds,
        )

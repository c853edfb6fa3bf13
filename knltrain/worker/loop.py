"""The training loop of one worker: its data, backend, optimizer and transport."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import final

from knltrain.backends.backend import Backend
from knltrain.checkpoint.contents import WorkerState
from knltrain.clocks import Clocks
from knltrain.data.order import ShardedBatches
from knltrain.errors import NonFiniteLoss
from knltrain.evaluation import Evaluation
from knltrain.exchange.strategies.strategy import Strategy
from knltrain.exchange.transports.board import RunLoss
from knltrain.input.batch_feed import BatchFeed, FilledHere
from knltrain.optimizers.optimizer import Optimizer
from knltrain.vectors import FloatArray
from knltrain.worker.observer import Observer, RunResult, result_of
from knltrain.worker.requests import NoRequests, Requests
from knltrain.worker.step import TrainingStep
from knltrain.worker.termination import (
    MEETING_SECONDS,
    RunProgress,
    Synchronisation,
    Termination,
)
from knltrain.worker.view import restore


@final
class Worker(AbstractContextManager["Worker"]):
    """Trains one local model and takes part in the exchanges of its run.

    `parameters`, `gradient` and `model` are float32 vectors of the packed size. Of the first two,
    the one that the method moves is the transport's own memory, so a plain exchange copies nothing.

    Its batches come from `feed`; without one the worker fills each when it is due.

    `step` counts the steps of this worker, `progress` those of the run; see `termination`. `clocks`
    default to those of the team. A new run starts at `first_step`. `stopped` tells whether one of
    the `requests` has stopped the run.
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
        strategy: Strategy,
        termination: Termination = "each",
        clocks: Clocks | None = None,
        requests: Requests | None = None,
        observers: Sequence[Observer] = (),
        first_step: int = 0,
        feed: BatchFeed | None = None,
        run_loss: RunLoss | None = None,
    ) -> None:
        self.step, self.stopped = start.step, False
        self.requests = NoRequests() if requests is None else requests
        apart = strategy.method.comes_at_any_time
        self.progress = RunProgress(termination, total_steps, strategy.team, may_be_apart=apart)
        self.synchronisation = Synchronisation(strategy, self.progress)
        self.batches, self.learning_rate = batches, learning_rate
        self.backend, self.optimizer = backend, optimizer
        self.strategy, self.team = strategy, strategy.team
        self.observers = list(observers)
        self.clocks = Clocks.over(self.team.clocks) if clocks is None else clocks
        self.run_loss = RunLoss() if run_loss is None else run_loss
        self.evaluation: Evaluation | None = None
        self._start: WorkerState | None = start
        self._first_step = first_step
        self._feed = FilledHere(batches, image_shape) if feed is None else feed
        self._training_step = TrainingStep(
            self._feed,
            batches.iter_size,
            backend,
            optimizer,
            learning_rate,
            strategy,
            self.clocks,
            self.run_loss,
        )
        self.share_out(batches.shares)

    @property
    def parameters(self) -> FloatArray:
        """This worker's parameters, with their newest values."""
        return self._on_host(self.strategy.parameters)

    @property
    def gradient(self) -> FloatArray:
        """This worker's gradient, with its newest values."""
        return self._on_host(self.strategy.gradient)

    @property
    def model(self) -> FloatArray:
        """The parameters that are evaluated and kept, with their newest values."""
        return self._on_host(self.strategy.model)

    def _on_host(self, vector: FloatArray) -> FloatArray:
        self.strategy.space.to_host(vector)
        return vector

    @property
    def images_done(self) -> int:
        """Training images that all workers have taken since `first_step`, as far as this knows."""
        first = self._first_step
        return self.batches.images_in([step - first for step in self.progress.counted_steps])

    def share_out(self, shares: Sequence[int]) -> None:
        """From the next step on worker r takes `shares[r]` images of each batch."""
        self.batches.share_out(shares)
        self._training_step.weight = self.strategy.method.weight_of(self.team.rank, shares)

    def rehearse(self) -> None:
        """Let the backend prepare for the worker's share, outside the clocks (collective)."""
        self._training_step.rehearse_gradient(self.step)
        self.team.barrier(MEETING_SECONDS)

    def run(self) -> RunResult | None:
        """Train until the run is at `total_steps`; collective over all workers of the run.

        Returns None if a request stopped the run earlier, after a step and with a checkpoint.
        Raises `NonFiniteLoss` when the loss is not finite, and what the transport raises when
        another worker fails or the run is aborted.
        """
        try:
            self._set_out()
            self._take_steps()
        except NonFiniteLoss as error:
            for observer in self.observers:
                observer.diverged(self, error.step)
            raise
        return None if self.stopped else self._finish()

    def evaluated(self, evaluation: Evaluation) -> None:
        """Record an evaluation of the current model."""
        self.evaluation = evaluation
        for observer in self.observers:
            observer.evaluated(self, evaluation)

    def kept(self, seconds: float) -> None:
        """Record a checkpoint and the seconds that it took."""
        for observer in self.observers:
            observer.kept(self, seconds)

    def unwritten(self, what: str, lacks: str) -> None:
        """Record what could not be written; the run goes on without it."""
        for observer in self.observers:
            observer.unwritten(self, what, lacks)

    def close(self) -> None:
        """Close observers, backend, feed and transport, all of them; then raise the first error.

        The vectors are empty afterwards.
        """
        errors: list[Exception] = []
        closing = [observer.close for observer in self.observers]
        closing += [self.requests.close, self.backend.close, self._feed.close, self.strategy.close]
        for close in closing:
            try:
                close()
            except Exception as error:  # noqa: BLE001  (the others still hold something)
                errors.append(error)
        if errors:
            raise errors[0]

    def __exit__(self, *_: object) -> None:
        self.close()

    def _set_out(self) -> None:
        # A run at its end has no next step.
        last_step = max(0, self.progress.total_steps - 1)
        self._training_step.rehearse(min(self.step, last_step))
        start, self._start = self._start, None  # vectors that nobody needs from here on
        assert start is not None
        restore(self, start)
        self.synchronisation.agree(self.step)
        for observer in self.observers:
            observer.started(self)
        self.team.barrier()

    def _take_steps(self) -> None:
        self.clocks.set_out()
        self.progress.go_on(self.step)
        self._meet_for_what_is_due()
        while not (self.progress.ended or self.stopped):
            self._take_step()
            self._meet_for_what_is_due()

    def _take_step(self) -> None:
        loss, learning_rate = self._training_step.take(self.step)
        self.step += 1
        with self.clocks.exchange:
            self.progress.look(self.step)
        self.clocks.step_done()
        for observer in self.observers:
            observer.step_done(self, self.step, loss, learning_rate)

    def _due(self, since: int) -> list[Observer]:
        """The observers that need a meeting now, if the last one was at step `since` of the run."""
        return [each for each in self.observers if each.is_due(since, self.progress.step)]

    def _meet_for_what_is_due(self) -> None:
        """Meet once, or repeatedly while requests call for meetings before anything is due."""
        while not self.stopped and self._is_to_meet():
            with self.clocks.meeting:
                since = self.synchronisation.agree(self.step)
                asked = self.requests.agree(self.step)
            for observer in self._due(since):
                observer.met(self)
            if asked is not None:
                self.stopped = asked.stops and not self.progress.ended
                for observer in self.observers:
                    observer.asked(self)
            self.progress.go_on(self.step)

    def _is_to_meet(self) -> bool:
        """Whether to go to a meeting; none follows that at the run's end."""
        if self.synchronisation.step >= self.progress.total_steps:
            return False
        asked = self.requests.look(self.step)
        return asked or self.progress.ended or bool(self._due(self.synchronisation.step))

    def _finish(self) -> RunResult:
        with self.clocks.meeting:
            self.synchronisation.agree(self.step)
        result = result_of(self)
        for observer in self.observers:
            observer.finished(self, result)
        self.synchronisation.wait()
        return result

"""One training step of one worker: a batch, its gradient, the update, and the exchanges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, final

import numpy as np

from knltrain.backends.backend import Backend, Ready, nobody_waits
from knltrain.clocks import Clocks
from knltrain.errors import NonFiniteLoss
from knltrain.exchange.strategies.strategy import Moment, Strategy, Touched
from knltrain.exchange.transports.board import RunLoss
from knltrain.input.batch_feed import BatchFeed
from knltrain.optimizers.optimizer import Optimizer
from knltrain.vectors import HOST, FloatArray, aligned_zeros
from knltrain.worker import termination

_NOTHING: Final = nullcontext()


@final
class GradientSum:
    """The sum of the gradients (n,) of all but the last of `batches` batches of a step."""

    def __init__(self, size: int, batches: int) -> None:
        self._sum = aligned_zeros(size)
        self._share = np.float32(1 / batches)

    def begin(self) -> None:
        """Begin a step."""
        self._sum.fill(0)

    def add(self, gradient: FloatArray) -> None:
        """Add the gradient of a batch: two reads and a write per value."""
        self._sum += gradient

    def completing(self, gradient: FloatArray, ready: Ready) -> Ready:
        """Return what a backend calls instead of `ready` while it computes the last `gradient`.

        The part that is done becomes the mean of all batches before `ready` is told of it. Call it
        with 0 when the whole is done, which does nothing where that was so already.
        """

        def complete(done: slice) -> None:
            np.add(self._sum[done], gradient[done], out=gradient[done])
            gradient[done] *= self._share

        return _before_it_is_told(gradient.size, complete, ready)


def weighing(gradient: FloatArray, weight: float, ready: Ready) -> Ready:
    """Return what a backend calls instead of `ready` while it computes `gradient`.

    The part that is done is multiplied by `weight` before `ready` is told of it. Call it with 0
    when the whole is done.
    """
    factor = np.float32(weight)

    def weigh(done: slice) -> None:
        gradient[done] *= factor

    return _before_it_is_told(gradient.size, weigh, ready)


def _before_it_is_told(size: int, work: Callable[[slice], None], ready: Ready) -> Ready:
    """Do the work on each part that is done, once, before `ready` is told of it."""
    end = size

    def told(offset: int) -> None:
        nonlocal end
        if offset < end:
            work(slice(offset, end))
            end = offset
        ready(offset)

    return told


@final
class TrainingStep:
    """A worker's training step.

    It takes `iter_size` batches of `feed`. `learning_rate` takes the number of a step, from 0.
    `clocks` measure the parts of a step. The gradient is multiplied by `weight`. The loss is
    published in `run_loss` between the gradient and what follows it.
    """

    weight = 1.0

    def __init__(
        self,
        feed: BatchFeed,
        iter_size: int,
        backend: Backend,
        optimizer: Optimizer,
        learning_rate: Callable[[int], float],
        strategy: Strategy,
        clocks: Clocks,
        run_loss: RunLoss,
    ) -> None:
        self._feed = feed
        self._iter_size = iter_size
        self._sum = GradientSum(strategy.gradient.size, iter_size) if iter_size > 1 else None
        self._backend = backend
        self._optimizer = optimizer
        self._learning_rate = learning_rate
        self._strategy = strategy
        self._clocks = clocks
        self._run_loss, self._images = run_loss, 0
        # What is computed on a device comes to the host for those alone that want parts of it.
        self._tells_of_parts = strategy.space is HOST or strategy.hears_of_parts
        strategy.space.follow(strategy.parameters, strategy.gradient)

    def take(self, step: int) -> tuple[float, float]:
        """Take step `step`, from 0; return loss and learning rate.

        Raises `NonFiniteLoss` when the loss is not finite, and what the transport raises when
        another worker fails or the run is stopped.
        """
        part, clocks = self._strategy, self._clocks
        part.team.check()
        with clocks.exchange, on_host(part, "begin", step):
            part.step_begins(step)
        self._images = 0
        loss = self._loss_and_gradient(step)
        self._run_loss.computed(step, loss, self._images)
        with clocks.exchange, on_host(part, "gradient", step):
            part.gradient_ready(step)
        with clocks.update:
            learning_rate = self._learning_rate(step)
            self._optimizer.step(part.parameters, part.gradient, learning_rate)
        with clocks.exchange, on_host(part, "step", step):
            part.stepped(step)
        return loss, learning_rate

    def rehearse(self, step: int) -> None:
        """Load or compile all that a step calls, so that no kernel is compiled while clocks run.

        By the batch of `step`, the first one to be taken, which is taken again then.
        Changes the vectors and the optimizer's state, but not the clocks (collective).
        """
        part = self._strategy
        before, moved = part.parameters, part.gradient
        before.fill(0.0)
        part.space.changed(before)
        self._feed.begin(step)
        self.rehearse_gradient(step)
        part.team.barrier(termination.MEETING_SECONDS)
        if part.method.period is not None:
            both = before, moved
            with _while_touched(part, Touched(both, both)):
                part.exchange(0)
                part.settle()
            if part.parameters is not before or part.gradient is not moved:
                self.rehearse_gradient(step)  # backends make things for each vector,
                if part.space is not HOST:  # and so do optimizers of devices
                    self._optimizer.step(before, moved, 0.0)
        self._optimizer.step(part.parameters, part.gradient, 0.0)
        part.team.clocks.clear()

    def rehearse_gradient(self, step: int) -> None:
        """Let the backend prepare for this worker's share of the batch of `step`."""
        part, batch = self._strategy, self._feed.take(step)
        if len(batch.labels):
            self._backend.rehearse(batch, part.parameters, part.gradient)

    def _loss_and_gradient(self, step: int) -> float:
        """Mean loss and gradient of the batches of a step."""
        part = self._strategy
        gradient = part.gradient
        done = part.gradient_done_from if part.hears_of_parts else nobody_waits
        if self.weight == 1:
            return self._mean_of_batches(step, done)
        weighed = weighing(gradient, self.weight, done)
        loss = self._mean_of_batches(step, weighed)
        with self._clocks.gradient, self._gradient_on_host():
            weighed(0)
        return loss

    def _gradient_on_host(self, is_written: bool = True) -> AbstractContextManager[None]:
        part, gradient = self._strategy, (self._strategy.gradient,)
        if part.space is HOST:
            return _NOTHING
        return _while_touched(part, Touched(gradient, gradient if is_written else ()))

    def _mean_of_batches(self, step: int, ready: Ready) -> float:
        if self._sum is None:
            return self._of_batch(step, 0, ready)
        gradient, losses = self._strategy.gradient, 0.0
        self._sum.begin()
        for number in range(self._iter_size - 1):
            losses += self._of_batch(step, number, nobody_waits)
            with self._clocks.gradient, self._gradient_on_host(is_written=False):
                self._sum.add(gradient)
        complete = self._sum.completing(gradient, ready)
        losses += self._of_batch(step, self._iter_size - 1, complete)
        with self._clocks.gradient, self._gradient_on_host():
            complete(0)
        return losses / self._iter_size

    def _of_batch(self, step: int, number: int, ready: Ready) -> float:
        part, backend = self._strategy, self._backend
        with self._clocks.batch:
            batch = self._feed.take(step, number)
        if not len(batch.labels):
            part.gradient.fill(0)
            part.space.changed(part.gradient)
            self._feed.give_back()
            return 0.0
        with self._clocks.gradient:
            if part.space is not HOST and (coming := self._feed.following(step, number)):
                backend.prefetch(coming)
            told = ready if self._tells_of_parts else nobody_waits
            loss = backend.loss_and_gradient(batch, part.parameters, part.gradient, told)
        if not math.isfinite(loss):
            raise NonFiniteLoss(step, backend.first_non_finite(batch, part.parameters))
        self._images += len(batch.labels)
        self._feed.give_back()
        return loss


def on_host(part: Strategy, moment: Moment, step: int) -> AbstractContextManager[None]:
    """Let the strategy's call of a moment find and leave its vectors on the host."""
    return _NOTHING if part.space is HOST else _while_touched(part, part.touched(moment, step))


@contextmanager
def _while_touched(part: Strategy, touched: Touched) -> Iterator[None]:
    """Bring vectors to the host before the body touches them there; its writes are the newest."""
    space, before = part.space, (part.parameters, part.gradient)
    space.to_host(*touched.read)
    yield
    space.take(*touched.written)
    for old, new in zip(before, (part.parameters, part.gradient), strict=True):
        if touched.new and new.ctypes.data != old.ctypes.data:
            space.take(new)

"""The training loss of a run, over the images of all workers; none of them waits for it."""

from __future__ import annotations

from typing import Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from knltrain.exchange.transports.request_board import LINE_WORDS

_FIRST_WORD: Final = 4
"""Those before it are the words of requests."""
_BUFFERS, _BUFFER_WORDS = 2, 3


class LossSum(NamedTuple):
    """A number of images, and the sum of their training losses."""

    images: float = 0.0
    losses: float = 0.0

    def plus(self, other: LossSum) -> LossSum:
        """Return the sum of both."""
        return LossSum(self.images + other.images, self.losses + other.losses)


@final
class LossBoard:
    """The lines of a process's workers, and one of what it has heard of other processes.

    Nobody waits for a loss. A worker writes its sums since its start after each gradient, into one
    of two buffers by the parity of its step (double buffering, as in CaffeGPI: Kuehn, Keuper,
    Pfreundt, arXiv 1706.00095). Where all workers meet within each step, nobody writes into a
    buffer that another one still reads: whoever has done step t finds all others' sums of step t.
    Elsewhere it finds their newest ones. On processors that reorder stores a buffer may rarely
    have numbers of two steps.

    ``words`` (1 + P, LINE_WORDS) int64 are those of a `RequestBoard`, which has the memory.
    """

    def __init__(self, words: npt.NDArray[np.int64]) -> None:
        end = _FIRST_WORD + _BUFFERS * _BUFFER_WORDS
        buffers = words[:, _FIRST_WORD:end].reshape(len(words), _BUFFERS, _BUFFER_WORDS)
        self._steps = buffers[:, :, 0]
        self._sums: npt.NDArray[np.float64] = buffers.view(np.float64)[:, :, 1:]
        self._news = 0

    @classmethod
    def alone(cls) -> LossBoard:
        """Make a board for one worker in memory of its own."""
        return cls(np.zeros((2, LINE_WORDS), np.int64))

    def publish(self, slot: int, steps: int, own: LossSum) -> None:
        """Publish what worker ``slot`` of this process has learned from in ``steps`` steps."""
        self._write(1 + slot, steps, own)

    def publish_others(self, others: LossSum) -> None:
        """Publish the sum over the workers of all other processes; one thread alone may do so."""
        self._news += 1
        self._write(0, self._news, others)

    def own(self, steps: int | None = None) -> LossSum:
        """Return the sum over this process's workers: of ``steps`` steps, or the newest of each."""
        newest = self._steps[1:].argmax(axis=1)
        if steps is not None:
            buffer = steps % _BUFFERS
            newest = np.where(self._steps[1:, buffer] == steps, buffer, newest)
        images, losses = self._sums[1:][np.arange(len(newest)), newest].sum(axis=0).tolist()
        return LossSum(images, losses)

    def total(self, steps: int | None = None) -> LossSum:
        """Return the sum over all workers of the run, as far as it is known here."""
        images, losses = self._sums[0, int(self._steps[0].argmax())].tolist()
        return self.own(steps).plus(LossSum(images, losses))

    def _write(self, line: int, step: int, found: LossSum) -> None:
        buffer = step % _BUFFERS
        self._sums[line, buffer] = found
        self._steps[line, buffer] = step


@final
class RunLoss:
    """Publishes a worker's losses on the ``board``, as ``slot`` of its process; reads all."""

    def __init__(self, board: LossBoard | None = None, slot: int = 0) -> None:
        self._board = board or LossBoard.alone()
        self._slot = slot
        self._own = LossSum()
        self._steps: int | None = None

    def computed(self, step: int, loss: float, images: int) -> None:
        """Publish the mean loss of this worker's images in step ``step``, from 0."""
        self._own = self._own.plus(LossSum(images, loss * images))
        self._steps = step + 1
        self._board.publish(self._slot, self._steps, self._own)

    def total(self) -> LossSum:
        """Return the sum over all workers since they started, as far as it is known here."""
        return self._board.total(self._steps)

    def window(self) -> LossWindow:
        """Begin to average now."""
        return LossWindow(self)


@final
class LossWindow:
    """The mean over the images of all workers from one look to the next."""

    def __init__(self, run_loss: RunLoss) -> None:
        self._run_loss, self._before = run_loss, run_loss.total()
        self._mean = 0.0

    def mean(self) -> float:
        """Return the mean since the last call; what that returned if there were no images."""
        now, before = self._run_loss.total(), self._before
        if now.images > before.images:
            self._mean = (now.losses - before.losses) / (now.images - before.images)
            self._before = now
        return self._mean

"""The training loss of a run: that of the images of all workers, as one of them knows it."""

from __future__ import annotations

from typing import final

from knltrain.exchange.transports.loss_board import LossBoard, LossSum


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

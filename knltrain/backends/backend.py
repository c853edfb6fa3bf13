"""The interface between training and computing: a network's loss and gradient on one machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from knltrain.data.dataset import Batch
from knltrain.vectors import FloatArray

Ready = Callable[[int], None]
"""Told an offset: gradient[offset:] of a step will not change any more."""


def nobody_waits(offset: int) -> None:
    """Take no notice."""


class Backend(ABC):
    """A network made ready to compute on batches of up to a fixed number of images.

    Implementations are built as Implementation(network, batch, threads): `batch` is the largest
    number of images per call, `threads` the number of threads of one call. `parameters` and
    `gradient` are packed vectors as the network lays them out, float32 (network.packed_size,),
    contiguous, and must not overlap; anything else is a NetworkError. The padding between
    parameters is not read, and is zero in the gradient.

    Training goes by the statistics of the batch, evaluation by the running ones, which lie among
    the parameters and are never written: their place in the gradient gets (running - batch's), of
    which the optimizer takes its share; the batch's variance is the unbiased one. Dropout works in
    training alone; what it drops follows from `batch.key`, unless an implementation says otherwise.
    """

    @abstractmethod
    def loss_and_gradient(
        self,
        batch: Batch,
        parameters: FloatArray,
        gradient: FloatArray,
        ready: Ready = nobody_waits,
    ) -> float:
        """Mean softmax cross-entropy over the batch, summed over the outputs by their weights.

        Its gradient overwrites `gradient`. While the layers go backward, `ready` may be told with
        which of them its end is done, by offsets that go down; what is left is with the return.
        """

    def rehearse(self, batch: Batch, parameters: FloatArray, gradient: FloatArray) -> None:
        """Make ready whatever `loss_and_gradient` of these needs beside them.

        By that itself, where an implementation knows no shorter way; `gradient` is lost.
        """
        self.loss_and_gradient(batch, parameters, gradient)

    @abstractmethod
    def evaluate(self, batch: Batch, parameters: FloatArray) -> tuple[float, int]:
        """Sum of the images' losses at the first output, and how many it classifies right.

        The output's weight does not count; of equal logits the first one does.
        """

    @abstractmethod
    def first_non_finite(self, batch: Batch, parameters: FloatArray) -> str | None:
        """Name of the first layer whose output is not finite in training; None when all are.

        Layers that are computed in one go count as the first of them.
        """

    @property
    def description(self) -> Mapping[str, object]:
        """What was decided when the backend was made, as JSON can hold it; empty: nothing was."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Give back threads and memory; the backend computes no more."""

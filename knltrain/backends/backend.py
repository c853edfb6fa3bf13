"""The interface between training and computing: a network's loss and gradient on one machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from knltrain.clocks import Marks
from knltrain.data.dataset import Batch
from knltrain.vectors import FloatArray

if TYPE_CHECKING:
    from knltrain.backends.region import Region

Ready = Callable[[int], None]
"""Called with an offset: gradient[offset:] of a step will not change any more."""


WARM_UP_PASSES: Final = 3
"""So many first gradients with the same vectors take longer: memory is touched, calls are noted."""


def nobody_waits(offset: int) -> None:
    """Ignore the offset."""


class Backend(ABC):
    """A network prepared to compute on batches of up to a fixed number of images.

    Implementations are built as Implementation(network, batch, threads): `batch` is the largest
    number of images per call, `threads` the number of threads of one call. `parameters` and
    `gradient` are packed vectors in the network's layout, float32 (network.packed_size,),
    contiguous, without overlap; anything else is a NetworkError. The padding between parameters is
    not read, and is zero in the gradient.

    Training uses the statistics of the batch, evaluation the running ones. These lie among the
    parameters and are never written: their place in the gradient gets (running - batch's), of which
    the optimizer takes its share. The batch's variance is the unbiased one. Dropout works in
    training alone; its decisions follow from `batch.key`.
    """

    @abstractmethod
    def loss_and_gradient(
        self,
        batch: Batch,
        parameters: FloatArray,
        gradient: FloatArray,
        ready: Ready = nobody_waits,
    ) -> float:
        """Mean loss over the batch, by default softmax cross-entropy; see `knltrain.backends.loss`.

        The gradient overwrites `gradient`. During the backward pass `ready` may be called with
        falling offsets: from each on, the gradient is complete. On return all of it is.
        """

    def rehearse(self, batch: Batch, parameters: FloatArray, gradient: FloatArray) -> None:
        """Prepare all that `loss_and_gradient` with these arguments needs, such as kernels.

        Calls `loss_and_gradient` itself unless an implementation has a shorter way; `gradient` is
        overwritten.
        """
        self.loss_and_gradient(batch, parameters, gradient)

    def prefetch(self, batch: Batch) -> None:  # noqa: B027
        """Hear of the batch that comes next, which stays as it is until it is computed with."""

    @abstractmethod
    def evaluate(
        self, batch: Batch, parameters: FloatArray, logits: FloatArray | None = None
    ) -> tuple[float, int]:
        """Sum of the images' plain losses at the first output, and number of right classifications.

        `Loss.plain` says what is plain, `Loss.right` what is right. The output's weight does not
        count. The logits are written into `logits`, float32 (images,
        classes), if that is given.
        """

    @abstractmethod
    def first_non_finite(self, batch: Batch, parameters: FloatArray) -> str | None:
        """Name of the first layer whose output is not finite in training; None when all are.

        Fused layers count as the first of them.
        """

    @property
    def description(self) -> Mapping[str, object]:
        """The decisions made when the backend was built, as JSON; empty if there were none."""
        return {}

    @property
    def regions(self) -> Sequence[Region]:
        """The parts of a step, with their costs; a part's place here is its number in marks."""
        return ()

    def observe(self, marks: Marks) -> None:  # noqa: B027
        """Mark the end of each region of a step from now on."""

    @abstractmethod
    def close(self) -> None:
        """Release threads and memory; the backend cannot be used afterwards."""

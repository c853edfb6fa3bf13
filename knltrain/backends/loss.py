"""The losses that training can lower."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from knltrain.vectors import FloatArray
from vectorized_ops.implementations import Operations
from vectorized_ops.layout import AnyArray

if TYPE_CHECKING:
    from vectorized_ops.shapes import Cost

__all__ = [
    "PLAIN",
    "Loss",
    "MeanSquaredError",
    "SigmoidCrossEntropy",
    "SoftmaxCrossEntropy",
    "Telling",
    "classes_of",
    "told_right",
]


Telling: TypeAlias = Literal["class", "classes", "values"]
"""What outputs tell of an image: its class, which classes are there, or values."""


class Loss(ABC):
    """A loss of outputs (n, classes) float32 and labels; that of a batch is a mean over its images.

    Labels are classes, int64 (n,), or targets, float32 (n, classes); see
    `vectorized_ops.reference.loss`. The losses of several outputs are summed by their weights.
    """

    tells: ClassVar[Telling] = "class"

    @abstractmethod
    def cost(self, images: int, classes: int) -> Cost:
        """What the loss of outputs (images, classes), and its gradient, cost by definition."""

    @property
    def plain(self) -> Loss:
        """What evaluations measure, so that they can be compared: without what helps training."""
        return self

    @abstractmethod
    def compute(
        self,
        operations: Operations,
        outputs: AnyArray,
        labels: AnyArray,
        gradient: AnyArray,
        weight: float,
    ) -> float:
        """Return the mean loss times the number of images, and write the mean's gradient.

        Both are multiplied by `weight`.
        """

    def told(self, outputs: AnyArray) -> npt.NDArray[np.float64]:
        """Probabilities (n, classes) of outputs, softmax; or the outputs, if these are values."""
        found: npt.NDArray[np.float64] = outputs.astype(np.float64)
        with np.errstate(invalid="ignore"):  # inf - inf: the caller looks at what is told
            np.exp(found - found.max(axis=1, keepdims=True), out=found)
        found /= found.sum(axis=1, keepdims=True)
        return found

    def mass(self, labels: AnyArray) -> float:
        """What the images of `labels` count together in a mean: their number."""
        return len(labels)

    def right(self, outputs: AnyArray, labels: AnyArray) -> int:
        """How many images are told right.

        That is those whose largest output is that of their class, or of their largest target; of
        equal ones the first counts.
        """
        return int(np.count_nonzero(outputs.argmax(axis=1) == classes_of(labels)))


@dataclass(frozen=True)
class SoftmaxCrossEntropy(Loss):
    """Sum over classes of -w ((1 - s) t + s / classes) log p, p = softmax(outputs).

    s is `label_smoothing`, 0 <= s < 1 (Szegedy et al. 2016, section 7), and t 1 for an image's
    class, or its target. w are `class_weights` above 0: images count by the weights of their
    classes in the mean, as PyTorch's do.
    """

    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] | None = None

    @property
    def plain(self) -> Loss:
        """Without smoothing and weights."""
        return PLAIN

    def compute(
        self,
        operations: Operations,
        outputs: AnyArray,
        labels: AnyArray,
        gradient: AnyArray,
        weight: float,
    ) -> float:
        """See `Loss.compute`."""
        more: dict[str, Any] = {} if self.weights is None else {"class_weights": self.weights}
        found: float = operations.softmax_cross_entropy(
            outputs, labels, gradient, smoothing=self.label_smoothing, weight=weight, **more
        )
        return found

    def cost(self, images: int, classes: int) -> Cost:
        """See `Loss.cost`."""
        from vectorized_ops.shapes import SoftmaxCrossEntropyShape

        return SoftmaxCrossEntropyShape(images, classes).costs["forward"]

    @cached_property
    def weights(self) -> FloatArray | None:
        """The weights as float32 (classes,)."""
        return None if self.class_weights is None else np.array(self.class_weights, np.float32)

    def mass(self, labels: AnyArray) -> float:
        """The sum of the weights of the images' classes."""
        if self.weights is None or labels.ndim == 2:
            return len(labels)
        return float(self.weights[labels].sum(dtype=np.float64))


@dataclass(frozen=True)
class SigmoidCrossEntropy(Loss):
    """Mean over classes of -t log s - (1 - t) log (1 - s), s the sigmoid of the class's output."""

    tells: ClassVar[Telling] = "classes"

    def told(self, outputs: AnyArray) -> npt.NDArray[np.float64]:
        """The sigmoid of each output."""
        return np.asarray(0.5 * (1 + np.tanh(outputs.astype(np.float64) / 2)))

    def compute(
        self,
        operations: Operations,
        outputs: AnyArray,
        labels: AnyArray,
        gradient: AnyArray,
        weight: float,
    ) -> float:
        """See `Loss.compute`."""
        found: float = operations.sigmoid_cross_entropy(outputs, labels, gradient, weight=weight)
        return found

    def cost(self, images: int, classes: int) -> Cost:
        """About 8 operations per output, exponential and logarithm among them; targets are read."""
        return _passes(images * classes, 8)

    def right(self, outputs: AnyArray, labels: AnyArray) -> int:
        """With targets, how many images have each class told right; see `told_right`."""
        if labels.ndim == 1:
            return super().right(outputs, labels)
        return int(told_right(outputs, labels).all(axis=1).sum())


@dataclass(frozen=True)
class MeanSquaredError(Loss):
    """Mean over outputs of (output - t)^2."""

    tells: ClassVar[Telling] = "values"

    def told(self, outputs: AnyArray) -> npt.NDArray[np.float64]:
        """The outputs as they are."""
        return np.asarray(outputs.astype(np.float64))

    def cost(self, images: int, classes: int) -> Cost:
        """A difference, its square, their sum and the gradient's product; targets are read."""
        return _passes(images * classes, 4)

    def compute(
        self,
        operations: Operations,
        outputs: AnyArray,
        labels: AnyArray,
        gradient: AnyArray,
        weight: float,
    ) -> float:
        """See `Loss.compute`."""
        found: float = operations.mean_squared_error(outputs, labels, gradient, weight=weight)
        return found


def _passes(outputs: int, flops: int) -> Cost:
    """So many operations on each output, which is read with its target; a gradient is written."""
    from vectorized_ops.shapes.operation import passes

    return passes(outputs, flops, 3)


def told_right(outputs: AnyArray, targets: AnyArray) -> AnyArray:
    """Whether each class is told right, bool (n, classes): its output is above 0 if it is there.

    It is there if its target is above 0.5.
    """
    found: AnyArray = (outputs > 0) == (targets > 0.5)
    return found


def classes_of(labels: AnyArray) -> AnyArray:
    """The class of each image, int64 (n,): of targets that of the largest, the first of equals."""
    return labels.argmax(axis=1) if labels.ndim == 2 else labels


PLAIN = SoftmaxCrossEntropy()
"""Without smoothing and weights."""

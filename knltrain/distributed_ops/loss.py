"""The loss, where the backward pass begins."""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.distributed_ops.layer import Layer
from knltrain.distributed_ops.options import Options
from knltrain.distributed_ops.times import FORWARD
from knltrain.errors import NetworkError
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import SoftmaxCrossEntropyShape


@final
class SoftmaxCrossEntropy(Layer):
    """Softmax cross-entropy of logits (N', `classes`) for N `images`; `weight` times their mean."""

    kind = "softmax cross-entropy"

    def __init__(
        self,
        name: str,
        images: int,
        classes: int,
        options: Options | None = None,
        *,
        weight: float = 1.0,
    ) -> None:
        super().__init__(name, options)
        self._shape = SoftmaxCrossEntropyShape(images, classes)
        self._weight = weight
        self.inputs, self.outputs = ((images, classes),), ()
        self._gradient = self._array(images, classes)

    def forward(self, logits: AnyArray, labels: npt.NDArray[np.int64]) -> float:
        """Return the mean loss of the first n images, times its weight; `labels` (n,) int64.

        Raises NetworkError for invalid labels.
        """
        self._check("logits", logits, self._gradient)
        images, classes = self._shape.images, self._shape.classes
        given = labels.ndim == 1 and 0 < len(labels) <= images and labels.dtype == np.int64
        if not given or labels.min() < 0 or labels.max() >= classes:
            raise NetworkError(
                f"layer '{self.name}' was given labels of shape {labels.shape} and type "
                f"{labels.dtype}: expected 1 to {images} of int64, from 0 to {classes - 1}"
            )
        with self.times[FORWARD].computing():
            total: float = self._operations.softmax_cross_entropy(
                logits, labels, self._gradient, weight=self._weight
            )
        return total / len(labels)

    def backward_data(self) -> AnyArray:
        """Return the gradient of the logits (N', classes), which `forward` has computed."""
        return self._gradient

    @property
    def shape(self) -> SoftmaxCrossEntropyShape:
        """The shape of the operation, for N images."""
        return self._shape

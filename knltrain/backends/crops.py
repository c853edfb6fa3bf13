"""Several crops of a picture, evaluated together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from knltrain.backends.backend import Backend
from knltrain.backends.loss import classes_of
from knltrain.data.dataset import Batch, LabelledImages
from knltrain.data.source import Rows
from knltrain.vectors import FloatArray


@final
class CropMeans:
    """Evaluates pictures by the mean of softmax(logits) over their `crops`.

    At most `batch` images are computed at a time.
    """

    def __init__(
        self, crops: Sequence[LabelledImages], backend: Backend, batch: int, classes: int
    ) -> None:
        self._crops, self._backend = crops, backend
        self._logits = np.zeros((batch, classes), np.float32)

    def evaluate(
        self, rows: Rows, chunk: Batch, parameters: FloatArray, logits: FloatArray | None = None
    ) -> tuple[float, int]:
        """As `Backend.evaluate` for the pictures `rows` (n,), which are written into `chunk`.

        The loss of a picture is the sum over classes of -t log p, p the mean; `logits` become log
        p, as softmax gives p of them.
        """
        own = self._logits[: len(rows)]
        means = np.zeros(own.shape)
        for crop in self._crops:
            crop.write(rows, chunk)
            self._backend.evaluate(chunk, parameters, own)
            means += _softmax(own) / len(self._crops)
        logarithms = np.log(np.maximum(means, np.finfo(np.float64).tiny))
        if logits is not None:
            logits[:] = logarithms
        labels = chunk.labels
        targets = labels if labels.ndim == 2 else np.arange(own.shape[1]) == labels[:, None]
        right = means.argmax(axis=1) == classes_of(labels)
        return -float((targets * logarithms).sum()), int(np.count_nonzero(right))


def _softmax(logits: FloatArray) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    with np.errstate(invalid="ignore"):  # inf - inf: the caller looks at the loss
        powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    found: np.ndarray[tuple[int, int], np.dtype[np.float64]] = powers / powers.sum(
        axis=1, keepdims=True
    )
    return found

"""How good the model is on the test set, measured by all workers together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from knltrain.backends.backend import Backend
from knltrain.data.dataset import Batch, LabelledImages
from knltrain.errors import NonFiniteLoss
from knltrain.exchange.transports.team import Team
from knltrain.vectors import FloatArray


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Accuracy (0 to 1) and mean loss of one model over `images` test images."""

    accuracy: float
    loss: float
    images: int


@final
class Evaluator:
    """Evaluates models on test images shared out over the workers.

    Worker r takes the images r, r + workers, r + 2 workers, ... in chunks of at most `batch`
    images, which the backend must have been compiled for.
    """

    def __init__(self, images: LabelledImages, backend: Backend, team: Team, batch: int) -> None:
        mine = slice(team.rank, None, team.workers)
        self._images = images.images_nhwc[mine]
        self._labels = images.labels[mine]
        self._backend = backend
        self._team = team
        self._chunk = Batch.allocate(batch, images.image_shape)

    def evaluate(self, parameters: FloatArray, step: int) -> Evaluation:
        """Evaluate the model after `step` steps, (n,) float32; every worker gets the same answer.

        Collective: all workers call it after the same step. It returns only when every worker has
        read its last parameter, so an exchange that follows cannot change a model being evaluated.
        Raises `NonFiniteLoss` in every worker when the loss over all images is not finite.
        """
        correct, loss_sum = 0, 0.0
        for start in range(0, len(self._labels), len(self._chunk.labels)):
            self._team.check()
            loss, hits = self._backend.evaluate(self._load(start), parameters)
            correct, loss_sum = correct + hits, loss_sum + loss
        mine = np.array([correct, loss_sum, len(self._labels)], np.float64)
        all_correct, all_loss, images = self._team.all_sum(mine).tolist()
        if not math.isfinite(all_loss):
            raise NonFiniteLoss(step, self._first_non_finite(parameters))
        return Evaluation(all_correct / images, all_loss / images, int(images))

    def _first_non_finite(self, parameters: FloatArray) -> str | None:
        """The layer to blame, if it is one of this worker's images that shows it."""
        for start in range(0, len(self._labels), len(self._chunk.labels)):
            layer = self._backend.first_non_finite(self._load(start), parameters)
            if layer is not None:
                return layer
        return None

    def _load(self, start: int) -> Batch:
        size = min(len(self._chunk.labels), len(self._labels) - start)
        chunk = Batch(self._chunk.images_nhwc[:size], self._chunk.labels[:size])
        chunk.images_nhwc[:] = self._images[start : start + size]
        chunk.labels[:] = self._labels[start : start + size]
        return chunk

"""The cost of a worker's step, measured with two sizes of batches."""

from __future__ import annotations

import numpy as np

from knltrain.backends.backend import WARM_UP_PASSES, Backend, Ready, nobody_waits
from knltrain.balance.measuring import measured_cost, random_batch
from knltrain.balance.shares import Cost
from knltrain.data.dataset import Batch
from knltrain.vectors import FloatArray


class Modelled(Backend):
    """Takes 2 s and 0.5 s for each image by a clock of its own; at first 100 s for each size."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seen: list[int] = []
        self.delays = iter([0.0, 7.0, 0.0, 0.0, 0.0, 7.0])

    def loss_and_gradient(
        self,
        batch: Batch,
        parameters: FloatArray,
        gradient: FloatArray,
        ready: Ready = nobody_waits,
    ) -> float:
        images = len(batch.labels)
        is_first = self.seen.count(images) < 1 + WARM_UP_PASSES  # the rehearsal's, too
        self.seen.append(images)
        self.now += 100 if is_first else 2 + 0.5 * images + next(self.delays)
        return 0.0

    def evaluate(
        self, batch: Batch, parameters: FloatArray, logits: FloatArray | None = None
    ) -> tuple[float, int]:
        raise NotImplementedError

    def first_non_finite(self, batch: Batch, parameters: FloatArray) -> str | None:
        raise NotImplementedError

    def close(self) -> None:
        pass


def test_the_median_counts_and_the_first_calls_do_not() -> None:
    backend = Modelled()
    batches = [random_batch(images, (2, 2, 1), ()) for images in (4, 8)]
    found = measured_cost(backend, np.zeros(3, np.float32), batches, lambda: backend.now)
    assert found == Cost(2.0, 0.5)


def test_batches_to_measure_by_have_no_zeros_that_make_products_fast() -> None:
    batch = random_batch(3, (2, 2, 1), (5,))
    assert batch.images_nhwc.shape == (3, 2, 2, 1)
    assert np.abs(batch.images_nhwc).min() > 0
    assert batch.labels.shape == (3, 5)

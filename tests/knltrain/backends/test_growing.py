"""A backend that is built anew for larger batches, and for those alone."""

from __future__ import annotations

from functools import partial

import numpy as np
from counting import CountingBackend

from knltrain.backends.growing import GrowingBackend
from knltrain.data.dataset import Batch

VECTOR = np.zeros(1, np.float32)


def batch(images: int) -> Batch:
    return Batch.allocate(images, (1, 1, 1))


def test_only_a_larger_batch_has_it_built_anew() -> None:
    log: list[str] = []
    backend = GrowingBackend(partial(CountingBackend, log=log), 4)
    backend.rehearse(batch(4), VECTOR, VECTOR)
    assert backend.loss_and_gradient(batch(3), VECTOR, VECTOR) == 3
    assert backend.description == {"images": 4}
    assert backend.loss_and_gradient(batch(8), VECTOR, VECTOR) == 8
    assert backend.evaluate(batch(8), VECTOR) == (0.0, 8)
    assert backend.first_non_finite(batch(5), VECTOR) == "layer 5"
    assert backend.description == {"images": 8}
    backend.close()
    assert log == [
        "built for 4",
        "rehearsal 4",
        "gradient 3",
        "closed 4",
        "built for 8",
        "gradient 8",
        "evaluation 8",
        "search 5",
        "closed 8",
    ]

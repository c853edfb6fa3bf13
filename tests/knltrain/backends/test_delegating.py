"""A backend around another one is that one, unless it overrides something."""

from __future__ import annotations

import numpy as np
from counting import CountingBackend

from knltrain.backends.delegating import DelegatingBackend
from knltrain.data.dataset import Batch

VECTOR = np.zeros(1, np.float32)


def test_everything_is_the_backend_within() -> None:
    log: list[str] = []
    backend, told = DelegatingBackend(CountingBackend(8, log)), list[int]()
    batch = Batch.allocate(5, (1, 1, 1))
    backend.rehearse(batch, VECTOR, VECTOR)
    assert backend.loss_and_gradient(batch, VECTOR, VECTOR, told.append) == 5
    assert backend.evaluate(batch, VECTOR) == (0.0, 5)
    assert backend.first_non_finite(batch, VECTOR) == "layer 5"
    assert backend.description == {"images": 8}
    backend.close()
    assert told == [0]
    assert log == [
        "built for 8",
        "rehearsal 5",
        "gradient 5",
        "evaluation 5",
        "search 5",
        "closed 8",
    ]

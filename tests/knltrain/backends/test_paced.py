"""A backend that takes as long as a slower machine would."""

from __future__ import annotations

import numpy as np
import pytest
from counting import CountingBackend

from knltrain.backends import paced
from knltrain.backends.paced import PacedBackend
from knltrain.data.dataset import Batch

VECTOR = np.zeros(1, np.float32)


def batch(images: int) -> Batch:
    return Batch.allocate(images, (1, 1, 1))


@pytest.mark.parametrize(("computed", "slept"), [(0.5, [1.5]), (3.0, [])])
def test_a_gradient_takes_the_modelled_time_or_its_own(
    monkeypatch: pytest.MonkeyPatch, computed: float, slept: list[float]
) -> None:
    found: list[float] = []
    times = iter([10.0, 10.0 + computed])
    monkeypatch.setattr(paced.time, "perf_counter", lambda: next(times))
    monkeypatch.setattr(paced.time, "sleep", found.append)
    log: list[str] = []
    backend = PacedBackend(CountingBackend(8, log), 4.0)
    told: list[int] = []
    assert backend.loss_and_gradient(batch(8), VECTOR, VECTOR, told.append) == 8
    assert found == pytest.approx(slept)
    assert told == [0]


def test_all_else_is_the_backend_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paced.time, "sleep", lambda _seconds: pytest.fail("it slept"))
    log: list[str] = []
    backend = PacedBackend(CountingBackend(8, log), 0.001)
    backend.rehearse(batch(2), VECTOR, VECTOR)
    assert backend.evaluate(batch(3), VECTOR) == (0.0, 3)
    assert backend.first_non_finite(batch(4), VECTOR) == "layer 4"
    assert backend.description == {"images": 8}
    backend.close()
    assert log == ["built for 8", "rehearsal 2", "evaluation 3", "search 4", "closed 8"]

"""How long a worker takes for a step, measured before the first one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from knltrain.backends.backend import WARM_UP_PASSES
from knltrain.balance.shares import Cost, cost_of
from knltrain.data.dataset import Batch

if TYPE_CHECKING:
    from knltrain.backends.backend import Backend
    from knltrain.vectors import FloatArray

_ROUNDS = 3


def measured_cost(
    backend: Backend,
    parameters: FloatArray,
    batches: Sequence[Batch],
    clock: Callable[[], float] = time.perf_counter,
) -> Cost:
    """The cost of gradients with a small and with a larger batch, medians of a few."""
    gradient = np.zeros_like(parameters)
    times = []
    for batch in batches:
        backend.rehearse(batch, parameters, gradient)
        for _ in range(WARM_UP_PASSES):
            backend.loss_and_gradient(batch, parameters, gradient)
        taken = []
        for _ in range(_ROUNDS):
            begun = clock()
            backend.loss_and_gradient(batch, parameters, gradient)
            taken.append(clock() - begun)
        times.append((len(batch.labels), statistics.median(taken)))
    return cost_of(times)


def random_batch(
    images: int, image_shape: tuple[int, int, int], label_shape: tuple[int, ...]
) -> Batch:
    """A batch to measure by, of class 0 or of targets that are 0."""
    batch = Batch.allocate(images, image_shape, label_shape)
    draws = np.random.default_rng(0)
    draws.standard_normal(dtype=np.float32, out=batch.images_nhwc)
    return batch

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from knltrain.distributed_ops import Options, ReLU
from knltrain.errors import NetworkError


@pytest.mark.parametrize("shape", [(3, 4, 4, 2), (3, 20)])
def test_what_was_negative_passes_neither_way(
    options: Options,
    shape: tuple[int, ...],
    laid_out: Callable[..., Any],
    random: Callable[..., Any],
) -> None:
    layer, values, gradient = ReLU("relu", shape, options), random(*shape), random(*shape, seed=1)
    out = layer.forward(laid_out(options, values))[:3]
    np.testing.assert_array_equal(out, np.maximum(values, 0))
    down = layer.backward_data(laid_out(options, gradient))[:3]
    np.testing.assert_array_equal(down, np.where(values > 0, gradient, 0))


def test_arrays_of_other_shapes_are_refused(random: Callable[..., Any]) -> None:
    with pytest.raises(NetworkError, match="layer 'relu' was given values"):
        ReLU("relu", (3, 20), Options("reference")).forward(random(3, 21))


def test_cost_counts_a_read_more_backward() -> None:
    layer = ReLU("relu", (3, 20), Options("reference"))
    assert layer.cost("forward").memory_bytes == 2 * 4 * 60
    assert layer.cost("backward_data").memory_bytes == 3 * 4 * 60

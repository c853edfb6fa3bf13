from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from knltrain.distributed_ops import Addition, Concatenation, Options
from knltrain.errors import NetworkError


@pytest.mark.parametrize("place", [(3, 4, 2), (3,)], ids=["maps", "vectors"])
def test_channels_lie_behind_each_other_and_their_gradients_are_parts(
    place: tuple[int, ...], options: Options, laid_out: Callable[..., Any], random: Any
) -> None:
    shapes = [(*place, 5), (*place, 1), (*place, 17)]
    layer = Concatenation("all", shapes, options)
    parts = [random(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    found = layer.forward(*(laid_out(options, part) for part in parts))
    np.testing.assert_array_equal(found[:3], np.concatenate(parts, axis=-1))
    for gradient, part in zip(layer.backward_data(found), parts, strict=True):
        np.testing.assert_array_equal(gradient[:3], part)
    assert (layer.inputs, layer.outputs) == (tuple(shapes), (*place, 23))
    assert layer.cost("forward").memory_bytes == 2 * 4 * int(np.prod(layer.outputs))


@pytest.mark.parametrize("shapes", [[], [(3, 4, 2, 5), (3, 4, 3, 5)], [(3, 5), (3, 1, 1, 5)]])
def test_what_has_not_the_same_places_is_refused(shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(NetworkError, match=r"layer 'all' cannot concatenate .*the channels, alone"):
        Concatenation("all", shapes, Options("reference"))


def test_values_are_added_and_both_get_the_gradient(
    options: Options, laid_out: Callable[..., Any], random: Any
) -> None:
    layer = Addition("sum", (3, 4, 2, 5), options)
    left, right = random(3, 4, 2, 5), random(3, 4, 2, 5, seed=1)
    found = layer.forward(laid_out(options, left), laid_out(options, right))
    np.testing.assert_array_equal(found[:3], left + right)
    first, second = layer.backward_data(found)
    assert first is second is found
    assert layer.cost("forward").flops == left.size


def test_arrays_of_other_shapes_are_refused(random: Any) -> None:
    options = Options("reference")
    with pytest.raises(NetworkError, match="layer 'sum' was given values of shape"):
        Addition("sum", (3, 5), options).forward(random(3, 5), random(3, 6))
    with pytest.raises(NetworkError, match="layer 'all' was given values of shape"):
        Concatenation("all", [(3, 5), (3, 6)], options).forward(random(3, 5), random(3, 5))
    with pytest.raises(NetworkError, match="layer 'all' was given 1 arrays: expected 2"):
        Concatenation("all", [(3, 5), (3, 6)], options).forward(random(3, 5))

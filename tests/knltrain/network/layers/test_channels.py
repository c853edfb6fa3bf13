"""Layers of whole channels: shapes, parameters, and numbers that they refuse."""

from __future__ import annotations

import pytest

from knltrain.errors import NetworkError
from knltrain.network.layers import (
    ChannelScale,
    ChannelShuffle,
    ChannelSlice,
    Initial,
    Multipliers,
    Shape,
)
from vectorized_ops.shapes import ChannelScaleShape, ChannelSelectionShape

MAP = ((4, 5, 6),)


@pytest.mark.parametrize(("given", "found"), [((4, 5, 6), (4, 5, 3)), ((6,), (3,))])
def test_slice_has_the_channels_asked_for(given: Shape, found: Shape) -> None:
    layer = ChannelSlice("c", 2, 5)
    assert layer.output_shape((given,)) == found
    operation = layer.operation(2, (given,))
    assert operation == ChannelSelectionShape((2, *given), 2, 5)
    assert operation.chosen == (2, 3, 4)


def test_shuffle_takes_from_each_group_in_turn() -> None:
    layer = ChannelShuffle("c", 2)
    assert layer.output_shape(MAP) == (4, 5, 6)
    assert layer.operation(2, MAP).chosen == (0, 3, 1, 4, 2, 5)
    assert ChannelShuffle("c", 1).operation(2, MAP).chosen == tuple(range(6))


@pytest.mark.parametrize("shape", [(4, 5, 6), (6,)])
def test_scale_has_a_factor_for_each_channel(shape: Shape) -> None:
    layer = ChannelScale("c", 0.25, Multipliers(2.0, 0.5))
    assert layer.output_shape((shape,)) == shape
    assert layer.operation(2, (shape,)) == ChannelScaleShape((2, *shape))
    (scale,) = layer.parameters((shape,))
    assert (scale.name, scale.role, scale.shape) == ("c.scale", "scale", (6,))
    assert scale.initial == Initial("constant", 0.25)
    assert (scale.learning_rate_multiplier, scale.decay_multiplier) == (2.0, 0.5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ChannelSlice("c", 2, 2), "first = 2 and last = 2, expected 0 <= first < last"),
        (lambda: ChannelSlice("c", -1, 2), "first = -1 and last = 2, expected"),
        (lambda: ChannelSlice("c", 0, 7).output_shape(MAP), "last = 7, expected at most its 6"),
        (lambda: ChannelShuffle("c", 0), "groups = 0, expected at least 1"),
        (lambda: ChannelShuffle("c", 4).output_shape(MAP), "groups = 4, expected a divisor of its"),
    ],
)
def test_channels_that_are_not_there_are_refused(build: object, message: str) -> None:
    with pytest.raises(NetworkError, match=f"layer 'c': {message}"):
        build()  # type: ignore[operator]

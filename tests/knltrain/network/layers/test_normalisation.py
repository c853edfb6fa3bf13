"""Normalisations: shapes, parameters, and numbers that they refuse."""

from __future__ import annotations

import math

import pytest

from knltrain.errors import NetworkError
from knltrain.network.layers import (
    BatchNormalisation,
    Initial,
    LayerNormalisation,
    LocalResponseNormalisation,
    Multipliers,
    Shape,
    WithinChannelNormalisation,
)
from vectorized_ops.shapes import BatchNormalisationShape, LayerNormalisationShape

MAP = ((5, 6, 7),)


def test_batch_normalisation_keeps_statistics_beside_what_it_trains() -> None:
    layer = BatchNormalisation("n", momentum=0.25, initial_scale=0.5)
    assert layer.output_shape(MAP) == (5, 6, 7)
    specs = layer.parameters(MAP)
    assert {spec.shape for spec in specs} == {(7,)}
    assert [(spec.name, spec.role, spec.initial, spec.statistic_momentum) for spec in specs] == [
        ("n.scale", "scale", Initial("constant", 0.5), None),
        ("n.shift", "shift", Initial("constant", 0.0), None),
        ("n.running_mean", "running_mean", Initial("constant", 0.0), 0.25),
        ("n.running_variance", "running_variance", Initial("constant", 1.0), 0.25),
    ]


def test_scale_and_shift_of_a_batch_normalisation_have_multipliers() -> None:
    layer = BatchNormalisation(
        "n", scale_multipliers=Multipliers(0.0, 0.5), shift_multipliers=Multipliers(2.0, 0.25)
    )
    scale, shift, *statistics = layer.parameters(MAP)
    assert (scale.learning_rate_multiplier, scale.decay_multiplier) == (0.0, 0.5)
    assert (shift.learning_rate_multiplier, shift.decay_multiplier) == (2.0, 0.25)
    assert {each.learning_rate_multiplier for each in statistics} == {1.0}


def test_vectors_are_normalised_over_the_batch_as_maps_of_one_pixel() -> None:
    layer = BatchNormalisation("n", epsilon=0.5)
    assert layer.output_shape(((7,),)) == (7,)
    assert {spec.shape for spec in layer.parameters(((7,),))} == {(7,)}
    assert layer.operation(3, ((7,),)) == BatchNormalisationShape((3, 1, 1, 7), 0.5)


@pytest.mark.parametrize("shape", [(5, 6, 7), (7,)])
def test_layer_normalisation_has_a_scale_and_a_shift_for_each_channel(shape: Shape) -> None:
    layer = LayerNormalisation(
        "n", 0.5, scale_multipliers=Multipliers(0.0, 0.5), shift_multipliers=Multipliers(2.0, 0.25)
    )
    assert layer.output_shape((shape,)) == shape
    assert layer.operation(3, (shape,)) == LayerNormalisationShape((3, *shape), 0.5)
    scale, shift = layer.parameters((shape,))
    assert (scale.name, scale.shape, scale.initial.size) == ("n.scale", (7,), 1.0)
    assert (shift.name, shift.shape, shift.initial.size) == ("n.shift", (7,), 0.0)
    assert (scale.learning_rate_multiplier, scale.decay_multiplier) == (0.0, 0.5)
    assert (shift.learning_rate_multiplier, shift.decay_multiplier) == (2.0, 0.25)


def test_response_normalisation_has_no_parameters() -> None:
    layer = LocalResponseNormalisation("n")
    assert (layer.output_shape(MAP), layer.parameters(MAP)) == ((5, 6, 7), ())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: BatchNormalisation("n", epsilon=0), "epsilon = 0, expected above 0"),
        (lambda: LayerNormalisation("n", epsilon=-1), "epsilon = -1, expected above 0"),
        (lambda: BatchNormalisation("n", momentum=0), "momentum = 0, expected above 0"),
        (lambda: BatchNormalisation("n", momentum=1.5), "momentum = 1.5, expected .* at most 1"),
        (lambda: LocalResponseNormalisation("n", size=4), "size = 4, expected an odd number"),
        (lambda: LocalResponseNormalisation("n", size=-1), "size = -1, expected an odd number"),
        (lambda: LocalResponseNormalisation("n", bias=0), "bias = 0 and .* expected bias > 0"),
        (lambda: LocalResponseNormalisation("n", alpha=-1), "bias = 1.0 and alpha = -1, expected"),
    ],
)
def test_number_out_of_range_is_refused(build: object, message: str) -> None:
    with pytest.raises(NetworkError, match=f"layer 'n': {message}"):
        build()  # type: ignore[operator]


def test_windows_within_a_channel_have_a_middle() -> None:
    layer = WithinChannelNormalisation("n", 3, 5e-5)
    assert layer.output_shape(((4, 5, 6),)) == (4, 5, 6)
    assert layer.operation(2, ((4, 5, 6),)).side == 3
    for wrong in ({"size": 2}, {"size": -1}, {"alpha": -1.0}, {"beta": math.nan}):
        with pytest.raises(NetworkError, match="layer 'n': "):
            WithinChannelNormalisation("n", **wrong)

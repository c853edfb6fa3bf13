"""Shapes, parameters and operations of single layers."""

from __future__ import annotations

import pytest

from knltrain.errors import NetworkError
from knltrain.network.layers import Convolution, Dense, Layer, MaxPooling, ParameterSpec, ReLU


@pytest.mark.parametrize(
    ("layer", "input_shape", "output_shape"),
    [
        (Convolution("c", 20, 5), (28, 28, 1), (24, 24, 20)),
        (Convolution("c", 8, 3, stride=2, padding=1), (9, 12, 4), (5, 6, 8)),
        (Convolution("c", 8, 7), (7, 8, 4), (1, 2, 8)),
        (MaxPooling("p", 2, 2), (24, 24, 20), (12, 12, 20)),
        (MaxPooling("p", 3, 2), (8, 7, 5), (3, 3, 5)),
        (Dense("d", 10), (4, 4, 50), (10,)),
        (Dense("d", 10), (500,), (10,)),
        (ReLU("r"), (4, 4, 50), (4, 4, 50)),
        (ReLU("r"), (500,), (500,)),
    ],
)
def test_output_shape(
    layer: Layer, input_shape: tuple[int, ...], output_shape: tuple[int, ...]
) -> None:
    assert layer.output_shape(input_shape) == output_shape


@pytest.mark.parametrize(
    ("layer", "input_shape", "shapes"),
    [
        (Convolution("c", 20, 5), (28, 28, 3), {"c.weights": (20, 3, 5, 5), "c.bias": (20,)}),
        (Dense("d", 10), (4, 4, 50), {"d.weights": (10, 800), "d.bias": (10,)}),
        (MaxPooling("p", 2, 2), (4, 4, 50), {}),
        (ReLU("r"), (500,), {}),
    ],
)
def test_parameters_are_weights_before_bias(
    layer: Layer, input_shape: tuple[int, ...], shapes: dict[str, tuple[int, ...]]
) -> None:
    found = layer.parameters(input_shape)
    assert [(spec.name, spec.shape) for spec in found] == list(shapes.items())


@pytest.mark.parametrize(
    ("layer", "input_shape", "flops"),
    [
        (Convolution("c", 50, 5), (12, 12, 20), 2 * 8 * 8 * 50 * 20 * 25),
        (Convolution("c", 8, 3, stride=2, padding=1), (9, 12, 4), 2 * 5 * 6 * 8 * 4 * 9),
        (Dense("d", 500), (4, 4, 50), 2 * 500 * 800),
        (MaxPooling("p", 2, 2), (24, 24, 20), 0),
        (ReLU("r"), (500,), 0),
    ],
)
def test_flops_count_a_multiply_add_as_two(
    layer: Layer, input_shape: tuple[int, ...], flops: int
) -> None:
    assert layer.flops(input_shape) == flops


def test_parameter_spec_knows_size_and_fan_in() -> None:
    weights = ParameterSpec("c.weights", (20, 3, 5, 4))
    assert (weights.size, weights.fan_in, weights.is_bias) == (1200, 60, False)
    bias = ParameterSpec("c.bias", (20,))
    assert (bias.size, bias.is_bias) == (20, True)


@pytest.mark.parametrize("layer", [Convolution("late", 2, 1), MaxPooling("late", 2, 2)])
def test_layer_that_needs_a_feature_map_refuses_a_vector(layer: Layer) -> None:
    with pytest.raises(NetworkError, match=r"layer 'late' needs a feature map .* \(500,\)"):
        layer.output_shape((500,))


@pytest.mark.parametrize(
    ("layer", "window"),
    [(Convolution("big", 2, 6), "6 does not fit into 5"), (MaxPooling("big", 6, 1), "6 does not")],
)
def test_window_larger_than_the_image_is_refused(layer: Layer, window: str) -> None:
    with pytest.raises(NetworkError, match=f"layer 'big': a window of {window}"):
        layer.output_shape((9, 5, 1))


def test_padding_makes_room_for_a_window() -> None:
    assert Convolution("c", 2, 7, padding=1).output_shape((5, 5, 1)) == (1, 1, 2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Convolution("c", 0, 5), "layer 'c': filters = 0, expected at least 1"),
        (lambda: Convolution("c", 1, 5, stride=0), "layer 'c': stride = 0"),
        (lambda: Convolution("c", 1, 5, padding=-1), "layer 'c': padding = -1, expected >= 0"),
        (lambda: MaxPooling("p", -2, 2), "layer 'p': kernel = -2"),
        (lambda: Dense("d", 0), "layer 'd': units = 0"),
    ],
)
def test_number_out_of_range_names_layer_and_number(build: object, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        build()  # type: ignore[operator]

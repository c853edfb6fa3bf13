"""Rectifiers and dropout keep shapes and check their numbers."""

from __future__ import annotations

import math

import pytest

from knltrain.errors import NetworkError
from knltrain.network.layers import Activation, Affine, Dropout, Layer, Multipliers, PReLU, ReLU


@pytest.mark.parametrize(
    "layer", [ReLU("r"), ReLU("r", slope=0.1), Dropout("d"), Activation("a", "silu")]
)
@pytest.mark.parametrize("shape", [(4, 4, 50), (500,)])
def test_shape_stays_and_nothing_is_trained(layer: Layer, shape: tuple[int, ...]) -> None:
    assert layer.output_shape((shape,)) == shape
    assert layer.parameters((shape,)) == ()
    assert layer.operation(3, (shape,)).costs["forward"].flops == 3 * math.prod(shape)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ReLU("a", slope=-0.1), "slope = -0.1 .* expected 0 <= slope < 1"),
        (lambda: ReLU("a", slope=1), "slope = 1 "),
        (lambda: ReLU("a", ceiling=0), "ceiling = 0, expected .* ceiling > 0"),
        (lambda: ReLU("a", ceiling=math.nan), "ceiling = nan"),
        (lambda: PReLU("a", initial_slope=math.inf), "initial_slope = inf, expected a finite"),
        (lambda: Affine("a", math.nan), "factor = nan and offset = 0.0, expected finite"),
        (lambda: Activation("a", "swish"), "unknown function 'swish': expected one of 'gelu'"),
        (lambda: Dropout("a", 1), "rate = 1, expected 0 <= rate < 1"),
        (lambda: Dropout("a", -0.5), "rate = -0.5"),
    ],
)
def test_number_out_of_range_is_refused(build: object, message: str) -> None:
    with pytest.raises(NetworkError, match=f"layer 'a': .*{message}"):
        build()  # type: ignore[operator]


@pytest.mark.parametrize("shape", [(4, 4, 50), (50,)])
@pytest.mark.parametrize("shared", [True, False])
def test_slopes_are_those_of_the_channels_or_one(shape: tuple[int, ...], shared: bool) -> None:
    layer = PReLU("p", shared, 0.1, Multipliers(2.0, 0.0))
    assert layer.output_shape((shape,)) == shape
    (spec,) = layer.parameters((shape,))
    assert (spec.name, spec.shape, spec.role) == ("p.slopes", (1 if shared else 50,), "slopes")
    assert (spec.initial.kind, spec.initial.size) == ("constant", 0.1)
    assert (spec.learning_rate_multiplier, spec.decay_multiplier) == (2.0, 0.0)
    assert layer.operation(3, (shape,)).costs["forward"].flops == 3 * math.prod(shape)

from __future__ import annotations

import math

import pytest

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.fillers import constant, initialiser
from knltrain.interchange.caffe.text_format import parse
from knltrain.network.layers import Convolution, Multipliers

from .prototxts import DATA, layer, layers, net

SHAPE = (64, 3, 7, 7)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "constant:0.0"),
        ("value: 0.5", "constant:0.5"),
        ("type: 'xavier'", "xavier"),
        ("type: 'msra' variance_norm: FAN_IN", "msra"),
        ("type: 'gaussian' std: 0.01", "gaussian:0.01"),
        ("type: 'uniform' min: -0.5 max: 0.5", "uniform:0.5"),
    ],
)
def test_fillers_are_initialisers(text: str, expected: str) -> None:
    assert initialiser(parse(text, "a"), SHAPE) == expected


@pytest.mark.parametrize(("norm", "bound"), [("FAN_OUT", 0.030929), ("AVERAGE", 0.042750)])
def test_variance_may_be_that_of_outputs(norm: str, bound: float) -> None:
    kind, _, number = initialiser(
        parse(f"type: 'xavier' variance_norm: {norm}", "a"), SHAPE
    ).partition(":")
    assert kind == "uniform"
    assert float(number) == pytest.approx(bound, abs=1e-6)
    kind, _, number = initialiser(
        parse(f"type: 'msra' variance_norm: {norm}", "a"), SHAPE
    ).partition(":")
    assert kind == "gaussian"
    assert float(number) == pytest.approx(bound * math.sqrt(2 / 3), abs=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("type: 'bilinear'", "'bilinear' is not there: expected constant, xavier"),
        ("type: 'uniform'", "'uniform' from 0.0 to 1.0 is not there"),
        ("type: 'gaussian' mean: 1", "'gaussian' with mean 1.0 and sparse -1 is not there"),
        ("type: 'gaussian' sparse: 3", "sparse 3 is not there"),
        ("type: 'xavier' variance_norm: FAN", "unknown variance_norm 'FAN'"),
    ],
)
def test_fillers_that_there_are_not_are_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        initialiser(parse(text, "a"), SHAPE)


def test_bias_is_constant() -> None:
    assert constant(parse("type: 'constant' value: 0.1", "a")) == 0.1
    with pytest.raises(ConfigError, match="'xavier' of a bias or scale is not there"):
        constant(parse("type: 'xavier'", "a"))


CONV = "convolution_param { num_output: 2 kernel_size: 3 } "


def test_multipliers_are_taken_over() -> None:
    (found,) = layers(layer("Convolution", CONV + "param { lr_mult: 0.5 decay_mult: 0 }"))
    assert isinstance(found, Convolution)
    assert found.weights_multipliers == Multipliers(0.5, 0.0)
    assert found.bias_multipliers == Multipliers(1.0, 1.0)


def test_shared_parameters_and_too_many_are_refused() -> None:
    two = layer("Convolution", CONV + "param { name: 'w' }", top="a")
    with pytest.raises(
        ConfigError, match=r":3: layer 'b': shares the parameter 'w' with layer 'a'"
    ):
        net(DATA + two + layer("Convolution", CONV + "param { name: 'w' }", "a", "b"))
    with pytest.raises(ConfigError, match="3 param for 2 arrays: expected at most 2"):
        net(DATA + layer("Convolution", CONV + "param {} param {} param {}"))

from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.converters import CONVERTERS
from knltrain.interchange.caffe.refused import REFUSED

from .prototxts import layer, layers


@pytest.mark.parametrize(
    ("kind", "way_out"),
    [
        ("Deconvolution", "expected a net without it"),
        ("ELU", "expected ReLU, which may have a negative_slope, PReLU, Clip from 0, Sigmoid"),
        ("HingeLoss", "expected SoftmaxWithLoss, SigmoidCrossEntropyLoss or EuclideanLoss"),
    ],
)
def test_type_is_refused_with_what_is_expected(kind: str, way_out: str) -> None:
    message = rf"a.prototxt:2: layer 'top': type '{kind}' is not there: {way_out}"
    with pytest.raises(ConfigError, match=message):
        layers(layer(kind))


def test_no_type_is_refused_that_has_a_converter() -> None:
    assert all(CONVERTERS[kind] is refuse for kind, refuse in REFUSED.items())

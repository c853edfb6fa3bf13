"""Networks take images of the size that is configured; computed pictures are as the network's."""

from __future__ import annotations

import pytest

from knltrain.assembly.fitting import fitted_data, fitted_network
from knltrain.errors import ConfigError
from knltrain.network.description import network_to_json
from knltrain.network.zoo.lenet import lenet
from knltrain.network.zoo.resnet import resnet18


def test_network_of_the_zoo_takes_images_of_the_size_that_is_configured(config):
    known = fitted_network(config(network__name="resnet-18"))
    assert known == resnet18()
    own = fitted_network(config(network__name="resnet-18", data__side_pixels=96))
    assert (own.input_shape, own.name) == ((96, 96, 3), "resnet-18")
    assert own.parameter_count == known.parameter_count
    assert own.shape_of("layer4/1/relu") == (3, 3, 512)


def test_network_of_a_file_stays_as_it_is(config, tmp_path):
    file = tmp_path / "own.json"
    file.write_text(network_to_json(lenet()))
    assert fitted_network(config(network__name=str(file), data__side_pixels=40)) == lenet()


def test_size_that_leaves_nothing_is_refused_with_the_layer(config):
    with pytest.raises(ConfigError, match=r"side_pixels = 32: network 'googlenet' .*'pool4/3x3_s2"):
        fitted_network(config(network__name="googlenet", data__side_pixels=32))


@pytest.mark.parametrize(
    ("own", "image", "classes"),
    [
        ({}, (28, 28, 1), 10),
        ({"network__classes": 7, "data__side_pixels": 20}, (20, 20, 1), 7),
        ({"data__image": (9, 8, 1)}, (9, 8, 1), 10),
        ({"data__classes": 3}, (28, 28, 1), 3),
    ],
)
def test_what_is_left_out_of_computed_pictures_is_the_network_s(config, own, image, classes):
    found = fitted_data(config(data__name="random", **own))
    assert (found.image, found.classes) == (image, classes)


def test_nothing_is_known_of_a_module(config):
    own = {"network__name": "own.py:f", "network__module": "own.py:f"}
    chosen = config(data__name="random", **own)
    assert fitted_data(chosen) == chosen.data

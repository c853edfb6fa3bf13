from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.errors import ConfigError
from knltrain.network.description import network_to_json
from knltrain.network.zoo.lenet import lenet
from knltrain.network.zoo.networks import NETWORKS, network_named


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_bear_the_names_that_they_are_chosen_by(name: str) -> None:
    assert network_named(name).name == name


def test_network_of_a_file_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text(network_to_json(lenet(classes=3)))
    assert network_named(str(file)) == lenet(classes=3) == network_named("lenet", 3)
    assert network_named(str(file), classes=3) == lenet(classes=3)
    with pytest.raises(ConfigError, match=r"classes = 4: the network of .* has 3; leave it out"):
        network_named(str(file), classes=4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet50", "unknown network.name 'resnet50'.*'resnet-50'"),
        ("nowhere.json", "nowhere.json cannot be read .*: expected the file of a network's"),
    ],
)
def test_what_is_no_network_is_named(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        network_named(name)

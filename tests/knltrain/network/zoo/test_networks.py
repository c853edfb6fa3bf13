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


@pytest.mark.parametrize(
    ("name", "parameters", "multiply_adds", "statistics"),
    [
        ("squeezenet-1.0", 1_248_424, 819, 0),
        ("squeezenet-1.1", 1_235_496, 349, 0),
        ("convnext-small", 50_223_688, 8684, 0),
        ("convnext-tiny", 28_589_128, 4456, 0),
        ("densenet-121", 7_978_856, 2834, 83_648),
        ("densenet-161", 28_681_000, 7728, 219_936),
        ("densenet-169", 14_149_480, 3360, 158_400),
        ("densenet-201", 20_013_928, 4291, 229_056),
        ("mobilenet-v1", 4_231_976, 568.7, 21_888),
        ("mobilenet-v2", 3_504_872, 301, 34_112),
        ("efficientnet-b0", 5_288_548, 386, 42_016),
        ("efficientnet-v2-s", 21_458_488, 8366, 153_872),
        ("googlenet-torchvision", 13_004_888, 1504, 15_072),
        ("inception-resnet-v2", 55_843_464, 13_156, 60_544),
        ("inception-v3", 27_161_264, 5719, 36_224),
        ("inception-v4", 42_679_816, 12_254, 63_168),
        ("mobilenet-v3-large", 5_483_032, 217, 24_400),
        ("mobilenet-v3-small", 2_542_856, 56.5, 12_112),
        ("regnet-x-400mf", 5_495_976, 414, 37_856),
        ("regnet-x-8gf", 39_572_648, 7995, 90_464),
        ("regnet-y-400mf", 4_344_144, 402, 27_152),
        ("regnet-y-8gf", 39_381_472, 8473, 86_528),
        ("shufflenet-v2-0.5", 1_366_792, 40.5, 7952),
        ("shufflenet-v2-1.0", 2_278_604, 144.5, 16_180),
        ("shufflenet-v2-1.5", 3_503_624, 296, 23_440),
        ("shufflenet-v2-2.0", 7_393_996, 583, 33_716),
    ],
)
def test_size_and_cost_are_the_published_ones(
    name: str, parameters: int, multiply_adds: float, statistics: int
) -> None:
    """num_params and _ops of torchvision, and counts of its modules."""
    network = network_named(name)
    assert network.parameter_count == parameters
    assert network.flops_per_image / 2e6 == pytest.approx(multiply_adds, rel=5e-3)
    assert network.statistic_count == statistics
    assert network.output_shape == (1000,)
    assert network_named(name, classes=7).output_shape == (7,)


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

from __future__ import annotations

import numpy as np
import pytest

from knltrain.errors import ConfigError
from knltrain.network.layer_slices import (
    fragments,
    layer_parts,
    layer_sizes,
    of_least_size,
    statistic_parts,
)
from knltrain.network.zoo.googlenet import googlenet
from knltrain.network.zoo.lenet import lenet
from knltrain.network.zoo.networks import network_named


def test_layers_cover_the_vector_in_order() -> None:
    network = lenet()
    parts = layer_parts(network)
    assert len(parts) == 4
    assert (parts[0].start, parts[-1].stop) == (0, network.packed_size)
    assert [part.stop for part in parts[:-1]] == [part.start for part in parts[1:]]
    for parameter in network.parameters:
        ends = parameter.offset, parameter.offset + parameter.size
        assert any(part.start <= ends[0] and ends[1] <= part.stop for part in parts)


@pytest.mark.parametrize("floats", [1, 3000, 10**6, 10**8])
def test_small_layers_are_joined_from_the_last_one_on(floats: int) -> None:
    layers = layer_parts(googlenet())
    found = of_least_size(layers, floats)
    assert (found[0].start, found[-1].stop) == (0, layers[-1].stop)
    assert [part.stop for part in found[:-1]] == [part.start for part in found[1:]]
    assert {part.start for part in found} <= {part.start for part in layers}
    assert all(part.stop - part.start >= floats for part in found[1:])
    if floats == 1:
        assert found == layers


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_fragments_are_whole_layers_and_as_even_as_those_allow(count: int) -> None:
    network = googlenet()
    begins = {part.start for part in layer_parts(network)}
    found = fragments(network, count)
    assert len(found) == count
    assert (found[0].start, found[-1].stop) == (0, network.packed_size)
    assert [part.stop for part in found[:-1]] == [part.start for part in found[1:]]
    assert {part.start for part in found} <= begins
    assert all(part.stop > part.start for part in found)
    longest = max(part.stop - part.start for part in layer_parts(network))
    assert max(part.stop - part.start for part in found) <= network.packed_size / count + longest


def test_each_layer_can_be_a_fragment_and_no_more() -> None:
    network = lenet()
    assert fragments(network, 4) == layer_parts(network)
    with pytest.raises(
        ConfigError, match=r"fragments = 5: expected at most 4, the layers of lenet"
    ):
        fragments(network, 5)


def test_layers_have_their_names_and_all_elements() -> None:
    network = lenet()
    found = layer_sizes(network)
    assert [name for name, _ in found] == ["conv1", "conv2", "ip1", "ip2"]
    sizes = [part.stop - part.start for part in layer_parts(network)]
    assert [size for _, size in found] == sizes
    assert sum(sizes) == network.packed_size


def test_running_statistics_of_a_normalisation_are_one_part() -> None:
    network = network_named("resnet-20", 10)
    parts = statistic_parts(network)
    inside = np.zeros(network.packed_size, bool)
    for part in parts:
        inside[part] = True
    for each in network.parameters:
        assert (inside[each.offset : each.offset + each.size] == each.is_statistic).all()
    assert len(parts) == sum(each.name.endswith("running_mean") for each in network.parameters)
    assert statistic_parts(network_named("lenet", 10)) == ()

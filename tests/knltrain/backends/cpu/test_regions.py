"""What stages cost by definition, and the marks that tell how long they take."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from seam.graphs import GRAPHS, LENET
from seam.material import batch_of, direct, parameters_of

from knltrain.backends.cpu import CpuBackend
from knltrain.backends.loss import MeanSquaredError
from knltrain.backends.region import Region
from knltrain.errors import NetworkError
from knltrain.network.layers import BatchNormalisation
from knltrain.network.network import Network
from knltrain.network.zoo.networks import network_named
from knltrain.timeline import Timeline

BYTES = 4
WHOLE_LENET = network_named("lenet")


def found_in(regions: list[Region], name: str, direction: str) -> Region:
    (found,) = (each for each in regions if (each.name, each.direction) == (name, direction))
    return found


def regions_of(network: Network, images: int, implementation: str, **options: Any) -> list[Region]:
    backend = direct(network, images, implementation, **options)
    found = list(backend.regions)
    backend.close()
    return found


@pytest.mark.parametrize("network", GRAPHS, ids=lambda network: network.name)
def test_products_of_all_regions_are_those_of_the_network(
    implementation: str, network: Network
) -> None:
    try:
        regions = regions_of(network, 3, implementation)
    except NetworkError as error:
        assert "does not compute" in str(error)
        return
    products = sum(each.product_flops for each in regions)
    assert products == 3 * network.training_flops_per_image
    assert all(each.flops >= each.product_flops for each in regions)


def test_costs_of_lenet_are_those_computed_by_hand(implementation: str) -> None:
    """LeNet: conv 5x5 1 -> 20, pool, conv 5x5 20 -> 50, pool, dense 500 and ReLU, dense 10."""
    images = 32
    regions = regions_of(WHOLE_LENET, images, implementation)
    dense = found_in(regions, "ip1", "backward_weights")
    assert dense.flops == 2 * images * 800 * 500
    assert dense.compulsory_bytes == BYTES * (images * (800 + 500) + 800 * 500)
    (forward,) = (each for each in regions if each.direction == "forward" and "ip1" in each.layers)
    assert forward.layers == ("ip1", "relu1")
    assert forward.flops == dense.flops + images * 500
    assert forward.product_flops == dense.flops
    conv = found_in(regions, "conv2", "forward")
    assert conv.product_flops == 2 * images * 50 * 20 * 5 * 5 * 8 * 8
    inputs, weights = images * 12 * 12 * 20, 50 * 20 * 5 * 5
    made = images * 4 * 4 * 50 if "pool2" in conv.layers else images * 8 * 8 * 50
    places = made if "pool2" in conv.layers else 0
    assert conv.compulsory_bytes == BYTES * (inputs + weights + made) + places
    backward = [each for each in regions if each.name == "conv1" and each.direction != "forward"]
    # No gradient of the images is computed.
    assert sum(each.product_flops for each in backward) == 2 * images * 20 * 25 * 24 * 24


def test_channels_in_the_lanes_execute_no_more_images_but_in_dense_layers() -> None:
    regions = regions_of(WHOLE_LENET, 20, "channels_last")
    dense = found_in(regions, "ip1", "backward_weights")
    assert dense.executed_flops == dense.flops * 32 // 20
    convolution, pooling = (found_in(regions, name, "forward") for name in ("conv2", "pool2"))
    assert convolution.executed_flops == convolution.flops
    assert pooling.layout_bytes == pooling.compulsory_bytes


def test_executed_work_is_that_of_the_algorithm_and_of_whole_vectors() -> None:
    regions = regions_of(WHOLE_LENET, 20, "numba")
    dense = found_in(regions, "ip1", "backward_weights")
    assert dense.executed_flops == dense.flops * 32 // 20
    assert dense.layout_bytes is not None
    assert dense.layout_bytes > dense.compulsory_bytes
    defined = found_in(regions_of(WHOLE_LENET, 20, "reference"), "ip2", "forward")
    assert defined.executed_flops is defined.layout_bytes is None


def test_slices_read_the_weights_again() -> None:
    whole = found_in(regions_of(WHOLE_LENET, 32, "numba"), "ip1", "backward_weights")
    halves = regions_of(WHOLE_LENET, 32, "numba", micro_batch=16)
    half = found_in(halves, "ip1", "backward_weights")
    assert half.flops == whole.flops
    assert half.compulsory_bytes == whole.compulsory_bytes + BYTES * 800 * 500
    values = sum(each.size for each in WHOLE_LENET.parameters)
    assert found_in(halves, "gradient", "sum").compulsory_bytes == 3 * BYTES * values


@pytest.mark.parametrize("network", GRAPHS, ids=lambda network: network.name)
@pytest.mark.parametrize("at_a_time", [0, 16])
def test_every_region_is_marked_in_each_slice(network: Network, at_a_time: int) -> None:
    if at_a_time and any(isinstance(each, BatchNormalisation) for each in network.layers):
        return
    backend = direct(network, 32, "numba", micro_batch=at_a_time)
    regions, timeline = backend.regions, Timeline(4096)
    packed = parameters_of(network).packed
    backend.observe(timeline)
    backend.loss_and_gradient(batch_of(network, 32), packed, np.zeros_like(packed))
    found = timeline.take()
    backend.close()
    slices = 2 if at_a_time else 1
    counted = Counter(found.numbers.tolist())
    expected = dict.fromkeys(range(len(regions)), slices)
    ready = next(number for number, each in enumerate(regions) if each.direction == "ready")
    stages = sum(each.direction == "forward" for each in regions)
    expected[ready] = slices * stages
    for number, each in enumerate(regions):
        if each.direction == "sum":
            expected[number] = counted[number]
            assert (counted[number] > 0) is (slices > 1)
    assert counted == {number: count for number, count in expected.items() if count}
    assert (found.begins[1:] >= found.ends[:-1]).all()


def test_observing_changes_no_bit(implementation: str) -> None:
    packed, batch, gradients = parameters_of(LENET).packed, batch_of(LENET, 16), []
    for marks in (None, Timeline(1024)):
        backend = direct(LENET, 16, implementation)
        if marks is not None:
            backend.observe(marks)
        gradients.append(np.zeros_like(packed))
        backend.loss_and_gradient(batch, packed, gradients[-1])
        backend.close()
    np.testing.assert_array_equal(*gradients)


def test_activations_in_bfloat16_are_counted_as_such() -> None:
    """The kernels' layout has whole vectors: 32 images of 16 lanes."""
    images, found = 32, []
    for precision in ("float32", "bfloat16"):
        backend = CpuBackend(WHOLE_LENET, images, 1, "numba", False, precision=precision)
        found.append(found_in(list(backend.regions), "ip1", "backward_weights"))
        backend.close()
    plain, rounded = found
    assert rounded.flops == plain.flops
    assert rounded.compulsory_bytes == 2 * images * (800 + 500) + BYTES * 800 * 500
    assert plain.layout_bytes is not None
    assert rounded.layout_bytes == plain.layout_bytes - 2 * images * (800 + 500)


def test_the_loss_is_the_run_s() -> None:
    regions = regions_of(LENET, 4, "reference", loss=MeanSquaredError())
    loss = found_in(regions, "loss", "loss")
    expected = MeanSquaredError().cost(4, LENET.shape_of("ip2")[-1])
    assert (loss.flops, loss.compulsory_bytes) == (expected.flops, expected.compulsory_bytes)

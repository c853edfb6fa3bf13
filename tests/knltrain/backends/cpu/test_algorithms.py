"""Algorithms by the user's word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from seam.material import batch_of, parameters_of

from knltrain.backends.cpu import CpuBackend
from knltrain.backends.cpu.algorithms import asked_algorithms
from knltrain.errors import ConfigError, NetworkError
from knltrain.network.network import Network
from knltrain.network.zoo.networks import network_named

LENET = network_named("lenet")
ALL = ("forward", "backward_data", "backward_weights")


def chosen(network: Network, algorithms: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """The algorithm of each region, by stage and direction."""
    backend = CpuBackend(network, 16, 1, "numba", algorithms=algorithms)
    found: dict[str, dict[str, str]] = {}
    for each in backend.regions:
        if each.algorithm is not None:
            found.setdefault(each.name, {})[each.direction] = each.algorithm
    backend.close()
    return found


def test_a_name_counts_before_a_pattern_and_a_longer_one_before_a_shorter_one() -> None:
    asked = {
        "*": "direct",
        "conv*": {"forward": "direct", "backward_data": "auto"},
        "conv1": "auto",
    }
    assert asked_algorithms(LENET, asked) == {"conv2": {"forward": "direct"}}
    assert asked_algorithms(LENET, {"*": "strassen"})["conv1"] == {
        "forward": "strassen",
        "backward_data": "strassen",
    }
    assert asked_algorithms(LENET, {"*": "amx"})["conv1"] == dict.fromkeys(ALL, "amx")
    assert asked_algorithms(LENET, {"*": "direct"}) == dict.fromkeys(
        ("conv1", "conv2"), dict.fromkeys(ALL, "direct")
    )


def test_names_that_fit_no_convolution_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown convolution 'ip1'.*'\*' fits all"):
        asked_algorithms(LENET, {"*": "auto", "ip1": "direct"})


def test_a_network_without_convolutions_is_told_so() -> None:
    dense = replace(LENET, layers=LENET.layers[-1:])
    said = r"'\*': expected a network with convolutions, and lenet has none; leave backend\.al"
    with pytest.raises(ConfigError, match=said):
        asked_algorithms(dense, {"*": "direct"})
    assert asked_algorithms(dense, {}) == {}


def test_convolutions_take_what_was_asked_for() -> None:
    by_way = dict(zip(ALL, ("winograd4", "direct", "winograd2"), strict=True))
    found = chosen(LENET, {"conv2": by_way})
    assert found["conv2"] == by_way
    assert found["conv1"] == {"forward": "direct", "backward": "direct"}


def test_pooling_is_fused_only_where_the_fused_kernels_have_the_algorithm() -> None:
    assert chosen(LENET, {"conv2": dict.fromkeys(ALL, "direct")})["conv2"] == {
        "forward": "direct",
        "backward": "direct",
    }
    assert set(chosen(LENET, {"conv2": dict.fromkeys(ALL, "winograd2")})["conv2"]) == set(ALL)


def test_results_are_those_of_any_algorithm() -> None:
    packed, batch, gradients = parameters_of(LENET).packed, batch_of(LENET, 16), []
    for name in ("direct", "winograd2", "winograd4"):
        backend = CpuBackend(LENET, 16, 1, "numba", algorithms={"conv2": dict.fromkeys(ALL, name)})
        gradients.append(np.zeros_like(packed))
        backend.loss_and_gradient(batch, packed, gradients[-1])
        backend.close()
    largest = np.abs(gradients[0]).max()
    for found in gradients[1:]:
        assert_allclose(found, gradients[0], atol=1e-4 * largest)
        assert (found != gradients[0]).any()


def test_an_algorithm_that_cannot_compute_a_layer_is_refused_with_its_name() -> None:
    said = r"layer 'conv1': algorithm 'strassen' was asked for forward of .* expected 'direct'"
    with pytest.raises(NetworkError, match=said):
        chosen(LENET, {"conv1": {"forward": "strassen"}})

"""Small networks with random batches, and the threads of Numba and PyTorch put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numba
import numpy as np
import pytest
import torch

from knltrain.data.dataset import Batch
from knltrain.network.layers import Convolution, Dense, MaxPooling, ReLU
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

MakeBatch: TypeAlias = Callable[..., Batch]
MakeParameters: TypeAlias = Callable[[Network], ParameterVector]

NETWORKS = {
    "fused": Network(
        "fused",
        (12, 11, 3),
        (
            Convolution("conv1", 6, 3),
            MaxPooling("pool1", 2, 2),
            ReLU("relu1"),
            Convolution("conv2", 8, 2),
            MaxPooling("pool2", 2, 2),
            Dense("out", 4),
        ),
    ),
    "apart": Network(
        "apart",
        (9, 10, 2),
        (
            Convolution("conv1", 7, 3, stride=2, padding=1),
            ReLU("relu1"),
            MaxPooling("pool1", 3, 1),
            Convolution("conv2", 8, 3, padding=2),
            MaxPooling("pool2", 2, 2),
            Dense("hidden", 20),
            ReLU("relu2"),
            Dense("out", 3),
        ),
    ),
    "dense": Network("dense", (5, 4, 1), (Dense("hidden", 17), ReLU("relu"), Dense("out", 2))),
    "pooled first": Network(
        "pooled first",
        (8, 8, 2),
        (ReLU("relu1"), MaxPooling("pool1", 2, 2), Convolution("conv1", 4, 3), Dense("out", 3)),
    ),
}


@pytest.fixture(autouse=True)
def threads_stay_as_they_were() -> Iterator[None]:
    numba_threads, torch_threads = numba.get_num_threads(), torch.get_num_threads()
    yield
    numba.set_num_threads(numba_threads)
    torch.set_num_threads(torch_threads)


@pytest.fixture(params=list(NETWORKS), ids=lambda name: name.replace(" ", "-"))
def network(request: pytest.FixtureRequest) -> Network:
    """Each of the small networks: all layers, fused and apart, all ways into a dense layer."""
    return NETWORKS[request.param]


@pytest.fixture
def make_batch() -> MakeBatch:
    """make_batch(network, images, seed=0): normal images, labels of all classes."""

    def make(network: Network, images: int, seed: int = 0) -> Batch:
        rng = np.random.default_rng(seed)
        values = rng.standard_normal((images, *network.input_shape), np.float32)
        return Batch(values, rng.integers(0, network.shapes[-1][0], images))

    return make


@pytest.fixture
def make_parameters() -> MakeParameters:
    """make_parameters(network): initial weights, and biases that are not zero."""

    def make(network: Network) -> ParameterVector:
        vector = ParameterVector(network)
        vector.initialise(seed=2)
        for spec in network.parameters:
            if spec.is_bias:
                vector.views[spec.name][:] = np.linspace(-0.2, 0.3, spec.size)
        return vector

    return make

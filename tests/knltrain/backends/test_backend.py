"""The contract of backends: one LeNet, run by every implementation, with the same results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from knltrain.backends.backend import Backend
from knltrain.backends.cpu import CpuBackend
from knltrain.backends.torch_backend import TorchBackend
from knltrain.data.dataset import Batch
from knltrain.network.lenet import lenet
from knltrain.network.parameters import ParameterVector, aligned_zeros

NETWORK = lenet()
IMAGES = 6


def _batch(seed: int = 0) -> Batch:
    generator = np.random.default_rng(seed)
    images = generator.standard_normal((IMAGES, *NETWORK.input_shape), np.float32)
    return Batch(images, generator.integers(0, 10, IMAGES))


def _parameters() -> ParameterVector:
    parameters = ParameterVector(NETWORK)
    parameters.initialise(seed=1)
    return parameters


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    """The gradient in float64, by PyTorch's automatic differentiation."""
    from knltrain.network.torch_modules import to_torch

    module = to_torch(NETWORK, _parameters()).double()
    images = torch.from_numpy(_batch().images_nhwc.astype(np.float64)).permute(0, 3, 1, 2)
    loss = torch.nn.functional.cross_entropy(module(images), torch.from_numpy(_batch().labels))
    packed = np.zeros(NETWORK.packed_size)
    gradients = torch.autograd.grad(loss, list(module.parameters()))
    for spec, gradient in zip(NETWORK.parameters, gradients, strict=True):
        packed[spec.offset : spec.offset + spec.size] = gradient.numpy().reshape(-1)
    return packed


@pytest.fixture(params=["torch", "cpu reference"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Every implementation in turn."""
    threads = torch.get_num_threads()
    made: Backend = (
        TorchBackend(NETWORK, IMAGES, 1)
        if request.param == "torch"
        else CpuBackend(NETWORK, IMAGES, 1, "reference")
    )
    yield made
    made.close()
    torch.set_num_threads(threads)


def test_gradient_is_the_one_of_the_definition(backend: Backend, expected: np.ndarray) -> None:
    gradient = aligned_zeros(NETWORK.packed_size)
    gradient.fill(7)
    backend.loss_and_gradient(_batch(), _parameters().packed, gradient)
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-5)


def test_evaluation_sums_what_training_averages(backend: Backend) -> None:
    parameters = _parameters().packed
    gradient = aligned_zeros(NETWORK.packed_size)
    loss = backend.loss_and_gradient(_batch(), parameters, gradient)
    loss_sum, correct = backend.evaluate(_batch(), parameters)
    assert loss_sum == pytest.approx(IMAGES * loss, rel=1e-5)
    assert 0 <= correct <= IMAGES


def test_first_non_finite_layer_is_named(backend: Backend) -> None:
    parameters = _parameters()
    assert backend.first_non_finite(_batch(), parameters.packed) is None
    parameters.views["conv2.bias"].fill(np.nan)
    assert backend.first_non_finite(_batch(), parameters.packed) == "conv2"

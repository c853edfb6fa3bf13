"""Layers that are frozen cost no backward pass at the bottom, and change nothing for the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from seam.graphs import ALEXNET, INCEPTION, OUTPUTS, RESIDUAL
from seam.material import batch_of, direct, parameters_of

from knltrain.backends.backend import Backend
from knltrain.backends.cpu import CpuBackend
from knltrain.backends.torch.backend import TorchBackend
from knltrain.network.layers import BatchNormalisation, Dropout, Multipliers
from knltrain.network.network import Network
from knltrain.network.parameter_groups import ParameterSetting
from knltrain.network.parameters import ParameterVector

BACKENDS: dict[str, Callable[[Network], Backend]] = {
    "torch": lambda network: TorchBackend(network, 20, 1),
    "reference": lambda network: direct(network, 20, "reference"),
    "numba": lambda network: direct(network, 20, "numba"),
    "slices": lambda network: direct(network, 20, "reference", micro_batch=16),
}
ROUNDED = {
    "bfloat16": lambda network: CpuBackend(network, 20, 1, "numba", False, precision="bfloat16"),
    "slices in bfloat16": lambda network: CpuBackend(
        network, 20, 1, "numba", False, 16, precision="bfloat16"
    ),
}
FROZEN = {
    "stem": (INCEPTION, ("stem*",)),
    "a branch of a concatenation": (INCEPTION, ("stem*", "left*")),
    "the middle": (INCEPTION, ("middle*",)),
    "biases": (INCEPTION, ("*.bias",)),
    "normalisation": (RESIDUAL, ("stem*", "a1*", "a2*")),
    "a shift": (RESIDUAL, ("stem.shift",)),
    "pooled": (ALEXNET, ("conv1", "conv2")),
    "all but the last": (ALEXNET, ("conv*", "hidden")),
}


def _frozen(network: Network, patterns: tuple[str, ...]) -> Network:
    settings = (ParameterSetting("network.frozen", each, Multipliers(0.0)) for each in patterns)
    return replace(network, settings=tuple(settings))


@pytest.mark.parametrize("name", BACKENDS | ROUNDED)
@pytest.mark.parametrize("case", FROZEN)
def test_loss_and_other_gradients_are_those_of_the_whole_network(name: str, case: str) -> None:
    network, patterns = FROZEN[case]
    if "slices" in name and network is RESIDUAL:
        pytest.skip("a network that normalises takes its batch whole")
    if name == "torch" and any(isinstance(layer, Dropout) for layer in network.layers):
        pytest.skip("PyTorch's dropout has random numbers of its own")
    batch, parameters = batch_of(network, 20), parameters_of(network)
    found = []
    for each in (network, _frozen(network, patterns)):
        backend = (BACKENDS | ROUNDED)[name](each)
        gradient = np.full_like(parameters.packed, np.nan)
        for _ in range(2):
            loss = backend.loss_and_gradient(batch, parameters.packed, gradient)
        found.append((loss, gradient, backend.evaluate(batch, parameters.packed)))
        backend.close()
    (loss, gradient, told), (other_loss, other, other_told) = found
    exact = name not in ROUNDED  # what is rounded depends on what is computed at a time
    assert other_loss == pytest.approx(loss, rel=1e-6 if exact else 1e-3)
    assert other_told == pytest.approx(told, rel=1e-6 if exact else 1e-3)
    assert np.isfinite(other).all()
    for spec in _frozen(network, patterns).parameters:
        if not spec.is_frozen:
            ours, expected = (
                each[spec.offset : spec.offset + spec.size] for each in (other, gradient)
            )
            if exact:
                assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)
            else:
                assert np.linalg.norm(ours - expected) < 0.05 * np.linalg.norm(expected) + 1e-5


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("case", FROZEN)
def test_regions_have_the_products_that_are_left_of_the_network(name: str, case: str) -> None:
    whole, patterns = FROZEN[case]
    network = _frozen(whole, patterns)
    if name == "slices" and whole is RESIDUAL:
        pytest.skip("a network that normalises takes its batch whole")
    backend = BACKENDS[name](network)
    products = sum(each.product_flops for each in backend.regions)
    backend.close()
    assert products == 20 * network.training_flops_per_image
    if case in ("stem", "pooled", "all but the last"):
        assert products < 20 * whole.training_flops_per_image


@pytest.mark.parametrize("name", ["torch", "reference", "numba"])
def test_outputs_may_be_frozen_while_others_learn(name: str) -> None:
    network = _frozen(OUTPUTS, ("stem*", "aside*"))
    batch, parameters = batch_of(network, 20), parameters_of(network)
    backend = BACKENDS[name](network)
    gradient = np.full_like(parameters.packed, np.nan)
    assert np.isfinite(backend.loss_and_gradient(batch, parameters.packed, gradient))
    backend.close()
    assert np.isfinite(gradient).all()


def _with_fixed_statistics(network: Network) -> Network:
    layers = tuple(
        replace(each, frozen=True) if isinstance(each, BatchNormalisation) else each
        for each in network.layers
    )
    return replace(network, layers=layers)


@pytest.mark.parametrize("images", [1, 20])
def test_frozen_normalisations_use_fixed_statistics_in_training(images: int) -> None:
    """PyTorch's own gradient of them, by every backend: with additions and ReLUs behind."""
    network = _with_fixed_statistics(RESIDUAL)
    batch, parameters = batch_of(network, images), parameters_of(network)
    for spec in network.parameters:
        if spec.is_statistic:
            assert spec.is_frozen
            parameters.views[spec.name][...] = np.linspace(0.5, 1.5, spec.size)
    backends = {
        **BACKENDS,
        "onednn": lambda each: direct(each, 20, "onednn"),
        "channels_last": lambda each: direct(each, 20, "channels_last"),
    }
    found = {}
    for name, make in backends.items():
        backend = make(network)
        gradient = ParameterVector(network)
        gradient.packed.fill(np.nan)
        loss = backend.loss_and_gradient(batch, parameters.packed, gradient.packed)
        found[name] = (loss, {key: each.copy() for key, each in gradient.views.items()})
        assert backend.first_non_finite(batch, parameters.packed) is None
        backend.close()
    expected_loss, expected = found.pop("torch")
    assert not any(expected[key].any() for key in expected if "running" in key)
    assert all(expected[key].any() for key in expected if key.endswith(".scale"))
    for loss, views in found.values():
        assert loss == pytest.approx(expected_loss, rel=1e-5)
        for key, values in views.items():
            largest = np.abs(expected[key]).max()
            assert_allclose(values, expected[key], rtol=0, atol=1e-5 * largest + 1e-7, err_msg=key)

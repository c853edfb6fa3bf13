"""Layers of PyTorch's modules as regions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from seam.graphs import GRAPHS, LENET
from seam.material import batch_of, parameters_of

from knltrain.backends.loss import Loss, MeanSquaredError, SigmoidCrossEntropy
from knltrain.backends.torch.backend import TorchBackend
from knltrain.clocks import UNOBSERVED
from knltrain.network.network import Network
from knltrain.timeline import Timeline


@pytest.fixture(autouse=True)
def _threads_as_before() -> object:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("network", GRAPHS, ids=lambda network: network.name)
def test_each_layer_is_marked_forward_and_backward(network: Network) -> None:
    backend, timeline = TorchBackend(network, 4, 1), Timeline(4096)
    packed, batch = parameters_of(network).packed, batch_of(network, 4)
    regions, gradients = backend.regions, [np.zeros_like(packed), np.zeros_like(packed)]
    products = sum(each.product_flops for each in regions)
    assert products == 4 * network.training_flops_per_image
    backend.loss_and_gradient(batch, packed, gradients[0])
    assert timeline.take().numbers.size == 0
    backend.observe(timeline)
    for _ in range(2):
        backend.loss_and_gradient(batch, packed, gradients[1])
        found = timeline.take()
        assert (found.ends >= found.begins).all()
        counted = Counter(found.numbers.tolist())
        assert counted.pop(0) == 2  # the loss, and the begin of the way back
        assert set(counted.values()) == {1}
        directions = Counter(regions[number].direction for number in counted)
        assert directions["forward"] == len(network.needed_for(network.outputs))
        # Layers that pass on what they are given have no gradient of their own.
        assert directions["backward"] > directions["forward"] / 2
    backend.observe(UNOBSERVED)
    backend.loss_and_gradient(batch, packed, gradients[1])
    assert timeline.take().numbers.size == 0
    np.testing.assert_array_equal(*gradients)
    backend.close()


def test_a_compiled_or_recorded_step_has_none() -> None:
    from knltrain.backends.torch.compiled_execution import CompiledExecution

    backend = TorchBackend(LENET, 4, 1, execution=CompiledExecution(LENET))
    assert backend.regions == ()
    backend.observe(Timeline(16))
    backend.close()


def test_by_autocast_activations_have_half_the_bytes_and_parameters_all() -> None:
    def bytes_of(name: str, precision: str) -> int:
        backend = TorchBackend(LENET, 4, 1, precision=precision)  # type: ignore[arg-type]
        (found,) = (
            each for each in backend.regions if (each.name, each.direction) == (name, "forward")
        )
        backend.close()
        return found.compulsory_bytes

    assert 2 * bytes_of("relu1", "bfloat16") == bytes_of("relu1", "float32")
    whole, half = bytes_of("ip1", "float32"), bytes_of("ip1", "bfloat16")
    (dense,) = (each for each in LENET.layers if each.name == "ip1")
    fixed = LENET.operation(dense, 4).costs["forward"].fixed_bytes
    assert half == fixed + (whole - fixed) // 2 > whole // 2


@pytest.mark.parametrize("loss", [MeanSquaredError(), SigmoidCrossEntropy()])
def test_the_loss_is_the_run_s(loss: Loss) -> None:
    backend = TorchBackend(LENET, 4, 1, loss=loss)
    (found,) = (each for each in backend.regions if each.direction == "loss")
    assert found.flops == loss.cost(4, LENET.shape_of("ip2")[-1]).flops
    backend.close()

"""A batch that is sent ahead is the one that is computed with; another one is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knltrain.backends.torch.backend import TorchBackend
from knltrain.backends.torch.devices import device_named
from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.backends.torch.prefetching import Prefetching
from knltrain.data.dataset import Batch
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.cifar_quick import cifar_quick
from knltrain.vectors import aligned_zeros

from .test_graphs import Tape


def images(value: float) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((2, 3), value), torch.zeros(2, dtype=torch.int64)


def test_a_batch_is_taken_once_and_by_its_key_alone() -> None:
    ahead = Prefetching(torch.device("cpu"))
    assert ahead.taken(1) is None
    ahead.send(1, images(5.0))
    assert ahead.taken(2) is None
    found = ahead.taken(1)
    assert found is not None
    assert (found[0] == 5).all()
    assert ahead.taken(1) is None
    ahead.send(3, images(1.0))
    ahead.clear()
    assert ahead.taken(3) is None


@pytest.mark.parametrize("graph", [None, Tape], ids=["eager", "replayed"])
def test_a_backend_computes_with_what_came_ahead(
    one_thread: None, graph: type[Tape] | None
) -> None:
    network, draws = cifar_quick(), np.random.default_rng(3)
    parameters, gradient = ParameterVector(network), aligned_zeros(network.packed_size)
    parameters.initialise(1)
    batches = [
        Batch(
            draws.standard_normal((2, 32, 32, 3), np.float32),
            draws.integers(0, 10, 2),
            np.full(1, step, np.uint64),
        )
        for step in range(2)
    ]
    mirrors = Mirrors(HOST, are_apart=True)
    backend = TorchBackend(network, 2, 1, mirrors=mirrors, graph=graph)

    def loss(batch: Batch) -> float:
        return backend.loss_and_gradient(batch, parameters.packed, gradient)

    expected = [loss(batch) for batch in batches]
    backend.prefetch(batches[1])
    batches[1].images_nhwc.fill(0)  # what is on its way is no longer read here
    assert loss(batches[0]) == expected[0]
    assert loss(batches[1]) == expected[1]
    assert loss(batches[1]) != expected[1]  # it was taken: the next one is copied anew
    backend.close()


@pytest.mark.gpu
def test_a_device_waits_for_what_comes_ahead() -> None:
    ahead = Prefetching(device_named("auto"))
    here = (torch.randn((64, 3, 224, 224), dtype=torch.float32).pin_memory(), images(0)[1])
    for step in range(20):
        ahead.send(step, here)
        found = ahead.taken(step)
        assert found is not None
        assert found[0].sum().item() == pytest.approx(here[0].sum().item(), rel=1e-3, abs=1.0)

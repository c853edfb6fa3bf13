"""Parts of a gradient are told of when they are done, and not before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from knltrain.backends.torch import progress
from knltrain.backends.torch.backend import TorchBackend
from knltrain.backends.torch.graphs import Graph
from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.backends.torch.progress import BackwardProgress, Marking
from knltrain.data.dataset import Batch
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.cifar_resnet import resnet20
from knltrain.vectors import aligned_zeros

from .test_graphs import Tape

NETWORK = resnet20()


def test_an_offset_is_told_once_all_behind_it_is_done() -> None:
    specs = [spec for spec in NETWORK.parameters if not spec.is_statistic]
    told: list[int] = []
    following = BackwardProgress(NETWORK.parameters)
    hooks = {spec.name: following.hook(spec.name) for spec in specs}
    following.begin(told.append)
    nothing = torch.zeros(0, dtype=torch.float32)
    last, before, first = specs[-1], specs[-2], specs[0]
    hooks[before.name](nothing)
    hooks[first.name](nothing)
    assert told == []
    hooks[last.name](nothing)
    assert len(told) == 1
    assert told[0] <= before.offset
    for spec in specs[1:-2]:
        hooks[spec.name](nothing)
    assert told == sorted(told, reverse=True)
    assert told[-1] == 0
    following.begin(told.append)  # a pass does not go on from the one before
    hooks[first.name](nothing)
    assert told.count(0) == 1


def test_little_is_not_marked() -> None:
    marking = Marking(torch.device("cpu"), 3 * progress.LEAST_FLOATS)
    for offset in (3 * progress.LEAST_FLOATS - 1, progress.LEAST_FLOATS + 5, progress.LEAST_FLOATS):
        marking(offset)
    assert [mark.offset for mark in marking.marks] == [progress.LEAST_FLOATS + 5]


@pytest.mark.parametrize(
    ("graph", "are_apart"),
    [(None, False), (None, True), (Tape, True)],
    ids=["the host", "a device", "a graph"],
)
def test_what_a_backend_tells_of_is_on_the_host_and_stays(
    one_thread: None,
    monkeypatch: pytest.MonkeyPatch,
    graph: Callable[[], Graph] | None,
    are_apart: bool,
) -> None:
    monkeypatch.setattr(progress, "LEAST_FLOATS", 1000)
    parameters, gradient = ParameterVector(NETWORK), aligned_zeros(NETWORK.packed_size)
    parameters.initialise(3)
    draws = np.random.default_rng(5)
    mirrors = Mirrors(HOST, are_apart=are_apart)
    backend = TorchBackend(NETWORK, 4, 1, mirrors=mirrors, graph=graph)
    mirrors.follow(parameters.packed, gradient)
    mirrors.changed(parameters.packed)
    for _ in range(2):
        images = draws.standard_normal((4, *NETWORK.input_shape), np.float32)
        batch = Batch(images, draws.integers(0, 10, 4))
        seen: list[tuple[int, np.ndarray]] = []
        gradient.fill(np.nan)

        def ready(offset: int, seen: list[tuple[int, np.ndarray]] = seen) -> None:
            seen.append((offset, gradient[offset:].copy()))

        backend.loss_and_gradient(batch, parameters.packed, gradient, ready)
        assert len(seen) > 10
        offsets = [offset for offset, _ in seen]
        assert offsets == sorted(offsets, reverse=True)
        assert offsets[-1] == 0
        alone = TorchBackend(NETWORK, 4, 1)
        expected = aligned_zeros(NETWORK.packed_size)
        alone.loss_and_gradient(batch, parameters.packed, expected)
        alone.close()
        for offset, part in seen:
            np.testing.assert_array_equal(part, expected[offset:])
        mirrors.to_host(gradient)
        np.testing.assert_array_equal(gradient, expected)
    backend.close()


@pytest.mark.gpu
@pytest.mark.parametrize("graphed", [False, True], ids=["eager", "graph"])
def test_a_device_tells_of_parts_that_are_there(graphed: bool) -> None:
    from knltrain.backends.torch.devices import device_named
    from knltrain.backends.torch.graphs import cuda_graphs
    from knltrain.network.zoo.networks import network_named

    device = device_named("auto")
    if graphed and device.type != "cuda":
        pytest.skip("graphs are of NVIDIA GPUs")
    network = network_named("resnet-18", 10)
    parameters, gradient = ParameterVector(network), aligned_zeros(network.packed_size)
    parameters.initialise(3)
    mirrors = Mirrors(device)
    graph = cuda_graphs(device, graphed)
    backend = TorchBackend(network, 4, 1, mirrors=mirrors, graph=graph, deterministic=True)
    mirrors.follow(parameters.packed, gradient)
    draws = np.random.default_rng(5)
    batch = Batch(
        draws.standard_normal((4, *network.input_shape), np.float32), draws.integers(0, 10, 4)
    )
    backend.loss_and_gradient(batch, parameters.packed, gradient)
    mirrors.to_host(gradient)
    expected = gradient.copy()
    for _ in range(5):
        seen: list[tuple[int, np.ndarray]] = []
        gradient.fill(np.nan)
        backend.loss_and_gradient(
            batch,
            parameters.packed,
            gradient,
            lambda offset, seen=seen: seen.append((offset, gradient[offset:].copy())),  # type: ignore[misc]
        )
        assert len(seen) > 5
        for offset, part in seen:
            np.testing.assert_array_equal(part, expected[offset:])
    backend.close()

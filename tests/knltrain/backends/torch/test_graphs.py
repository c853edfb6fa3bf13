"""Steps that are recorded and replayed compute what eager ones do, to the bit.

A tape stands in for a CUDA graph. Tests marked `gpu` record real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from knltrain.backends.backend import nobody_waits
from knltrain.backends.cpu.backend import REMEMBERED_VECTORS
from knltrain.backends.loss import PLAIN, Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy
from knltrain.backends.torch.backend import TorchBackend
from knltrain.backends.torch.devices import device_named
from knltrain.backends.torch.graphs import Graph, cuda_graphs
from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.data.dataset import Batch
from knltrain.errors import ConfigError
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.alexnet import alexnet
from knltrain.network.zoo.cifar_quick import cifar_quick
from knltrain.network.zoo.cifar_resnet import resnet20
from knltrain.network.zoo.lenet import lenet
from knltrain.network.zoo.networks import network_named
from knltrain.vectors import FloatArray, aligned_zeros

STEPS = 4

Found = tuple[float | list[float], FloatArray]


class Tape(Graph):
    """A stand-in for a CUDA graph on the host: operations are recorded, and called again.

    As in a graph, no Python between them runs again, and all work is on the same memory. A value
    that is read into Python while recording is refused, as a capture refuses it.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def record(self, run: Callable[[], None]) -> None:
        """Run it once, and put the generator back."""
        drawn = torch.get_rng_state()
        with _Recorder(self.calls):
            run()
        torch.set_rng_state(drawn)

    @torch.no_grad()
    def replay(self) -> None:
        """Call the operations again, and put their results where the first ones are."""
        for call, arguments, options, results in self.calls:
            found = tree_leaves(call(*arguments, **options))
            for first, now in zip(tree_leaves(results), found, strict=True):
                if isinstance(first, torch.Tensor) and first.data_ptr() != now.data_ptr():
                    first.copy_(now)


class OneDevice(TorchDispatchMode):
    """Refuses operations on tensors of another device, and values that Python reads."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = call(*args, **(kwargs or {}))
        for each in tree_leaves((args, kwargs, results)):
            if isinstance(each, torch.Tensor) and each.device != self._device:
                raise AssertionError(f"{call} of a step on {self._device} is on {each.device}")
        return results


class _Recorder(TorchDispatchMode):
    def __init__(self, calls: list[tuple[Any, Any, Any, Any]]) -> None:
        super().__init__()
        self._calls = calls

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if call is torch.ops.aten._local_scalar_dense.default:
            raise AssertionError("a value of a tensor is read into Python while recording")
        results = call(*args, **(kwargs or {}))
        self._calls.append((call, args, kwargs or {}, results))
        return results


def trained(
    network: Network,
    graph: Callable[[], Graph] | None,
    precision: str = "float32",
    mirrors: Mirrors | None = None,
    loss: Loss = PLAIN,
    images: tuple[int, ...] = (4,) * STEPS,
) -> Found:
    """The losses of some steps, and the parameters after them: new images and labels in each.

    Parameters and gradient are in other vectors from step to step.
    """
    parameters = ParameterVector(network)
    parameters.initialise(3)
    vectors = [parameters.packed, parameters.packed.copy()]
    gradients = [aligned_zeros(network.packed_size) for _ in range(2)]
    draws, losses = np.random.default_rng(5), []
    backend = TorchBackend(
        network, 4, 1, loss=loss, mirrors=mirrors, precision=precision, graph=graph
    )
    for step, number in enumerate(images):
        values = draws.standard_normal((number, *network.input_shape), np.float32)
        batch = Batch(values, draws.integers(0, 10, number), np.full(1, 11 + step, np.uint64))
        own, gradient = vectors[step % 2], gradients[step % 2]
        losses.append(backend.loss_and_gradient(batch, own, gradient))
        vectors[1 - step % 2][:] = own - np.float32(0.01) * gradient
        backend.evaluate(batch, own)
    backend.close()
    return losses, vectors[len(images) % 2]


def assert_same(found: Found, expected: Found) -> None:
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])


NETWORKS = {
    "lenet": lenet,
    "cifar-quick": cifar_quick,
    "resnet-20": resnet20,
    "alexnet": alexnet,
    "resnet-18": lambda: network_named("resnet-18"),
}
ALL = [
    pytest.param(name, marks=pytest.mark.long) if name in ("alexnet", "resnet-18") else name
    for name in NETWORKS
]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ALL)
def test_replayed_steps_have_the_bits_of_eager_ones(
    one_thread: None, name: str, precision: str
) -> None:
    network = NETWORKS[name]()
    expected = trained(network, None, precision)
    assert len(set(expected[0])) == STEPS
    assert_same(trained(network, Tape, precision), expected)


def test_vectors_that_are_apart_are_brought_to_the_graphs_places(one_thread: None) -> None:
    network = cifar_quick()
    apart = Mirrors(HOST, are_apart=True)
    assert_same(trained(network, Tape, mirrors=apart), trained(network, None))


def test_each_number_of_images_has_a_graph(one_thread: None) -> None:
    made: list[Tape] = []

    def make() -> Tape:
        made.append(Tape())
        return made[-1]

    images = (4, 2, 4, 3, 2)
    network = lenet()
    assert_same(trained(network, make, images=images), trained(network, None, images=images))
    assert len(made) == 3
    assert all(tape.calls for tape in made)


def test_vectors_that_are_evaluated_do_not_take_the_places_of_a_graph(one_thread: None) -> None:
    network, found = lenet(), []
    values = np.random.default_rng(1).standard_normal((4, *network.input_shape), np.float32)
    batch = Batch(values, np.arange(4))
    for graph in (None, Tape):
        parameters, gradient = ParameterVector(network), aligned_zeros(network.packed_size)
        parameters.initialise(3)
        backend = TorchBackend(network, 4, 1, mirrors=Mirrors(HOST, are_apart=True), graph=graph)
        backend.loss_and_gradient(batch, parameters.packed, gradient)
        others = [parameters.packed.copy() for _ in range(REMEMBERED_VECTORS + 2)]
        for other in others:
            backend.evaluate(batch, other)
        parameters.packed[:] *= np.float32(0.5)
        found.append((backend.loss_and_gradient(batch, parameters.packed, gradient), gradient))
        backend.close()
    assert_same(found[1], found[0])


@pytest.mark.parametrize(
    "loss",
    [SoftmaxCrossEntropy(0.1, (2.0, *[1.0] * 9)), SigmoidCrossEntropy()],
    ids=["softmax", "sigmoid"],
)
def test_losses_read_no_value_into_python(one_thread: None, loss: Loss) -> None:
    network = lenet()
    assert_same(trained(network, Tape, loss=loss), trained(network, None, loss=loss))


@pytest.mark.parametrize("name", ["lenet", "resnet-20", "resnet-18", "googlenet"])
def test_a_step_is_on_its_device_alone(name: str) -> None:
    network = network_named(name)
    weights = (1.0,) * network.output_shape[0]
    device = torch.device("meta")  # of which tensors have shapes and a device, but no values
    backend = TorchBackend(
        network, 4, 1, loss=SoftmaxCrossEntropy(0.1, weights), mirrors=Mirrors(device)
    )
    vectors = ParameterVector(network).packed, ParameterVector(network).packed
    images = torch.empty((4, *network.input_shape), device=device).permute(0, 3, 1, 2)
    labels = torch.zeros(4, dtype=torch.int64, device=device)
    backend._compute(*vectors, images, labels, nobody_waits)  # which brings the vectors there
    with OneDevice(device):
        assert backend._compute(*vectors, images, labels, nobody_waits).device == device
        with pytest.raises(AssertionError, match="is on cpu"):
            backend._compute(*vectors, images, torch.zeros(4, dtype=torch.int64), nobody_waits)


def test_a_tape_refuses_values_that_python_reads() -> None:
    with pytest.raises(AssertionError, match="read into Python"):
        Tape().record(lambda: torch.ones(1).sum().item() and None)


def test_graphs_are_made_of_nvidias_gpus_alone() -> None:
    assert cuda_graphs(torch.device("xpu"), "auto") is None
    assert cuda_graphs(HOST, False) is None
    with pytest.raises(ConfigError, match=r"backend\.graphs = true on the device 'xpu'"):
        cuda_graphs(torch.device("xpu"), True)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["lenet", "cifar-quick", "resnet-20", "resnet-18", "alexnet"])
def test_replayed_steps_on_a_gpu_follow_eager_ones(name: str, precision: str) -> None:
    mirrors = Mirrors(device_named("cuda"))
    graph = cuda_graphs(mirrors.device, "auto")
    assert graph is not None
    network = NETWORKS[name]()
    found, expected = (
        trained(network, each, precision, Mirrors(mirrors.device), images=(4, 2, 4, 3))
        for each in (graph, None)
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-3)
    far = np.abs(found[1] - expected[1]).max()
    assert far <= 1e-2 * np.abs(expected[1]).max()

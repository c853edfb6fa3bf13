"""PyTorch on networks with branches, several losses, running statistics and dropout."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from knltrain.backends.torch.backend import TorchBackend
from knltrain.backends.torch.execution import Execution
from knltrain.data.dataset import Batch
from knltrain.errors import NetworkError
from knltrain.interchange.to_torch import to_torch
from knltrain.network.graph import Output
from knltrain.network.layers import (
    Addition,
    AveragePooling,
    BatchNormalisation,
    Concatenation,
    Convolution,
    Dense,
    Dropout,
    GlobalAveragePooling,
    LocalResponseNormalisation,
    MaxPooling,
    ReLU,
)
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.cifar_quick import cifar_quick
from knltrain.network.zoo.resnet import resnet18
from knltrain.vectors import aligned_zeros

IMAGES = 5

BRANCHED = Network(
    "branched",
    (6, 5, 2),
    (
        Convolution("stem", 4, 3, padding=1, bias=False),
        BatchNormalisation("stem/norm", momentum=0.25),
        ReLU("stem/relu", slope=0.1),
        Convolution("left", 4, 3, padding=1, groups=2),
        BatchNormalisation("left/norm", epsilon=1e-2),
        Addition("sum", ("left/norm", "stem/relu")),
        AveragePooling("right", 3, 1, 1, inputs=("stem/relu",)),
        Concatenation("joined", ("sum", "right")),
        LocalResponseNormalisation("lrn", 3, alpha=0.5),
        GlobalAveragePooling("pool"),
        Dense("aside", 3),
        MaxPooling("halved", 3, 2, 1, ceil=True, inputs=("lrn",)),
        Dense("main", 3),
    ),
    (Output("main"), Output("aside", 0.3)),
)


@pytest.fixture
def parameters() -> ParameterVector:
    """Initial weights, and statistics and shifts that are those of no batch."""
    vector = ParameterVector(BRANCHED)
    vector.initialise(seed=2)
    for spec in BRANCHED.parameters:
        if spec.role != "weights":
            vector.views[spec.name][...] = np.linspace(0.5, 1.5, spec.size)
    return vector


@pytest.fixture
def batch() -> Batch:
    """Images far from mean 0 and variance 1."""
    images = np.random.default_rng(0).standard_normal((IMAGES, 6, 5, 2), np.float32)
    return Batch(3 * images + 1, np.array([0, 1, 2, 2, 1]))


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def backend(execute: Callable[[Network], Execution]) -> Iterator[TorchBackend]:
    """A backend for the branched network."""
    made = TorchBackend(BRANCHED, IMAGES, 1, execute(BRANCHED))
    yield made
    made.close()


def _in_float64(batch: Batch, packed: np.ndarray) -> tuple[float, np.ndarray]:
    """Loss and gradient by automatic differentiation, as PyTorch's own modules have it."""
    vector = ParameterVector(BRANCHED, packed.astype(np.float32))
    module = to_torch(BRANCHED, vector).double().train()
    images = torch.from_numpy(batch.images_nhwc.astype(np.float64)).permute(0, 3, 1, 2)
    labels = torch.from_numpy(batch.labels)
    main, aside = module.logits(images, BRANCHED.outputs)
    cross_entropy = torch.nn.functional.cross_entropy
    loss = cross_entropy(main, labels) + 0.3 * cross_entropy(aside, labels)
    trained = [spec for spec in BRANCHED.parameters if not spec.is_statistic]
    expected = np.zeros(BRANCHED.packed_size)
    gradients = torch.autograd.grad(loss, list(module.parameters()))
    for spec, gradient in zip(trained, gradients, strict=True):
        expected[spec.offset : spec.offset + spec.size] = gradient.numpy().reshape(-1)
    return loss.item(), expected


def test_loss_and_gradient_sum_those_of_the_outputs_by_weight(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    gradient = aligned_zeros(BRANCHED.packed_size)
    loss = backend.loss_and_gradient(batch, parameters.packed, gradient)
    expected_loss, expected = _in_float64(batch, parameters.packed)
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    for spec in BRANCHED.parameters:
        if not spec.is_statistic:
            place = slice(spec.offset, spec.offset + spec.size)
            np.testing.assert_allclose(gradient[place], expected[place], rtol=1e-3, atol=1e-5)
            assert gradient[place].any()


def test_gradient_of_a_statistic_is_its_distance_from_the_batch_s(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    before = parameters.packed.copy()
    gradient = ParameterVector(BRANCHED)
    for _ in range(2):
        backend.loss_and_gradient(batch, before, gradient.packed)
    module = to_torch(BRANCHED, parameters)
    for name, norm in module.normalisations().items():
        norm.register_forward_pre_hook(
            lambda _, inputs, name=name: seen.__setitem__(name, inputs[0].detach())
        )
    seen: dict[str, torch.Tensor] = {}
    module.train()(torch.from_numpy(batch.images_nhwc).permute(0, 3, 1, 2))
    views = ParameterVector(BRANCHED, before).views
    assert set(seen) == {"stem/norm", "left/norm"}
    for name, values in seen.items():
        mean, variance = values.mean((0, 2, 3)), values.var((0, 2, 3), correction=1)
        for statistic, batch_s in (("running_mean", mean), ("running_variance", variance)):
            key = f"{name}.{statistic}"
            expected = views[key] - batch_s.numpy()
            np.testing.assert_allclose(gradient.views[key], expected, rtol=1e-4, atol=1e-5)


def test_optimizer_s_rule_moves_statistics_as_pytorch_does(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    gradient = aligned_zeros(BRANCHED.packed_size)
    moved = parameters.packed.copy()
    backend.loss_and_gradient(batch, moved, gradient)
    module = to_torch(BRANCHED, parameters).train()
    module(torch.from_numpy(batch.images_nhwc).permute(0, 3, 1, 2))  # moves its own
    for spec in BRANCHED.parameters:
        if spec.statistic_momentum is not None:
            place = slice(spec.offset, spec.offset + spec.size)
            moved[place] -= np.float32(spec.statistic_momentum) * gradient[place]
    np.testing.assert_allclose(moved, parameters.packed, rtol=1e-5)


def test_training_leaves_the_running_statistics_alone(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    before = parameters.packed.copy()
    gradient = aligned_zeros(BRANCHED.packed_size)
    backend.loss_and_gradient(batch, parameters.packed, gradient)
    backend.first_non_finite(batch, parameters.packed)
    backend.evaluate(batch, parameters.packed)
    np.testing.assert_array_equal(parameters.packed, before)


def test_gradient_is_the_same_whatever_was_in_it(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    clean, used = aligned_zeros(BRANCHED.packed_size), aligned_zeros(BRANCHED.packed_size)
    backend.loss_and_gradient(batch, parameters.packed, clean)
    used.fill(np.nan)
    backend.evaluate(batch, parameters.packed)
    backend.loss_and_gradient(batch, parameters.packed, used)
    np.testing.assert_array_equal(used, clean)


def test_evaluation_takes_running_statistics_and_the_first_output(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    gradient = aligned_zeros(BRANCHED.packed_size)
    backend.loss_and_gradient(batch, parameters.packed, gradient)
    images = torch.from_numpy(batch.images_nhwc).permute(0, 3, 1, 2)
    logits = to_torch(BRANCHED, parameters).eval()(images).detach()
    labels = torch.from_numpy(batch.labels)
    expected = torch.nn.functional.cross_entropy(logits, labels, reduction="sum").item()
    found, correct = backend.evaluate(batch, parameters.packed)
    assert found == pytest.approx(expected, rel=1e-6)
    assert correct == int((logits.argmax(1) == labels).sum())
    one = Batch(batch.images_nhwc[:1], batch.labels[:1])
    alone, _ = backend.evaluate(one, parameters.packed)
    first = torch.nn.functional.cross_entropy(logits[:1], labels[:1]).item()
    assert alone == pytest.approx(first, rel=1e-5)


def test_non_finite_layer_of_a_branch_is_named(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    packed = parameters.packed
    assert backend.first_non_finite(batch, packed) is None
    parameters.views["aside.bias"].fill(np.nan)
    assert backend.first_non_finite(batch, packed) == "aside"
    parameters.views["left/norm.shift"].fill(np.inf)
    assert backend.first_non_finite(batch, packed) == "left/norm"
    # Running statistics have no part in training, so they are not what made its loss infinite.
    parameters.views["stem/norm.running_mean"].fill(np.nan)
    assert backend.first_non_finite(batch, packed) == "left/norm"


def test_dropout_works_in_training_only() -> None:
    network = Network("dropped", (1, 1, 64), (Dropout("drop", 0.5), Dense("out", 2)))
    parameters = ParameterVector(network)
    parameters.initialise(seed=1)
    made = TorchBackend(network, 4, threads=1)
    images = np.random.default_rng(0).standard_normal((4, 1, 1, 64), np.float32)
    batch, gradient = Batch(images, np.zeros(4, np.int64)), aligned_zeros(network.packed_size)
    losses = []
    for batch.key[0] in (0, 1, 2, 3, 1):
        losses.append(made.loss_and_gradient(batch, parameters.packed, gradient))
    assert len(set(losses)) == 4
    assert losses[4] == losses[1]
    assert len({made.evaluate(batch, parameters.packed) for _ in range(4)}) == 1


def test_statistics_of_a_single_value_are_refused() -> None:
    layers = (Convolution("conv", 2, 3), BatchNormalisation("norm"), Dense("out", 2))
    made = TorchBackend(Network("point", (3, 3, 1), layers), 2, threads=1)
    parameters = ParameterVector(made._network)
    parameters.initialise(seed=1)
    one = Batch(np.ones((1, 3, 3, 1), np.float32), np.zeros(1, np.int64))
    with pytest.raises(
        NetworkError, match=r"'point' normalises maps of one pixel.*two images or m"
    ):
        made.loss_and_gradient(one, parameters.packed, aligned_zeros(parameters.packed.size))
    assert np.isfinite(made.evaluate(one, parameters.packed)[0])


@pytest.mark.parametrize("build", [cifar_quick, resnet18], ids=lambda build: build.__name__)
def test_known_networks_train(build: Callable[[], Network]) -> None:
    network = build()
    parameters, gradient = ParameterVector(network), ParameterVector(network)
    parameters.initialise(seed=1)
    images = np.random.default_rng(0).standard_normal((2, *network.input_shape), np.float32)
    made = TorchBackend(network, 2, threads=1)
    batch = Batch(images, np.array([1, 2]))
    loss = made.loss_and_gradient(batch, parameters.packed, gradient.packed)
    assert loss == pytest.approx(np.log(network.output_shape[0]), rel=0.2)
    assert all(np.isfinite(view).all() and view.any() for view in gradient.views.values())

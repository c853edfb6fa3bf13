"""PyTorch computes what the definition says, on the packed vectors themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from knltrain.backends.cpu.backend import REMEMBERED_VECTORS
from knltrain.backends.torch.backend import TorchBackend
from knltrain.backends.torch.execution import Execution
from knltrain.data.dataset import Batch
from knltrain.errors import NetworkError
from knltrain.network.layers import Convolution, Dense, MaxPooling, ReLU
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.vectors import aligned_zeros

NETWORK = Network(
    "tiny",
    (7, 6, 2),
    (
        Convolution("conv", 3, 3, stride=1, padding=1),
        ReLU("relu"),
        MaxPooling("pool", 2, 2),
        Dense("hidden", 6),
        ReLU("relu2"),
        Dense("out", 4),
    ),
)
IMAGES = 5


@pytest.fixture
def backend(one_thread: None, execute: Callable[[Network], Execution]) -> Iterator[TorchBackend]:
    """A backend on one thread."""
    backend = TorchBackend(NETWORK, IMAGES, 1, execute(NETWORK))
    yield backend
    backend.close()


@pytest.fixture
def batch() -> Batch:
    """Random images with labels of all classes."""
    images = np.random.default_rng(0).standard_normal((IMAGES, 7, 6, 2), np.float32)
    return Batch(images, np.array([0, 1, 2, 3, 1]))


@pytest.fixture
def parameters() -> ParameterVector:
    """Initial weights and biases that are not zero."""
    vector = ParameterVector(NETWORK)
    vector.initialise(seed=2)
    for name in ("conv.bias", "hidden.bias", "out.bias"):
        vector.views[name][:] = np.linspace(-0.1, 0.2, vector.views[name].size)
    return vector


def _logits(values: np.ndarray, packed: np.ndarray) -> np.ndarray:
    """The network written out in NumPy and float64, for images (n,H,W,C)."""
    view = {
        spec.name: packed[spec.offset : spec.offset + spec.size].reshape(spec.shape)
        for spec in NETWORK.parameters
    }
    padded = np.pad(values.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    values = np.einsum("nyxcrs,kcrs->nyxk", windows, view["conv.weights"]) + view["conv.bias"]
    values = np.maximum(values, 0)[:, :6]
    values = values.reshape(IMAGES, 3, 2, 3, 2, 3).max(axis=(2, 4))
    values = values.transpose(0, 3, 1, 2).reshape(IMAGES, -1)
    values = np.maximum(values @ view["hidden.weights"].T + view["hidden.bias"], 0)
    return values @ view["out.weights"].T + view["out.bias"]


def _losses(batch: Batch, packed: np.ndarray) -> np.ndarray:
    logits = _logits(batch.images_nhwc, packed)
    return np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(IMAGES), batch.labels]


def test_loss_is_the_mean_cross_entropy(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    loss = backend.loss_and_gradient(batch, parameters.packed, aligned_zeros(NETWORK.packed_size))
    expected = _losses(batch, parameters.packed.astype(np.float64)).mean()
    assert loss == pytest.approx(expected, rel=1e-5)


def test_gradient_equals_finite_differences(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    gradient = aligned_zeros(NETWORK.packed_size)
    backend.loss_and_gradient(batch, parameters.packed, gradient)
    packed = parameters.packed.astype(np.float64)
    expected = np.zeros_like(packed)
    for index in range(packed.size):
        losses = []
        for shift in (1e-5, -1e-5):
            moved = packed.copy()
            moved[index] += shift
            losses.append(_losses(batch, moved).mean())
        expected[index] = (losses[0] - losses[1]) / 2e-5
    assert np.count_nonzero(expected) > NETWORK.parameter_count / 2
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-5)


def test_gradient_overwrites_what_was_there_and_keeps_padding_zero(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    clean, used = aligned_zeros(NETWORK.packed_size), aligned_zeros(NETWORK.packed_size)
    used.fill(3)
    backend.loss_and_gradient(batch, parameters.packed, clean)
    for _ in range(2):
        backend.loss_and_gradient(batch, parameters.packed, used)
        np.testing.assert_array_equal(used, clean)


def test_changed_parameters_are_seen_without_being_told(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    gradient = aligned_zeros(NETWORK.packed_size)
    backend.loss_and_gradient(batch, parameters.packed, gradient)
    parameters.packed *= np.float32(0.5)
    loss = backend.loss_and_gradient(batch, parameters.packed, gradient)
    expected = _losses(batch, parameters.packed.astype(np.float64)).mean()
    assert loss == pytest.approx(expected, rel=1e-5)


def test_evaluation_counts_correct_images_and_sums_their_losses(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    packed = parameters.packed.astype(np.float64)
    right = _logits(batch.images_nhwc, packed).argmax(axis=1)
    for wrong in range(IMAGES + 1):
        labels = np.where(np.arange(IMAGES) < wrong, (right + 1) % 4, right)
        labelled = Batch(batch.images_nhwc, labels)
        loss_sum, correct = backend.evaluate(labelled, parameters.packed)
        assert correct == IMAGES - wrong
        assert loss_sum == pytest.approx(_losses(labelled, packed).sum(), rel=1e-5)


def test_evaluation_takes_fewer_images_than_the_batch(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    first = Batch(batch.images_nhwc[:2], batch.labels[:2])
    expected = _losses(batch, parameters.packed.astype(np.float64))[:2].sum()
    assert backend.evaluate(first, parameters.packed)[0] == pytest.approx(expected, rel=1e-5)


def test_vector_that_was_evaluated_first_can_be_trained_afterwards(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    gradient = aligned_zeros(NETWORK.packed_size)
    backend.evaluate(batch, parameters.packed)
    backend.loss_and_gradient(batch, parameters.packed, gradient)
    assert gradient.any()


def test_many_vectors_in_turn_are_told_apart(backend: TorchBackend, batch: Batch) -> None:
    vectors = [ParameterVector(NETWORK) for _ in range(REMEMBERED_VECTORS + 3)]
    for seed, vector in enumerate(vectors):
        vector.initialise(seed)
    for _ in range(2):
        for vector in vectors:
            loss = backend.loss_and_gradient(
                batch, vector.packed, aligned_zeros(NETWORK.packed_size)
            )
            expected = _losses(batch, vector.packed.astype(np.float64)).mean()
            assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("layer", "parameter"),
    [("conv", "conv.bias"), ("hidden", "hidden.weights"), ("out", "out.weights")],
)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_first_layer_with_a_non_finite_output_is_named(
    backend: TorchBackend,
    batch: Batch,
    parameters: ParameterVector,
    layer: str,
    parameter: str,
    value: float,
) -> None:
    assert backend.first_non_finite(batch, parameters.packed) is None
    parameters.views[parameter].fill(value)
    assert backend.first_non_finite(batch, parameters.packed) == layer


def test_dense_layer_is_named_and_not_the_flattening_of_its_input(backend: TorchBackend) -> None:
    network = Network("flat", (2, 2, 1), (Dense("out", 2),))
    batch = Batch(np.full((1, 2, 2, 1), np.nan, np.float32), np.zeros(1, np.int64))
    parameters = ParameterVector(network)
    assert TorchBackend(network, 1, 1).first_non_finite(batch, parameters.packed) == "out"


@pytest.mark.parametrize("wrong", ["parameters", "gradient"])
@pytest.mark.parametrize(
    "vector",
    [
        np.zeros(NETWORK.packed_size, np.float64),
        np.zeros(2 * NETWORK.packed_size, np.float32)[::2],
        np.zeros(NETWORK.parameter_count, np.float32),
    ],
    ids=["float64", "strided", "without padding"],
)
def test_vector_that_is_not_packed_float32_is_refused(
    backend: TorchBackend, batch: Batch, wrong: str, vector: np.ndarray
) -> None:
    vectors = {name: aligned_zeros(NETWORK.packed_size) for name in ("parameters", "gradient")}
    vectors[wrong] = vector
    with pytest.raises(NetworkError, match="'tiny': expected contiguous float32"):
        backend.loss_and_gradient(batch, vectors["parameters"], vectors["gradient"])


def test_threads_are_set() -> None:
    before = torch.get_num_threads()
    try:
        TorchBackend(NETWORK, IMAGES, threads=2)
        assert torch.get_num_threads() == 2
        TorchBackend(NETWORK, IMAGES, threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_images_reach_pytorch_uncopied_and_channels_last(
    backend: TorchBackend, batch: Batch, parameters: ParameterVector
) -> None:
    seen: list[torch.Tensor] = []

    def look(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        if type(module).__name__.endswith("Conv2d"):
            seen.append(inputs[0])

    with register_module_forward_pre_hook(look):
        backend.evaluate(batch, parameters.packed)
    assert seen[0].data_ptr() == batch.images_nhwc.ctypes.data
    assert seen[0].shape == (IMAGES, 2, 7, 6)
    assert seen[0].is_contiguous(memory_format=torch.channels_last)

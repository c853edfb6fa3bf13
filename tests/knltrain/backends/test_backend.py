"""The contract of backends: every implementation computes what `seam.definition` defines."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from seam.definition import check_step, define
from seam.graphs import GRAPHS, LENET, OUTPUTS, RESIDUAL
from seam.material import batch_of, direct, parameters_of

from knltrain.backends.backend import Backend
from knltrain.backends.loss import (
    Loss,
    MeanSquaredError,
    SigmoidCrossEntropy,
    SoftmaxCrossEntropy,
)
from knltrain.backends.torch.backend import TorchBackend
from knltrain.data.dataset import Batch
from knltrain.errors import NetworkError
from knltrain.network.layers import (
    BatchNormalisation,
    Convolution,
    Dense,
    Dropout,
    LocalResponseNormalisation,
    WithinChannelNormalisation,
)
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

BACKENDS: dict[str, Callable[[Network, int], Backend]] = {
    "torch": lambda network, images: TorchBackend(network, images, 1),
    "reference": lambda network, images: direct(network, images, "reference"),
    "numba": lambda network, images: direct(network, images, "numba"),
    "onednn": lambda network, images: direct(network, images, "onednn"),
    "channels_last": lambda network, images: direct(network, images, "channels_last"),
}

APART = {
    "torch": (Dropout,),
    "onednn": (Dropout, LocalResponseNormalisation, WithinChannelNormalisation),
}
"""Layers that a backend does not take, or whose random numbers are its own."""

FOUR = Network("four", (4, 4, 1), (Convolution("conv", 8, 3, padding=1), Dense("out", 4)))
TINY = Network("tiny", (4, 4, 1), (Dense("out", 3),))

Make = Callable[[Network, int], Backend]


@pytest.fixture(params=BACKENDS)
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """make(network, images): a backend, each implementation in turn."""
    made: list[Backend] = []

    def one(network: Network, images: int) -> Backend:
        made.append(BACKENDS[request.param](network, images))
        return made[-1]

    yield one
    for backend in made:
        backend.close()


def gradient_of(backend: Backend, batch: Batch, parameters: ParameterVector) -> np.ndarray:
    gradient = ParameterVector(parameters.network).packed
    backend.loss_and_gradient(batch, parameters.packed, gradient)
    return gradient


@pytest.mark.parametrize(
    ("name", "network"),
    [
        pytest.param(name, network, id=f"{name}-{network.name}")
        for network in GRAPHS
        for name in BACKENDS
        if not any(isinstance(layer, APART.get(name, ())) for layer in network.layers)
    ],
)
def test_step_and_evaluation_are_those_of_the_definition(name: str, network: Network) -> None:
    backend = BACKENDS[name](network, 20)
    check_step(backend, network, parameters_of(network).packed, batch_of(network, 20))
    backend.close()


OF_A_LOSS: dict[str, Callable[[Network, Loss], Backend]] = {
    "torch": lambda network, loss: TorchBackend(network, 20, 1, loss=loss),
    "reference": lambda network, loss: direct(network, 20, "reference", loss=loss),
    "numba": lambda network, loss: direct(network, 20, "numba", loss=loss),
    "onednn": lambda network, loss: direct(network, 20, "onednn", loss=loss),
    "channels_last": lambda network, loss: direct(network, 20, "channels_last", loss=loss),
    "slices": lambda network, loss: direct(network, 20, "numba", micro_batch=16, loss=loss),
}
LOSSES: dict[str, Loss] = {
    "smoothed": SoftmaxCrossEntropy(0.1),
    "weighted": SoftmaxCrossEntropy(0.1, (0.5, 3.0, 1.0, 0.25)),
    "sigmoid": SigmoidCrossEntropy(),
    "squares": MeanSquaredError(),
}


@pytest.mark.parametrize("labels", ["classes", "targets"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", OF_A_LOSS)
def test_other_losses_are_those_of_pytorch(name: str, loss: str, labels: str) -> None:
    """Each of several outputs has them; evaluations measure without smoothing and weights."""
    network = FOUR if name == "slices" else OUTPUTS  # which normalises over the batch
    backend, parameters = OF_A_LOSS[name](network, LOSSES[loss]), parameters_of(network).packed
    batch = batch_of(network, 20)
    if labels == "targets":
        rng = np.random.default_rng(4)
        targets = rng.uniform(size=(20, 4)).astype(np.float32)
        batch = Batch(batch.images_nhwc, targets, batch.key)
    check_step(backend, network, parameters, batch, loss_of_it=LOSSES[loss])
    backend.close()


def test_labels_of_other_classes_are_refused() -> None:
    backend, parameters = direct(TINY, 4, "reference"), ParameterVector(TINY).packed
    images, targets = np.zeros((4, 4, 4, 1), np.float32), np.zeros((4, 2), np.float32)
    with pytest.raises(NetworkError, match=r"labels \(4, 2\).*outputs \(3,\)"):
        backend.evaluate(Batch(images, targets), parameters)


@pytest.mark.parametrize("images", [1, 15, 17])
def test_fewer_images_than_expected_are_a_batch_of_their_own(make: Make, images: int) -> None:
    backend, parameters = make(RESIDUAL, 20), parameters_of(RESIDUAL)
    backend.loss_and_gradient(
        batch_of(RESIDUAL, 20, seed=1), parameters.packed, np.empty_like(parameters.packed)
    )
    check_step(backend, RESIDUAL, parameters.packed, batch_of(RESIDUAL, images))


def test_images_of_an_earlier_batch_leave_no_trace(make: Make) -> None:
    backend, parameters = make(RESIDUAL, 20), parameters_of(RESIDUAL)
    batch, broken = batch_of(RESIDUAL, 11), batch_of(RESIDUAL, 20)
    expected = gradient_of(backend, batch, parameters)
    broken.images_nhwc[...] = np.nan
    assert not np.isfinite(gradient_of(backend, broken, parameters)).all()
    assert_array_equal(gradient_of(backend, batch, parameters), expected)


def test_equal_steps_are_equal_to_the_last_bit(make: Make) -> None:
    backend, parameters = make(OUTPUTS, 20), parameters_of(OUTPUTS)
    batch, other = batch_of(OUTPUTS, 16), batch_of(OUTPUTS, 16, seed=1)
    gradient, again = ParameterVector(OUTPUTS).packed, ParameterVector(OUTPUTS).packed
    loss = backend.loss_and_gradient(batch, parameters.packed, gradient)
    assert backend.loss_and_gradient(other, parameters.packed, again) != loss
    backend.evaluate(other, parameters.packed)
    assert backend.loss_and_gradient(batch, parameters.packed, again) == loss
    assert_array_equal(again, gradient)


@pytest.mark.parametrize("network", [LENET, RESIDUAL], ids=lambda network: network.name)
def test_what_is_told_to_be_done_of_a_gradient_does_not_change_any_more(
    make: Make, network: Network
) -> None:
    backend, batch = make(network, 20), batch_of(network, 20)
    parameters, gradient = parameters_of(network).packed, ParameterVector(network).packed
    told: list[tuple[int, np.ndarray]] = []
    backend.loss_and_gradient(
        batch, parameters, gradient, lambda offset: told.append((offset, gradient[offset:].copy()))
    )
    offsets = [offset for offset, _ in told]
    assert offsets == sorted(offsets, reverse=True)
    for offset, done in told:
        assert_array_equal(done, gradient[offset:])


def test_parameters_and_running_statistics_are_only_read(make: Make) -> None:
    backend, parameters = make(RESIDUAL, 20), parameters_of(RESIDUAL)
    batch, before = batch_of(RESIDUAL, 8), parameters.packed.copy()
    gradient_of(backend, batch, parameters)
    backend.first_non_finite(batch, parameters.packed)
    backend.evaluate(batch, parameters.packed)
    assert_array_equal(parameters.packed, before)


def test_statistics_of_a_single_value_are_refused_in_training(make: Make) -> None:
    layers = Convolution("conv", 8, 3), BatchNormalisation("norm"), Dense("out", 2)
    network = Network("point", (3, 3, 8), layers)
    backend, parameters = make(network, 20), parameters_of(network)
    one = batch_of(network, 1)
    for refuse in (
        lambda: gradient_of(backend, one, parameters),
        lambda: backend.first_non_finite(one, parameters.packed),
    ):
        with pytest.raises(NetworkError, match=r"normalises maps of one pixel.*two images or more"):
            refuse()
    assert np.isfinite(backend.evaluate(one, parameters.packed)[0])
    check_step(backend, network, parameters.packed, batch_of(network, 2), rtol=0.01)


def test_evaluation_sums_losses_and_counts_what_is_classified_right(make: Make) -> None:
    parameters = ParameterVector(TINY)
    parameters.views["out.weights"][1, 0] = 1  # class 1 gets the first pixel, 0 and 2 get zero
    images = np.zeros((5, 4, 4, 1), np.float32)
    images[:, 0, 0, 0] = [2, 2, -2, 5, -1]
    batch = Batch(images, np.array([1, 0, 1, 1, 0]))
    loss, right = make(TINY, 8).evaluate(batch, parameters.packed)
    scores = np.exp(images[:, 0, 0, 0].astype(np.float64))
    labelled = np.where(batch.labels == 1, scores, 1)
    assert right == 3  # the first of equal scores counts: class 0
    assert loss == pytest.approx(-np.log(labelled / (scores + 2)).sum(), rel=1e-6)


def test_dropout_works_in_training_only(make: Make) -> None:
    network = Network("dropped", (1, 1, 64), (Dropout("drop", 0.5), Dense("out", 2)))
    try:
        backend = make(network, 4)
    except NetworkError as error:
        assert "is a Dropout, which the cpu backend's 'onednn' does not compute" in str(error)
        return
    parameters, gradient = parameters_of(network), ParameterVector(network).packed
    torch.manual_seed(1)
    batches = [batch_of(network, 4), *(batch_of(network, 4) for _ in range(3))]
    for key, batch in enumerate(batches):
        batch.key[:] = key
    losses = [backend.loss_and_gradient(each, parameters.packed, gradient) for each in batches]
    assert len(set(losses)) == 4
    assert len({backend.evaluate(each, parameters.packed) for each in batches}) == 1
    expected = define(network, parameters.packed, batches[0]).loss_sum
    assert backend.evaluate(batches[0], parameters.packed)[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("stem/conv.weights", np.nan),
        ("a1.shift", np.inf),
        ("a2.shift", np.nan),
        ("short.scale", np.nan),
        ("out.bias", np.inf),
    ],
)
def test_first_layer_that_is_not_finite_is_named(make: Make, parameter: str, value: float) -> None:
    backend, parameters = make(RESIDUAL, 20), parameters_of(RESIDUAL)
    batch = batch_of(RESIDUAL, 5)
    assert backend.first_non_finite(batch, parameters.packed) is None
    parameters.views[parameter].flat[1] = value
    expected = parameter.partition(".")[0]
    assert backend.first_non_finite(batch, parameters.packed) == expected


def test_layers_for_another_output_are_looked_at_and_running_statistics_are_not(make: Make) -> None:
    backend, parameters = make(OUTPUTS, 20), parameters_of(OUTPUTS)
    batch = batch_of(OUTPUTS, 5)
    parameters.views["trunk.running_mean"].fill(np.nan)
    assert backend.first_non_finite(batch, parameters.packed) is None
    parameters.views["aside/hidden.bias"].fill(np.nan)
    assert backend.first_non_finite(batch, parameters.packed) == "aside/hidden"


def test_broken_images_are_seen_in_the_first_layer(make: Make) -> None:
    batch = batch_of(LENET, 3)
    batch.images_nhwc[2, 3, 3, 0] = np.nan
    found = make(LENET, 20).first_non_finite(batch, parameters_of(LENET).packed)
    assert found == "conv1"


def test_vector_of_another_network_is_refused(make: Make) -> None:
    wrong = np.zeros(TINY.packed_size + 16, np.float32)
    with pytest.raises(NetworkError, match="packed vector of network 'tiny'"):
        make(TINY, 8).evaluate(batch_of(TINY, 8), wrong)

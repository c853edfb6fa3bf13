from __future__ import annotations

import gc
import resource
import tracemalloc
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knltrain.backends.backend import Backend
from knltrain.backends.by_address import REMEMBERED_VECTORS
from knltrain.backends.cpu import CpuBackend
from knltrain.backends.torch_backend import TorchBackend
from knltrain.data.dataset import Batch
from knltrain.errors import NetworkError
from knltrain.network.layers import Convolution, Dense, Layer, MaxPooling
from knltrain.network.lenet import lenet
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.optimizers.sgd import SGD
from vectorized_ops.implementations import IMPLEMENTATIONS
from vectorized_ops.numba.compiler import SETTINGS
from vectorized_ops.reference.sgd import sgd_update

MakeBatch = Callable[..., Batch]
MakeParameters = Callable[[Network], ParameterVector]


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest) -> str:
    """Each of the implementations; what is promised of one alone has tests of its own below."""
    return str(request.param)


def gradient_of(backend: Backend, batch: Batch, parameters: ParameterVector) -> np.ndarray:
    gradient = ParameterVector(parameters.network)
    backend.loss_and_gradient(batch, parameters.packed, gradient.packed)
    return gradient.packed


def test_loss_and_gradient_agree_with_pytorch(
    implementation: str, network: Network, make_batch: MakeBatch, make_parameters: MakeParameters
) -> None:
    batch, parameters = make_batch(network, 18), make_parameters(network)
    results = []
    for backend in (
        CpuBackend(network, 18, 1, implementation),
        TorchBackend(network, 18, threads=1),
    ):
        gradient = ParameterVector(network)
        loss = backend.loss_and_gradient(batch, parameters.packed, gradient.packed)
        results.append((loss, gradient.packed, backend.evaluate(batch, parameters.packed)))
    (loss, gradient, evaluation), (torch_loss, torch_gradient, torch_evaluation) = results
    assert loss == pytest.approx(torch_loss, rel=1e-5)
    assert_allclose(gradient, torch_gradient, rtol=0, atol=2e-6 * np.abs(torch_gradient).max())
    assert evaluation == (pytest.approx(torch_evaluation[0], rel=1e-5), torch_evaluation[1])


def test_gradient_is_the_slope_of_the_loss(
    implementation: str, network: Network, make_batch: MakeBatch, make_parameters: MakeParameters
) -> None:
    batch, parameters = make_batch(network, 9), make_parameters(network)
    backend = CpuBackend(network, 9, 1, implementation)
    unused = ParameterVector(network)
    gradient = gradient_of(backend, batch, parameters)
    before = parameters.packed.copy()

    def loss_at(step: float, direction: np.ndarray) -> float:
        parameters.packed[:] = before + np.float32(step) * direction
        return backend.loss_and_gradient(batch, parameters.packed, unused.packed)

    # Along the gradient the slope is steepest, and rounding of the loss (1e-7) matters least.
    for spec in network.parameters:
        direction = np.zeros_like(gradient)
        part = slice(spec.offset, spec.offset + spec.size)
        length = np.linalg.norm(gradient[part])
        direction[part] = gradient[part] / length
        slope = (loss_at(1e-3, direction) - loss_at(-1e-3, direction)) / 2e-3
        assert slope == pytest.approx(length, rel=0.02, abs=2e-4), spec.name


def test_losses_of_lenet_follow_pytorchs_for_20_steps(
    implementation: str, make_batch: MakeBatch
) -> None:
    network = lenet()
    curves = []
    for backend in (
        CpuBackend(network, 16, 1, implementation),
        TorchBackend(network, 16, threads=1),
    ):
        parameters, gradient = ParameterVector(network), ParameterVector(network)
        parameters.initialise(seed=3)
        optimizer = SGD(network.packed_size, 0.9, 0.0005, False, sgd_update)
        losses = []
        for step in range(20):
            batch = make_batch(network, 16, seed=step % 4)
            losses.append(backend.loss_and_gradient(batch, parameters.packed, gradient.packed))
            optimizer.step(parameters.packed, gradient.packed, 0.01)
        curves.append(losses)
    assert curves[1][-1] < 0.5 * curves[1][0]  # it has learned: every layer's gradient was needed
    assert_allclose(curves[0], curves[1], rtol=1e-3)
    assert_allclose(curves[0][:5], curves[1][:5], rtol=1e-5)


@pytest.mark.parametrize("images", [1, 15, 17, 31])
def test_fewer_images_than_compiled_count_as_if_compiled_for_them(
    implementation: str, images: int, make_batch: MakeBatch, make_parameters: MakeParameters
) -> None:
    network = Network("tiny", (8, 8, 1), (Convolution("conv", 4, 3), Dense("out", 3)))
    parameters, batch = make_parameters(network), make_batch(network, images, seed=1)
    exact = CpuBackend(network, images, 1, implementation)
    larger = CpuBackend(network, 32, 1, implementation)
    gradient_of(larger, make_batch(network, 32), parameters)
    found, expected = ParameterVector(network).packed, ParameterVector(network).packed
    mean_loss = exact.loss_and_gradient(batch, parameters.packed, expected)
    assert larger.loss_and_gradient(batch, parameters.packed, found) == pytest.approx(mean_loss)
    assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    loss, correct = exact.evaluate(batch, parameters.packed)
    assert loss == pytest.approx(mean_loss * images)
    assert larger.evaluate(batch, parameters.packed) == (pytest.approx(loss, rel=1e-6), correct)


def test_images_of_an_earlier_batch_leave_no_trace(
    implementation: str, network: Network, make_batch: MakeBatch, make_parameters: MakeParameters
) -> None:
    parameters = make_parameters(network)
    backend = CpuBackend(network, 20, 1, implementation)
    batch = make_batch(network, 11)
    expected = gradient_of(backend, batch, parameters)
    broken = make_batch(network, 20)
    broken.images_nhwc[11:] = np.nan
    with np.errstate(invalid="ignore"):
        assert not np.isfinite(gradient_of(backend, broken, parameters)).all()
    assert_array_equal(gradient_of(backend, batch, parameters), expected)


def test_gradient_is_overwritten_and_zero_between_the_parameters(
    implementation: str, network: Network, make_batch: MakeBatch, make_parameters: MakeParameters
) -> None:
    parameters, gradient = make_parameters(network), ParameterVector(network)
    backend = CpuBackend(network, 4, 1, implementation)
    batch = make_batch(network, 4)
    gradient.packed.fill(np.nan)
    backend.loss_and_gradient(batch, parameters.packed, gradient.packed)
    assert_array_equal(gradient.packed, gradient_of(backend, batch, parameters))
    between = np.ones(network.packed_size, bool)
    for spec in network.parameters:
        between[spec.offset : spec.offset + spec.size] = False
    assert between.any()
    assert not gradient.packed[between].any()


def test_evaluation_sums_losses_and_counts_what_is_classified_right(
    implementation: str, make_parameters: MakeParameters
) -> None:
    network = Network("tiny", (4, 4, 1), (Dense("out", 3),))
    parameters = ParameterVector(network)
    parameters.views["out.weights"][1, 0] = 1  # class 1 gets the first pixel, 0 and 2 get zero
    images = np.zeros((5, 4, 4, 1), np.float32)
    images[:, 0, 0, 0] = [2, 2, -2, 5, -1]
    backend = CpuBackend(network, 8, 1, implementation)
    batch = Batch(images, np.array([1, 0, 1, 1, 0]))
    loss, correct = backend.evaluate(batch, parameters.packed)
    scores = np.exp(images[:, 0, 0, 0].astype(np.float64))
    right = np.where(batch.labels == 1, scores, 1)
    assert correct == 3  # the first of equal scores counts: class 0
    assert loss == pytest.approx(-np.log(right / (scores + 2)).sum(), rel=1e-6)


def test_first_layer_that_is_not_finite_is_named(
    implementation: str, make_batch: MakeBatch, make_parameters: MakeParameters
) -> None:
    network, batch = lenet(), make_batch(lenet(), 5)
    backend = CpuBackend(network, 8, 1, implementation)
    for name, broken in (("conv1", np.inf), ("conv2", np.nan), ("ip1", np.nan), ("ip2", np.inf)):
        parameters = make_parameters(network)
        assert backend.first_non_finite(batch, parameters.packed) is None
        parameters.views[f"{name}.weights"].flat[7] = broken
        with np.errstate(invalid="ignore"):
            assert backend.first_non_finite(batch, parameters.packed) == name


def test_broken_images_are_seen_in_the_first_layer(
    implementation: str, network: Network, make_batch: MakeBatch, make_parameters: MakeParameters
) -> None:
    batch = make_batch(network, 3)
    batch.images_nhwc[2, 0, 0, 0] = np.nan
    backend = CpuBackend(network, 3, 1, implementation)
    with np.errstate(invalid="ignore"):
        found = backend.first_non_finite(batch, make_parameters(network).packed)
    assert found == network.layers[0].name


@pytest.mark.parametrize(
    ("images", "labels"),
    [((9, 8, 8, 1), 9), ((4, 8, 8, 1), 5), ((4, 8, 8, 2), 4), ((4, 9, 8, 1), 4), ((0, 8, 8, 1), 0)],
    ids=["more images", "more labels", "channels", "height", "no images"],
)
def test_batch_that_the_plan_was_not_made_for_is_refused(
    implementation: str, images: tuple[int, ...], labels: int, make_parameters: MakeParameters
) -> None:
    network = Network("tiny", (8, 8, 1), (Dense("out", 3),))
    parameters = make_parameters(network).packed
    backend = CpuBackend(network, 8, 1, implementation)
    batch = Batch(np.zeros(images, np.float32), np.zeros(labels, np.int64))
    for refuse in (backend.evaluate, backend.first_non_finite):
        with pytest.raises(NetworkError, match=r"compiled for 1 to 8 images of \(8, 8, 1\)"):
            refuse(batch, parameters)
    with pytest.raises(NetworkError, match=f"{labels} labels and images"):
        backend.loss_and_gradient(batch, parameters, np.zeros_like(parameters))


def test_vector_of_another_network_is_refused(implementation: str, make_batch: MakeBatch) -> None:
    network = Network("tiny", (8, 8, 1), (Dense("out", 3),))
    backend = CpuBackend(network, 8, 1, implementation)
    wrong = np.zeros(network.packed_size + 16, np.float32)
    with pytest.raises(NetworkError, match="packed vector of network 'tiny'"):
        backend.evaluate(make_batch(network, 8), wrong)


def test_many_vectors_in_turn_are_each_read_and_written(
    implementation: str, make_batch: MakeBatch, make_parameters: MakeParameters
) -> None:
    network = Network("tiny", (8, 8, 1), (Dense("out", 3),))
    backend, batch = CpuBackend(network, 8, 1, implementation), make_batch(network, 8)
    vectors = [make_parameters(network) for _ in range(12)]
    for number, vector in enumerate(vectors):
        vector.packed *= np.float32(number)
    losses = [backend.evaluate(batch, vector.packed)[0] for vector in vectors]
    assert len(set(losses)) == 12
    assert losses == [backend.evaluate(batch, vector.packed)[0] for vector in vectors]
    held = [weakref.ref(vector.packed) for vector in vectors]
    del vectors, vector
    gc.collect()
    assert sum(reference() is not None for reference in held) == REMEMBERED_VECTORS


def test_closed_backend_lets_go_of_the_vectors(implementation: str, make_batch: MakeBatch) -> None:
    network = Network("tiny", (8, 8, 1), (Dense("out", 3),))
    backend, packed = CpuBackend(network, 8, 1, implementation), ParameterVector(network).packed
    held = weakref.ref(packed)
    backend.evaluate(make_batch(network, 8), packed)
    del packed
    gc.collect()
    assert held() is not None
    backend.close()
    gc.collect()
    assert held() is None


def test_more_threads_than_numba_has_are_refused() -> None:
    with pytest.raises(NetworkError, match=r"network 'lenet' on the cpu backend: .* threads"):
        CpuBackend(lenet(), 16, SETTINGS.NUMBA_NUM_THREADS + 1, "numba")


def test_unknown_implementation_is_refused() -> None:
    with pytest.raises(NetworkError, match="unknown implementation 'numbaa': expected one of"):
        CpuBackend(lenet(), 16, 1, "numbaa")


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ((Convolution("conv", 3, 3), Dense("out", 3)), "3 filters"),
        ((Convolution("conv", 3, 3), MaxPooling("pool", 2, 2), Dense("out", 3)), "3 filters"),
        ((Dense("hidden", 5), Dense("out", 3)), "5 inputs"),
    ],
)
def test_layer_that_numba_does_not_take_is_refused_with_the_alternatives(
    layers: tuple[Layer, ...], reason: str
) -> None:
    network = Network("few", (8, 8, 2), layers)
    with pytest.raises(NetworkError, match=rf"'few' .*{reason}.* use the reference or the oneDNN"):
        CpuBackend(network, 16, 1, "numba")
    for other in ("reference", "onednn"):
        CpuBackend(network, 16, 1, other)


@pytest.mark.skipif(SETTINGS.NUMBA_NUM_THREADS < 2, reason="Numba has one thread on this machine")
def test_gradient_of_lenet_is_the_same_again_and_nearly_so_with_two_threads(
    make_batch: MakeBatch, make_parameters: MakeParameters
) -> None:
    network = lenet()
    batch, parameters = make_batch(network, 40), make_parameters(network)
    gradients = [
        gradient_of(CpuBackend(network, 40, threads, "numba"), batch, parameters)
        for threads in (1, 1, 2, 2)
    ]
    assert_array_equal(gradients[0], gradients[1])
    assert_array_equal(gradients[2], gradients[3])
    # Each thread sums over images of its own.
    assert_allclose(gradients[2], gradients[0], rtol=0, atol=2e-6 * np.abs(gradients[0]).max())


def test_step_of_numba_allocates_nothing_that_stays(
    make_batch: MakeBatch, make_parameters: MakeParameters
) -> None:
    network = lenet()
    batch, parameters = make_batch(network, 24), make_parameters(network)
    gradient = ParameterVector(network).packed
    backend = CpuBackend(network, 32, 1, "numba")

    def growth_and_peak_of_50_steps() -> tuple[int, int]:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(50):
            backend.loss_and_gradient(batch, parameters.packed, gradient)
        after, peak = tracemalloc.get_traced_memory()
        return after - before, peak - before

    tracemalloc.start()
    try:
        growths, peaks = zip(*[growth_and_peak_of_50_steps() for _ in range(4)][1:], strict=True)
    finally:
        tracemalloc.stop()
    # In bytes, the first 50 steps being a warm-up; someone else may allocate now and then.
    assert min(growths) < 50
    assert min(peaks) < 4096  # views on arrays, and what a call of a kernel takes


def test_step_of_numba_touches_no_new_page(
    make_batch: MakeBatch, make_parameters: MakeParameters
) -> None:
    network = lenet()
    batch, parameters = make_batch(network, 24), make_parameters(network)
    gradient = ParameterVector(network).packed
    backend = CpuBackend(network, 32, SETTINGS.NUMBA_NUM_THREADS, "numba")

    def faults_of_50_steps() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(50):
            backend.loss_and_gradient(batch, parameters.packed, gradient)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    # The first warms up; in the others a thread of someone else's may touch a page now and then.
    assert min([faults_of_50_steps() for _ in range(4)][1:]) < 5

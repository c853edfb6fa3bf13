"""The cpu backend beyond the contract of all: its memory, its threads, its implementations."""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import tracemalloc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from seam.definition import check_step
from seam.drawing import networks
from seam.graphs import ALEXNET, GRAPHS, LENET, RESIDUAL, TYPICAL, headed
from seam.material import batch_of, direct, parameters_of

from knltrain.backends.cpu import CpuBackend
from knltrain.backends.cpu.backend import REMEMBERED_VECTORS, ViewCache
from knltrain.backends.torch.backend import TorchBackend
from knltrain.data.dataset import Batch
from knltrain.errors import ConfigError, NetworkError
from knltrain.network.layers import Convolution, Dense, Dropout, MaxPooling
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.lenet import lenet
from knltrain.optimizers.sgd import SGD
from vectorized_ops.numba import tuned_convolution
from vectorized_ops.numba.compiling.autotuning import Choice
from vectorized_ops.numba.compiling.compiler import SETTINGS
from vectorized_ops.parameter_groups import Clipping
from vectorized_ops.reference.sgd import SGDUpdate

LACKING = {"onednn": ("dropout", "stochastic depth", "lrn", "within")}
"""Steps of random networks that an implementation does not take."""

TINY = Network("tiny", (8, 8, 1), (Dense("out", 3),))

CHOOSING = headed(
    "choosing",
    Convolution("first", 8, 3, padding=1),
    Convolution("second", 8, 3, padding=1),
    Convolution("pooled", 8, 3),
    MaxPooling("pool", 2, 2),
)
"""Convolutions that Winograd's algorithms take, and one that is fused with its pooling."""

MICRO_BATCHES = pytest.mark.parametrize(
    ("network", "micro_batch"),
    [*((network, 0) for network in TYPICAL), (ALEXNET, 16), (LENET, 16)],
    ids=lambda given: getattr(given, "name", given),
)


def gradient_of(backend: CpuBackend, batch: Batch, parameters: ParameterVector) -> np.ndarray:
    gradient = ParameterVector(parameters.network).packed
    backend.loss_and_gradient(batch, parameters.packed, gradient)
    return gradient


def poison(backend: CpuBackend) -> None:
    """Fill the memory of the plan with NaN."""
    np.frombuffer(backend._passes.plan._arena, np.uint8)[:] = 255


def check_in_poisoned_memory(network: Network, implementation: str, seed: int) -> None:
    backend = direct(network, 20, implementation)
    poison(backend)
    batch, parameters = batch_of(network, 17, seed), parameters_of(network, seed)
    try:
        check_step(backend, network, parameters.packed, batch, rtol=0.02)
    finally:
        backend.close()


@settings(max_examples=20)
@given(st.data(), st.integers(0, 99))
def check_random_networks(implementation: str, data: st.DataObject, seed: int) -> None:
    network = data.draw(networks(LACKING.get(implementation, ())))
    try:
        check_in_poisoned_memory(network, implementation, seed)
    except AssertionError:  # a value right on the kink of a ReLU is no error, two would be a wonder
        check_in_poisoned_memory(network, implementation, seed + 100)


def test_random_networks_compute_what_is_defined(implementation: str) -> None:
    check_random_networks(implementation)


@pytest.mark.parametrize("network", TYPICAL, ids=lambda network: network.name)
def test_step_and_evaluation_read_nothing_that_was_not_written_before(
    implementation: str, network: Network
) -> None:
    if implementation == "onednn" and not _onednn_takes(network):
        return
    batch, parameters = batch_of(network, 17), parameters_of(network)
    clean, poisoned = (direct(network, 20, implementation) for _ in range(2))
    expected = gradient_of(clean, batch, parameters)
    poison(poisoned)
    assert_array_equal(gradient_of(poisoned, batch, parameters), expected)
    poison(poisoned)
    evaluated = poisoned.evaluate(batch, parameters.packed)
    assert evaluated == clean.evaluate(batch, parameters.packed)
    poison(poisoned)
    assert poisoned.first_non_finite(batch, parameters.packed) is None
    for backend in (clean, poisoned):
        backend.close()


def _onednn_takes(network: Network) -> bool:
    return not {"Dropout", "LocalResponseNormalisation", "WithinChannelNormalisation"} & {
        type(layer).__name__ for layer in network.layers
    }


@pytest.mark.parametrize("implementation", ["reference", "numba", "channels_last"], indirect=True)
def test_dropout_follows_from_the_key_of_the_batch(implementation: str) -> None:
    network = headed("dropped", Convolution("conv", 8, 1), Dropout("a"), Dropout("b"))
    parameters, batch = parameters_of(network), batch_of(network, 17)
    gradients = []
    for images, key in ((20, 1), (32, 1), (20, 2), (20, 2**63)):
        batch.key[:] = key
        backend = CpuBackend(network, images, 1, implementation)
        gradients.append(gradient_of(backend, batch, parameters))
        backend.close()
    assert_allclose(gradients[0], gradients[1], rtol=0, atol=1e-6 * np.abs(gradients[0]).max())
    assert len({gradient.tobytes() for gradient in gradients}) >= 3


@pytest.mark.parametrize("implementation", ["reference", "numba", "channels_last"], indirect=True)
def test_each_dropout_decides_for_itself(implementation: str) -> None:
    """If both dropped the same, as many values would pass both as pass one: a half."""
    network = headed("twice", Dropout("a", 0.5), Dropout("b", 0.5), Convolution("conv", 8, 1))
    backend, batch = direct(network, 20, implementation), batch_of(network, 20)
    batch.images_nhwc.fill(1)
    backend.loss_and_gradient(batch, *(parameters_of(network, n).packed for n in range(2)))
    passed = np.count_nonzero(backend._passes.plan.stages[1].output.values.array)
    assert 0.2 < passed / batch.images_nhwc.size < 0.3


@pytest.mark.parametrize(
    ("network", "learning_rate"),
    [(LENET, 0.05), (RESIDUAL, 0.1), pytest.param(lenet(), 0.01, marks=pytest.mark.slow)],
    ids=["small lenet", "residual", "lenet"],
)
def test_losses_follow_pytorchs_for_20_steps(
    implementation: str, network: Network, learning_rate: float
) -> None:
    curves = []
    for backend in (direct(network, 20, implementation), TorchBackend(network, 20, 1)):
        parameters, gradient = ParameterVector(network), ParameterVector(network)
        parameters.initialise(seed=3)
        optimizer = SGD(network.parameter_groups, 0.9, 0.0005, False, Clipping(), SGDUpdate)
        losses = []
        for step in range(20):
            batch = batch_of(network, 20, seed=step % 4)
            losses.append(backend.loss_and_gradient(batch, parameters.packed, gradient.packed))
            optimizer.step(parameters.packed, gradient.packed, learning_rate)
        curves.append(losses)
    assert curves[1][-1] < 0.5 * curves[1][0]  # it has learned: every layer's gradient was needed
    assert_allclose(curves[0], curves[1], rtol=1e-3)
    assert_allclose(curves[0][:5], curves[1][:5], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("network", GRAPHS, ids=lambda network: network.name)
def test_fastest_algorithms_compute_what_is_defined_too(network: Network) -> None:
    backend = CpuBackend(network, 20, 1, "numba")
    poison(backend)
    check_step(backend, network, parameters_of(network).packed, batch_of(network, 17), rtol=1e-3)
    backend.close()


@pytest.mark.parametrize(
    ("images", "labels"),
    [((9, 8, 8, 1), 9), ((4, 8, 8, 1), 5), ((4, 8, 8, 2), 4), ((4, 9, 8, 1), 4), ((0, 8, 8, 1), 0)],
    ids=["more images", "more labels", "channels", "height", "no images"],
)
def test_batch_that_the_plan_was_not_made_for_is_refused(
    implementation: str, images: tuple[int, ...], labels: int
) -> None:
    parameters = ParameterVector(TINY).packed
    backend = direct(TINY, 8, implementation)
    batch = Batch(np.zeros(images, np.float32), np.zeros(labels, np.int64))
    for refuse in (backend.evaluate, backend.first_non_finite):
        with pytest.raises(NetworkError, match=r"compiled for 1 to 8 images of \(8, 8, 1\)"):
            refuse(batch, parameters)
    with pytest.raises(NetworkError, match=f"{labels} labels and images"):
        backend.loss_and_gradient(batch, parameters, np.zeros_like(parameters))


def test_many_vectors_in_turn_are_each_read_and_written(implementation: str) -> None:
    backend, batch = direct(TINY, 8, implementation), batch_of(TINY, 8)
    vectors = [parameters_of(TINY) for _ in range(12)]
    for number, vector in enumerate(vectors):
        vector.packed *= np.float32(number)
    losses = [backend.evaluate(batch, vector.packed)[0] for vector in vectors]
    assert len(set(losses)) == 12
    assert losses == [backend.evaluate(batch, vector.packed)[0] for vector in vectors]
    held = [weakref.ref(vector.packed) for vector in vectors]
    del vectors, vector
    gc.collect()
    assert sum(reference() is not None for reference in held) == REMEMBERED_VECTORS


def test_closed_backend_lets_go_of_the_vectors_and_of_its_memory(implementation: str) -> None:
    backend, packed = direct(RESIDUAL, 20, implementation), ParameterVector(RESIDUAL).packed
    held, mapping = weakref.ref(packed), backend._passes.plan._arena.obj
    backend.loss_and_gradient(batch_of(RESIDUAL, 8), packed, np.zeros_like(packed))
    del packed
    gc.collect()
    assert held() is not None
    backend.close()
    gc.collect()
    assert held() is None
    mapping.close()  # type: ignore[attr-defined]  # refused as long as an array lies there


def test_more_threads_than_numba_has_are_refused() -> None:
    with pytest.raises(NetworkError, match=r"network 'lenet' on the cpu backend: .* threads"):
        CpuBackend(lenet(), 16, SETTINGS.NUMBA_NUM_THREADS + 1, "numba")


def test_unknown_implementation_is_refused() -> None:
    with pytest.raises(NetworkError, match="unknown implementation 'numbaa': expected one of"):
        CpuBackend(lenet(), 16, 1, "numbaa")


def test_slices_of_what_is_normalised_over_the_batch_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"backend\.micro_batch = 16 .* 20 images"):
        CpuBackend(RESIDUAL, 20, 1, "reference", micro_batch=16)


def test_description_tells_the_plan_and_what_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(question: str, candidates: dict[str, object], *_: object) -> Choice:
        name = "winograd4" if "backward_data" in question else "direct"
        return Choice(name, dict.fromkeys(candidates, 0.25))

    monkeypatch.setattr(tuned_convolution, "chosen", chosen)
    backend = CpuBackend(CHOOSING, 32, 1, "numba", micro_batch=16)
    told = json.loads(json.dumps(backend.description))
    layers = told.pop("layers")
    assert told == {
        "implementation": "numba",
        "precision": "float32",
        "threads": 1,
        "batch": 32,
        "micro_batch": {"images": 16, "seconds": []},
        "arena_bytes": backend._passes.plan.arena_bytes,
    }
    seconds = {"direct": 0.25, "winograd2": 0.25, "winograd4": 0.25}
    direct_sum = {"algorithm": "direct", "seconds": seconds}
    by_winograd = {"algorithm": "winograd4", "seconds": seconds}
    unmeasured = {"algorithm": "direct", "seconds": {}}
    assert layers == {  # nobody needs the gradient of the images
        "first": {"forward": direct_sum, "backward_weights": direct_sum},
        "second": {
            "forward": direct_sum,
            "backward_data": by_winograd,
            "backward_weights": direct_sum,
        },
        "pooled": {"forward": unmeasured, "backward": unmeasured},
    }
    backend.close()


def test_description_names_no_layers_where_there_is_nothing_to_choose() -> None:
    backend = direct(LENET, 20, "reference")
    assert backend.description["layers"] == {}
    assert backend.description["micro_batch"] == {"images": 20, "seconds": []}
    backend.close()


@pytest.mark.skipif(SETTINGS.NUMBA_NUM_THREADS < 2, reason="Numba has one thread on this machine")
@pytest.mark.parametrize("network", [RESIDUAL, ALEXNET], ids=lambda network: network.name)
def test_gradient_is_the_same_again_and_nearly_so_with_two_threads(network: Network) -> None:
    batch, parameters = batch_of(network, 20), parameters_of(network)
    gradients = []
    for threads in (1, 1, 2, 2):
        backend = direct(network, 20, "numba", threads)
        gradients.append(gradient_of(backend, batch, parameters))
        backend.close()
    assert_array_equal(gradients[0], gradients[1])
    assert_array_equal(gradients[2], gradients[3])
    # Each thread sums over images or pixels of its own.
    assert_allclose(gradients[2], gradients[0], rtol=0, atol=1e-5 * np.abs(gradients[0]).max())


@pytest.mark.skipif(SETTINGS.NUMBA_NUM_THREADS < 2, reason="Numba has one thread on this machine")
def test_backends_with_other_numbers_of_threads_work_beside_each_other() -> None:
    batch, parameters = batch_of(RESIDUAL, 20), parameters_of(RESIDUAL)
    backends = [direct(RESIDUAL, 20, "numba", threads) for threads in (2, 1)]
    two, one = (gradient_of(backend, batch, parameters) for backend in backends)
    for backend in backends:
        backend.close()
    assert_allclose(two, one, rtol=0, atol=1e-5 * np.abs(one).max())


@MICRO_BATCHES
def test_step_of_numba_allocates_no_array(network: Network, micro_batch: int) -> None:
    batch, parameters = batch_of(network, 24), parameters_of(network)
    gradient = ParameterVector(network).packed
    backend = direct(network, 32, "numba", micro_batch=micro_batch)

    def peak_of_a_step() -> int:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        backend.loss_and_gradient(batch, parameters.packed, gradient)
        return tracemalloc.get_traced_memory()[1] - before

    assert batch.images_nhwc.nbytes > 20000
    tracemalloc.start()
    try:
        peaks = [peak_of_a_step() for _ in range(60)][2:]  # Python takes less and less
    finally:
        tracemalloc.stop()
    assert min(peaks) < 8192  # bytes: views on arrays, and what a call of a kernel takes


@MICRO_BATCHES
def test_step_of_numba_touches_no_new_page(network: Network, micro_batch: int) -> None:
    batch, parameters = batch_of(network, 24), parameters_of(network)
    gradient = ParameterVector(network).packed
    backend = direct(network, 32, "numba", micro_batch=micro_batch)

    def faults_of_20_steps() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(20):
            backend.loss_and_gradient(batch, parameters.packed, gradient)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    # The first warms up; in the others a thread of someone else's may touch a page now and then.
    assert min([faults_of_20_steps() for _ in range(4)][1:]) < 5


REHEARSED = """
import numpy as np
from knltrain.backends.cpu import CpuBackend
from knltrain.data.dataset import Batch
from knltrain.network.zoo.googlenet import googlenet
from knltrain.network.parameters import aligned_zeros
from vectorized_ops.numba.compiling.journal import JOURNAL

network = googlenet(classes=10)
backend = CpuBackend(network, 16, 1, "numba")
batch = Batch.allocate(16, network.input_shape)
parameters, gradient = (aligned_zeros(network.packed_size) for _ in range(2))
before = len(JOURNAL.made)
backend.rehearse(batch, parameters, gradient)
known = len(JOURNAL.made)
loss = backend.loss_and_gradient(batch, parameters, gradient)
print(known > before, len(JOURNAL.made) - known, np.isclose(loss, 1.6 * np.log(10)))
other = np.full_like(gradient, 7)
backend.rehearse(batch, parameters, other)
print((other == 7).all())  # nothing is computed for another vector
"""


@pytest.mark.slow
def test_a_rehearsal_makes_all_kernels_of_a_step() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REHEARSED], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True", "0", "True", "True"], done.stderr


def test_more_images_than_before_are_rehearsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    network, prepared = lenet(), []
    backend = CpuBackend(network, 8, 1, "numba")
    monkeypatch.setattr(backend, "_operations", SimpleNamespace(prepare=prepared.append))
    vectors = [np.zeros(network.packed_size, np.float32) for _ in range(2)]
    for images, times in ((4, 1), (4, 1), (8, 2), (4, 2)):
        backend.rehearse(Batch.allocate(images, network.input_shape), *vectors)
        assert len(prepared) == times


def test_same_memory_gives_the_same_thing_and_another_shape_another() -> None:
    views = ViewCache(lambda vector: vector[:])
    vector = np.zeros(8, np.float32)
    first = views.of(vector)
    assert views.of(vector[:]) is first
    for other in (vector[:4], vector[::2], vector.view(np.int32), np.zeros(8, np.float32)):
        assert views.of(other) is not first


def test_only_the_latest_are_kept_until_cleared() -> None:
    made: list[int] = []
    views = ViewCache(lambda vector: (made.append(vector.size), vector))
    vectors = [np.zeros(size, np.float32) for size in range(1, REMEMBERED_VECTORS + 2)]
    for vector in (*vectors, vectors[-1], vectors[0]):
        views.of(vector)
    assert made == [*range(1, REMEMBERED_VECTORS + 2), 1]
    views.clear()
    views.of(vectors[0])
    assert made[-2:] == [1, 1]


def test_vector_that_is_refused_displaces_nothing() -> None:
    views = ViewCache(lambda vector: (1 // vector.size, vector))
    kept = [np.zeros(1, np.float32) for _ in range(REMEMBERED_VECTORS)]
    made = [views.of(vector) for vector in kept]
    with pytest.raises(ZeroDivisionError):
        views.of(np.zeros(0, np.float32))
    assert all(views.of(vector) is one for vector, one in zip(kept, made, strict=True))

"""Batches in slices: what comes of them is what comes of the whole."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from seam.definition import check_step
from seam.graphs import GRAPHS, LENET
from seam.material import batch_of, direct, parameters_of

from knltrain.backends.cpu import CpuBackend
from knltrain.backends.cpu.executor import MOST_KNOWN, Passes
from knltrain.backends.cpu.stages import Run
from knltrain.network.layer_slices import layer_parts
from knltrain.network.layers import (
    BatchNormalisation,
    Dense,
    Dropout,
    LocalResponseNormalisation,
    WithinChannelNormalisation,
)
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.lenet import lenet
from vectorized_ops.implementations import Operations
from vectorized_ops.numba.compiling.replay import Repetition, captured

CUTTABLE = [
    network
    for network in GRAPHS
    if not any(isinstance(layer, BatchNormalisation) for layer in network.layers)
]

LACKING = (Dropout, LocalResponseNormalisation, WithinChannelNormalisation)
"""Layers that oneDNN has not."""

CHAIN = Network("chain", (1, 1, 4), (Dense("a", 4), Dense("b", 4), Dense("out", 3)))


@pytest.fixture
def passes(ops: Operations) -> Iterator[Passes]:
    """Of CHAIN, on batches of up to 20 images, 8 at a time."""
    made = Passes(CHAIN, 20, 8, ops)
    yield made
    made.release()


@pytest.mark.parametrize("network", CUTTABLE, ids=lambda network: network.name)
@pytest.mark.parametrize(("images", "at_a_time"), [(32, 16), (19, 17)])
def test_step_and_evaluation_in_slices_are_those_of_the_definition(
    implementation: str, network: Network, images: int, at_a_time: int
) -> None:
    """Also where the last slice is smaller, and where dropout decides by the image's number."""
    if implementation == "onednn" and any(isinstance(layer, LACKING) for layer in network.layers):
        return
    backend = direct(network, images, implementation, micro_batch=at_a_time)
    check_step(backend, network, parameters_of(network).packed, batch_of(network, images))
    backend.close()


def test_batch_that_fits_goes_through_at_once_and_to_the_same_bits(implementation: str) -> None:
    batch, parameters = batch_of(LENET, 16), parameters_of(LENET)
    gradients = []
    for images, at_a_time in ((16, 0), (16, 40), (32, 16)):
        backend = direct(LENET, images, implementation, micro_batch=at_a_time)
        gradients.append(ParameterVector(LENET).packed)
        backend.loss_and_gradient(batch, parameters.packed, gradients[-1])
        backend.close()
    assert_array_equal(gradients[1], gradients[0])
    assert_array_equal(gradients[2], gradients[0])


def test_padding_between_parameters_is_zero_in_the_gradient_of_slices(implementation: str) -> None:
    backend = direct(CHAIN, 20, implementation, micro_batch=16)
    gradient = np.full(CHAIN.packed_size, np.nan, np.float32)
    backend.loss_and_gradient(batch_of(CHAIN, 20), parameters_of(CHAIN).packed, gradient)
    for view in ParameterVector(CHAIN, gradient).views.values():
        assert np.isfinite(view).all()
        view.fill(0)
    assert not gradient.any()
    backend.close()


@pytest.mark.parametrize("at_a_time", [0, 16, 8])
def test_gradient_is_done_layer_by_layer_from_the_last_one_on(
    implementation: str, at_a_time: int
) -> None:
    """Also of a batch in slices, where the last slice adds to what the others have left."""
    backend = direct(CHAIN, 20, implementation, micro_batch=at_a_time)
    gradient = ParameterVector(CHAIN).packed
    told: list[tuple[int, np.ndarray]] = []
    backend.loss_and_gradient(
        batch_of(CHAIN, 20),
        parameters_of(CHAIN).packed,
        gradient,
        lambda offset: told.append((offset, gradient[offset:].copy())),
    )
    begins = [part.start for part in layer_parts(CHAIN)]
    assert sorted({offset for offset, _ in told}) == begins
    for offset, done in told:
        assert_array_equal(done, gradient[offset:])
    backend.close()


@pytest.mark.filterwarnings("ignore:overflow")  # NumPy tells what is wanted here
def test_first_layer_that_is_not_finite_in_any_slice_is_named(passes: Passes) -> None:
    parameters, batch = parameters_of(CHAIN), batch_of(CHAIN, 20)
    for view in parameters.views.values():
        view.fill(1)
    batch.images_nhwc.fill(1)
    assert passes.first_non_finite(batch, parameters.views) is None
    batch.images_nhwc[3] = 2e37  # 16 times as much in the third layer is infinite
    assert passes.first_non_finite(batch, parameters.views) == "out"
    batch.images_nhwc[17] = np.inf
    assert passes.first_non_finite(batch, parameters.views) == "a"
    batch.images_nhwc[11] = 3e37  # infinite behind the second layer
    assert passes.first_non_finite(batch, parameters.views) == "a"
    batch.images_nhwc[17] = 1
    assert passes.first_non_finite(batch, parameters.views) == "b"
    batch.images_nhwc[3] = np.inf  # an earlier layer in an earlier slice
    assert passes.first_non_finite(batch, parameters.views) == "a"


def test_smaller_slices_need_less_memory() -> None:
    backends = [CpuBackend(LENET, 64, 1, "reference", micro_batch=n) for n in (0, 32)]
    whole, half = (backend._passes.plan.arena_bytes for backend in backends)
    assert half < 0.6 * whole
    for backend in backends:
        backend.close()


@pytest.mark.parametrize("network", GRAPHS, ids=lambda network: network.name)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_passes_that_are_repeated_by_a_program_are_those_of_python_to_the_same_bits(
    network: Network, precision: str
) -> None:
    """From the fourth on, with other images, labels, keys and parameters in the same vectors."""
    repeated, plain = (
        CpuBackend(network, 20, 2, "numba", False, precision=precision) for _ in range(2)
    )
    plain._passes._operations.repetition = None
    assert repeated._passes._operations.repetition is not None
    vectors = [(parameters_of(network).packed, ParameterVector(network).packed) for _ in range(2)]
    for step in range(6):
        images = 20 if step < 5 else 17
        batch, values = batch_of(network, images, step), parameters_of(network, step + 1).packed
        found = []
        for backend, (parameters, gradient) in zip((repeated, plain), vectors, strict=True):
            parameters[...] = values
            gradient.fill(np.nan)
            told: list[int] = []
            ready = (told.append,) if step == 4 else ()  # of each layer, which parts a program
            loss = backend.loss_and_gradient(batch, parameters, gradient, *ready)
            evaluated = backend.evaluate(batch, parameters)
            found.append((loss, gradient.tobytes(), evaluated, told))
        assert found[0] == found[1]
    programs = [known.parts for known in repeated._passes._known.values()]
    assert any(isinstance(parts, Repetition) and parts._program for parts in programs)
    for backend in (repeated, plain):
        backend.close()


@pytest.mark.parametrize("network", GRAPHS, ids=lambda network: network.name)
def test_all_that_can_be_repeated_is(network: Network) -> None:
    """What a stage that repeats calls is part of the program, but for what its gradient lacks."""
    backend = CpuBackend(network, 20, 2, "numba", False)
    batch, parameters = batch_of(network, 20), parameters_of(network)
    gradient = ParameterVector(network)
    for _ in range(4):
        backend.loss_and_gradient(batch, parameters.packed, gradient.packed)
    ((_, parts),) = backend._passes._known.values()
    assert isinstance(parts, Repetition)
    run = Run(parameters.views, gradient.views, 20, True)
    for number, (part, repeats) in enumerate(zip(parts._parts, parts._repeats, strict=True)):
        calls = captured(partial(part, run))
        assert calls is not None or not repeats
        count = parts._ends[number + 1] - parts._ends[number]
        assert count == (len(calls.calls) if repeats and calls is not None else 0)
    backend.close()


def test_vectors_of_passes_are_let_go_of() -> None:
    """Few pairs are remembered, the latest ones, and none of a backend that is closed."""
    backend = direct(CHAIN, 20, "numba")
    batch, alive = batch_of(CHAIN, 20), []
    for seed in range(20):
        vectors = parameters_of(CHAIN, seed), ParameterVector(CHAIN)
        alive += [weakref.ref(each.packed) for each in vectors]
        backend.loss_and_gradient(batch, *(each.packed for each in vectors))
        del vectors
    gc.collect()
    assert sum(each() is not None for each in alive) <= 2 * MOST_KNOWN
    backend.close()
    gc.collect()
    assert not any(each() is not None for each in alive)


def test_most_of_a_step_of_lenet_is_two_calls_of_a_program() -> None:
    """One up to the loss and one behind it, where nobody waits for single layers."""
    network = lenet()
    backend = CpuBackend(network, 16, 1, "numba")
    batch, parameters = batch_of(network, 16), parameters_of(network)
    gradient = ParameterVector(network).packed
    for _ in range(4):
        backend.loss_and_gradient(batch, parameters.packed, gradient)
    (known,) = backend._passes._known.values()
    assert isinstance(known.parts, Repetition)
    assert [len(spans) for spans in known.parts._spans.values()] == [1, 1]
    backend.close()

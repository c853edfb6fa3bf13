"""Who writes a gradient, who adds to it, who masks it; and that only what is alive is read."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_array_equal
from seam.drawing import networks
from seam.graphs import GRAPHS, INCEPTION, OUTPUTS, RESIDUAL, TYPICAL, headed, rectified
from seam.material import batch_of, direct, parameters_of

from knltrain.backends.cpu import plan
from knltrain.backends.cpu.memory import Buffer, Lifetime, Tensor, largest_sum, packed
from knltrain.backends.cpu.plan import Plan
from knltrain.backends.cpu.stages import Stage
from knltrain.errors import NetworkError
from knltrain.network.graph import Output
from knltrain.network.layers import (
    IMAGES,
    Addition,
    AveragePooling,
    BatchNormalisation,
    Concatenation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    Layer,
    MaxPooling,
    ReLU,
)
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.alexnet import alexnet
from knltrain.network.zoo.googlenet import googlenet
from knltrain.network.zoo.resnet import resnet18, resnet50
from vectorized_ops.implementations import operations


@pytest.fixture
def planned() -> Iterator[Callable[[Network], Plan]]:
    """planned(network): a plan of the reference implementation."""
    made: list[Plan] = []

    def one(network: Network) -> Plan:
        made.append(Plan(network, 16, operations("reference")))
        return made[-1]

    yield one
    for each in made:
        each.release()


def stage(of: Plan, name: str) -> Stage:
    """The last stage of this name."""
    return [each for each in of.stages if each.name == name][-1]


def manners(of: Plan, tensor: str) -> list[tuple[str, bool, bool]]:
    """Stages that share in the gradient of a tensor, in the order of the backward pass."""
    return [
        (each.name, flow.add, flow.mask)
        for each in reversed(of.stages)
        for flow in each.flows
        if flow.tensor.name == tensor
    ]


def test_last_taker_writes_the_gradient_the_others_add_and_the_first_masks(
    planned: Callable[[Network], Plan],
) -> None:
    of = planned(INCEPTION)
    assert manners(of, "stem") == [
        ("right/pool", False, False),
        ("middle/first/conv", True, False),
        ("left/conv", True, True),
    ]
    assert manners(of, "joined") == [("behind/conv", False, True)]
    for branch in ("left/conv", "middle/conv", "right/conv"):
        assert stage(of, branch).output.masked  # with the whole


def test_what_no_taker_can_mask_is_masked_by_the_stage_that_made_it(
    planned: Callable[[Network], Plan],
) -> None:
    of = planned(
        headed(
            "open",
            *rectified("a"),
            *rectified("b"),
            Convolution("c/conv", 8, 1, inputs=("a",)),
            Concatenation("joined", ("b", "c/conv")),
            MaxPooling("pool", 3, 1, 1),
        )
    )
    joined = stage(of, "pool").inputs
    assert not joined.rectified  # c/conv is not
    assert not stage(of, "b/conv").output.masked
    of = planned(headed("normed", *rectified("a"), BatchNormalisation("norm")))
    assert stage(of, "a/conv").output.rectified
    assert not stage(of, "a/conv").output.masked


def test_logits_that_are_taken_are_added_to(planned: Callable[[Network], Plan]) -> None:
    of = planned(OUTPUTS)
    assert manners(of, "main") == [("behind/logits", True, False)]
    assert [(tensor.name, weight) for tensor, weight in of.outputs] == [
        ("main", 1.0),
        ("aside", 0.3),
        ("behind", 2.0),
    ]


def buffer_of(tensor: Tensor) -> Buffer:
    assert tensor.gradient is not None
    return tensor.gradient.buffer


def test_gradient_of_a_sum_is_that_of_an_addend_without_a_copy(
    planned: Callable[[Network], Plan],
) -> None:
    of = planned(RESIDUAL)
    short, second = stage(of, "short"), stage(of, "b2")
    assert [flow.tensor.name for flow in short.flows] == ["short/conv", "b2"]
    assert buffer_of(second.output) is buffer_of(short.output)
    assert buffer_of(second.inputs) is buffer_of(short.output)  # its normalisation works in place
    assert buffer_of(short.inputs) is not buffer_of(short.output)


def test_branches_of_a_concatenation_that_is_added_follow_its_gradient(
    planned: Callable[[Network], Plan],
) -> None:
    network = headed(
        "added",
        Convolution("stem", 8, 1),
        Convolution("left", 8, 1, inputs=("stem",)),
        Convolution("right", 8, 1, inputs=("stem",)),
        Concatenation("joined", ("left", "right")),
        Convolution("up", 16, 1),
        Addition("sum", ("up", "joined")),
    )
    of = planned(network)
    total = buffer_of(stage(of, "sum").output)
    assert buffer_of(stage(of, "left").output) is total
    assert buffer_of(stage(of, "right").output) is total


def test_evaluation_leaves_out_what_only_training_needs(planned: Callable[[Network], Plan]) -> None:
    names = [each.name for each in planned(OUTPUTS).evaluation]
    assert names == ["stem/conv", "trunk/conv", "trunk", "main", "main"]


def poison_dead_memory(of: Plan) -> None:
    """Fill what is not alive at its moment with NaN before each stage, scratch memory included."""
    arena = np.frombuffer(of._arena, np.uint8)
    buffers = {id(place.buffer): place.buffer for place in of._places}.values()

    def poison(moment: int) -> None:
        dead = np.ones(arena.size, bool)
        for buffer in buffers:
            if buffer.first <= moment <= buffer.last:
                assert buffer.array is not None
                start = buffer.array.ctypes.data - arena.ctypes.data
                dead[start : start + buffer.array.nbytes] = False
        arena[dead] = 255

    def poisoned_before(call: Callable[..., None], moment: int) -> Callable[..., None]:
        def run(*arguments: Any) -> None:
            poison(moment)
            call(*arguments)

        return run

    for moment, each in enumerate(of.stages):
        back = 2 * len(of.stages) - moment
        each.forward = poisoned_before(each.forward, moment)  # type: ignore[method-assign]
        each.backward = poisoned_before(each.backward, back)  # type: ignore[method-assign]


def check_in_poisoned_memory(network: Network, implementation: str) -> None:
    batch, parameters = batch_of(network, 17), parameters_of(network)
    results = []
    for poisoned in (False, True):
        backend = direct(network, 20, implementation)
        if poisoned:
            np.frombuffer(backend._passes.plan._arena, np.uint8)[:] = 255
            poison_dead_memory(backend._passes.plan)
        gradient = ParameterVector(network).packed
        loss = backend.loss_and_gradient(batch, parameters.packed, gradient)
        results.append((loss, gradient))
        backend.close()
    (loss, gradient), (poisoned_loss, poisoned_gradient) = results
    assert poisoned_loss == loss
    assert_array_equal(poisoned_gradient, gradient)


@pytest.mark.parametrize("network", GRAPHS, ids=lambda network: network.name)
def test_nothing_is_read_that_is_not_alive(network: Network) -> None:
    check_in_poisoned_memory(network, "reference")


@pytest.mark.parametrize("network", TYPICAL, ids=lambda network: network.name)
def test_nothing_is_read_that_is_not_alive_nor_left_in_scratch_memory(network: Network) -> None:
    check_in_poisoned_memory(network, "numba")


@settings(max_examples=25)
@given(networks())
def test_nothing_is_read_that_is_not_alive_whatever_the_network(network: Network) -> None:
    check_in_poisoned_memory(network, "reference")


@pytest.mark.parametrize(
    "build", [resnet18, resnet50, googlenet, alexnet], ids=lambda build: build.__name__
)
def test_arena_of_a_known_network_is_what_lives_at_its_busiest_moment(
    build: Callable[[], Network], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Lifetime] = []

    def noted(lifetimes: list[Lifetime]) -> tuple[list[int], int]:
        seen.extend(lifetimes)
        return packed(lifetimes)

    monkeypatch.setattr(plan, "packed", noted)
    network = build()
    of = Plan(network, 16, operations("reference"))
    assert largest_sum(seen) <= of.arena_bytes <= 1.05 * largest_sum(seen)
    all_values = sum(4 * 16 * int(np.prod(shape)) for shape in network.shapes)
    assert of.arena_bytes < 0.7 * all_values  # and there are as many gradients as values
    of.release()


@pytest.mark.parametrize("implementation", ["reference", "numba"])
def test_released_plan_lets_go_of_its_memory(implementation: str) -> None:
    of = Plan(RESIDUAL, 16, operations(implementation, winograd=False))
    mapping = of._arena.obj
    with pytest.raises(BufferError):
        mapping.close()
    of.release()
    gc.collect()
    mapping.close()


@pytest.mark.parametrize(
    "layers",
    [
        (Convolution("conv", 4, 3),),
        (Dense("hidden", 4), ReLU("relu"), Dense("out", 3), ReLU("out/relu")),
        (ReLU("relu"),),
        (GlobalAveragePooling("means"),),
        (Convolution("conv", 4, 3), MaxPooling("pool", 2, 2)),
        (Convolution("conv", 4, 3), GlobalAveragePooling("means")),
    ],
)
def test_only_networks_that_end_in_classes_are_taken(
    layers: tuple[Layer, ...], planned: Callable[[Network], Plan]
) -> None:
    network = Network("open", (8, 8, 2), layers)
    if len(network.output_shape) == 1 and network.parameters:
        assert planned(network).outputs
        return
    with pytest.raises(NetworkError, match=r"network 'open' ends in .* expected a dense layer"):
        planned(network)


def test_output_without_parameters_is_refused_beside_others(
    planned: Callable[[Network], Plan],
) -> None:
    layers = (
        Dense("out", 2),
        AveragePooling("pool", 3, 1, inputs=(IMAGES,)),
        GlobalAveragePooling("means"),
    )
    network = Network("aside", (8, 8, 2), layers, (Output("out"), Output("means", 0.3)))
    with pytest.raises(NetworkError, match="network 'aside' ends in"):
        planned(network)

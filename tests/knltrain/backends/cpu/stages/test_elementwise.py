"""Rectifiers and dropout, in place and not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from knltrain.backends.cpu.memory import Tensor
from knltrain.backends.cpu.stages import DropoutStage, RectifierStage, ReLUStage, Run
from vectorized_ops.implementations import Operations
from vectorized_ops.reference import dropout, rectifier

MakeTensor = Callable[..., Tensor]
RUN = Run({}, {}, 32, training=True, key=5)
WITH_DROPOUT = pytest.mark.parametrize("implementation", ["reference", "numba"], indirect=True)


def gradient(of: Tensor) -> np.ndarray:
    assert of.gradient is not None
    return of.gradient.array


def in_place(inputs: Tensor) -> Tensor:
    return Tensor("out", inputs.shape, inputs.values, inputs.gradient)


@pytest.mark.parametrize("masked", [False, True])
def test_relu_cuts_off_values_and_unless_done_before_gradients(
    ops: Operations, tensor: MakeTensor, masked: bool
) -> None:
    inputs = tensor(3, 3, 8)
    output = in_place(inputs)
    output.rectified = True
    if masked:
        output.mark_masked()
    values, arriving = np.array(inputs.values.array), np.array(gradient(inputs))
    stage = ReLUStage("it", ops, inputs, output)
    stage.forward(RUN)
    stage.backward(RUN)
    assert_array_equal(inputs.values.array, np.maximum(values, 0))
    expected = arriving if masked else np.where(values > 0, arriving, 0)
    assert_array_equal(gradient(inputs), expected)


def test_relu_of_what_needs_no_gradient_has_nothing_to_do(
    ops: Operations, tensor: MakeTensor
) -> None:
    inputs = tensor(3, 3, 8, needed=False)
    ReLUStage("it", ops, inputs, in_place(inputs)).backward(RUN)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("numbers", [(0.5, np.inf), (0.0, 2.0), (0.25, 1.0)])
def test_rectifier_tells_the_slope_from_its_outputs(
    ops: Operations, tensor: MakeTensor, numbers: tuple[float, float], add: bool
) -> None:
    inputs, output = tensor(3, 3, 8), tensor(3, 3, 8)
    stage = RectifierStage("it", ops, ops.rectifier(*numbers), inputs, output)
    assert stage.values_again == (output,)
    exact, target = rectifier.Rectifier(*numbers), np.array(gradient(inputs))
    outputs = np.empty_like(target)
    exact.forward(inputs.values.array, outputs)
    exact.backward(gradient(output), outputs, target, add)
    stage.flows[0].add = add
    stage.forward(RUN)
    stage.backward(RUN)
    assert_array_equal(output.values.array, outputs)
    assert_array_equal(gradient(inputs), target)


@pytest.fixture
def dropping(ops: Operations, tensor: MakeTensor) -> Callable[..., DropoutStage]:
    """dropping(apart, number=0, needed=True): a dropout of half the values, in place or apart."""

    def make(apart: bool, number: int = 0, needed: bool = True) -> DropoutStage:
        inputs = tensor(3, 3, 8, needed=needed)
        output = tensor(3, 3, 8) if apart else in_place(inputs)
        assert ops.dropout is not None
        return DropoutStage("it", ops, ops.dropout(0.5), inputs, output, number)

    return make


@WITH_DROPOUT
@pytest.mark.parametrize("apart", [False, True])
def test_dropout_drops_the_same_values_and_gradients(
    dropping: Callable[..., DropoutStage], apart: bool
) -> None:
    stage = dropping(apart, number=3)
    values = np.array(stage.inputs.values.array)
    arriving = np.array(gradient(stage.output))
    stage.forward(RUN)
    stage.backward(RUN)
    factors = np.ones(values.shape, np.float32)
    dropout.Dropout(0.5).forward(factors, factors, 5 * 256 + 3)
    assert set(np.unique(factors)) == {0, 2}
    assert_array_equal(stage.output.values.array, values * factors)
    assert_array_equal(gradient(stage.inputs), arriving * factors)


@WITH_DROPOUT
@pytest.mark.parametrize("apart", [False, True])
def test_dropout_lets_everything_pass_in_evaluation(
    dropping: Callable[..., DropoutStage], apart: bool
) -> None:
    stage = dropping(apart)
    before = np.array(stage.inputs.values.array)
    stage.forward(Run({}, {}, 32, training=False, key=5))
    assert_array_equal(stage.output.values.array, before)


@WITH_DROPOUT
def test_slice_of_a_batch_drops_what_the_whole_would(dropping: Callable[..., DropoutStage]) -> None:
    stage = dropping(True)
    stage.inputs.values.array[...] = 1
    whole = np.ones((40, *stage.output.shape), np.float32)
    dropout.Dropout(0.5).forward(whole, whole, 5 * 256)
    stage.forward(Run({}, {}, 32, training=True, key=5, first_image=8))
    assert_array_equal(stage.output.values.array, whole[8:])
    gradient(stage.output)[...] = 1
    stage.backward(Run({}, {}, 32, training=True, key=5, first_image=8))
    assert_array_equal(gradient(stage.inputs), whole[8:])


@WITH_DROPOUT
def test_keys_and_layers_drop_different_values(dropping: Callable[..., DropoutStage]) -> None:
    seen = set()
    for number in (0, 1):
        stage = dropping(True, number)
        stage.inputs.values.array[...] = 1
        for key in (0, 1, 2**40, 2**64 - 1):
            stage.forward(Run({}, {}, 32, training=True, key=key))
            seen.add(stage.output.values.array.tobytes())
    assert len(seen) == 8


@WITH_DROPOUT
def test_dropout_of_what_needs_no_gradient_gives_none(
    dropping: Callable[..., DropoutStage],
) -> None:
    stage = dropping(True, needed=False)
    before = np.array(gradient(stage.output))
    stage.backward(RUN)
    assert_array_equal(gradient(stage.output), before)

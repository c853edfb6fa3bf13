from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import numba
import numpy as np
import pytest
from contracts.convolution import check_in_bfloat16, normal_operands, whole_operands
from contracts.memory import REFERENCE, Memory
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import operations
from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba import tuned_convolution
from vectorized_ops.numba.compiling.autotuning import Choice
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.shapes import ConvolutionShape

COUNTS = (1, 3, 15)
"""Each height of tile is a kernel to compile: these need three, of which one covers 15 twice."""

SHAPES = {
    "one pixel": ConvolutionShape(16, 1, 1, 3, 15, (1, 1)),
    "one pixel under a large window": ConvolutionShape(16, 1, 1, 3, 15, (5, 3), padding=(2, 1)),
    "windows in the padding": ConvolutionShape(16, 2, 3, 3, 3, (2, 2), (2, 1), (4, 3)),
    "stride beyond the kernel": ConvolutionShape(20, 7, 8, 15, 3, (2, 1), (3, 2), (1, 0)),
    "dilation as large as the map": ConvolutionShape(
        32, 4, 5, 3, 15, (3, 3), padding=(4, 5), dilation=(4, 5)
    ),
    "one line of a large batch": ConvolutionShape(48, 1, 9, 3, 15, (1, 7), padding=(0, 3)),
    "panels of two vectors": ConvolutionShape(64, 6, 5, 3, 33, (3, 3), padding=(1, 1)),
    "depthwise": ConvolutionShape(20, 9, 6, 17, 17, (3, 3), (2, 2), (1, 1), groups=17),
    "groups of odd sizes": ConvolutionShape(16, 6, 7, 9, 45, (3, 2), (1, 2), groups=3),
    "many blocks of a map": ConvolutionShape(16, 11, 35, 1, 3, (3, 3), padding=(1, 1)),
}


IN_BFLOAT16 = {
    "pairs of channels and of images": ConvolutionShape(32, 6, 5, 18, 34, (3, 3), padding=(1, 1)),
    "a vector and a half": ConvolutionShape(48, 4, 5, 4, 6, (3, 2), padding=(1, 1)),
    "one vector of images": ConvolutionShape(16, 7, 5, 18, 34, (3, 2), stride=(2, 2)),
    "odd channels": ConvolutionShape(32, 5, 6, 15, 3, (2, 2), dilation=(1, 2)),
    "few channels with borders": ConvolutionShape(32, 5, 6, 3, 15, (3, 3), padding=(1, 1)),
    "borders of one vector": ConvolutionShape(16, 5, 6, 3, 15, (3, 3), padding=(1, 1)),
    "groups": ConvolutionShape(32, 6, 7, 12, 18, (3, 2), (1, 2), groups=3),
    "single taps of many filters": ConvolutionShape(32, 5, 7, 4, 64, (1, 1)),
}
"""Products of pairs of channels, of images, of both and of neither."""


@pytest.fixture(scope="module", autouse=True)
def _direct() -> Iterator[None]:
    """Choose direct summation: Winograd rounds, and spreads what is no number over its tile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuned_convolution, "chosen", lambda *_: Choice("direct", {}))
        yield


def place() -> Memory:
    return Memory(operations("numba"))


@settings(max_examples=40)
@given(data=st.data())
def test_all_directions_equal_the_reference_for_any_shape(
    data: st.DataObject,
    convolution_contract: Callable[..., None],
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    with storing(data.draw(st.booleans())):
        convolution_contract("numba", data.draw, COUNTS)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # every height of tile is compiled
@settings(max_examples=150)
@given(data=st.data())
def test_all_directions_equal_the_reference_with_tiles_of_any_height(
    data: st.DataObject, convolution_contract: Callable[..., None]
) -> None:
    convolution_contract("numba", data.draw, range(1, 71))


@pytest.mark.parametrize("threads", [1, 6, 64])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_work_is_divided_among_any_number_of_threads_and_nothing_is_done_twice(
    shape: ConvolutionShape, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    operands = whole_operands(shape)
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE))
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    found = operands.results(Convolution(shape), place())
    for number, (got, wanted) in enumerate(zip(found, expected, strict=True)):
        assert_array_equal(got, wanted, err_msg=f"result {number}")


@pytest.mark.parametrize("shape", IN_BFLOAT16.values(), ids=IN_BFLOAT16)
def test_results_of_bfloat16_are_rounded_once(shape: ConvolutionShape) -> None:
    check_in_bfloat16(shape, Convolution)


@pytest.mark.parametrize(
    "shape",
    [
        ConvolutionShape(32, 14, 14, 15, 33, (5, 5), padding=(2, 2)),
        ConvolutionShape(16, 9, 9, 15, 15, (3, 3), (2, 2), (1, 1)),
        ConvolutionShape(16, 40, 40, 3, 15, (3, 3), groups=3),
    ],
    ids=["large window", "stride", "large map"],
)
def test_rounding_errors_are_bounded(shape: ConvolutionShape) -> None:
    operands = normal_operands(shape)
    found = operands.results(Convolution(shape), place())
    for got, exact in zip(found, operands.exact(shape), strict=True):
        assert np.abs(got - exact).max() < 2e-6 * np.abs(exact).max()


def test_gradient_of_weights_keeps_its_precision_when_summed_over_many_pixels() -> None:
    shape = ConvolutionShape(16, 96, 96, 1, 1, (1, 1))
    operands = normal_operands(shape)
    values, gradient = operands.images + 1, operands.gradient + 1
    operands = replace(operands, images=values, gradient=gradient, summed=gradient)
    found = operands.results(Convolution(shape), place())
    for got, exact in list(zip(found, operands.exact(shape), strict=True))[2:]:
        # A single running sum of 147456 products is wrong by more than 1e-5.
        assert np.abs(got - exact).max() < 4e-6 * np.abs(exact).max()


def test_neither_another_run_nor_threads_change_a_bit(same_bits: Callable[..., None]) -> None:
    shape = ConvolutionShape(20, 9, 8, 15, 15, (3, 3), (2, 1), (1, 1))
    same_bits(
        lambda: normal_operands(shape).results(Convolution(shape), place()),
        summed_by_thread=[2, 3],
    )


def test_operations_share_scratch_memory_that_holds_anything() -> None:
    shapes = (
        SHAPES["panels of two vectors"],
        SHAPES["depthwise"],
        SHAPES["stride beyond the kernel"],
    )
    made = [Convolution(shape) for shape in shapes]
    size = max(operation.scratch_size for operation in made)
    memory = aligned_zeros((size + 8,))
    for operation in made:
        operation.use_scratch(memory[:size])
    for shape, operation in zip(shapes, made, strict=True):
        operands = whole_operands(shape)
        own = operands.results(Convolution(shape), place())
        memory[...] = np.nan
        for found, expected in zip(operands.results(operation, place()), own, strict=True):
            assert_array_equal(found, expected)
        assert np.isfinite(memory).any()
        assert np.isnan(memory[size:]).all()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("add", [False, True])
def test_pixels_that_no_window_saw_get_no_gradient(add: bool, masked: bool) -> None:
    shape = ConvolutionShape(16, 5, 5, 15, 3, (1, 1), (2, 2))
    operands, operation = whole_operands(shape), Convolution(shape)
    before, mask = operands.target.before, operands.target.mask
    assert before is not None
    assert mask is not None
    out = place().to_write(before) if add else place().garbage(*shape.inputs)
    masking = place().holding(mask) if masked else None
    operation.backward_data(
        place().holding(operands.gradient), operands.weights, out, add=add, mask=masking
    )
    left = before if add else np.zeros_like(before)
    left = np.where(mask <= 0, 0, left) if masked else left
    assert_array_equal(out[:, 1::2], left[:, 1::2])
    assert_array_equal(out[:, :, 1::2], left[:, :, 1::2])


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_is_seen_where_its_window_is_and_nowhere_else(broken: float) -> None:
    shape = ConvolutionShape(16, 7, 7, 15, 3, (3, 3), padding=(1, 1))
    operands = normal_operands(shape)
    sound = operands.results(Convolution(shape), place())
    operands.images[3, 4, 5, 2] = operands.gradient[3, 4, 5, 2] = broken
    out, images_out, weights_out, bias_out = operands.results(Convolution(shape), place())
    window = np.zeros(shape.outputs[:3], bool)
    window[3, 3:6, 4:7] = True
    for found, expected in ((out, sound[0]), (images_out, sound[1])):
        assert not np.isfinite(found[window]).any()
        assert_array_equal(found[~window], expected[~window])
    assert not np.isfinite(weights_out[2]).any()
    assert not np.isfinite(weights_out[:, 2]).any()
    rest = np.delete(np.delete(weights_out, 2, axis=0), 2, axis=1)
    assert_array_equal(rest, np.delete(np.delete(sound[2], 2, axis=0), 2, axis=1))
    assert not np.isfinite(bias_out[2])
    assert_array_equal(np.delete(bias_out, 2), np.delete(sound[3], 2))


def test_taps_outside_the_image_are_left_out_not_multiplied_by_zero() -> None:
    shape = ConvolutionShape(16, 4, 4, 3, 3, (3, 3), padding=(1, 1))
    operands = normal_operands(shape)
    operands.weights[:, :, 0] = np.inf  # the first line of the kernel
    out, images_out, _, _ = operands.results(Convolution(shape), place())
    assert np.isfinite(out[:, 0]).all()
    assert not np.isfinite(out[:, 1:]).any()
    assert np.isfinite(images_out[:, 3]).all()
    assert not np.isfinite(images_out[:, :3]).any()


def test_memory_of_a_slice_is_read_and_written_in_place() -> None:
    shape = SHAPES["groups of odd sizes"]
    operands = whole_operands(shape)
    packed = operands.results(Convolution(shape), place())
    for seed in range(4):
        sliced = Memory(operations("numba"), np.random.default_rng(seed))
        operation = Convolution(shape)
        for _ in range(2):  # with other distances of pixels each time
            for found, expected in zip(operands.results(operation, sliced), packed, strict=True):
                assert_array_equal(found, expected)
        sliced.check_surroundings()


def test_arrays_of_other_shapes_are_refused() -> None:
    shape = ConvolutionShape(16, 5, 5, 3, 15, (3, 3))
    operands, operation = normal_operands(shape), Convolution(shape)
    with pytest.raises(OperationError, match=r"images of shape .* expected shape \(16, 5, 5, 3\)"):
        replace(operands, images=operands.images[:, :4]).results(operation, place())
    with pytest.raises(OperationError, match=r"bias of shape .* expected shape \(15,\)"):
        replace(operands, bias=np.zeros(8, np.float32)).results(operation, place())
    with pytest.raises(OperationError, match=r"mask of shape .* expected shape \(16, 5, 5, 3\)"):
        operation.backward_data(
            place().holding(operands.gradient), operands.weights,
            place().garbage(*shape.inputs), mask=place().holding(operands.gradient),
        )  # fmt: skip

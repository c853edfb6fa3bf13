from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
from contracts.convolution import Operands, normal_operands, whole_operands
from contracts.memory import REFERENCE, Memory, Target
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.channels_last.convolution import LEAST_ROWS, Convolution
from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import operations
from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba import tuned_convolution
from vectorized_ops.numba.compiling.autotuning import Choice
from vectorized_ops.numba.kernels.channels_last.correlation import (
    BLOCK_STEPS,
    SUMMED_ROWS,
    SUMMED_STEPS,
    SUMMED_VECTORS,
)
from vectorized_ops.numba.kernels.channels_last.panel_tiles import ROWS
from vectorized_ops.shapes import ConvolutionShape

COUNTS = (1, 2, 3, 5, 16, 17, 24, 40)

SHAPES = {
    "one pixel": ConvolutionShape(1, 1, 1, 3, 17, (1, 1)),
    "one pixel under a large window": ConvolutionShape(1, 1, 1, 3, 5, (5, 3), padding=(2, 1)),
    "one pixel with strides": ConvolutionShape(3, 1, 1, 5, 16, (3, 3), (2, 2), (1, 1)),
    "single taps": ConvolutionShape(3, 5, 9, 24, 40, (1, 1)),
    "single taps of one channel": ConvolutionShape(5, 3, 9, 1, 5, (1, 1)),
    "windows in the padding": ConvolutionShape(2, 2, 3, 3, 3, (2, 2), (2, 1), (4, 3)),
    "stride beyond the kernel": ConvolutionShape(5, 7, 8, 16, 3, (2, 1), (3, 2), (1, 0)),
    "dilation as large as the map": ConvolutionShape(
        3, 4, 5, 3, 15, (3, 3), padding=(4, 5), dilation=(4, 5)
    ),
    "lines of taps of few channels": ConvolutionShape(2, 9, 11, 5, 33, (3, 4), (2, 1), (1, 2)),
    "few channels, many taps": ConvolutionShape(1, 9, 9, 5, 3, (8, 8), padding=(3, 3)),
    "many channels": ConvolutionShape(2, 4, 3, 300, 17, (1, 2), padding=(0, 1)),
    "many filters": ConvolutionShape(2, 3, 4, 5, 300, (1, 2)),
    "depthwise": ConvolutionShape(2, 9, 6, 17, 17, (3, 3), (2, 2), (1, 1), groups=17),
    "groups of odd sizes": ConvolutionShape(2, 6, 7, 9, 51, (3, 2), (1, 2), groups=3),
    "groups of vectors": ConvolutionShape(3, 5, 6, 32, 64, (3, 3), padding=(1, 1), groups=2),
    "single taps in the padding": ConvolutionShape(2, 3, 4, 2 * ROWS, 17, (1, 1), padding=(1, 0)),
    "pixels for several lots": ConvolutionShape(4, 18, 19, 3, 5, (1, 1)),
    "several lots of whole tiles": ConvolutionShape(4, 18, 19, ROWS, 5, (1, 1)),
}


@pytest.fixture(scope="module", autouse=True)
def _direct() -> Iterator[None]:
    """Choose direct summation: Winograd rounds, and spreads what is no number over its tile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuned_convolution, "chosen", lambda *_: Choice("direct", {}))
        yield


def place() -> Memory:
    return Memory(operations("channels_last"))


def plain(shape: ConvolutionShape) -> Operands:
    """Whole numbers, nothing added, masked or cut off, without a bias."""
    target = Target(shape.inputs, None, None)
    return replace(whole_operands(shape), bias=None, relu=False, target=target)


def check(shape: ConvolutionShape, operands: Operands, place: Memory) -> None:
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE))
    found = operands.results(Convolution(shape), place)
    for number, (got, wanted) in enumerate(zip(found, expected, strict=True)):
        assert_array_equal(got, wanted, err_msg=f"result {number}")
    place.check_surroundings()


@settings(max_examples=60)
@given(data=st.data())
def test_all_directions_equal_the_reference_for_any_shape(
    data: st.DataObject,
    convolution_contract: Callable[..., None],
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    with storing(data.draw(st.booleans())):
        convolution_contract("channels_last", data.draw, COUNTS)


@pytest.mark.slow
@settings(max_examples=300)
@given(data=st.data())
def test_all_directions_equal_the_reference_for_any_number_of_channels(
    data: st.DataObject, convolution_contract: Callable[..., None]
) -> None:
    convolution_contract("channels_last", data.draw, range(1, 71))


def test_shapes_go_beyond_all_blocks() -> None:
    assert SHAPES["few channels, many taps"].kernel[0] ** 2 * 5 > max(BLOCK_STEPS, SUMMED_STEPS)
    assert SHAPES["many filters"].filters > 16 * SUMMED_VECTORS
    single = SHAPES["single taps of one channel"]
    assert SUMMED_ROWS < single.images * single.height * single.width < SUMMED_ROWS + 10
    lots = SHAPES["pixels for several lots"]
    assert lots.images * lots.height * lots.width > 2 * LEAST_ROWS


@pytest.mark.parametrize("threads", [1, 2, 6, 64])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_work_is_divided_among_any_number_of_threads_and_nothing_is_done_twice(
    shape: ConvolutionShape, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    for operands in (whole_operands(shape), plain(shape)):
        check(shape, operands, place())
        check(shape, operands, Memory(operations("channels_last"), np.random.default_rng(threads)))


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


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("channels", [1, 16])
def test_gradient_of_weights_keeps_its_precision_when_summed_over_many_pixels(
    channels: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    shape = ConvolutionShape(16, 96, 96, channels, channels, (1, 1))
    operands = normal_operands(shape)
    values, gradient = operands.images + 1, operands.gradient + 1
    operands = replace(operands, images=values, gradient=gradient, summed=gradient)
    found = operands.results(Convolution(shape), place())
    for got, exact in list(zip(found, operands.exact(shape), strict=True))[2:]:
        # A single running sum of 147456 products is wrong by up to 2e-5.
        assert np.abs(got - exact).max() < 2e-6 * np.abs(exact).max()


def test_neither_another_run_nor_threads_change_a_bit(same_bits: Callable[..., None]) -> None:
    for shape in (
        ConvolutionShape(20, 9, 8, 15, 40, (3, 3), (2, 1), (1, 1)),
        ConvolutionShape(20, 9, 8, 16, 48, (1, 1)),
    ):
        operands = normal_operands(shape)
        same_bits(
            lambda shape=shape, operands=operands: operands.results(Convolution(shape), place()),
            summed_by_thread=[2, 3],
        )


def test_operations_share_scratch_memory_that_holds_anything() -> None:
    shapes = [shape for name, shape in SHAPES.items() if name != "one pixel"]
    made = [Convolution(shape) for shape in shapes]
    size = max(operation.scratch_size for operation in made)
    memory = aligned_zeros((size + 8,))
    for operation in made:
        operation.use_scratch(memory[: operation.scratch_size])
    for shape, operation in zip(shapes, made, strict=True):
        operands = whole_operands(shape)
        own = operands.results(Convolution(shape), place())
        memory[...] = np.nan
        for found, expected in zip(operands.results(operation, place()), own, strict=True):
            assert_array_equal(found, expected)
        assert np.isfinite(memory).any()
        assert np.isnan(memory[operation.scratch_size :]).all()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("add", [False, True])
def test_pixels_that_no_window_saw_get_no_gradient(add: bool, masked: bool) -> None:
    shape = ConvolutionShape(2, 5, 5, 17, 3, (1, 1), (2, 2))
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
@pytest.mark.parametrize("filters", [5, 16])
def test_what_is_not_a_number_is_seen_where_its_window_is_and_nowhere_else(
    broken: float, filters: int
) -> None:
    shape = ConvolutionShape(4, 7, 7, 17, filters, (3, 3), padding=(1, 1))
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


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("channels", [16, 17, 300])
@pytest.mark.parametrize("filters", [40, 64])
def test_results_past_the_caches_are_the_same(
    filters: int, channels: int, relu: bool, storing: Callable[[bool], AbstractContextManager[None]]
) -> None:
    shape = ConvolutionShape(2, 7, 9, channels, filters, (1, 1))
    operands = replace(plain(shape), relu=relu)
    target = replace(operands.target, mask=whole_operands(shape).target.mask)
    with storing(True):
        check(shape, operands, place())
        check(shape, replace(operands, target=target), place())


@pytest.mark.parametrize("filters", [24, 32])
def test_channels_beside_results_past_the_caches_stay_as_they_are(
    filters: int, storing: Callable[[bool], AbstractContextManager[None]]
) -> None:
    shape = ConvolutionShape(2, 7, 9, 5, filters, (1, 1))
    operands, wide = plain(shape), aligned_zeros((*shape.outputs[:3], 64))
    expected = np.zeros(shape.outputs, np.float32)
    wide[...] = 77
    given = operands.images, operands.weights, None
    REFERENCE.convolution(shape).forward(*given, expected)
    with storing(True):
        Convolution(shape).forward(*given, wide[..., :filters])
    assert_array_equal(wide[..., :filters], expected)
    assert (wide[..., filters:] == 77).all()


def test_memory_of_a_slice_is_read_and_written_in_place() -> None:
    for name in ("groups of odd sizes", "lines of taps of few channels", "single taps"):
        shape = SHAPES[name]
        operands = whole_operands(shape)
        packed = operands.results(Convolution(shape), place())
        operation = Convolution(shape)
        for seed in range(4):  # with other distances of pixels each time
            sliced = Memory(operations("channels_last"), np.random.default_rng(seed))
            for found, expected in zip(operands.results(operation, sliced), packed, strict=True):
                assert_array_equal(found, expected)
            sliced.check_surroundings()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"images": np.zeros((3, 5, 5, 3), np.float32)}, r"images of shape .* \(2, 5, 5, 3\)"),
        ({"images": np.zeros((16, 5, 5, 3), np.float32)}, r"images of shape .* \(2, 5, 5, 3\)"),
        ({"images": np.zeros((2, 5, 5, 3), np.uint16)}, r"type uint16 .* float32"),
        ({"images": np.zeros((5, 5, 3, 2), np.float32).transpose(3, 0, 1, 2)}, "in C order"),
        ({"weights": np.zeros((16, 3, 3, 2), np.float32)}, r"weights of shape"),
        ({"bias": np.zeros(8, np.float32)}, r"bias of shape .* expected shape \(16,\)"),
    ],
)
def test_other_arrays_are_refused(change: dict[str, Any], said: str) -> None:
    shape = ConvolutionShape(2, 5, 5, 3, 16, (3, 3))
    operands, operation = normal_operands(shape), Convolution(shape)
    given: dict[str, Any] = {
        "images": operands.images, "weights": operands.weights, "bias": operands.bias, **change
    }  # fmt: skip
    with pytest.raises(OperationError, match=said):
        operation.forward(**given, out=place().garbage(*shape.outputs))


def test_masks_of_other_shapes_are_refused() -> None:
    shape = ConvolutionShape(2, 5, 5, 3, 16, (3, 3))
    operands = normal_operands(shape)
    with pytest.raises(OperationError, match=r"mask of shape .* expected shape \(2, 5, 5, 3\)"):
        Convolution(shape).backward_data(
            operands.gradient, operands.weights, place().garbage(*shape.inputs),
            mask=operands.gradient,
        )  # fmt: skip

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
from contracts.convolution import Operands, normal_operands, whole_operands
from contracts.memory import REFERENCE, Memory, check_agreement, draw_rng, draw_target
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.channels_last import winograd_convolution
from vectorized_ops.channels_last.winograd_convolution import (
    WinogradConvolution,
    winograd_takes,
)
from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import operations
from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.grouped_winograd import MOST_GROUPS
from vectorized_ops.shapes import ConvolutionShape

SIZES = [(2, 3), (4, 3), (2, 5), (4, 5)]
"""F(m x m, r x r) as (m, r)."""

TOLERANCES = {(2, 3): (), (4, 3): (1e-4, 1e-4, 1e-4, 0)}
"""Shares of the largest result, for whole numbers, that F(2x2, 3x3) computes exactly. Where a map
is one pixel the largest result may be much smaller than what it is the sum of."""

BOUNDS = {(2, 3): 2e-6, (4, 3): 2e-5, (2, 5): 2e-5, (4, 5): 2e-5}
"""Rounding errors as shares of the largest result, for normal values of up to 512 channels."""

for_each_size = pytest.mark.parametrize(
    ("outputs", "taps"),
    [pytest.param(*size, marks=[pytest.mark.slow] * (size[1] == 5)) for size in SIZES],
)


def place() -> Memory:
    return Memory(operations("channels_last"))


def padded(side: int, padding: int = 1, taps: int = 3, **options: Any) -> ConvolutionShape:
    values = {"images": 3, "channels": 32, "filters": 16, **options}
    return ConvolutionShape(
        height=side, width=side, kernel=(taps, taps), padding=(padding, padding), **values
    )


@pytest.mark.parametrize("outputs", [2, 4])
@settings(max_examples=30)
@given(data=st.data())
def test_all_directions_follow_the_reference(
    data: st.DataObject,
    outputs: int,
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    draw = data.draw
    padding = draw(st.sampled_from([(1, 1), (0, 2), (2, 0)]))
    sides = (  # Tiles are compiled for each kind of end: there are few.
        draw(st.sampled_from([side for side in (1, 5, 9) if side + 2 * padding[0] >= 3])),
        draw(st.sampled_from([4, 8, 11])),
    )
    groups = draw(st.sampled_from([1, 2, MOST_GROUPS]))
    channels, filters = (groups * draw(st.sampled_from([16, 32, 48])) for _ in ("C", "K"))
    images = draw(st.integers(1, 12))
    shape = ConvolutionShape(
        images, *sides, channels, filters, (3, 3), (1, 1), padding, (1, 1), groups
    )
    seed, rng = draw_rng(draw)
    whole, target = whole_operands(shape), draw_target(draw, rng, *shape.inputs)
    bias = whole.bias if draw(st.booleans()) else None
    operands = replace(whole, bias=bias, relu=draw(st.booleans()), target=target)

    def run(place: Memory) -> list[np.ndarray]:
        of_reference = place.operations is REFERENCE
        made = REFERENCE.convolution(shape) if of_reference else WinogradConvolution(shape, outputs)
        return operands.results(made, place)

    tolerances = TOLERANCES[outputs, 3]
    with storing(draw(st.booleans())):
        check_agreement("channels_last", seed, run, tolerances[: 4 - (bias is None)], least=1)


@pytest.mark.parametrize("threads", [1, 2, 6, 64])
@pytest.mark.parametrize(
    "shape",
    [
        padded(9),
        padded(14, images=1, channels=48, filters=160),
        padded(2, 2, images=20, filters=64, groups=2),
    ],
    ids=["kinds of ends", "many filters", "few pixels"],
)
def test_work_is_divided_among_any_number_of_threads_and_nothing_is_done_twice(
    shape: ConvolutionShape, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    operands = whole_operands(shape)
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE))
    found = operands.results(WinogradConvolution(shape, 2), place())
    for number, (got, wanted) in enumerate(zip(found, expected, strict=True)):
        assert_array_equal(got, wanted, err_msg=f"result {number}")


def test_points_of_many_items_are_summed_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd_convolution, "SUMMED_BYTES", 0)
    shape = padded(13, images=5)
    operands = whole_operands(shape)
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE))
    operation = WinogradConvolution(shape, 2)
    assert len(operation._gradients.chunks) > 4
    for got, wanted in zip(operands.results(operation, place()), expected, strict=True):
        assert_array_equal(got, wanted)


@for_each_size
@pytest.mark.parametrize("channels", [64, 512])
def test_rounding_errors_are_bounded(channels: int, outputs: int, taps: int) -> None:
    errors = []
    for shape in (
        padded(8, taps=taps, channels=channels, images=4),
        padded(8, taps=taps, channels=16, filters=channels, images=4),
    ):
        operands = normal_operands(shape)
        found = operands.results(WinogradConvolution(shape, outputs), place())
        for each, exact in zip(found, operands.exact(shape), strict=True):
            errors.append(np.abs(each - exact).max() / np.abs(exact).max())
    assert 0 < max(errors) < BOUNDS[outputs, taps], errors


@pytest.mark.parametrize("outputs", [2, 4])
def test_gradients_of_weights_keep_their_precision_when_summed_over_many_pixels(
    outputs: int,
) -> None:
    shape = padded(96, channels=16, images=16)
    operands = normal_operands(shape)
    values, gradient = operands.images + 1, operands.gradient + 1
    operands = replace(operands, images=values, gradient=gradient, summed=gradient)
    found = operands.results(WinogradConvolution(shape, outputs), place())
    for got, exact in list(zip(found, operands.exact(shape), strict=True))[2:]:
        assert np.abs(got - exact).max() < 2e-6 * np.abs(exact).max()


@pytest.mark.parametrize(
    ("height", "width"),
    [
        (14, 9),
        pytest.param(7, 4, marks=pytest.mark.slow),
        pytest.param(6, 3, marks=pytest.mark.slow),
    ],
)
def test_ends_of_maps_follow_the_definition(height: int, width: int) -> None:
    shape = replace(padded(height), width=width)
    operands = normal_operands(shape)
    found = operands.results(WinogradConvolution(shape, 4), place())
    for each, exact in zip(found, operands.exact(shape), strict=True):
        assert np.abs(each - exact).max() < BOUNDS[4, 3] * np.abs(exact).max()


@pytest.mark.parametrize("outputs", [2, 4])
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_is_seen_wherever_it_should_and_in_its_tiles_alone(
    broken: float, outputs: int
) -> None:
    shape = padded(9)
    operands = normal_operands(shape)
    sound = operands.results(WinogradConvolution(shape, outputs), place())
    operands.images[1, 4, 5, 2] = operands.gradient[1, 4, 5, 2] = broken
    out, images_out, weights_out, bias_out = operands.results(
        WinogradConvolution(shape, outputs), place()
    )
    for found, expected in ((out, sound[0]), (images_out, sound[1])):
        assert not np.isfinite(found[1, 3:6, 4:7]).any()
        assert_array_equal(found[[0, 2]], expected[[0, 2]])
        assert_array_equal(found[1, 8], expected[1, 8])
    assert not np.isfinite(weights_out[2]).any()
    assert not np.isfinite(weights_out[:, 2]).any()
    assert_array_equal(np.delete(weights_out[:, 3:], 2, 0), np.delete(sound[2][:, 3:], 2, 0))
    assert not np.isfinite(bias_out[2])
    assert_array_equal(np.delete(bias_out, 2), np.delete(sound[3], 2))


@pytest.mark.parametrize("outputs", [2, 4])
def test_neither_another_run_nor_threads_change_a_bit(
    outputs: int, same_bits: Callable[..., None]
) -> None:
    shape = padded(13, images=7)
    operands = normal_operands(shape)
    same_bits(lambda: operands.results(WinogradConvolution(shape, outputs), place()))


def test_operations_share_scratch_memory_that_holds_anything() -> None:
    shapes = padded(9), padded(5, 0, filters=48), padded(9, 2, filters=64, groups=2)
    made = [WinogradConvolution(shape, 4) for shape in shapes]
    memory = aligned_zeros((max(operation.scratch_size for operation in made) + 8,))
    for operation in made:
        operation.use_scratch(memory[: operation.scratch_size])
    for shape, operation in zip(shapes, made, strict=True):
        operands = normal_operands(shape)
        own = operands.results(WinogradConvolution(shape, 4), place())
        memory[...] = np.nan
        for found, expected in zip(operands.results(operation, place()), own, strict=True):
            assert_array_equal(found, expected)
        assert np.isfinite(memory).any()
        assert np.isnan(memory[operation.scratch_size :]).all()


@pytest.mark.parametrize("relu", [False, True])
def test_results_past_the_caches_are_the_same(
    relu: bool, storing: Callable[[bool], AbstractContextManager[None]]
) -> None:
    shape = padded(9, filters=48)
    operands = replace(normal_operands(shape), relu=relu)
    found = []
    for past in (False, True):
        with storing(past):
            found.append(operands.results(WinogradConvolution(shape, 4), place()))
    for through, beside in zip(*found, strict=True):
        assert_array_equal(through, beside)


def test_memory_of_a_slice_is_read_and_written_in_place() -> None:
    shape = padded(9, filters=64, groups=2)
    operands, operation = whole_operands(shape), WinogradConvolution(shape, 2)
    packed = operands.results(operation, place())
    for seed in range(4):  # with other distances of pixels each time
        sliced = Memory(operations("channels_last"), np.random.default_rng(seed))
        for found, expected in zip(operands.results(operation, sliced), packed, strict=True):
            assert_array_equal(found, expected)
        sliced.check_surroundings()


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [2, 4])
@pytest.mark.parametrize("padding", [(0, 4), (2, 2)])
def test_five_taps_follow_the_reference(outputs: int, padding: tuple[int, int]) -> None:
    shape = replace(padded(9, taps=5), padding=padding)
    operands = whole_operands(shape)
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE, exact=True))
    found = operands.results(WinogradConvolution(shape, outputs), place())
    for got, wanted in zip(found, expected, strict=True):
        assert_allclose(got, wanted, 0, 1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("change", "takes"),
    [
        ({}, True),
        ({"padding": (2, 0)}, True),
        ({"kernel": (5, 5), "padding": (0, 4)}, True),
        ({"padding": (0, 3)}, False),
        ({"kernel": (5, 5), "padding": (5, 0)}, False),
        ({"kernel": (3, 1)}, False),
        ({"kernel": (3, 5)}, False),
        ({"kernel": (7, 7)}, False),
        ({"stride": (1, 2)}, False),
        ({"dilation": (2, 1)}, False),
        ({"channels": 4 * LANES, "filters": 8 * LANES, "groups": MOST_GROUPS}, True),
        ({"channels": 128, "filters": 128, "groups": 8}, False),
        ({"channels": LANES + 1}, False),
        ({"filters": LANES // 2}, False),
        ({"channels": 2 * LANES, "filters": 2 * LANES, "groups": 4}, False),
    ],
)
def test_plain_convolutions_of_whole_vectors_are_taken_and_others_refused(
    change: dict[str, Any], takes: bool
) -> None:
    shape = replace(padded(9), **change)
    assert winograd_takes(shape) is takes
    if not takes:
        with pytest.raises(OperationError, match=rf"F\(2x2\) .* of {LANES}; use Convolution"):
            WinogradConvolution(shape, 2)


def test_tiles_of_other_sizes_are_refused() -> None:
    with pytest.raises(OperationError, match="expected outputs 2 or 4"):
        WinogradConvolution(padded(9), 3)


def test_arrays_of_other_shapes_are_refused() -> None:
    operands, operation = normal_operands(padded(9)), WinogradConvolution(padded(9))
    other: Operands = normal_operands(padded(8))
    with pytest.raises(OperationError, match=r"images of shape .* expected shape \(3, 9, 9, 32\)"):
        replace(operands, images=other.images).results(operation, place())
    with pytest.raises(OperationError, match=r"mask of shape .* expected shape \(3, 9, 9, 32\)"):
        operation.backward_data(
            place().holding(operands.gradient), operands.weights,
            place().garbage(*operands.images.shape), mask=place().holding(other.images),
        )  # fmt: skip

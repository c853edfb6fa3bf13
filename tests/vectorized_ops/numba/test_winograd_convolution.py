from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from contracts.convolution import Operands, check_in_bfloat16, normal_operands, whole_operands
from contracts.memory import REFERENCE, Memory, check_agreement, draw_rng, draw_target
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import operations
from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.grouped_winograd import MOST_GROUPS
from vectorized_ops.numba.winograd_convolution import WinogradConvolution
from vectorized_ops.shapes import ConvolutionShape

TOLERANCES = {
    (2, 3): (),
    (4, 3): (1e-4, 1e-4, 1e-4, 0),
    (2, 5): (1e-4, 1e-4, 1e-4, 0),
    (4, 5): (1e-4, 1e-4, 1e-4, 0),
}
"""Shares of the largest result, for whole numbers, that F(2x2, 3x3) computes exactly. Where a map
is one pixel the largest result may be much smaller than what it is the sum of."""

BOUNDS = {(2, 3): 2e-6, (4, 3): 2e-5, (2, 5): 2e-5, (4, 5): 2e-5}
"""Rounding errors as shares of the largest result, for normal values of up to 512 channels."""


ENDS = [(14, 14), (7, 7), (4, 10), (6, 3)]
"""Maps whose last tiles, of F(4x4, 3x3), have 2, 3, 4 or 2, and 2 or 3 pixels down and across."""


def place() -> Memory:
    return Memory(operations("numba"))


SIZES = [(2, 3), (4, 3), (2, 5), (4, 5)]
"""F(m x m, r x r) as (m, r)."""

for_each_size = pytest.mark.parametrize(
    ("outputs", "taps"),
    [pytest.param(*size, marks=[pytest.mark.slow] * (size[1] == 5)) for size in SIZES],
)


def padded(side: int, padding: int = 1, taps: int = 3, **options: Any) -> ConvolutionShape:
    values = {"images": 16, "channels": 15, "filters": 8, **options}
    return ConvolutionShape(
        height=side, width=side, kernel=(taps, taps), padding=(padding, padding), **values
    )


def check_drawn(
    draw: Callable[..., Any],
    outputs: int,
    taps: int,
    counts: list[int],
    images: int,
    paddings: list[tuple[int, int]],
) -> None:
    """Sides are such that maps have few kinds of ends: kernels are compiled for each."""
    padding = draw(st.sampled_from(paddings))
    sides = (
        draw(st.sampled_from([side for side in (1, 5, 9, 13) if side + 2 * padding[0] >= taps])),
        draw(st.sampled_from([4, 8, 12])),
    )
    groups = draw(st.sampled_from([1, 2, MOST_GROUPS]))
    channels, filters = (groups * draw(st.sampled_from(counts)) for _ in ("channels", "filters"))
    shape = ConvolutionShape(
        draw(st.integers(1, images)), *sides, channels, filters, (taps, taps), padding=padding,
        groups=groups,
    )  # fmt: skip
    seed, rng = draw_rng(draw)
    operands = replace(
        whole_operands(shape),
        relu=draw(st.booleans()),
        target=draw_target(draw, rng, *shape.inputs),
    )

    def run(place: Memory) -> list[np.ndarray]:
        of_reference = place.operations is REFERENCE
        made = REFERENCE.convolution(shape) if of_reference else WinogradConvolution(shape, outputs)
        return operands.results(made, place)

    check_agreement("numba", seed, run, TOLERANCES[outputs, taps], least=1)


@pytest.mark.slow
@for_each_size
@settings(max_examples=25)
@given(data=st.data())
def test_all_directions_follow_the_reference_for_any_borders(
    data: st.DataObject, outputs: int, taps: int
) -> None:
    paddings = [(taps // 2, taps // 2), (0, taps - 1)]
    check_drawn(data.draw, outputs, taps, [8, 15], 16, paddings)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # every height of tile is compiled
@pytest.mark.parametrize(
    ("outputs", "taps"),
    [pytest.param(*size, marks=[pytest.mark.long] * (size != (4, 3))) for size in SIZES],
)
@settings(max_examples=150)
@given(data=st.data())
def test_all_directions_follow_the_reference_for_any_shape(
    data: st.DataObject, outputs: int, taps: int
) -> None:
    check_drawn(
        data.draw, outputs, taps, [1, 2, 3, 14, 16, 29, 33, 64], 48, [(taps // 2, taps // 2)]
    )


@for_each_size
@pytest.mark.parametrize(
    "change",
    [{"images": 32, "channels": 16}, {"channels": 16}, {"images": 48, "channels": 32, "groups": 2}],
    ids=["pairs", "one vector", "groups"],
)
def test_results_of_bfloat16_are_rounded_once(
    change: dict[str, Any], outputs: int, taps: int
) -> None:
    shape = padded(7, taps // 2, taps, **{"filters": 8 * change.get("groups", 1), **change})
    make = partial(WinogradConvolution, outputs=outputs)
    check_in_bfloat16(shape, make, TOLERANCES[outputs, taps])
    check_in_bfloat16(replace(shape, channels=15 * shape.groups), make, TOLERANCES[outputs, taps])


@for_each_size
@pytest.mark.parametrize("channels", [64, 512])
def test_rounding_errors_are_bounded(channels: int, outputs: int, taps: int) -> None:
    errors = []
    for shape, directions in (
        (padded(8, taps=taps, channels=channels), [0]),
        (padded(8, taps=taps, channels=8, filters=channels), [0, 1, 2, 3]),
    ):
        operands = normal_operands(shape)
        exact = operands.exact(shape)
        operation = WinogradConvolution(shape, outputs)
        if directions == [0]:  # backward is the same with channels and filters changed
            out = place().garbage(*shape.outputs)
            operation.forward(
                place().holding(operands.images), operands.weights, operands.bias, out
            )
            found = [out]
        else:
            found = operands.results(operation, place())
        for number in directions:
            error = np.abs(found[number] - exact[number]).max()
            errors.append(error / np.abs(exact[number]).max())
    assert 0 < max(errors) < BOUNDS[outputs, taps], errors


@pytest.mark.slow
@pytest.mark.parametrize(("height", "width"), ENDS)
def test_ends_of_maps_follow_the_definition(height: int, width: int) -> None:
    shape = replace(padded(height), width=width)
    operands = normal_operands(shape)
    found = operands.results(WinogradConvolution(shape, 4), place())
    for each, exact in zip(found, operands.exact(shape), strict=True):
        assert np.abs(each - exact).max() < BOUNDS[4, 3] * np.abs(exact).max()


@for_each_size
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_is_seen_wherever_it_should_and_in_its_image_alone(
    broken: float, outputs: int, taps: int
) -> None:
    shape = padded(9, taps // 2, taps)
    operands = normal_operands(shape)
    sound = operands.results(WinogradConvolution(shape, outputs), place())
    operands.images[3, 4, 5, 2] = operands.gradient[3, 4, 5, 2] = broken
    out, images_out, weights_out, bias_out = operands.results(
        WinogradConvolution(shape, outputs), place()
    )
    for found, expected in ((out, sound[0]), (images_out, sound[1])):
        assert not np.isfinite(found[3, 3:6, 4:7]).any()
        others = np.arange(16) != 3
        assert_array_equal(found[others], expected[others])
        assert np.isfinite(found[3, 8, 8]).all()  # a tile is spoilt, not the image
    assert not np.isfinite(weights_out[2]).any()
    assert not np.isfinite(bias_out[2])
    assert np.isfinite(np.delete(bias_out, 2)).all()


@for_each_size
def test_neither_another_run_nor_threads_change_a_bit(
    outputs: int, taps: int, same_bits: Callable[..., None]
) -> None:
    shape = padded(13, taps=taps)
    same_bits(
        lambda: normal_operands(shape).results(WinogradConvolution(shape, outputs), place()),
        summed_by_thread=[2, 3],
    )


@for_each_size
def test_operations_share_scratch_memory_that_holds_anything(outputs: int, taps: int) -> None:
    shapes = padded(7, taps=taps), padded(5, 0, taps, filters=15)
    made = [WinogradConvolution(shape, outputs) for shape in shapes]
    size = max(operation.scratch_size for operation in made)
    memory = aligned_zeros((size + 8,))
    for operation in made:
        operation.use_scratch(memory[:size])
    for shape, operation in zip(shapes, made, strict=True):
        operands = normal_operands(shape)
        own = operands.results(WinogradConvolution(shape, outputs), place())
        memory[...] = np.nan
        for found, expected in zip(operands.results(operation, place()), own, strict=True):
            assert_array_equal(found, expected)
        assert np.isfinite(memory).any()
        assert np.isnan(memory[size:]).all()


def test_tiles_of_other_sizes_are_refused() -> None:
    with pytest.raises(OperationError, match="expected outputs 2 or 4"):
        WinogradConvolution(padded(9), 3)


def test_arrays_of_other_shapes_are_refused() -> None:
    operands, operation = normal_operands(padded(9)), WinogradConvolution(padded(9))
    other: Operands = normal_operands(padded(8))
    with pytest.raises(OperationError, match=r"images of shape .* expected shape \(16, 9, 9, 15\)"):
        replace(operands, images=other.images).results(operation, place())
    with pytest.raises(OperationError, match=r"mask of shape .* expected shape \(16, 9, 9, 15\)"):
        operation.backward_data(
            place().holding(operands.gradient), operands.weights,
            place().garbage(*operands.images.shape), mask=place().holding(other.images),
        )  # fmt: skip

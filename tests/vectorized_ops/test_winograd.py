from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import pytest

from vectorized_ops.winograd import POINTS, Matrix, transposed, winograd_transform

SIZES = [(1, 1), (1, 3), (2, 1), (2, 3), (3, 2), (4, 3), (4, 5), (6, 3), (5, 5), (6, 7)]

CUTS = [(2, 3, 1), (4, 3, 1), (4, 3, 2), (4, 3, 3), (2, 5, 1), (4, 5, 1), (4, 5, 2), (4, 5, 3)]

Row = Sequence[Fraction]


def applied(matrix: Matrix, vector: Row) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


def applied_twice(matrix: Matrix, square: Sequence[Row]) -> Matrix:
    """matrix @ square @ matrix^T."""
    columns = [applied(matrix, column) for column in zip(*square, strict=True)]
    return tuple(tuple(applied(matrix, row)) for row in zip(*columns, strict=True))


def times(left: Row, right: Row) -> list[Fraction]:
    return [a * b for a, b in zip(left, right, strict=True)]


def correlation(inputs: Row, weights: Row) -> list[Fraction]:
    outputs = len(inputs) - len(weights) + 1
    return [
        sum((inputs[y + r] * weight for r, weight in enumerate(weights)), Fraction(0))
        for y in range(outputs)
    ]


def units(size: int) -> list[list[Fraction]]:
    """Unit vectors: maps that are linear in each argument and agree on these agree everywhere."""
    return [[Fraction(int(i == j)) for j in range(size)] for i in range(size)]


@pytest.mark.parametrize(("outputs", "taps"), SIZES)
def test_minimal_filtering_equals_the_correlation_exactly(outputs: int, taps: int) -> None:
    transform = winograd_transform(outputs, taps)
    for inputs, weights in product(units(transform.points), units(taps)):
        points = times(
            applied(transform.weights_map, weights), applied(transform.input_map, inputs)
        )
        assert applied(transform.output_map, points) == correlation(inputs, weights)


@pytest.mark.parametrize(("outputs", "taps", "kept"), CUTS)
def test_fewer_outputs_take_the_weights_at_some_of_the_same_points(
    outputs: int, taps: int, kept: int
) -> None:
    whole, cut = winograd_transform(outputs, taps), winograd_transform(outputs, taps, kept)
    assert cut.outputs == kept
    assert len(cut.numbers) == len(set(cut.numbers)) == kept + taps - 1
    assert cut.weights_map == tuple(whole.weights_map[number] for number in cut.numbers)
    for inputs, weights in product(units(cut.points), units(taps)):
        points = times(applied(cut.weights_map, weights), applied(cut.input_map, inputs))
        assert applied(cut.output_map, points) == correlation(inputs, weights)


@pytest.mark.parametrize(("outputs", "taps"), SIZES)
def test_adjoint_maps_give_the_gradients_exactly(outputs: int, taps: int) -> None:
    transform = winograd_transform(outputs, taps)
    border = [Fraction(0)] * (taps - 1)
    for gradient in units(outputs):
        spread = applied(transposed(transform.output_map), gradient)
        # The gradient of the weights is a correlation, that of the inputs a full convolution.
        for inputs in units(transform.points):
            points = times(spread, applied(transform.input_map, inputs))
            found = applied(transposed(transform.weights_map), points)
            assert found == correlation(inputs, gradient)
        for weights in units(taps):
            points = times(spread, applied(transform.weights_map, weights))
            found = applied(transposed(transform.input_map), points)
            assert found == correlation([*border, *gradient, *border], weights[::-1])


def test_maps_of_columns_and_rows_filter_in_two_dimensions() -> None:
    transform = winograd_transform(2, 3)
    image = [[Fraction(5 * i * i + 3 * j + i * j, 7) for j in range(4)] for i in range(4)]
    kernel = [[Fraction(i - 2 * j, 3) for j in range(3)] for i in range(3)]
    points = zip(
        applied_twice(transform.weights_map, kernel),
        applied_twice(transform.input_map, image),
        strict=True,
    )
    found = applied_twice(transform.output_map, [times(a, b) for a, b in points])
    for y in range(2):
        for x in range(2):
            terms = [image[y + r][x + s] * kernel[r][s] for r in range(3) for s in range(3)]
            assert found[y][x] == sum(terms)


@pytest.mark.parametrize(("outputs", "taps"), SIZES)
def test_maps_have_one_row_per_multiplication(outputs: int, taps: int) -> None:
    transform = winograd_transform(outputs, taps)
    points = outputs + taps - 1
    assert transform.points == points
    assert shape(transform.output_map) == (outputs, points)
    assert shape(transform.weights_map) == (points, taps)
    assert shape(transform.input_map) == (points, points)
    assert shape(transposed(transform.weights_map)) == (taps, points)


def shape(matrix: Matrix) -> tuple[int, int]:
    (width,) = {len(row) for row in matrix}
    return len(matrix), width


def test_more_points_than_are_known_are_refused() -> None:
    assert len(set(POINTS)) == len(POINTS)
    winograd_transform(len(POINTS), 2)
    with pytest.raises(ValueError, match=r"F\(11, 3\) needs 13 points, 12 are known"):
        winograd_transform(11, 3)

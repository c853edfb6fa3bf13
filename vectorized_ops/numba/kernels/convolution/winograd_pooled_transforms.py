# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Winograd's transforms of F(4x4, 5x5) as Numba intrinsics, one image per lane.

A tile is a matrix of vectors. A two-dimensional transform is a one-dimensional one of the columns
and then of the rows, all unrolled. The symmetry of the points +p and -p is used in both directions.
The backward passes use the adjoint transforms, so they multiply as rarely as the forward pass.

Strides, indices and offsets count elements. Bounds are the caller's responsibility.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from numba import types

from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.convolution.row_tiles import transposed as turned
from vectorized_ops.winograd import Matrix, transposed, winograd_transform

OUTPUTS, TAPS = 4, 5
TRANSFORM = winograd_transform(OUTPUTS, TAPS)
POINTS = TRANSFORM.points

Row = Sequence[float]

_FIRST_TAPS = (*range(0, TAPS**2 - LANES, LANES), TAPS**2 - LANES)
"""Where whole vectors of a kernel's taps begin; the last overlaps the one before it."""


def _sum(lanes: Lanes, terms: Sequence[tuple[float, Value]]) -> Value:
    """Emit the sum of coefficient * value; coefficients 1 and -1 cost no multiplication."""
    ordered = sorted(terms, key=lambda term: (abs(term[0]) != 1, term[0] < 0))
    coefficient, value = ordered[0]
    total = value if coefficient == 1 else lanes.multiply(value, lanes.constant(coefficient))
    for coefficient, value in ordered[1:]:
        if coefficient == 1:
            total = lanes.add(total, value)
        elif coefficient == -1:
            total = lanes.subtract(total, value)
        else:
            total = lanes.fma(value, lanes.constant(coefficient), total)
    return total


def _opposite(left: Row, right: Row) -> bool:
    """Tell whether two rows are equal up to signs, with some signs equal and some not."""
    same = all(abs(a) == abs(b) for a, b in zip(left, right, strict=True))
    signs = {a == b for a, b in zip(left, right, strict=True) if a}
    return same and len(signs) == 2


def _fold_columns(
    lanes: Lanes, matrix: Sequence[Row], values: Sequence[Value]
) -> list[tuple[Row, Value]]:
    """Replace inputs x, y with columns equal up to signs by x + y and x - y."""
    columns = list(zip(*matrix, strict=True))
    folded: list[tuple[Row, Value]] = []
    number = 0
    while number < len(columns):
        left = columns[number]
        if number + 1 < len(columns) and _opposite(left, columns[number + 1]):
            right = columns[number + 1]
            agree = [a if a == b else 0.0 for a, b in zip(left, right, strict=True)]
            differ = [a if a != b else 0.0 for a, b in zip(left, right, strict=True)]
            folded.append((agree, lanes.add(values[number], values[number + 1])))
            folded.append((differ, lanes.subtract(values[number], values[number + 1])))
            number += 2
        else:
            folded.append((left, values[number]))
            number += 1
    return folded


def linear_map(lanes: Lanes, matrix: Sequence[Row], values: Sequence[Value]) -> list[Value]:
    """Emit matrix @ values (values: one vector per column)."""
    paired = any(_opposite(a, b) for a, b in pairwise(matrix))
    columns = zip(zip(*matrix, strict=True), values, strict=True)
    folded = list(columns) if paired else _fold_columns(lanes, matrix, values)
    results: list[Value] = []
    while len(results) < len(matrix):
        i = len(results)
        if i + 1 < len(matrix) and _opposite(matrix[i], matrix[i + 1]):
            below = matrix[i + 1]
            same = [a == b for a, b in zip(matrix[i], below, strict=True)]
            terms = [(column[i], value) for column, value in folded]
            even = _sum(lanes, [t for t, equal in zip(terms, same, strict=True) if equal and t[0]])
            odd = _sum(lanes, [t for t, equal in zip(terms, same, strict=True) if not equal])
            results += [lanes.add(even, odd), lanes.subtract(even, odd)]
        else:
            results.append(_sum(lanes, [(c[i], value) for c, value in folded if c[i]]))
    return results


def square_map(
    lanes: Lanes, matrix: Matrix, load: Callable[[int, int], Value], across: Matrix | None = None
) -> list[list[Value]]:
    """Emit matrix @ X @ across^T for the matrix X of vectors that `load(row, column)` reads.

    `across` is `matrix` too unless it is given.
    """
    down = _as_floats(matrix)
    to_right = down if across is None else _as_floats(across)
    height, width = len(down[0]), len(to_right[0])
    columns = [linear_map(lanes, down, [load(i, j) for i in range(height)]) for j in range(width)]
    rows = zip(*columns, strict=True)
    return [linear_map(lanes, to_right, row) for row in rows]


def _as_floats(matrix: Matrix) -> list[Row]:
    """Return the entries as they are compiled: they are compared often, fractions slowly."""
    return [tuple(map(float, row)) for row in matrix]


def store_points(
    lanes: Lanes,
    results: list[list[Value]],
    target: Value,
    stride: Value,
    place: Callable[[int, int], int] | None = None,
) -> None:
    """Emit stores of a matrix of vectors, (i, j) at `place(i, j)` times `stride`.

    They lie one behind the other unless `place` is given.
    """
    for i, row in enumerate(results):
        for j, value in enumerate(row):
            number = i * len(row) + j if place is None else place(i, j)
            lanes.store(value, lanes.at(target, lanes.product(stride, number)))


@tile
def input_tile(
    typingctx: Any, out: Any, out_index: Any, out_point: Any,
    images: Any, index: Any, line: Any, pixel: Any,
) -> Any:  # fmt: skip
    """Write B^T d B of the POINTS x POINTS pixels d at images[index + i*line + j*pixel].

    Point (i, j) goes to out[out_index + (i*POINTS + j)*out_point].
    """
    signature = types.void(out, *[types.int64] * 2, images, *[types.int64] * 3)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)

        def load(i: int, j: int) -> Value:
            shift = lanes.product(args[5], i), lanes.product(args[6], j)
            return lanes.load(lanes.pointer(3, args[3], args[4], *shift))

        points = square_map(lanes, TRANSFORM.input_map, load)
        store_points(lanes, points, lanes.pointer(0, args[0], args[1]), args[2])
        return context.get_dummy_value()

    return signature, generate


@tile
def input_gradient_tile(
    typingctx: Any, images: Any, index: Any, line: Any, pixel: Any,
    points: Any, points_index: Any, point: Any,
) -> Any:  # fmt: skip
    """Add B p B^T of the points p to the pixels images[index + i*line + j*pixel]."""
    signature = types.void(images, *[types.int64] * 3, points, *[types.int64] * 2)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source = lanes.pointer(4, args[4], args[5])

        def load(i: int, j: int) -> Value:
            return lanes.load(lanes.at(source, lanes.product(args[6], i * POINTS + j)))

        pixels = square_map(lanes, transposed(TRANSFORM.input_map), load)
        for i, row in enumerate(pixels):
            start = lanes.pointer(0, args[0], args[1], lanes.product(args[2], i))
            for j, value in enumerate(row):
                target = lanes.at(start, lanes.product(args[3], j))
                lanes.store(lanes.add(lanes.load(target), value), target)
        return context.get_dummy_value()

    return signature, generate


@tile
def weights_points_tile(
    typingctx: Any, out: Any, out_index: Any, out_point: Any,
    weights: Any, places: Any, places_index: Any,
) -> Any:  # fmt: skip
    """Write G g G^T of LANES kernels g, TAPS x TAPS floats from weights[places[places_index + i]].

    Point (i, j) goes to out[out_index + (i*POINTS + j)*out_point + lane].
    """
    signature = types.void(out, *[types.int64] * 2, weights, places, types.int64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source, table = lanes.pointer(3, args[3]), lanes.pointer(4, args[4], args[5])
        kernels = [lanes.at(source, lanes.load_integer(lanes.at(table, i))) for i in range(LANES)]
        taps: dict[int, Value] = {}
        for first in _FIRST_TAPS:
            rows = [lanes.load(lanes.at(kernel, first)) for kernel in kernels]
            taps |= dict(enumerate(turned(lanes, rows), start=first))
        points = square_map(lanes, TRANSFORM.weights_map, lambda i, j: taps[i * TAPS + j])
        store_points(lanes, points, lanes.pointer(0, args[0], args[1]), args[2])
        return context.get_dummy_value()

    return signature, generate


@tile
def kernels_tile(typingctx: Any, out: Any, out_index: Any, taps: Any, taps_index: Any) -> Any:
    """Write LANES kernels of TAPS x TAPS floats one behind the other from out[out_index] on.

    Tap t of kernel i is read at taps[taps_index + t*LANES + i].
    """
    signature = types.void(out, types.int64, taps, types.int64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source, target = lanes.pointer(2, args[2], args[3]), lanes.pointer(0, args[0], args[1])
        for first in _FIRST_TAPS:
            rows = [lanes.load(lanes.at(source, (first + i) * LANES)) for i in range(LANES)]
            for number, kernel in enumerate(turned(lanes, rows)):
                lanes.store(kernel, lanes.at(target, number * TAPS**2 + first))
        return context.get_dummy_value()

    return signature, generate


@tile
def pooled_output_tile(
    typingctx: Any, out: Any, out_index: Any, line: Any, pixel: Any,
    which: Any, which_index: Any, which_line: Any, which_pixel: Any,
    bias: Any, bias_index: Any, points: Any, points_index: Any, point: Any,
) -> Any:  # fmt: skip
    """Write the 2x2 maxima of A^T p A, plus bias, and which pixel of each window they were.

    Cell (i, j) goes to out[out_index + i*line + j*pixel], and likewise in `which`.
    """
    signature = types.void(
        out, *[types.int64] * 3, which, *[types.int64] * 3, bias, types.int64,
        points, *[types.int64] * 2,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source = lanes.pointer(10, args[10], args[11])

        def load(i: int, j: int) -> Value:
            return lanes.load(lanes.at(source, lanes.product(args[12], i * POINTS + j)))

        outputs = square_map(lanes, TRANSFORM.output_map, load)
        shift = lanes.broadcast(lanes.pointer(8, args[8], args[9]))
        for i in range(OUTPUTS // 2):
            for j in range(OUTPUTS // 2):
                window = [outputs[2 * i + p // 2][2 * j + p % 2] for p in range(4)]
                best, number = lanes.argmax(window)
                lanes.store(lanes.add(best, shift), _cell(lanes, args, 0, i, j))
                lanes.store_bytes(number, _cell(lanes, args, 4, i, j))
        return context.get_dummy_value()

    return signature, generate


@tile
def pooled_gradient_tile(
    typingctx: Any, gradient: Any, index: Any, line: Any, pixel: Any,
    which: Any, which_index: Any, which_line: Any, which_pixel: Any,
    out: Any, out_index: Any, out_point: Any,
) -> Any:  # fmt: skip
    """Write A d A^T, d the 4x4 gradient that `which` spreads from 2x2 pooled cells.

    Cell (i, j) is read at gradient[index + i*line + j*pixel], and likewise in `which`.
    """
    signature = types.void(
        gradient, *[types.int64] * 3, which, *[types.int64] * 3, out, *[types.int64] * 2
    )

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)

        def load(i: int, j: int) -> Value:
            number = lanes.load_bytes(_cell(lanes, args, 4, i // 2, j // 2))
            value = lanes.load(_cell(lanes, args, 0, i // 2, j // 2))
            return lanes.where_equal(number, i % 2 * 2 + j % 2, value)

        points = square_map(lanes, transposed(TRANSFORM.output_map), load)
        store_points(lanes, points, lanes.pointer(8, args[8], args[9]), args[10])
        return context.get_dummy_value()

    return signature, generate


def _cell(lanes: Lanes, args: Any, first: int, i: int, j: int) -> Value:
    """Return the address of a cell in the array that is argument `first`, before its strides."""
    index, line, pixel = args[first + 1 : first + 4]
    return lanes.pointer(first, args[first], index, lanes.product(line, i), lanes.product(pixel, j))

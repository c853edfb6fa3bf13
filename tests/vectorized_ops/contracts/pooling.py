"""The contracts of pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from contracts.memory import (
    Draw,
    Memory,
    Target,
    check_agreement,
    draw_rng,
    draw_target,
    implementation,
    not_all_numbers,
    whole_numbers,
)
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import widened
from vectorized_ops.shapes import AdaptivePoolingShape, PoolingShape


def draw_pooling(draw: Draw, most_padding: float = 1.0) -> PoolingShape:
    """Any shape: oblong windows, gaps between them, padding to that share of the kernel, ceil."""
    sides, kernel, padding = [], [], []
    for _ in "yx":
        kernel.append(draw(st.integers(1, 4)))
        padding.append(draw(st.integers(0, min(kernel[-1] - 1, int(most_padding * kernel[-1])))))
        least = max(1, kernel[-1] - 2 * padding[-1])
        sides.append(draw(st.integers(least, least + 8)))
    return PoolingShape(
        sides[0],
        sides[1],
        kernel=(kernel[0], kernel[1]),
        stride=(draw(st.integers(1, 4)), draw(st.integers(1, 4))),
        padding=(padding[0], padding[1]),
        ceil=draw(st.booleans()),
        counts_padding=draw(st.booleans()),
    )


def draw_adaptive_pooling(draw: Draw) -> AdaptivePoolingShape:
    """Any windows that cover a map, also more of them than it has pixels."""
    return AdaptivePoolingShape(*(draw(st.integers(1, 9)) for _ in range(4)))


def check_max_pooling(name: str, draw: Draw, most_padding: float = 1.0) -> None:
    """Maxima, places and gradients equal the reference, for a drawn shape with many ties."""
    shape, (seed, rng) = draw_pooling(draw, most_padding), draw_rng(draw)
    images, channels = draw(st.integers(1, 40)), draw(st.integers(1, 20))
    inputs = images, shape.height, shape.width, channels
    outputs = images, shape.lines, shape.pixels, channels
    values, gradient = whole_numbers(rng, *inputs, largest=1), whole_numbers(rng, *outputs)
    if draw(st.booleans()):
        values, gradient = not_all_numbers(rng, values), not_all_numbers(rng, gradient)
    values[draw(st.integers(0, images - 1))] = -np.inf
    target, places = draw_target(draw, rng, *inputs), []

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.max_pooling(shape)
        out, which = place.garbage(*outputs), place.garbage(*outputs, dtype=np.uint8)
        operation.forward(place.holding(values), out, which)
        largest = widened(out[:images])
        assert_array_equal(winners(values, which[:images], shape), largest)
        numbers = ~np.isnan(largest)  # of several NaN, any may be the winner
        results = [out, np.where(numbers, which[:images], 0)]
        places.append(which[:images].copy())
        which[:images] = places[0]
        back = target.out(place)
        operation.backward(place.holding(gradient), which, back, **target.options(place))
        return [*results, back]

    check_agreement(name, seed, run)


def winners(values: np.ndarray, which: np.ndarray, shape: PoolingShape) -> np.ndarray:
    """What lies in the images (never in the padding) at the places in their windows."""
    n, y, x, c = np.ix_(*map(range, which.shape))
    lines = y * shape.stride[0] - shape.padding[0] + which // shape.kernel[1]
    columns = x * shape.stride[1] - shape.padding[1] + which % shape.kernel[1]
    assert lines.min() >= 0
    assert columns.min() >= 0
    found: np.ndarray = values[n, lines, columns, c]
    return found


def check_not_numbers_in_pooling(name: str) -> None:
    """NaN is larger than everything, infinity than every number, and -inf has a place too."""
    place = Memory(implementation(name))
    windows = {
        (1, np.nan, np.inf, 2): (np.nan, 1),
        (np.nan, 1, 2, 3): (np.nan, 0),
        (1, 2, 3, np.nan): (np.nan, 3),
        (1, np.inf, np.inf, 2): (np.inf, 1),
        (-np.inf, -np.inf, -np.inf, -np.inf): (-np.inf, 0),
        (-np.inf, -5, -np.inf, -5): (-5, 1),
        (-0.0, 0.0, -0.0, 0.0): (0.0, 0),
    }
    values = np.array(list(windows), np.float32).reshape(-1, 2, 2, 1)
    out = place.garbage(len(windows), 1, 1, 1)
    which = place.garbage(len(windows), 1, 1, 1, dtype=np.uint8)
    operation = place.operations.max_pooling(PoolingShape(2, 2, (2, 2), (2, 2)))
    operation.forward(place.holding(values), out, which)
    expected = [np.array(column) for column in zip(*windows.values(), strict=True)]
    assert_array_equal(widened(out[: len(windows)]).ravel(), expected[0])
    assert_array_equal(which[: len(windows)].ravel(), expected[1])


def check_average_pooling(name: str, draw: Draw, most_padding: float = 1.0) -> None:
    """Means and gradients follow the reference in float64, for a drawn shape."""
    adaptive = draw(st.booleans())
    shape = draw_adaptive_pooling(draw) if adaptive else draw_pooling(draw, most_padding)
    seed, rng = draw_rng(draw)
    images, channels = draw(st.integers(1, 40)), draw(st.integers(1, 20))
    target = draw_target(draw, rng, images, shape.height, shape.width, channels)
    outputs = images, shape.lines, shape.pixels, channels
    check_means(name, draw, seed, target, outputs, "average_pooling", shape)


def check_global_average_pooling(name: str, draw: Draw) -> None:
    """Means of whole maps and their gradients follow the reference in float64."""
    seed, rng = draw_rng(draw)
    target = draw_target(draw, rng, *(draw(st.integers(1, most)) for most in (40, 9, 9, 20)))
    outputs = target.shape[0], target.shape[3]
    check_means(name, draw, seed, target, outputs, "global_average_pooling")


def check_means(
    name: str,
    draw: Draw,
    seed: int,
    target: Target,
    outputs: tuple[int, ...],
    operation: str,
    *shapes: PoolingShape | AdaptivePoolingShape,
) -> None:
    rng = np.random.default_rng(seed + 1000)
    values, gradient = whole_numbers(rng, *target.shape), whole_numbers(rng, *outputs)
    if draw(st.booleans()):
        values, gradient = not_all_numbers(rng, values), not_all_numbers(rng, gradient)

    def run(place: Memory) -> Sequence[np.ndarray]:
        tested = getattr(place.operations, operation)(*shapes)
        out, back = place.garbage(*outputs), target.out(place)
        tested.forward(place.holding(values), out)
        tested.backward(place.holding(gradient), back, **target.options(place))
        return [out, back]

    check_agreement(name, seed, run, tolerances=[1e-6, 1e-6], least=1)  # numbers may cancel out

"""Backward-weights by Winograd's points."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.layout import aligned_zeros, padded_images, zeros_images_last
from vectorized_ops.numba import winograd_convolution
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution.weights_gradient import PANEL, Panels, panels_of
from vectorized_ops.numba.kernels.convolution.winograd import GAP
from vectorized_ops.numba.kernels.convolution.winograd_edge_tiles import items_of
from vectorized_ops.numba.kernels.convolution.winograd_weights_gradient import (
    square_sums_kernel,
    square_taps_kernel,
)
from vectorized_ops.numba.winograd_convolution import WinogradConvolution
from vectorized_ops.reference.convolution import Convolution
from vectorized_ops.shapes import ConvolutionShape
from vectorized_ops.winograd import winograd_transform

ROWS, IMAGES, CHANNELS, FILTERS = 8, 32, 15, PANEL + 3
"""Blocks of channels overlap, and so do panels of filters."""

BOUNDS = {(2, 3): 3e-6, (4, 3): 2e-5, (2, 5): 2e-5, (4, 5): 2e-5}
"""Largest error of F(m x m, r x r), relative to the largest gradient of a weight."""

SHAPES = [
    ConvolutionShape(16, 8, 8, 8, 8, (3, 3), padding=(1, 1)),
    ConvolutionShape(20, 7, 5, 15, 16, (3, 3), padding=(0, 0)),
    ConvolutionShape(16, 5, 9, 15, 5, (3, 3), padding=(2, 1)),
    ConvolutionShape(16, 6, 6, 16, 40, (3, 3), padding=(1, 1)),
    ConvolutionShape(33, 9, 6, 3, 16, (5, 5), padding=(2, 2)),
    ConvolutionShape(64, 5, 8, 15, 40, (5, 5), padding=(1, 4)),
]


@pytest.mark.parametrize(
    ("shape", "outputs"),
    [
        pytest.param(shape, outputs, marks=[pytest.mark.slow] * (number > 0))
        for number, shape in enumerate(SHAPES)
        for outputs in (2, 4)
    ],
)
def test_gradients_equal_the_definition_within_their_bound(
    shape: ConvolutionShape, outputs: int
) -> None:
    rng = np.random.default_rng(1)
    images = rng.standard_normal(shape.inputs)
    gradient = rng.standard_normal(shape.outputs)
    weights, bias = np.zeros(shape.weights), np.zeros(shape.filters)
    Convolution(shape).backward_weights(images, gradient, weights, bias)

    number = padded_images(shape.images)
    held = zeros_images_last((number, *shape.inputs[1:]))
    held[...], held[: shape.images] = 7, images
    passed = zeros_images_last((number, *shape.outputs[1:]))
    passed[: shape.images] = gradient
    found, found_bias = np.full(shape.weights, np.nan, np.float32), np.zeros(shape.filters, "f4")
    WinogradConvolution(shape, outputs).backward_weights(held, passed, found, found_bias)

    error = np.abs(found - weights).max() / np.abs(weights).max()
    assert error < BOUNDS[outputs, shape.kernel[0]]
    assert_allclose(found_bias, bias, rtol=0, atol=1e-5 * np.abs(bias).max())


@pytest.mark.parametrize(("threads", "shares"), [(1, 1), (2, 1), (3, 3), (4, 2)])
def test_threads_share_sums_that_would_be_too_large(
    threads: int, shares: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    shape = replace(SHAPES[3], filters=PANEL + 8)  # two panels, for two threads at most
    images, gradient = (
        zeros_images_last(size) for size in [(16, *shape.inputs[1:]), (16, *shape.outputs[1:])]
    )
    rng = np.random.default_rng(1)
    images[...], gradient[...] = (rng.integers(-3, 4, array.shape) for array in (images, gradient))
    alone = WinogradConvolution(shape, 2)
    monkeypatch.setattr(winograd_convolution, "SUMS_BYTES", 0)
    shared = WinogradConvolution(shape, 2)
    assert shared._sums_sizes()[0] * threads == alone._sums_sizes()[0] * shares
    results = []
    for operation in (alone, shared):
        found, bias = np.full(shape.weights, np.nan, "f4"), np.full(shape.filters, np.nan, "f4")
        operation.backward_weights(images, gradient, found, bias)
        results.append((found, bias))
    assert_array_equal(results[1][0], results[0][0])  # F(2x2, 3x3) is exact for whole numbers
    assert_array_equal(results[1][1], results[0][1])


@pytest.mark.parametrize(("limit", "shares"), [(4, 4), (3, 2), (2, 2), (1, 1), (0, 1)])
def test_no_more_threads_share_sums_than_must(
    limit: int, shares: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba, "get_num_threads", lambda: 4)
    shape = ConvolutionShape(16, 4, 4, 16, 4 * PANEL, (3, 3), padding=(1, 1))
    each = 4 * WinogradConvolution(shape, 2)._share_of_sums()
    monkeypatch.setattr(winograd_convolution, "SUMS_BYTES", limit * each)
    assert WinogradConvolution(shape, 2)._shares == shares


def test_what_is_not_a_number_is_seen_in_the_taps_that_it_meets() -> None:
    shape = SHAPES[0]
    images, gradient = zeros_images_last(shape.inputs), zeros_images_last(shape.outputs)
    gradient[3, 4, 4, 2] = np.nan
    found = np.zeros(shape.weights, np.float32)
    WinogradConvolution(shape).backward_weights(images, gradient, found, None)
    assert np.isnan(found[2]).all()
    assert np.isfinite(np.delete(found, 2, axis=0)).all()


def whole_numbers(*shape: int) -> np.ndarray:
    out = aligned_zeros(shape)
    out[...] = np.random.default_rng(len(shape)).integers(-3, 4, shape)
    return out


def garbage(*shape: int) -> np.ndarray:
    out = aligned_zeros(shape)
    out[...] = np.nan
    return out


def owners(panels: Panels) -> list[tuple[int, int, int, int, int]]:
    """For every weight: filter, channel, panel, block of channels and place in the block's tile."""
    found = []
    for k, c in np.ndindex(FILTERS, CHANNELS):
        column, block = int(panels.of_filter[k]), c // ROWS
        row = c - (0, CHANNELS - ROWS)[block]
        place = row * panels.widths[column] * LANES + k - panels.starts[column]
        found.append((k, c, column, block, int(place)))
    return found


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize(("shares", "threads"), [(1, 1), (3, 3), (1, 2), (3, 6), (1, 5)])
@pytest.mark.parametrize(
    ("piece", "pairs"), [(IMAGES // 2, False), (IMAGES, False), (IMAGES, True)]
)
def test_products_of_points_are_summed_over_tiles_and_images(
    piece: int, pairs: bool, shares: int, threads: int, at_once: int
) -> None:
    images = whole_numbers(6, 7, CHANNELS, IMAGES)
    gradient, panels = whole_numbers(5, 5, FILTERS, IMAGES), panels_of(FILTERS, 1)
    columns, outputs, taps, points = len(panels.starts), 2, 3, 16
    sums = garbage(shares, points * columns * 2 * ROWS * PANEL)
    bias_sums = garbage(shares, columns * PANEL)
    items = items_of(gradient.shape[:2], outputs, taps, IMAGES, piece, shares)
    transformed = garbage(threads, points * (at_once * CHANNELS * piece + GAP))
    stored = transformed.view(np.uint16) if pairs else transformed
    square_sums_kernel(outputs, taps, ROWS, piece, items.ends, panels.columns, (), pairs)(
        images.reshape(-1), CHANNELS * IMAGES, images.shape[:2], CHANNELS, gradient.reshape(-1),
        FILTERS * IMAGES, gradient.shape[:2], FILTERS, IMAGES, (1, 0), panels.starts,
        panels.widths, sums, bias_sums, stored, transformed,
        garbage(threads, outputs**2 * piece * PANEL),
        garbage(threads, points * (at_once * piece * PANEL + GAP)),
        aligned_zeros((CHANNELS * IMAGES,)), at_once, items.table, items.parts,
    )  # fmt: skip
    # Three tiles each way, of which the last have half of their pixels and three of four points.
    bordered = np.pad(images, [(1, 0), (0, 0), (0, 0), (0, 0)])
    expected = np.zeros((4, 4, FILTERS, CHANNELS))
    for y, x in np.ndindex(3, 3):
        down, across = (winograd_transform(outputs, taps, 1 if tile == 2 else 2) for tile in (y, x))
        inputs = bordered[2 * y :, 2 * x :][: down.points, : across.points]
        results = gradient[2 * y :, 2 * x :][: down.outputs, : across.outputs]
        reading, writing = (
            [np.array(matrix, np.float64) for matrix in pair]
            for pair in ((down.input_map, across.input_map), (down.output_map, across.output_map))
        )
        seen = np.einsum("ai,ijcn,bj->abcn", reading[0], inputs, reading[1])
        wished = np.einsum("ia,ijkn,jb->abkn", writing[0], results, writing[1])
        products = np.einsum("abkn,abcn->abkc", wished, seen)
        expected[np.ix_(down.numbers, across.numbers)] += products
    expected = expected.reshape(points, FILTERS, CHANNELS)
    tiles = sums.sum(axis=0).reshape(points, columns, 2, ROWS * PANEL)
    for k, c, column, block, place in owners(panels):
        assert_array_equal(tiles[:, column, block, place], expected[:, k, c])
    begins = panels.of_filter * PANEL + np.arange(FILTERS) - panels.starts[panels.of_filter]
    assert_array_equal(bias_sums.sum(axis=0)[begins], gradient.sum(axis=(0, 1, 3)))


@pytest.mark.parametrize(("outputs", "taps"), [(2, 3), (4, 3), (2, 5), (4, 5)])
@pytest.mark.parametrize(("shares", "threads", "at_once"), [(1, 1, 4), (3, 3, 16), (1, 4, 1)])
def test_sums_of_all_threads_become_the_taps_of_their_weights(
    shares: int, threads: int, at_once: int, outputs: int, taps: int
) -> None:
    panels, points = panels_of(FILTERS, 1), (outputs + taps - 1) ** 2
    sums = whole_numbers(shares, points, len(panels.starts), 2, ROWS * PANEL)
    summed = sums.sum(axis=0, dtype=np.float64)
    out = np.full((FILTERS, CHANNELS, taps, taps), np.nan, np.float32)
    square_taps_kernel(outputs, taps)(
        sums.reshape(shares, -1), ROWS, CHANNELS, panels.starts, panels.widths, panels.of_filter,
        garbage(threads, at_once * taps * taps, LANES), out.reshape(-1),
    )  # fmt: skip
    matrix = np.array(winograd_transform(outputs, taps).weights_map, np.float64)
    side = len(matrix)
    for k, c, column, block, place in owners(panels):
        square = summed[:, column, block, place].reshape(side, side)
        assert_allclose(out[k, c], matrix.T @ square @ matrix, rtol=0, atol=2e-5)

# ruff: noqa: ARG001 (what an intrinsic is given here are types: code is made from `args`)
"""Pooling of channels_last arrays: each target pixel gathers its sources and is written once.

The kernels take arguments as `windows` names them, and the dtype of the arrays as `rows` has it.
"""

from __future__ import annotations

from typing import Any

from numba import types

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.flow import when
from vectorized_ops.numba.emit.lanes import Lanes, Value, tile
from vectorized_ops.numba.kernels.arithmetic.rectifier import rectified
from vectorized_ops.numba.kernels.channels_last.delivery import Delivery
from vectorized_ops.numba.kernels.channels_last.lanes import (
    element_of,
    load_bytes,
    store_bytes,
    store_lanes,
)
from vectorized_ops.numba.kernels.channels_last.team import emit_in_team
from vectorized_ops.numba.kernels.channels_last.windows import (
    EmitVectors,
    Pooling,
    Sources,
    Vectors,
)

LARGEST_WINDOW = 256
"""Pixels: places in a window are bytes."""


def _write(pooling: Pooling, target: Value, vectors: Vectors, results: list[Value]) -> None:
    places = vectors.places(pooling.out, target, pooling.out_distance)
    for value, place in zip(results, places, strict=True):
        store_lanes(pooling.lanes, value, place, vectors.mask, pooling.past)


def _deliver(pooling: Pooling, target: Value, vectors: Vectors, results: list[Value]) -> None:
    out = vectors.places(pooling.out, target, pooling.out_distance)
    masks = vectors.places(pooling.mask, target, pooling.mask_distance)
    delivery = Delivery(pooling.lanes, pooling.add, pooling.masked, pooling.past)
    delivery.write(results, out, masks, vectors.mask)


def _largest(pooling: Pooling, target: Value, sources: Sources, vectors: Vectors) -> None:
    """Write the largest source and its place in the window."""
    lanes, number = pooling.lanes, vectors.number

    def gather(y: Value, x: Value, pixel: Value, best: list[Value]) -> list[Value]:
        place, results = lanes.same(sources.place(y, x)), []
        for i, value in enumerate(vectors.load(pooling.values, pixel, pooling.values_distance)):
            results.append(lanes.larger(best[i], best[number + i], value, place))
        return [value for value, _ in results] + [which for _, which in results]

    lowest = [lanes.constant(float("-inf"))] * number
    best = sources.fold(lowest + [lanes.same(sources.first_place())] * number, gather)
    outputs = when(
        lanes, pooling.rectify, best[:number], lambda o: [rectified(lanes, v) for v in o]
    )
    _write(pooling, target, vectors, outputs)
    names = vectors.places(pooling.which, target, pooling.bytes_of_pixel)
    for which, name in zip(best[number:], names, strict=True):
        store_bytes(lanes, which, name, vectors.mask)


def _winners(pooling: Pooling, target: Value, sources: Sources, vectors: Vectors) -> None:
    """Write the sum of the gradients of those windows in which this pixel was the largest."""
    lanes = pooling.lanes

    def gather(y: Value, x: Value, window: Value, sums: list[Value]) -> list[Value]:
        place = lanes.same(sources.place(y, x))
        slopes = vectors.load(pooling.values, window, pooling.values_distance)
        names = vectors.places(pooling.which, window, pooling.bytes_of_pixel)

        def cut(slopes: list[Value]) -> list[Value]:
            outputs = vectors.load(pooling.outputs, window, pooling.values_distance)
            return [
                lanes.zero_unless_positive(output, slope)
                for output, slope in zip(outputs, slopes, strict=True)
            ]

        slopes = when(lanes, pooling.rectify, slopes, cut)
        return [
            lanes.add(total, lanes.where_same(load_bytes(lanes, name, vectors.mask), place, slope))
            for total, name, slope in zip(sums, names, slopes, strict=True)
        ]

    sums = sources.fold([lanes.constant(0.0)] * vectors.number, gather)
    _deliver(pooling, target, vectors, sums)


def _share(pooling: Pooling, y: Value, x: Value) -> Value:
    """Return the share of each pixel in the mean of a window."""
    lanes = pooling.lanes
    row, column = lanes.at(pooling.shares_y, y), lanes.at(pooling.shares_x, x)
    return lanes.multiply(lanes.broadcast(row), lanes.broadcast(column))


def _means(pooling: Pooling, target: Value, sources: Sources, vectors: Vectors) -> None:
    """Write the mean of the sources, padding perhaps among them."""
    lanes, builder = pooling.lanes, pooling.lanes.builder

    def gather(_y: Value, _x: Value, pixel: Value, sums: list[Value]) -> list[Value]:
        values = vectors.load(pooling.values, pixel, pooling.values_distance)
        return [lanes.add(total, value) for total, value in zip(sums, values, strict=True)]

    x = builder.urem(target, pooling.x.windows)
    y = builder.urem(builder.udiv(target, pooling.x.windows), pooling.y.windows)
    share, none = _share(pooling, y, x), [lanes.constant(0.0)] * vectors.number
    means = [lanes.multiply(total, share) for total in sources.fold(none, gather)]
    _write(pooling, target, vectors, means)


def _spread(pooling: Pooling, target: Value, sources: Sources, vectors: Vectors) -> None:
    """Write the sum of the shares in all windows that hold this pixel."""
    lanes = pooling.lanes

    def gather(y: Value, x: Value, window: Value, sums: list[Value]) -> list[Value]:
        share = _share(pooling, y, x)
        slopes = vectors.load(pooling.values, window, pooling.values_distance)
        return [lanes.fma(slope, share, total) for total, slope in zip(sums, slopes, strict=True)]

    sums = sources.fold([lanes.constant(0.0)] * vectors.number, gather)
    _deliver(pooling, target, vectors, sums)


def _pass(emit_vectors: EmitVectors, backward: bool) -> Any:
    @tile
    def pooling_pass(typingctx: Any, arguments: Any, element: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given = Lanes(context, builder, signature).pointer(0, args[0])

            def work(lanes: Lanes, given: Value, share: Value, shares: Value) -> None:
                pooling = Pooling(lanes, given, element_of(signature))
                pooling.emit(share, shares, backward, emit_vectors)

            emit_in_team(context, builder, signature, given, work)
            return context.get_dummy_value()

        return types.void(arguments, element), generate

    return pooling_pass


_largest_pass = _pass(_largest, backward=False)
_winners_pass = _pass(_winners, backward=True)
_means_pass = _pass(_means, backward=False)
_spread_pass = _pass(_spread, backward=True)


@kernel
def largest(arguments: Any, element: Any) -> None:
    """Write the largest value of each window and its place: a NaN, else the first of equals."""
    _largest_pass(arguments, element)


@kernel
def winners(arguments: Any, element: Any) -> None:
    """Write the gradient of the images for `largest`."""
    _winners_pass(arguments, element)


@kernel
def means(arguments: Any, element: Any) -> None:
    """Write the mean of each window."""
    _means_pass(arguments, element)


@kernel
def spread(arguments: Any, element: Any) -> None:
    """Write the gradient of the images for `means`."""
    _spread_pass(arguments, element)

# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The inner loops of smooth activation functions, compiled for each function.

`vectors` vectors are taken in memory order. Indices count elements; `past` tells whether `out` is
stored past the caches.
"""

from __future__ import annotations

from typing import Any, Final

from numba import types

from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.flow import groups
from vectorized_ops.numba.emit.gradient_store import Delivery
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.arithmetic.activation import ACTIVATIONS

GROUP = 2
"""Vectors between two jumps."""

_FUNCTIONS = tuple(ACTIVATIONS.values())


@tile
def activation_tile(
    typingctx: Any, function: Any, out: Any, out_index: Any, inputs: Any, inputs_index: Any,
    vectors: Any, past: Any,
) -> Any:  # fmt: skip
    """Write the function numbered `function` of the inputs."""
    signature = types.void(
        function, out, types.int64, inputs, types.int64, types.int64, types.boolean
    )
    value_of = _FUNCTIONS[function.literal_value].value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(1, args[1], args[2]), lanes.pointer(3, args[3], args[4])

        def group(offset: Value, number: int) -> None:
            places = [(offset, i * LANES) for i in range(number)]
            values = [lanes.load(lanes.at(source, *place)) for place in places]
            for value, place in zip(values, places, strict=True):
                result = value_of(lanes, value)
                lanes.store_streamed(result, lanes.at(target, *place), args[6])

        groups(lanes, args[5], GROUP, group)
        return context.get_dummy_value()

    return signature, generate


@tile
def activation_gradient_tile(
    typingctx: Any, function: Any, out: Any, out_index: Any, gradient: Any, gradient_index: Any,
    inputs: Any, inputs_index: Any, vectors: Any, add: Any, past: Any,
) -> Any:  # fmt: skip
    """Deliver the gradient of the inputs of `activation_tile`."""
    signature = types.void(
        function, out, types.int64, gradient, types.int64, inputs, types.int64, types.int64,
        types.boolean, types.boolean,
    )  # fmt: skip
    slope_of = _FUNCTIONS[function.literal_value].slope

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, above = lanes.pointer(1, args[1], args[2]), lanes.pointer(3, args[3], args[4])
        source = lanes.pointer(5, args[5], args[6])
        delivery = Delivery(lanes, target, target, args[8], args[8].type(0), args[9])

        def group(offset: Value, number: int) -> None:
            results = []
            for i in range(number):
                arriving = lanes.load(lanes.at(above, offset, i * LANES))
                slope = slope_of(lanes, lanes.load(lanes.at(source, offset, i * LANES)))
                results.append(lanes.multiply(arriving, slope))
            delivery.write(results, offset)

        groups(lanes, args[7], GROUP, group)
        return context.get_dummy_value()

    return signature, generate


ACTIVATION: Final = TileFunction(activation_tile, ("function",))
ACTIVATION_GRADIENT: Final = TileFunction(activation_gradient_tile, ("function",))

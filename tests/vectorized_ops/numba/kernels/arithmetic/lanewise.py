"""Kernels that apply a function of vectors to arrays of one vector each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

Function = Callable[[Lanes, list[Value], Value], tuple[Value, ...]]
"""From (lanes, vectors, a scalar) to vectors."""


def lanewise(function: Function) -> Callable[..., np.ndarray]:
    """What takes arrays of at most LANES floats and `scalar`, and returns a row per result."""

    @tile
    def applied(typingctx: Any, out: Any, values: Any, rows: Any, scalar: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            lanes = Lanes(context, builder, signature)
            target, source = lanes.pointer(0, args[0]), lanes.pointer(1, args[1])
            count = rows.literal_value
            vectors = [lanes.load(lanes.at(source, i * LANES)) for i in range(count)]
            for i, result in enumerate(function(lanes, vectors, args[3])):
                lanes.store(result, lanes.at(target, i * LANES))
            return context.get_dummy_value()

        return types.void(out, values, rows, types.float32), generate

    @kernel
    def one(out: Any, values: Any, scalar: Any) -> None:
        applied(out, values, 1, scalar)

    @kernel
    def two(out: Any, values: Any, scalar: Any) -> None:
        applied(out, values, 2, scalar)

    @kernel
    def three(out: Any, values: Any, scalar: Any) -> None:
        applied(out, values, 3, scalar)

    def call(*arrays: Any, results: int = 1, scalar: float = 0.0) -> np.ndarray:
        values = np.stack([np.resize(np.asarray(array, np.float32), LANES) for array in arrays])
        out = np.zeros((results, LANES), np.float32)
        kernels = one, two, three
        kernels[len(arrays) - 1](out.reshape(-1), values.reshape(-1), np.float32(scalar))
        return out

    return call

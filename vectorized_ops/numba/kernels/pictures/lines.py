"""How lines of floats are finished."""

from __future__ import annotations

from typing import Any

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.kernels.pictures.float_tiles import finished_tile
from vectorized_ops.numba.kernels.pictures.tiles import STEP


@kernel
def finished_line(
    out: Any,
    values: Any,
    means: Any,
    scales: Any,
    channels: int,
    colours: Any,
    is_coloured: bool,
    past: bool,
) -> None:
    """Write (v - mean) * scale of the values, M v + b in place of the pixel v if `is_coloured`.

    There are as many means and scales as values. `out` may be `values`.
    """
    size, steps = len(out), 0
    if channels == 3 or not is_coloured:
        steps = size // STEP
        finished_tile(out, 0, values, 0, means, 0, scales, steps, colours, is_coloured, past)
    for place in range(steps * STEP, size, channels):
        if is_coloured and channels == 3:
            red, green, blue = values[place], values[place + 1], values[place + 2]
            for c in range(3):
                mixed = colours[4 * c] * red + colours[4 * c + 1] * green
                mixed = mixed + colours[4 * c + 2] * blue + colours[4 * c + 3]
                out[place + c] = (mixed - means[place + c]) * scales[place + c]
        else:
            for i in range(place, place + channels):
                value = values[i]
                if is_coloured:
                    value = colours[0] * value + colours[1]
                out[i] = (value - means[i]) * scales[i]

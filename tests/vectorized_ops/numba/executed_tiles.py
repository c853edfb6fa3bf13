"""Convolutions by AMX's instructions on a processor without them, and the same emulated.

`executed_tiles.py LIBRARY FILE` executes the instructions by LIBRARY, see `tile_instructions.c`,
and writes results to FILE. Numba's settings are those of a processor with AMX.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

from vectorized_ops.numba.amx_convolution import AmxConvolution
from vectorized_ops.numba.compiling.compiler import target_has_amx
from vectorized_ops.shapes import ConvolutionShape

SHAPES = (
    ConvolutionShape(32, 5, 6, 8, 36, (3, 3), padding=(1, 1)),
    ConvolutionShape(16, 4, 4, 3, 5, (3, 3), (2, 2), (1, 1)),
    ConvolutionShape(48, 3, 2, 33, 40, (1, 1)),
    ConvolutionShape(20, 5, 4, 20, 49, (2, 1), (2, 1), (1, 2)),
    ConvolutionShape(16, 1, 1, 70, 33, (1, 1)),
    ConvolutionShape(64, 3, 3, 64, 64, (2, 2), groups=2),
)


def results(native: bool) -> list[np.ndarray]:
    """Of all shapes, in all directions."""
    from contracts.convolution import normal_operands
    from contracts.memory import ROUNDED, Memory, implementation

    place, found = Memory(implementation(ROUNDED)), []
    for shape in SHAPES:
        found += normal_operands(shape).results(AmxConvolution(shape, native), place)
    return found


if __name__ == "__main__":
    assert target_has_amx()
    sys.path.append(str(Path(__file__).parents[1]))
    library = ctypes.CDLL(sys.argv[1])
    library.execute_tile_instructions()
    np.savez(sys.argv[2], *results(native=True))
    assert ctypes.c_long.in_dll(library, "tile_products").value > 1000

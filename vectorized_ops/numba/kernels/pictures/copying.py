"""Parts of pictures that are copied to an image: cropped, flipped and normalised."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.compiling.tile_functions import call_tile
from vectorized_ops.numba.emit.raw_arrays import array_at
from vectorized_ops.numba.kernels.pictures.tiles import COPIED, SHORT_STEP, STEP

INTERLEAVED, REVERSED, PLANAR = 0, 1, 2
"""How the channels of a pixel lie: side by side, so but the last first, or a plane for each."""

FACTS: Final = 11
"""Of each picture: address, bytes from line to line and plane to plane, layout, height, width,
whether it is flipped, whether it is copied without resizing, the tile that copies it, and the first
line and column of its part."""


def tile_of(layout: int, width: int, channels: int) -> int:
    """The address of the tile that copies pictures of a layout to images so wide."""
    planar, backwards = (channels == 3 and layout == one for one in (PLANAR, REVERSED))
    step = SHORT_STEP if channels == 1 and width < STEP else STEP
    return COPIED.address(channels, int(planar), int(backwards), step)


@kernel
def copied_box(
    fact: Any, first: int, last: int, out: Any, width: int, channels: int, means: Any, scales: Any,
    past: bool,
) -> None:  # fmt: skip
    """Write lines `first` to before `last` of a part as large as the image; beyond it all is 0.

    Means and scales are those of a line.
    """
    distance, tall, wide, flipped, line = fact[1], fact[4], fact[5], fact[6] != 0, width * channels
    top, left = fact[9] + first, fact[10]
    above, lead = max(0, -top), max(0, -left)
    lines = min(last - first, tall - top) - above
    count = min(width, wide - left) - lead
    if lines < last - first or count < width:
        for y in range(last - first):
            for k in range(line):
                out[y * line + k] = (np.float32(0.0) - means[k]) * scales[k]
    if lines <= 0 or count <= 0:
        return
    pixel = 1 if fact[3] == PLANAR else channels
    begin = fact[0] + (top + above) * distance + (left + lead) * pixel
    target = above * line + (width - lead - count if flipped else lead) * channels
    is_whole = count == width
    if is_whole and not flipped and distance == width * pixel:
        lines, count = 1, lines * width  # one lies behind the other
    call_tile(
        fact[8], out, target, line, array_at(begin, 1, np.uint8), distance, fact[2], means, scales,
        lines, count, flipped, past and is_whole,
    )  # fmt: skip

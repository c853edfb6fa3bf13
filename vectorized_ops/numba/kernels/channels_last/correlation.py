"""Convolution of channels_last arrays as products of matrices that are never in memory as a whole.

A row of the left matrix are the values that one pixel of the result depends on, tap by tap and
channel by channel: a block of rows and steps is gathered into a thread's own cache. The right
matrix are the weights, packed into panels of LANES neighbouring results.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.compiling.tile_functions import call_tile
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.channels_last.panel_tiles import ROWS
from vectorized_ops.numba.kernels.convolution.destination import MASK
from vectorized_ops.numba.kernels.convolution.row_tiles import copy_tile, transpose_tile
from vectorized_ops.numba.kernels.convolution.winograd import CHANNELS_AT_ONCE, gather_taps

BLOCK_ROWS = 16 * ROWS
"""Rows that a thread gathers at a time: with all steps of a block they take a quarter megabyte."""

BLOCK_STEPS = 256
"""Steps that a thread gathers at a time."""

GATHERED_ROW = BLOCK_STEPS + 16
"""Floats from one gathered row to the next: at a power of two all would share few cache lines."""

SUMMED_ROWS = 128
"""Pixels whose products are summed up in registers for the gradient of the weights."""

SUMMED_STEPS = 19 * ROWS
"""Rows of the gradient of the weights that are in work together; they fit a gathered row."""

SUMMED_VECTORS = 16
"""Columns of it that are in work together."""


LOT_ROWS = 8 * SUMMED_ROWS
"""Rows that a thread sums up at a time: enough to be worth waking it."""


class Grid(NamedTuple):
    """Which pixels rows stand for: row (n, a, b) of `number` x `lines` x `pixels`.

    It sees pixel (a*step_y + dy, b*step_x + dx) of image n, of `height` x `width`, for a run's
    (dy, dx), and its result is pixel (first_y + a*apart_y, first_x + b*apart_x) of an image of
    `out_height` x `out_width`.
    """

    number: int
    lines: int
    pixels: int
    height: int
    width: int
    step_y: int
    step_x: int
    first_y: int
    first_x: int
    apart_y: int
    apart_x: int
    out_height: int
    out_width: int


class Tiles(NamedTuple):
    """Functions of tiles: whole ones of two columns and of one, and those of the last rows."""

    wide: int
    narrow: int
    last_wide: int
    last_narrow: int


@parallel_kernel
def pack_panels(
    weights: Any,
    out: Any,
    first: int,
    filters: int,
    channels: int,
    area: int,
    slots: Any,
    used: int,
    backward: bool,
    transpose_taps: int,
    scratch: Any,
) -> None:
    """Write weights (K, C, taps) of one group, from flat `first` on, as (vectors, steps, LANES).

    Step slots[tap] * channels + c is channel c of one of the `used` taps; others have slot -1. For
    backward-data `filters` and `channels` change roles. `scratch` is (vectors,
    CHANNELS_AT_ONCE * taps, LANES).
    """
    vectors = (filters + LANES - 1) // LANES
    given = weights[first : first + filters * channels * area]
    for vector in numba.prange(vectors):
        own = scratch[vector]
        flat = own.reshape(-1)
        begin = vector * LANES
        rows = min(LANES, filters - begin)
        for channel in range(0, channels, CHANNELS_AT_ONCE):
            number = min(CHANNELS_AT_ONCE, channels - channel)
            gather_taps(
                own, given, rows, filters, channels, begin, channel, number, backward, area,
                transpose_taps,
            )  # fmt: skip
            for c in range(number):
                for tap in range(area):
                    # gather_taps turns the taps of backward-data round
                    slot = slots[area - 1 - tap] if backward else slots[tap]
                    if slot >= 0:
                        step = (vector * used + slot) * channels + channel + c
                        copy_tile(out, step * LANES, flat, (c * area + tap) * LANES)


@kernel
def _gather(
    images: Any,
    distance: int,
    grid: Any,
    runs: Any,
    first: int,
    length: int,
    steps: int,
    ones: bool,
    top: int,
    rows: int,
    zeros: Any,
    out: Any,
) -> None:
    """Write steps first..first+length-1 of rows top..top+rows-1, GATHERED_ROW floats apart.

    A run (dy, dx, taps) are the steps of all channels of so many neighbouring pixels. Around the
    images are zeros, as behind the last of `steps`, but for a step of `ones` there.
    """
    taps, area = runs[0, 2], grid.lines * grid.pixels
    size, final = steps // len(runs), min(first + length, steps)
    channels = size // taps
    in_one_piece = taps == 1 or distance == channels
    first_run, first_skipped = first // size, first % size
    image, rest = top // area, top % area
    line, pixel = rest // grid.pixels, rest % grid.pixels
    for row in range(rows):
        run, skipped, place = first_run, first_skipped, row * GATHERED_ROW - first
        step = first
        while step < final:
            number = min(size - skipped, final - step)
            y, x = line * grid.step_y + runs[run, 0], pixel * grid.step_x + runs[run, 1]
            begin, inside = place + step, 0 <= y < grid.height
            source = ((image * grid.height + y) * grid.width + x) * distance
            if inside and x >= 0 and x + taps <= grid.width and in_one_piece:
                source += skipped
                for i in range(0, number - LANES + 1, LANES):
                    copy_tile(out, begin + i, images, source + i)
                if number >= LANES:
                    copy_tile(out, begin + number - LANES, images, source + number - LANES)
                else:
                    for i in range(number):
                        out[begin + i] = images[source + i]
            elif taps == 1 or not inside:
                for i in range(0, number - LANES + 1, LANES):
                    copy_tile(out, begin + i, zeros, 0)
                if number >= LANES:
                    copy_tile(out, begin + number - LANES, zeros, 0)
                else:
                    for i in range(number):
                        out[begin + i] = np.float32(0.0)
            else:
                tap, channel = skipped // channels, skipped % channels
                for i in range(number):
                    seen = 0 <= x + tap < grid.width
                    value = images[source + tap * distance + channel] if seen else np.float32(0.0)
                    out[begin + i] = value
                    channel += 1
                    if channel == channels:
                        tap, channel = tap + 1, 0
            step, run, skipped = step + number, run + 1, 0
        for behind in range(max(first, steps), first + length):
            is_one = ones and behind == steps
            out[place + behind] = np.float32(1.0) if is_one else np.float32(0.0)
        pixel += 1
        if pixel == grid.pixels:
            line, pixel = line + 1, 0
            if line == grid.lines:
                image, line = image + 1, 0


@parallel_kernel
def correlate(
    tiles: Any,
    images: Any,
    distance: int,
    grid: Any,
    runs: Any,
    near_rows: bool,
    panels: Any,
    steps: int,
    out: Any,
    out_distance: int,
    filters: int,
    start: Any,
    start_distance: int,
    mask: Any,
    mask_distance: int,
    way: int,
    by_rows: int,
    by_vectors: int,
    zeros: Any,
    gathered: Any,
) -> None:
    """Write the rows of a product where neighbouring rows are neighbouring pixels of `out`.

    Sums begin with `start`: a row for all (distance 0), or `out` itself. `gathered` is scratch,
    (threads, BLOCK_ROWS * GATHERED_ROW).
    """
    rows, vectors = grid.number * grid.lines * grid.pixels, (filters + LANES - 1) // LANES
    count = (rows + ROWS - 1) // ROWS
    for thread in numba.prange(by_rows * by_vectors):
        mine, column = thread // by_vectors, thread % by_vectors
        first, last = part(vectors, column, by_vectors), part(vectors, column + 1, by_vectors)
        own = gathered[thread]
        end = min(rows, part(count, mine + 1, by_rows) * ROWS)
        for top in range(part(count, mine, by_rows) * ROWS, end, BLOCK_ROWS):
            number = min(BLOCK_ROWS, end - top)
            for step in range(0, steps, BLOCK_STEPS):
                length = min(BLOCK_STEPS, steps - step)
                _gather(
                    images, distance, grid, runs, step, length, steps, False, top, number, zeros,
                    own,
                )  # fmt: skip
                asks = near_rows and distance == length  # for what lies behind these rows
                for vector in range(first, last, 2):
                    tail = min(LANES, filters - min(vector + 1, last - 1) * LANES)
                    for row in range(0, number, ROWS):
                        whole = row + ROWS <= number
                        if vector + 1 < last:
                            tile = tiles.wide if whole else tiles.last_wide
                        else:
                            tile = tiles.narrow if whole else tiles.last_narrow
                        place = vector * LANES
                        target = (top + row) * out_distance + place
                        begin = (top + row) * start_distance + place
                        call_tile(
                            tile, out, target, out_distance,
                            start if step == 0 else out,
                            begin if step == 0 else target,
                            start_distance if step == 0 else out_distance,
                            mask, (top + row) * mask_distance + place, mask_distance,
                            way if step + length == steps else 0,
                            own, row * GATHERED_ROW, GATHERED_ROW, 1,
                            panels, (vector * steps + step) * LANES, LANES, steps * LANES, length,
                            tail, images,
                            (top + BLOCK_ROWS + row) * distance if asks else 0,
                            LANES if asks and vector == first else 0,
                        )  # fmt: skip
        finish_stores()


@parallel_kernel
def scatter(
    results: Any,
    grid: Any,
    channels: int,
    out: Any,
    out_distance: int,
    mask: Any,
    mask_distance: int,
    add: bool,
    way: int,
    threads: int,
) -> None:
    """Write rows of results (rows, channels), zeros if there are none, to their pixels of `out`.

    Or add them; `way` may be MASK.
    """
    rows, area = grid.number * grid.lines * grid.pixels, grid.lines * grid.pixels
    for thread in numba.prange(threads):
        for row in range(part(rows, thread, threads), part(rows, thread + 1, threads)):
            image, rest = row // area, row % area
            y = grid.first_y + rest // grid.pixels * grid.apart_y
            x = grid.first_x + rest % grid.pixels * grid.apart_x
            pixel = (image * grid.out_height + y) * grid.out_width + x
            target = out[pixel * out_distance : pixel * out_distance + channels]
            passed = mask[pixel * mask_distance : pixel * mask_distance + channels]
            for i in range(channels):
                value = results[row * channels + i] if len(results) else np.float32(0.0)
                if add:
                    value += target[i]
                target[i] = np.float32(0.0) if way & MASK and passed[i] <= 0 else value


@parallel_kernel
def sum_weights(
    tiles: Any,
    images: Any,
    distance: int,
    grid: Any,
    runs: Any,
    steps: int,
    gradient: Any,
    gradient_distance: int,
    filters: int,
    ones: bool,
    near_rows: bool,
    sums: Any,
    by_rows: int,
    by_steps: int,
    by_vectors: int,
    zeros: Any,
    gathered: Any,
    panels: Any,
) -> None:
    """Write the sums over rows of steps x gradient: (by_rows, steps', vectors * LANES).

    steps' are whole tiles; with `ones` a step behind the last is 1 in all rows. With `near_rows`
    the pixels of `images` are the rows. Scratch: gathered (threads, SUMMED_ROWS * GATHERED_ROW),
    panels (threads, SUMMED_VECTORS * SUMMED_ROWS * LANES).
    """
    rows, vectors = grid.number * grid.lines * grid.pixels, (filters + LANES - 1) // LANES
    width, count = vectors * LANES, (steps + ones + ROWS - 1) // ROWS
    for thread in numba.prange(by_rows * by_steps * by_vectors):
        share, column = thread // by_vectors, thread % by_vectors
        mine, lot = share % by_steps, share // by_steps
        first, last = part(vectors, column, by_vectors), part(vectors, column + 1, by_vectors)
        begin, end = part(count, mine, by_steps) * ROWS, part(count, mine + 1, by_steps) * ROWS
        first_row, last_row = part(rows, lot, by_rows), part(rows, lot + 1, by_rows)
        shift = lot * count * ROWS * width
        own, packed = gathered[thread], panels[thread]
        for step in range(begin, end):
            place = shift + step * width
            sums[place + first * LANES : place + last * LANES] = np.float32(0.0)
        for step in range(begin, end, SUMMED_STEPS):
            length = min(SUMMED_STEPS, end - step)
            for vector in range(first, last, SUMMED_VECTORS):
                number = min(SUMMED_VECTORS, last - vector)
                for top in range(first_row, last_row, SUMMED_ROWS):
                    height = min(SUMMED_ROWS, last_row - top)
                    # Images are rows themselves where there is no step of ones among these, and
                    # where memory goes on behind a last row of fewer steps than a tile reads.
                    behind = (top + height - 1) * distance + step + length
                    in_place = near_rows and (
                        step + length <= steps or (not ones and behind <= len(images))
                    )
                    if not in_place:
                        _gather(
                            images, distance, grid, runs, step, length, steps, ones, top, height,
                            zeros, own,
                        )  # fmt: skip
                    source, place, apart = own, 0, GATHERED_ROW
                    if in_place:
                        source, place, apart = images, top * distance + step, distance
                    _pack_rows(
                        gradient, gradient_distance, filters, top, height, vector, number, packed
                    )
                    for row in range(0, length, ROWS):
                        for near in range(0, number, 2):
                            tile = tiles.wide if near + 1 < number else tiles.narrow
                            target = shift + (step + row) * width + (vector + near) * LANES
                            # Tiles ask for the next rows: the first one of a line for those of
                            # the images, the others of the first line for the gradient's.
                            below = top + SUMMED_ROWS
                            coming, asked, apart_there = gradient, 0, 0
                            if near == 0 and near_rows:
                                coming, apart_there = images, distance
                                asked = below * distance + step + row
                            elif row < 2 * ROWS:
                                asked = below * gradient_distance
                                asked += (vector + near + row // ROWS) * LANES
                                apart_there = gradient_distance
                            call_tile(
                                tile, sums, target, width, sums, target, width, sums, target, width,
                                0, source, place + row, 1, apart, packed,
                                near * SUMMED_ROWS * LANES, LANES, SUMMED_ROWS * LANES, height,
                                LANES, coming, asked, apart_there,
                            )  # fmt: skip


@kernel
def _pack_rows(
    gradient: Any,
    distance: int,
    filters: int,
    top: int,
    rows: int,
    vector: int,
    number: int,
    out: Any,
) -> None:
    """Write `number` vectors of some rows as panels, SUMMED_ROWS vectors each."""
    whole = min(number, filters // LANES - vector)
    for row in range(rows):
        place = (top + row) * distance + vector * LANES
        for near in range(whole):
            copy_tile(out, (near * SUMMED_ROWS + row) * LANES, gradient, place + near * LANES)
        if whole < number:
            target = (whole * SUMMED_ROWS + row) * LANES
            for i in range(LANES):
                inside = (vector + whole) * LANES + i < filters
                out[target + i] = gradient[place + whole * LANES + i] if inside else np.float32(0.0)


@parallel_kernel
def deliver_weights(
    sums: Any,
    filters: int,
    channels: int,
    area: int,
    out: Any,
    first: int,
    scratch: Any,
) -> None:
    """Write sums (steps, vectors * LANES) as weights (K, C, taps), flat, from `first` on.

    `scratch` is (vectors, LANES * LANES).
    """
    vectors, size = (filters + LANES - 1) // LANES, channels * area
    width = vectors * LANES
    for vector in numba.prange(vectors):
        own = scratch[vector]
        rows = min(LANES, filters - vector * LANES)
        for begin in range(0, size, LANES):
            number = min(LANES, size - begin)
            for i in range(number):
                channel, tap = (begin + i) // area, (begin + i) % area
                step = tap * channels + channel
                copy_tile(own, i * LANES, sums, step * width + vector * LANES)
            target = first + vector * LANES * size + begin
            if rows == LANES and number == LANES:
                transpose_tile(out, target, size, own, 0, LANES)
            else:
                for row in range(rows):
                    for i in range(number):
                        out[target + row * size + i] = own[i * LANES + row]


@parallel_kernel
def add_lots(sums: Any, lots: int, size: int, threads: int) -> None:
    """Add to the first `size` of the sums those of the other lots."""
    for thread in numba.prange(threads):
        first, last = part(size, thread, threads), part(size, thread + 1, threads)
        for lot in range(1, lots):
            target, source = sums[first:last], sums[lot * size + first : lot * size + last]
            for i in range(last - first):
                target[i] += source[i]


@kernel
def bias_of(sums: Any, steps: int, width: int, out: Any) -> None:
    """Write the sums of the step of ones, which is behind the last of `steps`."""
    for i in range(len(out)):
        out[i] = sums[steps * width + i]


@parallel_kernel
def sum_rows(
    wide: int,
    narrow: int,
    one: Any,
    values: Any,
    distance: int,
    rows: int,
    zeros: Any,
    sums: Any,
    out: Any,
) -> None:
    """Write the sums of rows, of whole vectors, by tiles of one row, of two columns and of one.

    `sums` is scratch, (lots, len(out)): threads sum up one lot of LOT_ROWS after another.
    """
    lots, size = sums.shape
    for lot in numba.prange(lots):
        own, first, last = sums[lot], lot * LOT_ROWS, min(rows, (lot + 1) * LOT_ROWS)
        own[:] = np.float32(0.0)
        for top in range(first, last, SUMMED_ROWS):
            number = min(SUMMED_ROWS, last - top)
            for column in range(0, size, 2 * LANES):
                tile = wide if column + 2 * LANES <= size else narrow
                call_tile(
                    tile, own, column, 0, own, column, 0, zeros, 0, 0, 0, one, 0, 0, 0, values,
                    top * distance + column, distance, LANES, number, LANES, values, 0, 0,
                )  # fmt: skip
    out[:] = np.float32(0.0)
    for share in range(lots):
        for i in range(size):
            out[i] += sums[share, i]

"""Operations on the bytes of one picture, whose values lie one after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.reference.picture_operations import GREY, ONE, Kind

_RED, _GREEN, _BLUE = GREY
_HALF = ONE // 2
_BRIGHTNESS, _CONTRAST = int(Kind.BRIGHTNESS), int(Kind.CONTRAST)
_POSTERIZE, _SOLARIZE, _AUTOCONTRAST = (
    int(each) for each in (Kind.POSTERIZE, Kind.SOLARIZE, Kind.AUTOCONTRAST)
)


@kernel
def moved(picture: Any, numbers: Any, height: int, width: int, channels: int, out: Any) -> None:
    """Write each pixel of `out` as the one in which its place, mapped by six numbers, lies."""
    across_x, across_y, size = numbers[0], numbers[3], width * channels
    for y in range(height):
        column = numbers[1] * y + numbers[2]
        line = numbers[4] * y + numbers[5]
        target = out[y * size :][:size]
        for x in range(width):
            from_x, from_y = column >> 16, line >> 16
            column += across_x
            line += across_y
            if from_x < 0 or from_x >= width or from_y < 0 or from_y >= height:
                for c in range(channels):
                    target[x * channels + c] = np.uint8(0)
                continue
            begin = (from_y * width + from_x) * channels
            if channels == 3:
                target[3 * x] = picture[begin]
                target[3 * x + 1] = picture[begin + 1]
                target[3 * x + 2] = picture[begin + 2]
            else:
                target[x] = picture[begin]


@kernel
def towards(value: int, other: int, share: int) -> int:
    """A value times its share and another one times the rest, rounded, of 0 to 255."""
    return min(max((value * share + other * (ONE - share) + _HALF) >> 16, 0), 255)


@kernel
def grey_of(picture: Any, begin: int) -> int:
    """The grey of the pixel whose red lies at `begin`."""
    red, green, blue = int(picture[begin]), int(picture[begin + 1]), int(picture[begin + 2])
    return (red * _RED + green * _GREEN + blue * _BLUE + _HALF) >> 16


@kernel
def saturated(picture: Any, share: int) -> None:
    """Mix each pixel with its grey."""
    for begin in range(0, len(picture), 3):
        grey = grey_of(picture, begin)
        for c in range(3):
            picture[begin + c] = np.uint8(towards(int(picture[begin + c]), grey, share))


@kernel
def sharpened(picture: Any, share: int, height: int, width: int, channels: int, out: Any) -> None:
    """Write each value mixed with the mean of those around it; `out` has the edges already."""
    line = width * channels
    for y in range(1, height - 1):
        for k in range(y * line + channels, (y + 1) * line - channels):
            total = 4 * int(picture[k])
            for begin in (k - line, k, k + line):
                total += int(picture[begin - channels]) + int(picture[begin])
                total += int(picture[begin + channels])
            out[k] = np.uint8(towards(int(picture[k]), (2 * total + 13) // 26, share))


@kernel
def write_tables(
    picture: Any, kind: int, number: int, channels: int, counts: Any, tables: Any
) -> None:
    """Write what each value becomes, 256 for each channel; `counts` is scratch as large."""
    mean = 0
    if kind == _CONTRAST:
        mean = mean_grey(picture, channels)
    elif kind >= _AUTOCONTRAST:
        for k in range(len(counts)):
            counts[k] = 0
        for begin in range(0, len(picture), channels):
            for c in range(channels):
                counts[c * 256 + picture[begin + c]] += 1
    for c in range(channels):
        own, table = counts[c * 256 :][:256], tables[c * 256 :][:256]
        if kind in (_BRIGHTNESS, _CONTRAST):
            for v in range(256):
                table[v] = np.uint8(towards(v, mean, number))
        elif kind == _POSTERIZE:
            for v in range(256):
                table[v] = np.uint8(v & number)
        elif kind == _SOLARIZE:
            for v in range(256):
                table[v] = np.uint8(v if v < number else 255 - v)
        else:
            _by_counts(kind, own, table)


@kernel
def _by_counts(kind: int, counts: Any, table: Any) -> None:
    low, high, total = 256, 0, 0
    for v in range(256):
        if counts[v] > 0:
            low, high = min(low, v), v
        total += counts[v]
    step = (total - counts[high]) // 255
    before = step // 2
    for v in range(256):
        found = v
        if kind == _AUTOCONTRAST:
            if low < high:
                found = min(max((v - low) * 255 // (high - low), 0), 255)
        elif step > 0:
            found = min(before // step, 255)
        before += counts[v]
        table[v] = np.uint8(found)


@kernel
def mean_grey(picture: Any, channels: int) -> int:
    """The mean grey of all pixels, rounded."""
    total, pixels = 0, len(picture) // channels
    for begin in range(0, len(picture), channels):
        total += int(picture[begin]) if channels == 1 else grey_of(picture, begin)
    return (2 * total + pixels) // (2 * pixels)


@kernel
def through_tables(picture: Any, tables: Any, channels: int) -> None:
    """Change each value to what its channel's table has for it."""
    if channels == 1:
        for k in range(len(picture)):
            picture[k] = tables[picture[k]]
        return
    red, green, blue = tables[:256], tables[256:], tables[512:]
    for begin in range(0, len(picture), 3):
        picture[begin] = red[picture[begin]]
        picture[begin + 1] = green[picture[begin + 1]]
        picture[begin + 2] = blue[picture[begin + 2]]

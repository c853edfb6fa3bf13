"""The k values of a vector that are largest by magnitude, found in O(n), compiled by Numba.

Results are those of ``vectorized_ops.reference.top_k``, to the same bits. Nothing is sorted: the
k-th magnitude is found by counting, bit by bit from the highest. A sample first gives a bound, so
that most values are read once. Where the bound is wrong, all values are counted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import FloatArray
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.raw_arrays import contiguous, stack_vector
from vectorized_ops.reference import top_k as reference

BitArray = npt.NDArray[np.int32]

_BLOCK = 1024
_SAMPLED = 16
"""Neighbours of each block that are in the sample: a cache line."""
_MAGNITUDE = np.int32(reference.MAGNITUDE_BITS)
_UPPER, _LOWER = 20, 10
"""Where the 31 bits of a magnitude are cut: counted are the upper 11, then 10, then 10."""
_BINS = 1 << (31 - _UPPER)


def candidates_for(count: int) -> int:
    """Return how much scratch memory `encode_largest` can use: places, and what is there."""
    return 2 * reference.candidates_for(count)


@kernel
def encode_largest(
    values: FloatArray,
    residual: FloatArray,
    places: BitArray,
    chosen: FloatArray,
    candidates: BitArray,
) -> None:
    """As ``vectorized_ops.reference.top_k.encode_largest``; 12 bytes of traffic per value.

    Raises ValueError for shapes that do not fit.
    """
    if values.shape[0] != residual.shape[0]:
        raise ValueError("values and residual must have the same length")
    if places.shape[0] != chosen.shape[0] or not 1 <= places.shape[0] <= values.shape[0]:
        raise ValueError("places and chosen must have the same length, from 1 to that of values")
    given, rest = contiguous(values), contiguous(residual)
    counts, wanted = stack_vector(_BINS, np.int64), places.shape[0]
    bound = _bound(given, rest, wanted, counts)
    room = candidates.shape[0] // 2
    found = _add_and_collect(given, rest, bound, candidates[:room])
    if wanted <= found <= room:
        own = candidates[room : room + found]
        _take_candidates(rest, candidates[:found], own, places, chosen, counts)
    else:
        _take_of_all(rest, places, chosen, counts)


@kernel
def _bound(values: FloatArray, rest: FloatArray, wanted: int, counts: npt.NDArray[np.int64]) -> int:
    """Return a magnitude that, by a sample of the sums, somewhat more than ``wanted`` exceed."""
    sums = stack_vector(_SAMPLED, np.float32)
    counts[:] = 0
    for begin in range(0, rest.shape[0], _BLOCK):
        mine, given = rest[begin : begin + _SAMPLED], values[begin : begin + _SAMPLED]
        for i in range(mine.shape[0]):
            sums[i] = mine[i] + given[i]
        bits = sums.view(np.int32)
        for i in range(mine.shape[0]):
            counts[(bits[i] & _MAGNITUDE) >> _UPPER] += 1
    share = wanted * _SAMPLED / _BLOCK
    most = counts.sum()
    digit, _ = _pick(counts, min(most, int(1.25 * share + 4 * np.sqrt(share)) + 1))
    return digit << _UPPER


@kernel
def _add_and_collect(values: FloatArray, rest: FloatArray, bound: int, candidates: BitArray) -> int:
    """Add ``values`` to ``rest``; return how many sums are ``bound`` or more.

    Their places go to ``candidates``; a number larger than these means that there was no room.
    """
    found, least = 0, np.int32(bound)
    for begin in range(0, rest.shape[0], _BLOCK):
        mine, given = rest[begin : begin + _BLOCK], values[begin : begin + _BLOCK]
        for i in range(mine.shape[0]):
            mine[i] += given[i]
        if found + mine.shape[0] > candidates.shape[0]:
            found = candidates.shape[0] + 1
            continue
        bits = mine.view(np.int32)
        for i in range(bits.shape[0]):
            candidates[found] = begin + i
            found += np.int64(np.int32(bits[i] & _MAGNITUDE) >= least)
    return found


@kernel
def _take_candidates(
    rest: FloatArray,
    candidates: BitArray,
    own: BitArray,
    places: BitArray,
    chosen: FloatArray,
    counts: npt.NDArray[np.int64],
) -> None:
    """Move the largest out of ``rest``, which are among the ``candidates``: ``own`` gets theirs."""
    bits = rest.view(np.int32)
    for i in range(own.shape[0]):
        own[i] = bits[candidates[i]]
    least, equal = _least(own, places.shape[0], counts)
    found = 0
    for i in range(own.shape[0]):
        magnitude, place = own[i] & _MAGNITUDE, candidates[i]
        if magnitude > least or (magnitude == least and equal > 0):
            equal -= magnitude == least
            places[found], chosen[found] = place, rest[place]
            rest[place] = 0
            found += 1


@kernel
def _take_of_all(
    rest: FloatArray, places: BitArray, chosen: FloatArray, counts: npt.NDArray[np.int64]
) -> None:
    """Move the largest out of ``rest``."""
    bits, found = rest.view(np.int32), 0
    least, equal = _least(bits, places.shape[0], counts)
    for i in range(rest.shape[0]):
        magnitude = bits[i] & _MAGNITUDE
        if magnitude > least or (magnitude == least and equal > 0):
            equal -= magnitude == least
            places[found], chosen[found] = i, rest[i]
            rest[i] = 0
            found += 1


@kernel
def _least(bits: BitArray, wanted: int, counts: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Return the magnitude of place ``wanted`` from above, and how many of just that to take."""
    counts[:] = 0
    for i in range(bits.shape[0]):
        counts[(bits[i] & _MAGNITUDE) >> _UPPER] += 1
    prefix, wanted = _pick(counts, wanted)
    for shift in (_LOWER, 0):
        counts[:] = 0
        for i in range(bits.shape[0]):
            magnitude = bits[i] & _MAGNITUDE
            if magnitude >> (shift + _LOWER) == prefix:
                counts[(magnitude >> shift) & ((1 << _LOWER) - 1)] += 1
        digit, wanted = _pick(counts, wanted)
        prefix = (prefix << _LOWER) | digit
    return prefix, wanted


@kernel
def _pick(counts: npt.NDArray[np.int64], wanted: int) -> tuple[int, int]:
    """Return which bin, from above, holds the one that is ``wanted``, and its place in the bin."""
    digit = counts.shape[0] - 1
    while counts[digit] < wanted:
        wanted -= counts[digit]
        digit -= 1
    return digit, wanted


@kernel
def add_largest(places: BitArray, chosen: FloatArray, total: FloatArray) -> None:
    """As ``vectorized_ops.reference.top_k.add_largest``; only what is added to is touched.

    Raises ValueError for shapes that do not fit, or a place outside of ``total``.
    """
    if places.shape[0] != chosen.shape[0]:
        raise ValueError("places and chosen must have the same length")
    for i in range(places.shape[0]):
        if not 0 <= places[i] < total.shape[0]:
            raise ValueError("a place is not in total")
        total[places[i]] += chosen[i]

"""The kernels of operations that compute: all-reduce, reduce and reduce-scatter."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from knltrain.communication.collectives.kernel_barrier import (
    MISMATCH,
    Addresses,
    Seat,
    announce,
    copy_bytes,
    half,
    is_common,
    meet,
)
from knltrain.communication.collectives.stripes import all_reduce_by_stripes
from knltrain.communication.shared_memory.atomics import Words
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.reduction import reduction
from vectorized_ops.reference.reduction import STORED


class ReducingKernels(NamedTuple):
    """The kernels for one kind of elements: see `reduce_pieces` and `all_reduce_by_stripes`."""

    pieces: Callable[..., int]
    stripes: Callable[..., int]


@functools.cache
def reducing_kernels(kind: str) -> ReducingKernels:
    """Compile the kernels for elements of ``kind``, a key of ``STORED``."""
    return ReducingKernels(_reduce_pieces(kind), all_reduce_by_stripes(kind))


def _reduce_pieces(kind: str) -> Callable[..., int]:
    combine, item_bytes = reduction(kind), STORED[kind].itemsize

    @kernel
    def reduce_pieces(
        words: Words,
        seat: Seat,
        base: int,
        first: int,
        steps: int,
        call: int,
        piece: int,
        count: int,
        sources: Addresses,
        own: int,
        target: int,
        place: int,
        operation: int,
    ) -> int:
        """Reduce ``count`` elements at ``own`` and those of the others to ``target``.

        Works as `copying.move`, with ``sources`` (k,) of ``count`` elements each, in pieces of
        ``piece`` elements. An address of 0 means that there is none. The own vector is not copied.
        """
        rank, ranks, piece_bytes = seat[0], seat[1], piece * item_bytes
        rows = seat[3:]
        for step in range(first, steps):
            if step == 0:
                announce(words, seat, base, call)
            elif step == 1 and not is_common(words, seat, base, call):
                return MISMATCH
            mine = half(seat, rank, base + step)
            begin = step * piece
            size = min(piece, count - begin) * item_bytes
            for turn in range(1, sources.shape[0] + 1):
                number = (rank + turn) % sources.shape[0]
                if sources[number] != 0 and size > 0:
                    source = sources[number] + begin * item_bytes
                    copy_bytes(mine + number * piece_bytes, source, size)
            if step > 0 and target != 0:
                before = (begin - piece) * item_bytes
                for other in range(ranks):
                    rows[other] = half(seat, other, base + step - 1) + place * piece_bytes
                rows[rank] = own + before
                combine(target + before, rows, 0, min(piece, count - begin + piece), operation)
            if step < steps - 1 and not meet(words, seat, base, step):
                return step + 1
        return steps

    return reduce_pieces

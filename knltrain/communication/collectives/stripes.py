"""The kernel of all-reduce for long vectors: every rank reduces a stripe of them for all."""

from __future__ import annotations

from collections.abc import Callable

from knltrain.communication.collectives.kernel_barrier import (
    MISMATCH,
    Seat,
    announce,
    copy_bytes,
    half,
    is_common,
    meet,
)
from knltrain.communication.shared_memory.atomics import Words
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.reduction import reduction
from vectorized_ops.reference.reduction import STORED

Stripe = Callable[[int, int, int, int, int], tuple[int, int, int]]
"""stripe(number, piece, count, rank, ranks): see `stripe_of`."""

_LINE_BYTES = 64


def all_reduce_by_stripes(kind: str) -> Callable[..., int]:
    """Return the kernel for elements of ``kind``, a key of ``STORED``."""
    stripe = stripe_of(STORED[kind].itemsize)
    hand_over, reduce_own, collect = _hand_over(stripe), _reduce_own(stripe, kind), _collect(stripe)

    @kernel
    def all_reduce_by_stripes(
        words: Words,
        seat: Seat,
        base: int,
        first: int,
        steps: int,
        call: int,
        piece: int,
        count: int,
        address: int,
        operation: int,
    ) -> int:
        """Reduce ``count`` elements at ``address`` in place, every rank a stripe of each piece.

        Step t writes piece t to the slot, reduces piece t − 1 and collects piece t − 2. The
        operation takes one sequence number more than it has steps: the half that is read last is
        then not the next to be written.
        """
        for step in range(first, steps):
            if step == 0:
                announce(words, seat, base, call)
            elif step == 1 and not is_common(words, seat, base, call):
                return MISMATCH
            if step < steps - 2:
                hand_over(seat, base, step, piece, count, address)
            if 0 < step < steps - 1:
                reduce_own(seat, base, step - 1, piece, count, address, operation)
            if step > 1:
                collect(seat, base, step - 2, piece, count, address)
            if step < steps - 1 and not meet(words, seat, base, step):
                return step + 1
        return steps

    return all_reduce_by_stripes


def stripe_of(item_bytes: int) -> Stripe:
    """Return the kernel that says which bytes of piece ``number`` a rank reduces.

    A vector of ``count`` elements is cut into pieces of ``piece`` elements. Returns the rank's
    first byte in a slot, its first byte in the vector, and how many bytes it has.
    """
    line = _LINE_BYTES // item_bytes

    @kernel
    def stripe(number: int, piece: int, count: int, rank: int, ranks: int) -> tuple[int, int, int]:
        # The last piece, of `size` elements, is cut as a whole one is. Otherwise a rank would write
        # where another still reads the piece before.
        size = min(piece, count - number * piece)
        lines = (piece + line - 1) // line
        begin = min(lines * rank // ranks * line, size)
        end = min(lines * (rank + 1) // ranks * line, size)
        in_vector = (number * piece + begin) * item_bytes
        return begin * item_bytes, in_vector, (end - begin) * item_bytes

    return stripe


def _hand_over(stripe: Stripe) -> Callable[..., None]:
    @kernel
    def hand_over(seat: Seat, base: int, number: int, piece: int, count: int, address: int) -> None:
        """Copy the stripes of a piece that the others reduce to this rank's slot."""
        rank, ranks = seat[0], seat[1]
        mine = half(seat, rank, base + number)
        for turn in range(1, ranks):
            in_slot, at, bytes_ = stripe(number, piece, count, (rank + turn) % ranks, ranks)
            copy_bytes(mine + in_slot, address + at, bytes_)

    return hand_over


def _reduce_own(stripe: Stripe, kind: str) -> Callable[..., None]:
    combine, item_bytes = reduction(kind), STORED[kind].itemsize

    @kernel
    def reduce_own(
        seat: Seat, base: int, number: int, piece: int, count: int, address: int, operation: int
    ) -> None:
        """Reduce this rank's stripe of a piece, and write the result to its slot."""
        rank, ranks = seat[0], seat[1]
        in_slot, at, bytes_ = stripe(number, piece, count, rank, ranks)
        rows = seat[3:]
        for other in range(ranks):
            rows[other] = half(seat, other, base + number) + in_slot
        rows[rank] = address + at
        combine(address + at, rows, 0, bytes_ // item_bytes, operation)
        copy_bytes(half(seat, rank, base + number) + in_slot, address + at, bytes_)

    return reduce_own


def _collect(stripe: Stripe) -> Callable[..., None]:
    @kernel
    def collect(seat: Seat, base: int, number: int, piece: int, count: int, address: int) -> None:
        """Copy the stripes of a piece that the others have reduced to the vector."""
        rank, ranks = seat[0], seat[1]
        for turn in range(1, ranks):
            other = (rank + turn) % ranks
            in_slot, at, bytes_ = stripe(number, piece, count, other, ranks)
            copy_bytes(address + at, half(seat, other, base + number) + in_slot, bytes_)

    return collect

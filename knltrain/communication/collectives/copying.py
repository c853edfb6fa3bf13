"""The kernel of all operations that only copy bytes: broadcast, gather, scatter, all-to-all."""

from __future__ import annotations

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
from knltrain.communication.shared_memory.atomics import Words
from vectorized_ops.numba.compiling.compiler import kernel


@kernel
def move(
    words: Words,
    seat: Seat,
    base: int,
    first: int,
    steps: int,
    call: int,
    piece_bytes: int,
    sources: Addresses,
    source_bytes: Addresses,
    targets: Addresses,
    target_bytes: Addresses,
    place: int,
    own: int,
) -> int:
    """Copy memory between ranks in pieces of ``piece_bytes``.

    Writes the ``sources`` (k,) to k places of this rank's slot. Reads what is at ``place`` in the
    slots of the others to ``targets`` (P,). A size of 0 bytes means that nothing is copied. With
    k = 1 all readers get the same; with k = P each has a place of its own. Step t writes piece t
    and reads piece t − 1, which the others wrote before the barrier with sequence number
    ``base`` + t. The part of this rank for itself is copied from ``own``.

    Returns ``steps`` when done, the step to go on with if others do not come, or MISMATCH.
    """
    rank, ranks = seat[0], seat[1]
    for step in range(first, steps):
        if step == 0:
            announce(words, seat, base, call)
            if target_bytes[rank] > 0 and targets[rank] != own:
                copy_bytes(targets[rank], own, target_bytes[rank])
        elif step == 1 and not is_common(words, seat, base, call):
            return MISMATCH
        begin = step * piece_bytes
        mine = half(seat, rank, base + step)
        for turn in range(1, sources.shape[0] + 1):
            number = (rank + turn) % sources.shape[0]
            size = min(piece_bytes, source_bytes[number] - begin)
            if size > 0 and (number != rank or sources.shape[0] != ranks):
                copy_bytes(mine + number * piece_bytes, sources[number] + begin, size)
        before = begin - piece_bytes
        for turn in range(1, ranks):
            other = (rank + turn) % ranks
            size = min(piece_bytes, target_bytes[other] - before)
            if step > 0 and size > 0:
                theirs = half(seat, other, base + step - 1) + place * piece_bytes
                copy_bytes(targets[other] + before, theirs, size)
        if step < steps - 1 and not meet(words, seat, base, step):
            return step + 1
    return steps

"""How vectors are cut for an exchange between nodes, and how many bytes each node sends."""

from __future__ import annotations

from collections.abc import Iterator

from knltrain.communication.internode.wire.wire_format import CenterFormats, WireFormat

_FLOAT_BYTES = 4
_PIECE_FLOATS = 256
"""Pieces are whole blocks of int8 and float4, and begin at a cache line."""


def piece_floats(size: int, nodes: int) -> int:
    """Return the length of the pieces that a vector is cut into, one for each node."""
    each = -(-size // nodes)
    return min(size, -(-each // _PIECE_FLOATS) * _PIECE_FLOATS)


def pieces(size: int, nodes: int) -> Iterator[slice]:
    """Cut a vector into a piece for each node; the last ones may be shorter, or empty."""
    each = piece_floats(size, nodes)
    for node in range(nodes):
        yield slice(min(node * each, size), min((node + 1) * each, size))


def goes_at_once(nodes: int) -> bool:
    """Tell whether every node sends the whole vector to all others, not pieces to their owners.

    Between two nodes both ways send as many bytes, and the whole vector needs one message less.
    """
    return nodes <= 2


def sent_bytes(wire_format: WireFormat | None, size: int, nodes: int) -> int:
    """Return how many bytes a node sends in an exchange of ``size`` values; None is float32.

    For float32 it is 2 (P − 1) / P of the vector, the least that an all-reduce needs.
    """
    if wire_format is None:
        return 2 * (nodes - 1) * _FLOAT_BYTES * size // nodes
    if goes_at_once(nodes):
        return (nodes - 1) * wire_format.bytes_for(size)
    return 2 * (nodes - 1) * wire_format.bytes_for(piece_floats(size, nodes))


def visit_bytes(formats: CenterFormats | None, size: int, nodes: int) -> tuple[int, int]:
    """Return the bytes of a visit that reads ``size`` values once and adds to them: all, and read.

    The center is cut into equal shards, one at each node; the own one takes none. None is float32.
    """
    if formats is None:
        both = sent_bytes(None, size, nodes)
        return both, both // 2
    shard = -(-size // nodes)
    read, added = ((nodes - 1) * each.bytes_for(shard) for each in (formats.read, formats.added))
    return read + added, read

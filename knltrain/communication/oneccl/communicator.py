"""One rank of a communicator of oneCCL: operations on memory given by address."""

from __future__ import annotations

import ctypes
from typing import final

from knltrain.communication.oneccl.library import library
from knltrain.errors import CollectiveError
from vectorized_ops.reference.reduction import MAX, MIN, PRODUCT, SUM

ID_BYTES = 4096

KINDS = {
    "int8": 0,
    "uint8": 1,
    "int32": 2,
    "int64": 4,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
}
"""Kinds of elements that oneCCL supports, with its numbers."""

OPERATIONS = {SUM: 0, PRODUCT: 1, MAX: 2, MIN: 3}
"""Reductions that oneCCL supports on a CPU. Their order depends on the count and the ranks.
Reductions to all ranks give all the same bits, except MAX and MIN if there are NaNs."""

_BYTES = KINDS["uint8"]


class _UniqueId(ctypes.Structure):
    """oneCCL's id of a communicator, passed by value."""

    _fields_ = [("bytes", ctypes.c_char * ID_BYTES)]


def unique_id() -> bytes:
    """Return an id by which the ranks of a communicator find each other; one of them calls this.

    Raises CollectiveError as `Communicator` does.
    """
    made = _UniqueId()
    _call("onecclGetUniqueId", ctypes.byref(made))
    return ctypes.string_at(ctypes.byref(made), ID_BYTES)


@final
class Communicator:
    """Rank ``rank`` of ``ranks`` processes that call the same operations in the same order.

    Every operation blocks, without the GIL, until this rank's part is done: for ever if a peer is
    missing. A process may be in several communicators, but use one at a time. Their resources are
    freed only at its end, since destroying a communicator waits for all ranks to do so. Raises
    CollectiveError if the library cannot be loaded or fails, with the function's name and code.
    """

    def __init__(self, rank: int, ranks: int, common_id: bytes) -> None:
        if not 0 <= rank < ranks:  # oneCCL would wait for ever
            raise CollectiveError(f"rank {rank} of {ranks}: expected one of 0 to {ranks - 1}")
        self.rank, self.ranks = rank, ranks
        self._communicator = ctypes.c_void_p()
        _call(
            "onecclCommInitRank",
            ctypes.byref(self._communicator),
            ctypes.c_int(ranks),
            _UniqueId.from_buffer_copy(common_id),
            ctypes.c_int(rank),
        )

    def all_reduce(self, address: int, count: int, kind: str, operation: int = SUM) -> None:
        """Reduce ``count`` elements of ``kind`` of every rank, in place (see OPERATIONS)."""
        self._do("AllReduce", address, address, count, KINDS[kind], OPERATIONS[operation])

    def reduce(
        self, source: int, target: int, count: int, kind: str, operation: int, root: int
    ) -> None:
        """Reduce the ``source`` of every rank to the ``target`` of ``root``."""
        self._do("Reduce", source, target, count, KINDS[kind], OPERATIONS[operation], root)

    def reduce_scatter(
        self, source: int, target: int, count: int, kind: str, operation: int
    ) -> None:
        """Reduce the ``source`` of every rank, P times ``count`` elements; part r is for rank r."""
        self._do("ReduceScatter", source, target, count, KINDS[kind], OPERATIONS[operation])

    def broadcast(self, address: int, bytes_: int, root: int) -> None:
        """Copy the memory of ``root`` to that of all others."""
        self._do("Broadcast", address, address, bytes_, _BYTES, root)

    def all_gather(self, source: int, target: int, bytes_: int) -> None:
        """Gather the ``source`` of every rank, ``bytes_`` each, one behind the other."""
        self._do("AllGather", source, target, bytes_, _BYTES)

    def all_to_all(self, source: int, target: int, bytes_: int) -> None:
        """Send part r of ``source`` to rank r, receive one of each; parts have ``bytes_``."""
        self._do("AllToAll", source, target, bytes_, _BYTES)

    def _do(self, name: str, source: int, target: int, count: int, *numbers: int) -> None:
        """Call a function of oneCCL; ``numbers`` are its arguments after the count."""
        if count:
            _call(
                f"oneccl{name}",
                ctypes.c_void_p(source),
                ctypes.c_void_p(target),
                ctypes.c_size_t(count),
                *map(ctypes.c_int, numbers),
                self._communicator,
                None,
            )


def _call(function: str, *arguments: object) -> None:
    code = getattr(library(), function)(*arguments)
    if code != 0:
        raise CollectiveError(
            f"{function} of oneCCL failed with code {code}: CCL_LOG_LEVEL=info has it say why"
        )

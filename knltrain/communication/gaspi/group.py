"""Groups of ranks, which meet and compute sums without the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, final

import numpy as np
import numpy.typing as npt

from knltrain.communication.gaspi.ranks import Ranks
from knltrain.communication.gaspi.segment import as_bytes, nothing
from knltrain.errors import CollectiveError, ExchangeTimeout

MOST_ELEMENTS: Final = 255
"""Of an `all_reduce`, as GASPI guarantees them."""

_OPERATIONS: Final = {"sum": np.add, "min": np.minimum, "max": np.maximum}


@final
class Group:
    """Some ``members`` of an address space, by their ranks there, in the order of the group.

    Collective calls are those of all members, in the same order.
    """

    def __init__(self, ranks: Ranks, members: Sequence[int], timeout_seconds: float) -> None:
        self._ranks, self.members = ranks, tuple(members)
        self._timeout_seconds = timeout_seconds

    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait for all members (gaspi_barrier); ExchangeTimeout names those that do not come."""
        limit_seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        meet(self._ranks, self.members, limit_seconds, "a barrier of a group")

    def all_reduce(
        self, values: npt.NDArray[Any], operation: Literal["sum", "min", "max"] = "sum"
    ) -> npt.NDArray[Any]:
        """Return the sum, or the like, of ``values`` (k,) over all members (gaspi_allreduce).

        k is at most 255; all give the same k and dtype. Sums are in the group's order, the same
        bits everywhere. Raises CollectiveError for more values, ExchangeTimeout.
        """
        if values.ndim != 1 or not 1 <= values.size <= MOST_ELEMENTS:
            raise CollectiveError(
                f"all_reduce: values of shape {values.shape}: expected (k,), 1 <= k <= "
                f"{MOST_ELEMENTS}"
            )
        one, limit = self._ranks, self._timeout_seconds
        total = np.array(values)
        if one.rank:
            one.send(as_bytes(total), 0, limit, nothing)
            one.receive(as_bytes(total), limit, nothing)
            return total
        found = np.zeros((one.size, values.size), values.dtype)
        came = np.zeros_like(total)
        for _ in range(1, one.size):
            found[one.receive(as_bytes(came), limit, nothing)] = came
        for row in found[1:]:
            _OPERATIONS[operation](total, row, out=total)
        for rank in range(1, one.size):
            one.send(as_bytes(total), rank, limit, nothing)
        return total

    def close(self) -> None:
        """Release it (collective; `AddressSpace.close` calls it)."""
        self._ranks.close()


def meet(ranks: Ranks, names: Sequence[int], limit_seconds: float, what: str) -> None:
    """Wait for all ranks (collective); ExchangeTimeout has the ``names`` of those that are late."""
    if absent := ranks.meet(limit_seconds):
        listed = ", ".join(f"rank {names[rank]}" for rank in absent)
        raise ExchangeTimeout(
            f"rank {names[ranks.rank]}: waited {limit_seconds:g} s in vain for {listed}, for "
            f"{what}; if ranks can be so late, give AddressSpace a longer timeout_seconds"
        )

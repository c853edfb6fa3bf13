"""Groups of ranks, which meet and compute sums without the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, final

import numpy as np
import numpy.typing as npt

from knltrain.communication.gaspi.arguments import as_bytes, seconds
from knltrain.communication.gaspi.ranks import Ranks
from knltrain.communication.gaspi.segment import nothing
from knltrain.errors import CollectiveError, ExchangeTimeout, unknown_name

MOST_ELEMENTS: Final = 255
"""Of an `all_reduce`, as GASPI guarantees them."""

_OPERATIONS: Final = {"sum": np.add, "min": np.minimum, "max": np.maximum}


@final
class Group:
    """Some ``members`` of an address space, by their ranks there, in the order of the group.

    Collective calls are those of all members, in the same order; members that make different ones
    all get a CollectiveError with each one's call. ``check_open`` raises if the space is closed.
    """

    def __init__(
        self,
        ranks: Ranks,
        members: Sequence[int],
        timeout_seconds: float,
        check_open: Callable[[], None] = nothing,
    ) -> None:
        self._ranks, self.members = ranks, tuple(members)
        self._timeout_seconds, self._check_open = timeout_seconds, check_open

    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait for all members (gaspi_barrier); ExchangeTimeout names those that do not come."""
        self._check_open()
        self._meet("barrier", self._timeout_seconds if timeout_seconds is None else timeout_seconds)

    def all_reduce(
        self, values: npt.NDArray[Any], operation: Literal["sum", "min", "max"] = "sum"
    ) -> npt.NDArray[Any]:
        """Return the sum, or the like, of ``values`` (k,) over all members (gaspi_allreduce).

        k is at most 255; all give the same k, operation and dtype, of integers or real floats. Sums
        are in the group's order, the same bits everywhere. Raises CollectiveError for other values
        or where members differ, ExchangeTimeout.
        """
        self._check_open()
        if operation not in list(_OPERATIONS):
            raise CollectiveError(
                f"all_reduce: {unknown_name('operation', str(operation), _OPERATIONS)}"
            )
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "iuf":
            kind = getattr(values, "dtype", type(values).__name__)
            raise CollectiveError(f"all_reduce of {kind}: expected an array of integers or floats")
        if values.ndim != 1 or not 1 <= values.size <= MOST_ELEMENTS:
            raise CollectiveError(
                f"all_reduce: values of shape {values.shape}: expected (k,), 1 <= k <= "
                f"{MOST_ELEMENTS}"
            )
        one, limit = self._ranks, self._timeout_seconds
        self._meet(f"all_reduce, '{operation}' of {values.size} {values.dtype}", limit)
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

    def _meet(self, call: str, limit_seconds: float) -> None:
        names = dict(enumerate(self.members))
        meet(self._ranks, names, limit_seconds, f"{call} of group {list(self.members)}")


def meet(
    ranks: Ranks, names: Mapping[int, int], limit_seconds: float, call: str, about: str = ""
) -> list[str]:
    """Wait for some ranks to make the same ``call`` (collective).

    ``names`` are the numbers of these ranks in errors. Returns what they say ``about`` it, one
    line each, in their order. Raises CollectiveError with each one's call where they differ,
    ExchangeTimeout with those that are late.
    """
    told = ranks.tell(f"{about}\n{call}", list(names), seconds(limit_seconds))
    own = names[ranks.rank]
    calls = {names[rank]: text.partition("\n")[2] for rank, text in told.items()}
    if len(set(calls.values())) > 1:
        listed = ", ".join(f"rank {name} in {calls[name]}" for name in sorted(calls))
        raise CollectiveError(
            f"rank {own}: {listed}: expected all ranks to make the same collective calls in the "
            "same order"
        )
    if absent := [f"rank {name}" for rank, name in names.items() if rank not in told]:
        raise ExchangeTimeout(
            f"rank {own}: waited {limit_seconds:g} s in vain for {', '.join(absent)} in {call}; if "
            "ranks can be so late, give AddressSpace a longer timeout_seconds"
        )
    return [told[rank].partition("\n")[0] for rank in names]

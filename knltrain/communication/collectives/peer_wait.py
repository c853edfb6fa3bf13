"""Waiting for other ranks of a group: the process sleeps, and checks that they still run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from knltrain.communication.collectives.segment import GroupSegment
from knltrain.communication.shared_memory import process_identity
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import CollectiveError, ExchangeTimeout, KnltrainError, PeerLost

OF_TORCH = "raise the timeout given to init_process_group or new_group"

_RANK_BITS = 20
_LOST, _GAVE_UP, _MISMATCH, _ENDED = 1, 2, 3, 4


@final
class PeerWait:
    """Waits for ranks of a group; ``names`` (P,) are their names in errors.

    ``way_out`` is the advice of the error for ranks that are late.
    """

    def __init__(
        self, segment: GroupSegment, rank: int, names: Sequence[str], way_out: str = OF_TORCH
    ) -> None:
        self._segment = segment
        self._rank = rank
        self._way_out = way_out
        self.names = list(names)
        self._failure: KnltrainError | None = None

    def wait(
        self, look: Callable[[], bool], awaited: Callable[[], list[int]], limit_seconds: float
    ) -> None:
        """Return when ``look()`` is true; ``awaited()`` are the ranks that it depends on.

        Raises PeerLost if one of them is gone or has left the group, ExchangeTimeout if one is
        later than ``limit_seconds``, and what `check` raises. The group is broken then.
        """
        if not nap_until(look, self.check, lambda: self.check_alive(awaited), limit_seconds):
            raise self.give_up(awaited(), limit_seconds)

    def check(self) -> None:
        """Raise the error that broke the group, if it is broken: PeerLost, ExchangeTimeout, ..."""
        code = self._segment.abort_code
        if code:
            raise self._error(code)

    def check_alive(self, awaited: Callable[[], list[int]]) -> None:
        """Break the group and raise PeerLost if an awaited rank is gone or has left."""
        for rank in awaited():
            # Look again: the rank may have done its part and then ended well in between.
            if not self.is_present(rank) and rank in awaited():
                raise self._broken(_LOST, rank, self._lost(rank))

    def is_present(self, rank: int) -> bool:
        """Tell whether a rank's process is alive (running or stopped) and still in the group."""
        return process_identity.is_alive(self._segment.holder(rank)) and not self._segment.has_left(
            rank
        )

    def mismatch(self, described: Sequence[str]) -> KnltrainError:
        """Break the group, as ranks have called different operations; return the error."""
        calls = "; ".join(
            f"{name} called {call}" for name, call in zip(self.names, described, strict=True)
        )
        error = CollectiveError(
            f"the ranks of a group do not agree: {calls}; expected all ranks to call the same "
            "operations in the same order, with tensors of the same size and dtype"
        )
        return self._broken(_MISMATCH, self._rank, error)

    def end(self) -> None:
        """Break the group at the request of its user."""
        self._segment.abort(_code(_ENDED, self._rank))

    def give_up(self, ranks: Sequence[int], seconds: float) -> KnltrainError:
        """Break the group; return the timeout error that names the ``ranks`` that are missing."""
        first = sorted(
            ranks, key=lambda rank: process_identity.standstill(self._segment.holder(rank)) is None
        )
        absent = ", ".join(f"{self.names[rank]} ({self._condition(rank)})" for rank in first)
        error = ExchangeTimeout(
            f"waited {seconds:g} s in vain for {absent}; if it can be so much slower, "
            f"{self._way_out}"
        )
        return self._broken(_GAVE_UP, self._rank, error)

    def _broken(self, why: int, rank: int, error: KnltrainError) -> KnltrainError:
        """Break the group, and keep the error: other threads of this rank raise the same one."""
        self._failure = self._failure or error
        self._segment.abort(_code(why, rank))
        return error

    def _error(self, code: int) -> KnltrainError:
        if self._failure is not None:
            return type(self._failure)(str(self._failure))
        why, rank = code >> _RANK_BITS, code & (1 << _RANK_BITS) - 1
        if why == _LOST:
            return self._lost(rank)
        if why == _GAVE_UP:
            return ExchangeTimeout(f"{self.names[rank]} waited in vain and gave the group up")
        if why == _MISMATCH:
            return CollectiveError(
                f"{self.names[rank]} found that the ranks called different operations: see its "
                "error"
            )
        return PeerLost(f"the group was aborted by {self.names[rank]}")

    def _lost(self, rank: int) -> PeerLost:
        holder = self._segment.holder(rank)
        if self._segment.has_left(rank):
            return PeerLost(f"{self.names[rank]} is gone: it has left the group")
        ended = process_identity.process_id(holder)
        return PeerLost(f"{self.names[rank]} is gone: its process {ended} has ended")

    def _condition(self, rank: int) -> str:
        holder = self._segment.holder(rank)
        return (
            f"{process_identity.named(holder)}, {process_identity.standstill(holder) or 'running'}"
        )


def _code(why: int, rank: int) -> int:
    return why << _RANK_BITS | rank

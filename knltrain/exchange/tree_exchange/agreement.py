"""A check that all ranks describe the same exchange, before any rank writes to another."""

from __future__ import annotations

import time
import zlib

from knltrain.communication.gaspi import AddressSpace
from knltrain.errors import CollectiveError, ExchangeTimeout


def agree(space: AddressSpace, described: str, timeout_seconds: float) -> None:
    """Return when all ranks have called this with the same text (collective).

    Raises CollectiveError with the ranks that gave another text, ExchangeTimeout with those that
    have not called it.
    """
    segment = space.create_segment(0, space.size)
    own = 1 + zlib.crc32(described.encode())
    for rank in range(space.size):
        segment.notify(rank, space.rank, own)
    limit = time.monotonic() + timeout_seconds
    absent, other = set(range(space.size)), []
    while absent:
        try:
            arrived = segment.notify_waitsome(timeout_seconds=max(0.0, limit - time.monotonic()))
        except ExchangeTimeout as error:
            raise ExchangeTimeout(
                f"rank {space.rank}: waited {timeout_seconds:g} s in vain for "
                f"{_names(sorted(absent))}, to say what is to be exchanged"
            ) from error
        absent.discard(arrived)
        if segment.notify_reset(arrived) != own:
            other.append(arrived)
    if other:
        raise CollectiveError(
            f"rank {space.rank} has {described}, and {_names(sorted(other))} something else: "
            "expected the same at all ranks"
        )


def _names(ranks: list[int]) -> str:
    return ", ".join(f"rank {rank}" for rank in ranks)

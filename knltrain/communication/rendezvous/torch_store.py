"""A store of torch.distributed, as that by which ranks of MPI find each other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, final

import torch.distributed as dist
from torch._C._distributed_c10d import Store

from knltrain.cluster import MeetingPoint
from knltrain.communication.rendezvous.key_value_store import KeyValueStore
from knltrain.errors import PeerLost


def meeting_store(meeting_point: MeetingPoint, timeout_seconds: float) -> Any:
    """Return the TCPStore that all workers of a run reach at its meeting point.

    It lives in the worker that listens there, for as long as that one keeps it; the others wait
    for it until the time limit. Raises PeerLost where it is not reached.
    """
    try:
        return dist.TCPStore(  # type: ignore[attr-defined, unused-ignore]
            meeting_point.host,
            meeting_point.port,
            None,
            meeting_point.fd is not None,
            timedelta(seconds=timeout_seconds),
            wait_for_workers=False,
            master_listen_fd=meeting_point.fd,
        )
    except RuntimeError as error:
        raise _gone(error) from error


@final
class TorchStore(KeyValueStore):
    """Words in a ``store``, such as a TCPStore, under keys that begin with ``prefix``."""

    def __init__(self, store: Store, prefix: str = "knltrain mpi ") -> None:
        self._store, self._prefix = store, prefix

    def put(self, key: str, value: str) -> None:
        """Leave a word; PeerLost where the store is gone."""
        try:
            self._store.set(self._prefix + key, value)
        except RuntimeError as error:
            raise _gone(error) from error

    def get(self, key: str) -> str | None:
        """Return a word, or None; PeerLost where the store is gone."""
        name = self._prefix + key
        try:
            return str(self._store.get(name), "utf-8") if self._store.check([name]) else None
        except RuntimeError as error:
            raise _gone(error) from error


def _gone(error: RuntimeError) -> PeerLost:
    reason = str(error).strip().partition("\n")[0]
    return PeerLost(f"the process that keeps the words of all ranks does not answer: {reason}")

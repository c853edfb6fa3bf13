"""A store of torch.distributed as the key-value store by which ranks of MPI find each other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, final

import torch.distributed as dist
from torch._C._distributed_c10d import Store

from knltrain.cluster.worker import MeetingPoint
from knltrain.communication.internode.torch_failure import first_line
from knltrain.communication.rendezvous.key_value_store import KeyValueStore
from knltrain.errors import PeerLost


def meeting_store(meeting_point: MeetingPoint, timeout_seconds: float) -> Any:
    """Return the TCPStore of a run, which the worker at ``meeting_point`` serves.

    It lives as long as that worker keeps it; the others wait for it until the time limit. Raises
    PeerLost if it is not reached.
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
    """Texts in a ``store``, such as a TCPStore, under keys that begin with ``prefix``."""

    def __init__(self, store: Store, prefix: str = "knltrain mpi ") -> None:
        self._store, self._prefix = store, prefix

    def put(self, key: str, value: str) -> None:
        """Write a value; PeerLost if the store is gone."""
        try:
            self._store.set(self._prefix + key, value)
        except RuntimeError as error:
            raise _gone(error) from error

    def get(self, key: str) -> str | None:
        """Return a value, or None; PeerLost if the store is gone."""
        name = self._prefix + key
        try:
            return str(self._store.get(name), "utf-8") if self._store.check([name]) else None
        except RuntimeError as error:
            raise _gone(error) from error


def _gone(error: RuntimeError) -> PeerLost:
    reason = first_line(error)
    return PeerLost(f"the process with the key-value store of all ranks does not answer: {reason}")

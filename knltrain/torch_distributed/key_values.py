"""A store of torch.distributed, as that by which ranks of MPI find each other."""

from __future__ import annotations

from typing import final

from torch._C._distributed_c10d import Store

from knltrain.errors import PeerLost
from knltrain.exchange.mpi.key_value_store import KeyValueStore


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

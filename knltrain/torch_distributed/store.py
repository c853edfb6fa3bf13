"""Messages of rank 0 of a new group to the others, by a key of the group's store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torch._C._distributed_c10d import Store

from knltrain.errors import ExchangeTimeout

PAUSE_SECONDS = 0.01
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the id of this computer's boot, which no other computer has."""
    return _BOOT.read_text(encoding="ascii").strip()


@contextmanager
def told(store: Store, key: str, what: str) -> Iterator[None]:
    """Publish a text under ``key`` for the duration of the block."""
    try:
        store.set(key, what)
        yield
    finally:
        with suppress(RuntimeError, NotImplementedError):  # not every store can forget a key
            store.delete_key(key)


def heard(store: Store, key: str, deadline: float, limit_seconds: float) -> str:
    """Wait for the text of rank 0, and return it; ExchangeTimeout past the deadline."""
    while True:
        with suppress(RuntimeError):  # rank 0 may delete it between the two
            if store.check([key]):
                return str(store.get(key), "ascii", "replace")
        if time.monotonic() > deadline:
            raise ExchangeTimeout(
                f"waited {limit_seconds:g} s in vain for the first rank of a new group"
            )
        time.sleep(PAUSE_SECONDS)

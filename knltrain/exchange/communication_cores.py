"""Threads of exchanges, and the cores that a worker's place keeps for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from affinity import PlacementError, bind_thread, own_placement

Made = TypeVar("Made")


def take_place() -> None:
    """Bind this thread to the cores that the worker's place keeps for communication.

    Where it keeps none, to all of its cpus: the thread that has started this one may be pinned.
    """
    place = own_placement()
    if place is not None:
        with suppress(PlacementError):  # the worker's own proof of its place tells of it
            bind_thread(place.communication_cpus or place.cpus)


def made_there(make: Callable[[], Made]) -> Made:
    """Return what ``make`` returns, called by a thread at that place; what it starts is there too.

    Raises what ``make`` raises.
    """
    with ThreadPoolExecutor(1, "knltrain-exchange", initializer=take_place) as thread:
        return thread.submit(make).result()

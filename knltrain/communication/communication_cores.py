"""Threads of exchanges, and the cores that a worker's place keeps for them."""

from __future__ import annotations

import os
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


def take_place_behind() -> None:
    """As `take_place`; where no cores are kept, this thread interrupts none that computes.

    It is for threads that every packet wakes while others compute: the kernel lets one of the
    class SCHED_BATCH wait for the next tick of its clock, by when there is more to do at once.
    """
    take_place()
    place = own_placement()
    if place is not None and place.communication_cpus:
        return
    if os.sched_getscheduler(0) == os.SCHED_OTHER:
        with suppress(OSError):  # what a filter forbids is not needed
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def made_there(make: Callable[[], Made], take: Callable[[], None] = take_place) -> Made:
    """Return what ``make`` returns, called by a thread at that place; what it starts is there too.

    ``take`` is how the thread comes to its place. Raises what ``make`` raises.
    """
    with ThreadPoolExecutor(1, "knltrain-exchange", initializer=take) as thread:
        return thread.submit(make).result()

"""Binding of exchange threads to the cores that a worker's placement reserves for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from affinity import PlacementError, bind_thread, own_placement

Made = TypeVar("Made")


def take_place() -> None:
    """Bind this thread to the cores that the worker's placement reserves for communication.

    If it reserves none, bind to all of the worker's CPUs: the thread that started this one may be
    pinned, and a new thread inherits that.
    """
    place = own_placement()
    if place is not None:
        with suppress(PlacementError):  # the worker's check of its placement reports it
            bind_thread(place.communication_cpus or place.cpus)


def take_place_behind() -> None:
    """Bind as `take_place`; if no cores are reserved, also stop preempting computing threads.

    For threads that every packet wakes while others compute. The kernel lets a thread of the class
    SCHED_BATCH wait for the next tick of its clock, when it has more to do at once.
    """
    take_place()
    place = own_placement()
    if place is not None and place.communication_cpus:
        return
    if os.sched_getscheduler(0) == os.SCHED_OTHER:
        with suppress(OSError):  # a system call filter may forbid it; it is only faster
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def made_there(make: Callable[[], Made], take: Callable[[], None] = take_place) -> Made:
    """Call ``make`` in a thread that ``take`` has bound, and return its result.

    Threads that ``make`` starts inherit the binding. Raises what ``make`` raises.
    """
    with ThreadPoolExecutor(1, "knltrain-exchange", initializer=take) as thread:
        return thread.submit(make).result()

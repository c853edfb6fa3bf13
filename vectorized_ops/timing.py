"""Timing of short work."""

from __future__ import annotations

import time
from collections.abc import Callable


def mean_seconds(
    run: Callable[[], object], enough: float, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the mean seconds of one run, over as many as `enough` seconds need; at least one.

    Calls and clocks must not count where the work itself is short. `time.thread_time` as the
    `clock` counts this thread's processor time, in which other programs take no part.
    """
    times, start = 0, clock()
    while True:
        run()
        times += 1
        passed = clock() - start
        if passed >= enough:
            return passed / times

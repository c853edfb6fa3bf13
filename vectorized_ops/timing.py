"""Timing of short work."""

from __future__ import annotations

import time
from collections.abc import Callable


def mean_seconds(run: Callable[[], object], enough: float) -> float:
    """Return the mean seconds of one run, over as many as `enough` seconds need; at least one.

    Calls and clocks must not count where the work itself is short.
    """
    times, start = 0, time.perf_counter()
    while True:
        run()
        times += 1
        passed = time.perf_counter() - start
        if passed >= enough:
            return passed / times

"""The contestants' common part: the step's settings, and the protocol with the benchmark.

Messages are lines of JSON. A contestant writes {"ready": {...}} once warm. Then it reads questions
from standard input, a number of seconds or whatever else is asked, and answers each in one line.
The end of input ends the contestant.

This module needs the standard library alone, so that contestants under another Python can import it
from their own folder.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

WARM_UP_STEPS, WARM_UP_SECONDS = 5, 5.0
LEAD_IN_SECONDS = 0.25
"""After this time caches are warm again, and the threads of the contestant before no longer spin:
OpenMP's do for up to 200 ms."""

LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 1e-6, 0.9, 5e-4


def serve(ready: dict[str, Any], measure: Callable[[Any], dict[str, Any]]) -> None:
    """Announce `ready`, then answer every question on standard input by `measure`."""
    print(json.dumps({"ready": ready}), flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(json.loads(line))), flush=True)


def warm_up(step: Callable[[], object]) -> None:
    """Call `step` once, and up to WARM_UP_STEPS times as long as WARM_UP_SECONDS are not over."""
    start = time.perf_counter()
    for _ in range(WARM_UP_STEPS):
        step()
        if time.perf_counter() - start > WARM_UP_SECONDS:
            break


def steps_within(seconds: float, step: Callable[[], object]) -> dict[str, Any]:
    """Call `step` for about so long; return the number of calls, and their time.

    Steps of the first LEAD_IN_SECONDS do not count, unless one alone takes the whole time.
    """
    count = 0
    begin = start = now = time.perf_counter()
    while now - begin < LEAD_IN_SECONDS + seconds:
        step()
        count += 1
        now = time.perf_counter()
        if start == begin and LEAD_IN_SECONDS <= now - begin < LEAD_IN_SECONDS + seconds:
            start, count = now, 0
    return {"steps": count, "seconds": now - start}

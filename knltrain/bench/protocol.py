"""What contestants have in common: the step's settings, and how they talk to the benchmark.

Protocol: one JSON line {"ready": {...}} once warm; then for each line "SECONDS" on standard input
one JSON line with the answer; the end of input ends the contestant. Needs the standard library
alone, so that contestants under another Python can import it from their own folder.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

WARM_UP_STEPS, WARM_UP_SECONDS = 5, 5.0
LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 1e-6, 0.9, 5e-4


def serve(ready: dict[str, Any], measure: Callable[[float], dict[str, Any]]) -> None:
    """Announce `ready`, then answer every number of seconds on standard input by `measure`."""
    print(json.dumps({"ready": ready}), flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(float(line))), flush=True)


def warm_up(step: Callable[[], object]) -> None:
    """Call `step` once, and up to WARM_UP_STEPS times as long as WARM_UP_SECONDS are not over."""
    start = time.perf_counter()
    for _ in range(WARM_UP_STEPS):
        step()
        if time.perf_counter() - start > WARM_UP_SECONDS:
            break


def steps_within(seconds: float, step: Callable[[], object]) -> dict[str, Any]:
    """Call `step` until `seconds` are over; return how often, and the time it took."""
    count = 0
    start = now = time.perf_counter()
    while now - start < seconds:
        step()
        count += 1
        now = time.perf_counter()
    return {"steps": count, "seconds": now - start}

"""Waiting for another process by polling, with sleeps in between."""

from __future__ import annotations

import time
from collections.abc import Callable

from knltrain.communication.shared_memory.stillness import ProcessClock

_SHORTEST_NAP_SECONDS = 50e-6
_LONGEST_NAP_SECONDS = 200e-6
_LIVENESS_SECONDS = 0.1


def nap_until(
    look: Callable[[], bool],
    check: Callable[[], None],
    check_alive: Callable[[], None],
    limit_seconds: float,
) -> bool:
    """Poll ``look()`` until it is true, with sleeps in between; return False at the time limit.

    ``check`` is called before every sleep. ``check_alive``, which may cost more, is called about
    ten times a second. Both may raise.
    """
    nap_seconds = _SHORTEST_NAP_SECONDS
    late_seconds = checked_seconds = 0.0
    own_time = ProcessClock()
    while not look():
        check()
        late_seconds += own_time.passed()
        if late_seconds - checked_seconds >= _LIVENESS_SECONDS:
            checked_seconds = late_seconds
            check_alive()
        if late_seconds >= limit_seconds:
            return False
        time.sleep(nap_seconds)
        nap_seconds = min(2 * nap_seconds, _LONGEST_NAP_SECONDS)
    return True

"""Waiting for another process by polling, and how long it is stopped or silent.

The time when this process was stopped does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar, final

LONGEST_LOOK_SECONDS: Final = 1.0
"""At most this much time counts between two looks. If more has passed, this process was stopped
too, for example because a scheduler suspended the whole job."""

Who = TypeVar("Who", bound=Hashable)


@final
class ProcessClock:
    """A clock that stands while this process is stopped."""

    def __init__(self, longest_look_seconds: float = LONGEST_LOOK_SECONDS) -> None:
        self._longest_look_seconds = longest_look_seconds
        self._looked = time.monotonic()

    def passed(self) -> float:
        """Return the seconds since the last call, without those when this process was stopped."""
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, self._longest_look_seconds), now
        return passed


@final
class Stillness(Generic[Who]):
    """Adds up for how long each of several processes has been still, from look to look."""

    def __init__(self, longest_look_seconds: float = LONGEST_LOOK_SECONDS) -> None:
        self._own_time = ProcessClock(longest_look_seconds)
        self._seconds: dict[Who, float] = {}

    def look(self, still: Iterable[Who], counts: bool = True) -> None:
        """Add the time since the last look to all in ``still``, if it ``counts``; reset others."""
        passed = self._own_time.passed()
        more = passed if counts else 0.0
        self._seconds = {who: self.seconds(who) + more for who in still}

    def seconds(self, who: Who) -> float:
        """Return for how long ``who`` has been still; 0.0 if it is not."""
        return self._seconds.get(who, 0.0)

    def still_for(self, seconds: float) -> list[Who]:
        """Return those that have been still for at least so long."""
        return [who for who, still in self._seconds.items() if still >= seconds]


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

"""For how long others have stood still, or have been silent, as far as this process has not."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar, final

LONGEST_LOOK_SECONDS: Final = 1.0
"""No more than this counts between two looks: in the rest this process was stopped too, as when a
scheduler suspends a whole job."""

Who = TypeVar("Who", bound=Hashable)


@final
class OwnTime:
    """Tells from look to look how much time has passed for this process."""

    def __init__(self, longest_look_seconds: float = LONGEST_LOOK_SECONDS) -> None:
        self._longest_look_seconds = longest_look_seconds
        self._looked = time.monotonic()

    def passed(self) -> float:
        """Seconds since the last call, but for those in which this process was stopped."""
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, self._longest_look_seconds), now
        return passed


@final
class Stillness(Generic[Who]):
    """Adds up for how long each of several has been still, from look to look."""

    def __init__(self, longest_look_seconds: float = LONGEST_LOOK_SECONDS) -> None:
        self._own_time = OwnTime(longest_look_seconds)
        self._seconds: dict[Who, float] = {}

    def look(self, still: Iterable[Who], counts: bool = True) -> None:
        """Take in who is still now; all others begin anew. What passes may not count."""
        passed = self._own_time.passed()
        more = passed if counts else 0.0
        self._seconds = {who: self.seconds(who) + more for who in still}

    def seconds(self, who: Who) -> float:
        """For how long somebody has been still; 0.0 for whoever is not."""
        return self._seconds.get(who, 0.0)

    def still_for(self, seconds: float) -> list[Who]:
        """Those that have been still for so long."""
        return [who for who, still in self._seconds.items() if still >= seconds]

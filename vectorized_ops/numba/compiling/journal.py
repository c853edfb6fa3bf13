"""Records what this process has compiled, loaded and measured, and the time that took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, final

TUNING_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class MadeKernel:
    """One kernel for one signature.

    `seconds` are those of the kernel itself, not of others that it calls; they include waiting for
    another process to compile it.
    """

    name: str
    signature: str
    compiled: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """The kernel that was compiled last, and the number of kernels left.

    `done` of `total` kernels are there; the others take about `seconds_left`.
    """

    made: MadeKernel
    done: int
    total: int
    seconds_left: float

    def counts(self) -> dict[str, float]:
        """The numbers for a display, by name."""
        return {"done": self.done, "total": self.total, "seconds_left": self.seconds_left}


@dataclass(slots=True)
class _Making:
    started: float
    inner_seconds: float = 0.0


@final
class Journal:
    """The kernels in the order in which they became ready, timed by a `clock` of seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.made: list[MadeKernel] = []
        self._clock = clock
        self._under_way: list[_Making] = []  # each was started by the one before

    def begin(self) -> None:
        """Begin to make a kernel, maybe one that the last begun one calls."""
        self._under_way.append(_Making(self._clock()))

    def end(self, name: str, signature: str, compiled: bool) -> None:
        """Note that the last begun one is ready."""
        seconds = self._end()
        self.made.append(MadeKernel(name, signature, compiled, seconds))

    def give_up(self) -> None:
        """Note that the last begun one was not made."""
        self._end()

    def _end(self) -> float:
        last = self._under_way.pop()
        seconds = self._clock() - last.started
        if self._under_way:
            self._under_way[-1].inner_seconds += seconds
        return seconds - last.inner_seconds


def told(made: Iterable[MadeKernel]) -> str:
    """How many kernels were compiled and how many loaded, and how long each took."""
    kinds = {True: "compiled", False: "loaded"}
    seconds: dict[bool, list[float]] = {compiled: [] for compiled in kinds}
    for one in made:
        seconds[one.compiled].append(one.seconds)
    parts = (f"{len(each)} {kinds[kind]} in {sum(each):.1f} s" for kind, each in seconds.items())
    return f"kernels: {', '.join(parts)}"


JOURNAL: Final = Journal()
"""That of this process."""


@dataclass(slots=True)
class Tuning:
    """The seconds that a process may spend on measurements, and has spent.

    `mode` is

    - "auto": hopeless candidates are not tried; once the time is spent, the one with the least
      expected time is chosen;
    - "off": that one is chosen from the beginning;
    - "fixed": that one too, whatever was measured before;
    - "full": all are tried, without a limit.
    """

    mode: str = "auto"
    seconds: float = TUNING_SECONDS
    spent: float = 0.0
    measured: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing may be measured any more."""
        if self.mode == "auto":
            return self.spent >= self.seconds
        return self.mode in ("off", "fixed")

    def told(self) -> str:
        """How much has been measured, and how long that took."""
        limit = f" of {self.seconds:g} s at most" if self.mode == "auto" else " s"
        return f"tuning: {self.measured} choices measured in {self.spent:.1f}{limit}"


TUNING: Final = Tuning()
"""That of this process."""


def limit_tuning(mode: str, seconds: float) -> None:
    """Set the seconds for measurements in this process from now on, and a mode of `Tuning`."""
    TUNING.mode, TUNING.seconds, TUNING.spent, TUNING.measured = mode, seconds, 0.0, 0

"""Which accesses to shared memory are ordered by it, and which are a data race.

A worker's store with release, and a load with acquire that finds what it stored, order everything
before the one ahead of everything after the other, on every processor. Two accesses to one place of
which one writes must be ordered like that, or another processor may show them in either order: a
race, even where it does no harm in the execution at hand. Clocks are vector clocks, of which only
releases tick: Flanagan and Freund, "FastTrack: efficient and precise dynamic race detection",
PLDI 2009.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable

Clock = tuple[int, ...]
Cell = tuple[str, int]


class DataRace(AssertionError):  # noqa: N818
    """Two accesses that nothing orders."""


class HappensBefore:
    """The clocks of all workers, and the last accesses to all that is shared."""

    def __init__(self, workers: int) -> None:
        self._clocks: list[Clock] = [
            tuple(int(worker == other) for other in range(workers)) for worker in range(workers)
        ]
        self._released: dict[Cell, Clock] = {}
        self._written: dict[Cell, tuple[int, int]] = {}
        self._read: dict[Cell, dict[int, int]] = {}

    def acquire(self, worker: int, word: Cell) -> None:
        """Order all that was done before the release that a word's value comes from."""
        released = self._released.get(word)
        if released is not None:
            mine = self._clocks[worker]
            self._clocks[worker] = tuple(map(max, mine, released))

    def release(self, worker: int, word: Cell) -> None:
        """Let who acquires this word see all that this worker has done."""
        mine = self._clocks[worker]
        self._released[word] = mine
        self._clocks[worker] = (*mine[:worker], mine[worker] + 1, *mine[worker + 1 :])

    def store(self, word: Cell) -> None:
        """A store that releases nothing."""
        self._released.pop(word, None)

    def read(self, worker: int, cells: Iterable[Cell], what: str) -> None:
        """Note a plain read; raise DataRace if a write is not ordered before it."""
        mine = self._clocks[worker]
        for cell in cells:
            self._check_written(worker, mine, cell, what)
            self._read.setdefault(cell, {})[worker] = mine[worker]

    def write(self, worker: int, cells: Iterable[Cell], what: str) -> None:
        """Note a plain write; raise DataRace if any access is not ordered before it."""
        mine = self._clocks[worker]
        for cell in cells:
            self._check_written(worker, mine, cell, what)
            for other, time in self._read.pop(cell, {}).items():
                if time > mine[other]:
                    raise DataRace(f"worker {worker} {what} {cell} while worker {other} reads it")
            self._written[cell] = worker, mine[worker]

    def state(self, living: list[int]) -> object:
        """What decides whether an access to come is a race: all that a living worker may not know.

        Of types that marshal knows.
        """
        clocks = [(worker, self._clocks[worker]) for worker in living]
        known = tuple(map(min, zip(*(clock for _, clock in clocks), strict=True))) or None
        if known is None:
            return None
        released = sorted(
            item for item in self._released.items() if any(map(operator.gt, item[1], known))
        )
        written = sorted(
            (cell, by, time) for cell, (by, time) in self._written.items() if time > known[by]
        )
        read = sorted(
            (cell, by, time)
            for cell, readers in self._read.items()
            for by, time in readers.items()
            if time > known[by]
        )
        return clocks, released, written, read

    def _check_written(self, worker: int, mine: Clock, cell: Cell, what: str) -> None:
        by, time = self._written.get(cell, (worker, 0))
        if time > mine[by]:
            raise DataRace(f"worker {worker} {what} {cell} while worker {by} writes it")

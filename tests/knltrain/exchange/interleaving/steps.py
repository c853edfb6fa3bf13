"""What a worker is about to do, and all that it remembers of what it has done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

Location: TypeAlias = tuple[str, int]
"""A word or a cache line by its number, or whether a process lives: ("process", number)."""

Choice: TypeAlias = tuple[int, str]
"""Which worker goes on, and how: "goes" takes its step, "dies" does not, nor any after it."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a worker is about to do: locations that it reads and writes at once."""

    name: str
    reads: frozenset[Location] = frozenset()
    writes: frozenset[Location] = frozenset()

    def conflicts_with(self, other: Step) -> bool:
        """Whether the order of two steps of different workers matters."""
        return not (
            self.writes.isdisjoint(other.reads)
            and self.writes.isdisjoint(other.writes)
            and self.reads.isdisjoint(other.writes)
        )


@dataclass
class Worker:
    """One worker, its next step, and what it has observed.

    In a nap, which began when it had observed ``nap_begins`` things, it notes where it ``looked``,
    and has ``missed`` something if one of these places has become otherwise since.
    """

    number: int
    wake: threading.Lock = field(default_factory=threading.Lock)
    program: Callable[[], None] | None = None
    step: Step | None = None
    observed: list[Hashable] = field(default_factory=list)
    looked: set[Location] = field(default_factory=set)
    nap_begins: int | None = None
    missed: bool = False
    asleep: bool = False
    alive: bool = True
    died: bool = False
    error: BaseException | None = None

    def begin(self, program: Callable[[], None]) -> None:
        self.program, self.step, self.error = program, None, None
        self.observed, self.looked = [], set()
        self.nap_begins = None
        self.missed, self.asleep, self.alive, self.died = False, False, True, False

    def remembers(self) -> object:
        """Everything that its future depends on, beside shared memory."""
        name = self.step.name if self.step else ""
        looked = tuple(sorted(self.looked))
        return tuple(self.observed), name, looked, self.missed, self.alive, self.died

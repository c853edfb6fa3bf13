"""Small programs on a few words, whose interleavings can be counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from interleaving.exploration import Scenario
from interleaving.seam import Seam
from interleaving.shared_array import WORD_SHIFT, SharedArray
from interleaving.steps import Worker

WORDS = 4


class Words:
    """Words that are shared by design, and one plain number beside them."""

    def __init__(self, seam: Seam, array: SharedArray) -> None:
        self._seam, self._array = seam, array

    def load(self, index: int) -> int:
        return self._seam.load_acquire(self._array, index)

    def store(self, index: int, value: int) -> None:
        self._seam.store_release(self._array, index, value)

    def exchange(self, index: int, expected: int, value: int) -> int:
        return self._seam.compare_exchange(self._array, index, expected, value)

    def add(self, index: int, value: int) -> int:
        return self._seam.fetch_add(self._array, index, value)

    def await_value(self, index: int, value: int) -> None:
        with self._seam.machine.napping():
            while self.load(index) != value:
                self._seam.machine.sleep()

    @property
    def plain(self) -> int:
        return int(self._array[WORDS])

    @plain.setter
    def plain(self, value: int) -> None:
        self._array[WORDS] = value


Program: TypeAlias = Callable[[Words], object]


class OnWords(Scenario):
    """Programs on words; what they return is collected in ``outcomes``, None from those that died.

    A program that returns must have observed what it returns.
    """

    def __init__(self, *programs: Program) -> None:
        self.programs = programs
        self.seam = Seam(len(programs))
        self.machine = self.seam.machine
        self.memory = np.zeros(WORDS + 1, np.int64)
        self.array = self.seam.share(self.memory, WORD_SHIFT)
        for index in range(WORDS):
            self.seam.share_word(self.array, index, f"word {index}")
        self.outcomes: set[tuple[object, ...]] = set()
        self._results: list[object] = []

    def begin(self) -> list[Callable[[], None]]:
        self.seam.begin()
        self.memory[:] = 0
        self._results = [None] * len(self.programs)
        return [lambda number=number: self._run(number) for number in range(len(self.programs))]

    def state(self) -> object:
        return self.memory.tobytes(), self.seam.order_state()

    def check_end(self, workers: list[Worker]) -> None:
        self.outcomes.add(tuple(self._results))

    def close(self) -> None:
        self.machine.close()

    def _run(self, number: int) -> None:
        self._results[number] = self.programs[number](Words(self.seam, self.array))

"""The request board: rounds that ask all workers to act after the same step.

Rounds come one after another. Workers that wait for each other in their steps must all act after
the same step, which none of them has passed. The process that asks does not know how far they are.
So it proceeds in two phases:

1. It *holds* the round. From then on no worker begins a step: one that has begun has published its
   number before, the others wait. The largest published number, over the workers of all nodes, is a
   step that all can still reach.
2. It *opens* the round with that step, and the workers go on.

- No worker passes the step: a worker publishes that it begins a step before it reads whether a
  round is held, and the other process holds a round before it reads these numbers. One of the two
  finds what the other wrote.
- No worker waits for long: only the processes that start workers take part in opening a round.
"""

from __future__ import annotations

import mmap
import os
import time
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

LINE_WORDS = 16
"""Each word that one process writes and others read has 128 bytes to itself."""

_WORD_BYTES = 8
_ROUND, _STEP, _STOPS = 0, 1, 2
_ANSWERED = 1
_SETTLE_SECONDS = 1e-3


class OpenRound(NamedTuple):
    """Round ``number``, from 1: all write a checkpoint after step ``step``, and may end there."""

    number: int
    step: int
    stops: bool


@final
class RequestBoard:
    """The board of one process and the workers that it starts; all have it mapped.

    ``lines`` are its words (1 + P,) int64: first that of the round, which is odd while it is held,
    then the step that each worker has begun. Beside each of these is the number of rounds that the
    worker has answered. ``words`` (1 + P, LINE_WORDS) has the whole lines, with the losses, see
    `LossBoard`.
    """

    def __init__(self, fd: int, workers: int) -> None:
        self.fd = fd
        memory = mmap.mmap(fd, (1 + workers) * LINE_WORDS * _WORD_BYTES)
        self._words: npt.NDArray[np.int64] = np.frombuffer(memory, np.int64)
        self.words = self._words.reshape(-1, LINE_WORDS)
        self.lines = self._words[::LINE_WORDS]
        self._answers = self._words[LINE_WORDS + _ANSWERED :: LINE_WORDS]

    @classmethod
    def create(cls, workers: int) -> RequestBoard:
        """Make a board for ``workers``, which are to inherit ``fd``."""
        fd = os.memfd_create("knltrain-requests", os.MFD_CLOEXEC)
        os.ftruncate(fd, (1 + workers) * LINE_WORDS * _WORD_BYTES)
        return cls(fd, workers)

    @classmethod
    def attach(cls, fd: int) -> RequestBoard:
        """Map the board of an inherited file descriptor."""
        return cls(fd, os.fstat(fd).st_size // (LINE_WORDS * _WORD_BYTES) - 1)

    def hold(self, number: int) -> int:
        """Make workers wait before their next step, until round ``number`` is open.

        Returns the largest step that one of them has begun.
        """
        self._words[_ROUND] = 2 * number - 1
        # The kernel orders memory during a sleep: the word is visible before others are read.
        time.sleep(_SETTLE_SECONDS)
        return int(self.lines[1:].max())

    def open(self, asked: OpenRound) -> None:
        """Let workers go on to the step of the round."""
        self._words[_STEP : _STOPS + 1] = asked.step, asked.stops
        self._words[_ROUND] = 2 * asked.number

    def open_round(self, word: int) -> OpenRound | None:
        """Return the round of the word that a worker has read; the next one follows only later."""
        if word % 2 or not word:
            return None
        return OpenRound(word // 2, int(self._words[_STEP]), bool(self._words[_STOPS]))

    def answer(self, slot: int, number: int) -> None:
        """Publish that worker ``slot`` knows the request of round ``number``."""
        self._answers[slot] = number

    def answered(self, number: int) -> bool:
        """Tell whether all workers here know it, so that another round can follow."""
        return bool(self._answers.min() >= number)

    def close(self) -> None:
        """Release the board."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
        self._words = self.lines = self._answers = np.zeros(0, np.int64)
        self.words = self._words.reshape(0, LINE_WORDS)

"""Where workers find what is asked of all of them between two steps, and after which step.

What is asked for comes in rounds, one after another. Who asks cannot know how far the workers are,
and those that wait for each other in their steps must all do it after the same step, which none
of them has passed. So a round is held first: from then on nobody sets out for a step. Who had set
out before has said so, and who had not waits; the most steps that anybody has said is the step that
all can still come to. When that is known, of the workers of all nodes, the round is open.

- Nobody passes it: a worker says that it sets out before it looks whether a round is held, and
  who holds one does so before it looks who has set out. One of the two finds what the other wrote.
- Nobody waits for long: a held round is opened by the processes that start workers alone.
"""

from __future__ import annotations

import mmap
import os
import time
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

LINE_WORDS = 16
"""Words that one process writes and others read have 128 bytes to themselves."""

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
    """The board of one process and the workers that it starts; both have it open.

    ``lines`` are its words (1 + P,) int64: that of the round, which is odd while it is held, then
    the step for which each worker has set out. Beside these is how many rounds it has answered.
    """

    def __init__(self, fd: int, workers: int) -> None:
        self.fd = fd
        memory = mmap.mmap(fd, (1 + workers) * LINE_WORDS * _WORD_BYTES)
        self._words: npt.NDArray[np.int64] = np.frombuffer(memory, np.int64)
        self.lines = self._words[::LINE_WORDS]
        self._answers = self._words[LINE_WORDS + _ANSWERED :: LINE_WORDS]

    @classmethod
    def create(cls, workers: int) -> RequestBoard:
        """Make one for so many workers, which are to inherit ``fd``."""
        fd = os.memfd_create("knltrain-requests", os.MFD_CLOEXEC)
        os.ftruncate(fd, (1 + workers) * LINE_WORDS * _WORD_BYTES)
        return cls(fd, workers)

    @classmethod
    def attach(cls, fd: int) -> RequestBoard:
        """The board behind an inherited descriptor."""
        return cls(fd, os.fstat(fd).st_size // (LINE_WORDS * _WORD_BYTES) - 1)

    def hold(self, number: int) -> int:
        """Have workers wait where they next are between two steps, until round ``number`` is open.

        Returns the most steps for which one of them has set out.
        """
        self._words[_ROUND] = 2 * number - 1
        # Asleep the kernel orders memory: the word is seen before others are looked at.
        time.sleep(_SETTLE_SECONDS)
        return int(self.lines[1:].max())

    def open(self, asked: OpenRound) -> None:
        """Let workers go on, to the step of the round."""
        self._words[_STEP : _STOPS + 1] = asked.step, asked.stops
        self._words[_ROUND] = 2 * asked.number

    def open_round(self, word: int) -> OpenRound | None:
        """The round whose word a worker has read, which no other follows before all are done."""
        if word % 2 or not word:
            return None
        return OpenRound(word // 2, int(self._words[_STEP]), bool(self._words[_STOPS]))

    def answer(self, slot: int, number: int) -> None:
        """Say that worker ``slot`` knows what round ``number`` asks for, as all others do."""
        self._answers[slot] = number

    def answered(self, number: int) -> bool:
        """Whether all workers here know it, and another round can follow."""
        return bool(self._answers.min() >= number)

    def close(self) -> None:
        """Let go of it."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
        self._words = self.lines = self._answers = np.zeros(0, np.int64)

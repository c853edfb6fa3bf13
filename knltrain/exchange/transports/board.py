"""The board of a process and its workers: what they are asked, and with what loss they learn.

`RequestBoard` has rounds that ask all workers to act after the same step. `LossBoard` has the
training loss over the images of all workers, for which nobody waits.

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
from typing import Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

LINE_WORDS = 16
"""A line has 128 bytes, in which one process alone writes."""

_WORD_BYTES = 8
_ROUND, _STEP, _STOPS = 0, 1, 2
_ANSWERED = 1
_FIRST_LOSS_WORD: Final = 4
_BUFFERS, _BUFFER_WORDS, _IN_WRITING = 2, 3, -1
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
    worker has answered. ``losses`` has the rest of the lines.
    """

    def __init__(self, fd: int, workers: int) -> None:
        self.fd = fd
        memory = mmap.mmap(fd, (1 + workers) * LINE_WORDS * _WORD_BYTES)
        self._words: npt.NDArray[np.int64] = np.frombuffer(memory, np.int64)
        self.losses = LossBoard(self._words.reshape(-1, LINE_WORDS))
        self.lines = self._words[::LINE_WORDS]
        self._answers = self._words[LINE_WORDS + _ANSWERED :: LINE_WORDS]

    @classmethod
    def create(cls, workers: int) -> RequestBoard:
        """Make a board for ``workers``, which are to inherit ``fd``."""
        fd = os.memfd_create("knltrain-board", os.MFD_CLOEXEC)
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


class LossSum(NamedTuple):
    """A number of images, and the sum of their training losses."""

    images: float = 0.0
    losses: float = 0.0

    def plus(self, other: LossSum) -> LossSum:
        """Return the sum of both."""
        return LossSum(self.images + other.images, self.losses + other.losses)


@final
class LossBoard:
    """The losses of a process's workers, and of all workers when other processes told of theirs.

    Nobody waits for a loss. A worker writes its sums since its start after each gradient, into one
    of two buffers by the parity of its step (double buffering, as in CaffeGPI: Kuehn, Keuper,
    Pfreundt, arXiv 1706.00095). Where an exchange of all workers follows each gradient, whoever has
    done step t finds all others' sums of step t. Elsewhere it finds their newest ones. A buffer
    whose step changes while it is read is read anew.

    ``words`` (1 + P, LINE_WORDS) int64 are those of a `RequestBoard`, which has the memory and
    keeps it as long as this is used.
    """

    def __init__(self, words: npt.NDArray[np.int64]) -> None:
        end = _FIRST_LOSS_WORD + _BUFFERS * _BUFFER_WORDS
        buffers = words[:, _FIRST_LOSS_WORD:end].reshape(len(words), _BUFFERS, _BUFFER_WORDS)
        self._steps = buffers[:, :, 0]
        self._sums: npt.NDArray[np.float64] = buffers.view(np.float64)[:, :, 1:]
        self._news = 0

    @classmethod
    def alone(cls) -> LossBoard:
        """Make a board for one worker in memory of its own."""
        return cls(np.zeros((2, LINE_WORDS), np.int64))

    def publish(self, slot: int, steps: int, sums: LossSum) -> None:
        """Publish what worker ``slot`` of this process has learned from in ``steps`` steps."""
        self._write(1 + slot, steps, sums)

    def publish_all(self, others: LossSum) -> None:
        """Publish the sum over the workers of all processes, when the other ones tell of theirs.

        One thread alone may do so.
        """
        self._news += 1
        self._write(0, self._news, self.here().plus(others))

    def here(self, steps: int | None = None) -> LossSum:
        """Return the sum over this process's workers: of ``steps`` steps, or the newest of each."""
        found = LossSum()
        for line in range(1, len(self._steps)):
            found = found.plus(self._read(line, steps))
        return found

    def total(self, steps: int | None = None) -> LossSum:
        """Return the sum over all workers of the run, as far as it is known here.

        With other processes it is that of the time at which the last one told of its workers, so
        that all count alike.
        """
        everywhere = self._read(0)  # none yet where processes told of themselves before a step
        return everywhere if everywhere.images else self.here(steps)

    def _write(self, line: int, step: int, found: LossSum) -> None:
        buffer = step % _BUFFERS
        self._steps[line, buffer] = _IN_WRITING
        self._sums[line, buffer] = found
        self._steps[line, buffer] = step

    def _read(self, line: int, wanted: int | None = None) -> LossSum:
        """Return the sums of the wanted step, if they are there, or else of the newest."""
        while True:
            steps = self._steps[line].tolist()
            step = wanted if wanted in steps else max(steps)
            buffer = steps.index(step)
            images, losses = self._sums[line, buffer].tolist()
            if self._steps[line, buffer] == step:
                return LossSum(images, losses)


@final
class RunLoss:
    """Publishes a worker's losses on the ``board``, as ``slot`` of its process; reads all."""

    def __init__(self, board: LossBoard | None = None, slot: int = 0) -> None:
        self._board = board or LossBoard.alone()
        self._slot = slot
        self._own = LossSum()
        self._steps: int | None = None

    def computed(self, step: int, loss: float, images: int) -> None:
        """Publish the mean loss of this worker's images in step ``step``, from 0."""
        self._own = self._own.plus(LossSum(images, loss * images))
        self._steps = step + 1
        self._board.publish(self._slot, self._steps, self._own)

    def total(self) -> LossSum:
        """Return the sum over all workers since they started, as far as it is known here."""
        return self._board.total(self._steps)

    def window(self) -> LossWindow:
        """Begin to average now."""
        return LossWindow(self)


@final
class LossWindow:
    """The mean over the images of all workers from one look to the next."""

    def __init__(self, run_loss: RunLoss) -> None:
        self._run_loss, self._before = run_loss, run_loss.total()
        self._mean = 0.0

    def mean(self) -> float:
        """Return the mean since the last call; what that returned if there were no images."""
        now, before = self._run_loss.total(), self._before
        if now.images > before.images:
            self._mean = (now.losses - before.losses) / (now.images - before.images)
            self._before = now
        return self._mean

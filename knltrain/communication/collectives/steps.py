"""The steps of operations, one operation at a time: kernels, and waiting between their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from knltrain.communication.collectives.call import described
from knltrain.communication.collectives.kernel_barrier import MISMATCH, seat_of
from knltrain.communication.collectives.layout import (
    ABORT_WORD,
    CALLS,
    FIRST_STATE_WORD,
    SEQUENCE,
    STATE_WORDS,
)
from knltrain.communication.collectives.peer_wait import PeerWait
from knltrain.communication.collectives.segment import GroupSegment
from knltrain.communication.shared_memory.atomics import watch


@final
class Steps:
    """Takes the steps of ``rank``; ``timeout_seconds`` is how long others may be late."""

    def __init__(
        self, segment: GroupSegment, rank: int, peer_wait: PeerWait, timeout_seconds: float
    ) -> None:
        self._peer_wait, self._ranks = peer_wait, segment.ranks
        self._timeout_seconds = timeout_seconds
        self._words = segment.words
        self._seat = seat_of(rank, self._ranks, segment.address + segment.layout.slot(0))
        states = self._words[FIRST_STATE_WORD:]
        self._sequences = states[SEQUENCE::STATE_WORDS][: self._ranks]
        self._abort_word = self._words[ABORT_WORD : ABORT_WORD + 1]
        self._sequence = 0

    def take(
        self,
        kernel: Callable[..., int],
        steps: int,
        numbers: int,
        call: int,
        arguments: tuple[object, ...],
        limit: float | None,
    ) -> None:
        """Take all ``steps`` of an operation, which uses up ``numbers`` sequence numbers.

        ``call`` is the code of the operation, the same for all ranks (see `call`); ``limit`` is a
        time limit in seconds for it. Raises what `PeerWait.wait` does, and CollectiveError if
        others have called another operation; the group is broken then.
        """
        if self._abort_word[0]:
            self._peer_wait.check()
        base, done = self._sequence, 0
        self._sequence += numbers
        try:
            while True:
                done = kernel(self._words, self._seat, base, done, steps, call, *arguments)
                if done == steps:
                    return
                if done == MISMATCH:
                    raise self._peer_wait.mismatch(self._announced(base))
                self._await(base + done, self._timeout_seconds if limit is None else limit)
        except BaseException:  # also when interrupted: this rank's next step is unknown then
            self._peer_wait.end()
            raise

    def _await(self, sequence: int, limit: float) -> None:
        def missing() -> list[int]:
            return [rank for rank, reached in enumerate(self._sequences) if reached < sequence]

        def all_are_here() -> bool:
            return watch(self._sequences, self._abort_word, sequence, 1, 0) == self._ranks

        self._peer_wait.wait(all_are_here, missing, limit)

    def _announced(self, base: int) -> list[str]:
        words = self._words[FIRST_STATE_WORD + CALLS + (base & 1) :: STATE_WORDS]
        return [described(int(word)) for word in words[: self._ranks]]

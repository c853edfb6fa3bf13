"""Workers of a real segment, each a real `NodeShared`, on a `Machine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from interleaving.exploration import Scenario
from interleaving.installation import install
from interleaving.seam import NO_LIMIT, NOBODY, Seam
from interleaving.shared_array import LINE_SHIFT, WORD_SHIFT
from interleaving.steps import Worker

from knltrain.errors import PeerLost
from knltrain.exchange.transports import layout
from knltrain.exchange.transports.layout import ABORT_WORD, SEQUENCE, STATE_WORDS
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.segment import Segment

Program: TypeAlias = Callable[[NodeShared], None]

PIECE_FLOATS = 16
"""A cache line: segments of some lines have as many pieces and stripes."""


class OnSegment(Scenario):
    """Every worker of a segment runs ``program``; those that live must come to its end.

    Where one may die the others may end with PeerLost instead, and with nothing else. If all come
    to the end every element of the center is to be ``expected_center``, if that is given.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        workers: int,
        program: Program,
        pieces: int = 2,
        deaths: bool = False,
        expected_center: int | None = None,
    ) -> None:
        patch.setattr(layout, "PIECE_FLOATS", PIECE_FLOATS)
        self.workers, self.program, self.deaths = workers, program, deaths
        self.expected_center = expected_center
        self.seam = Seam(workers)
        install(self.seam, patch)
        self.machine = self.seam.machine
        size = pieces * PIECE_FLOATS
        self.segment = Segment.create(size, workers)
        self._vectors = [*self.segment.locals_, self.segment.center]
        self._words = self.segment.words[: self.segment.layout.used_header_bytes // 8]
        self._words_at_start = self._words.copy()
        self._center = self.segment.center
        self._share()
        # It has all its pages: they need not be reserved again for every execution.
        self.begin()
        patch.setattr(Segment, "_reserve_pages", lambda *_: None)

    def begin(self) -> list[Callable[[], None]]:
        self.seam.begin()
        self._words[:] = self._words_at_start
        for vector in self._vectors:
            vector.fill(0)
        transports = [self._transport(rank) for rank in range(self.workers)]
        return [lambda each=each: self.program(each) for each in transports]

    def state(self) -> object:
        memory = [array.tobytes() for array in (self._words, *self._vectors)]
        return memory, self.seam.order_state()

    def check_end(self, workers: list[Worker]) -> None:
        expected = PeerLost if any(worker.died for worker in workers) else ()
        for worker in workers:
            if not (worker.died or worker.error is None or isinstance(worker.error, expected)):
                raise AssertionError(f"worker {worker.number} ended with {worker.error!r}")
        if not expected and self.expected_center is not None:
            found = self._center.tolist()
            assert set(found) == {self.expected_center}, f"center {found}"

    def close(self) -> None:
        self.machine.close()
        self.segment.close()

    def _transport(self, rank: int) -> NodeShared:
        self.seam.acting = rank
        return NodeShared(self.segment, rank, NO_LIMIT)

    def _share(self) -> None:
        segment, seam, plan = self.segment, self.seam, self.segment.layout
        words = seam.share(segment.words, WORD_SHIFT)
        seam.share_word(words, ABORT_WORD, "the abort word", None if self.deaths else NOBODY)
        for rank in range(self.workers):
            word = plan.state_word(rank) + SEQUENCE
            seam.share_word(words, word, f"the sequence of worker {rank}", rank)
        for piece in range(plan.pieces):
            seam.share_word(words, plan.lock_word(piece), f"the lock of piece {piece}")
        seam.share_word(words, plan.lock_word(plan.pieces), "the turn")
        segment.words = words
        segment.abort_word = words[ABORT_WORD : ABORT_WORD + 1]
        first = plan.state_word(0) + SEQUENCE
        segment.sequences = words[first::STATE_WORDS][: self.workers]
        segment.locals_ = seam.share(segment.locals_, LINE_SHIFT)
        segment.center = seam.share(segment.center, LINE_SHIFT)
        segment.kept = seam.share(segment.kept, LINE_SHIFT)

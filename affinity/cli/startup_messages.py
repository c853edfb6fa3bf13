"""Messages of ranks from before they become their commands; equal messages are printed once."""

from __future__ import annotations

import os
import selectors
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import final

from affinity.exec import SAID_BY
from affinity.placement.wording import numbered

_AT_ONCE = 1 << 16


@final
class FirstWords:
    """Collects each rank's messages until its command begins or it ends, and then tells them all.

    `tell` takes one line at a time: ``"ranks 0-3: this kernel does not know ..."``.
    """

    def __init__(self, selector: selectors.BaseSelector, tell: Callable[[str], None]) -> None:
        self._selector = selector
        self._tell = tell
        self._listening: dict[int, int] = {}
        self._said: dict[int, bytes] = {}

    def pipe(self, rank: int) -> int:
        """The write end for a rank; the caller closes it once the rank has it."""
        reading, writing = os.pipe()
        self._listening[reading] = rank
        self._selector.register(reading, selectors.EVENT_READ, lambda: self._hear(reading, rank))
        return writing

    def finish(self) -> None:
        """Tell the remaining messages of ranks that have ended, without waiting for more."""
        for reading, rank in list(self._listening.items()):
            os.set_blocking(reading, False)
            with suppress(BlockingIOError):
                while reading in self._listening:
                    self._hear(reading, rank)
        self._tell_all()

    def _hear(self, reading: int, rank: int) -> None:
        data = os.read(reading, _AT_ONCE)
        if data:
            self._said[rank] = self._said.get(rank, b"") + data
            return
        self._selector.unregister(reading)
        os.close(reading)
        del self._listening[reading]
        if not self._listening:
            self._tell_all()

    def _tell_all(self) -> None:
        ranks: defaultdict[str, list[int]] = defaultdict(list)
        for rank, said in self._said.items():
            for line in said.decode(errors="replace").splitlines():
                ranks[line.removeprefix(SAID_BY)].append(rank)
        self._said.clear()
        for line, speakers in ranks.items():
            self._tell(f"{numbered('rank', speakers)}: {line}")

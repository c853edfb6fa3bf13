"""The progress board of a segment: how many steps each worker has done."""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.communication.shared_memory.atomics import publish_and_read
from knltrain.exchange.transports.segment import Segment


@final
class ProgressBoard:
    """The board of worker ``rank``, which writes its own word and reads those of all.

    ShmCaffe's progress buffer (Ahn, Kim, Kang, Lim, ICDCS 2018). No call waits.
    """

    def __init__(self, segment: Segment, rank: int) -> None:
        self._steps_done = segment.steps_done
        self._rank = rank

    def share(self, steps: int) -> npt.NDArray[np.int64]:
        """Publish that this worker has done ``steps`` steps; return those of all, (P,).

        Of two workers that call this at once, at least one finds what the other writes.
        """
        found = np.empty(self._steps_done.size, np.int64)
        publish_and_read(self._steps_done, self._rank, steps, found)
        return found

    def close(self) -> None:
        """Release the segment's memory."""
        self._steps_done = np.zeros(0, np.int64)

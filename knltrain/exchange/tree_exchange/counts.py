"""Notifications that count: how far another rank has come, as its last notification says."""

from __future__ import annotations

from typing import final

from knltrain.communication.gaspi import Segment


@final
class Counts:
    """The last value of each of the first ``count`` own notifications of a segment; 0 before it.

    Values only grow, so that one which takes the place of another before it was read is no loss:
    it says all that the other did.
    """

    def __init__(self, segment: Segment, count: int) -> None:
        self._segment = segment
        self._last = [0] * count

    def __getitem__(self, notification: int) -> int:
        return self._last[notification]

    def look(self) -> bool:
        """Take what has come; tell whether anything has."""
        arrived = self._segment.arrived(0, len(self._last))
        for notification in arrived:
            self._last[notification] = self._segment.notify_reset(notification)
        return bool(arrived)

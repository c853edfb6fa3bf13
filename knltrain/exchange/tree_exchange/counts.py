"""Notifications as counters: the last value says how far another rank has come."""

from __future__ import annotations

from typing import final

from knltrain.communication.gaspi import Segment


@final
class NotificationCounts:
    """The last value of each of the first ``count`` own notifications of a segment; 0 at first.

    Values only grow. So nothing is lost if a value overwrites another that was not read yet.
    """

    def __init__(self, segment: Segment, count: int) -> None:
        self._segment = segment
        self._last = [0] * count

    def __getitem__(self, notification: int) -> int:
        return self._last[notification]

    def look(self) -> bool:
        """Read the notifications that have arrived; tell whether there are any."""
        arrived = self._segment.arrived(0, len(self._last))
        for notification in arrived:
            self._last[notification] = self._segment.notify_reset(notification)
        return bool(arrived)

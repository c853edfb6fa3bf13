"""Messages in transit: requests of a rank to send or receive, and messages that arrive."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.communication.collectives.channel import Channel

HEADER_BYTES = 16
ANY_RANK = -1

Finish = Callable[[BaseException | None, int], None]
"""finish(error, rank): called once, with the other rank of the message."""


@dataclass(slots=True)
class Request:
    """A request to send or receive a message: ``bytes`` at ``address``, to or from ``rank``."""

    rank: int
    tag: int
    address: int
    bytes: int
    finish: Finish
    limit_seconds: float
    posted: float = field(default_factory=time.monotonic)

    def wants(self, rank: int, tag: int) -> bool:
        """Tell whether this request takes what ``rank`` sends under ``tag``."""
        return self.rank in (ANY_RANK, rank) and self.tag == tag


@final
class Outgoing:
    """A message that is being sent: a header, then its bytes."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self._header = np.array([request.tag, request.bytes])
        self._done = 0

    def advance(self, channel: Channel) -> int:
        """Write what there is room for; return how many bytes."""
        before = self._done
        if self._done < HEADER_BYTES:
            address = int(self._header.ctypes.data) + self._done
            self._done += channel.push(address, HEADER_BYTES - self._done)
        if self._done >= HEADER_BYTES and not self.is_done:
            sent = self._done - HEADER_BYTES
            self._done += channel.push(self.request.address + sent, self.request.bytes - sent)
        return self._done - before

    @property
    def is_done(self) -> bool:
        """Whether all of it is written."""
        return self._done == HEADER_BYTES + self.request.bytes


@final
class Incoming:
    """A message that is being received: a header with its tag and size, then its bytes."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.request: Request | None = None
        self.found: npt.NDArray[np.uint8] | None = None
        self._header = np.zeros(2, np.int64)
        self._done = 0

    @property
    def has_header(self) -> bool:
        """Whether ``tag`` and ``bytes`` are known."""
        return self._done >= HEADER_BYTES

    @property
    def tag(self) -> int:
        """The tag that the sender gave the message."""
        return int(self._header[0])

    @property
    def bytes(self) -> int:
        """The size of the message."""
        return int(self._header[1])

    @property
    def is_done(self) -> bool:
        """Whether all of it is read."""
        return self.has_header and self._done == HEADER_BYTES + self.bytes

    def read_header(self, channel: Channel) -> int:
        """Read what is there of the header; return how many bytes."""
        address = int(self._header.ctypes.data) + self._done
        size = channel.pull(address, HEADER_BYTES - self._done)
        self._done += size
        return size

    def advance(self, channel: Channel) -> int:
        """Read what is there of the message, to its request's memory or to a buffer of its own."""
        request, got = self.request, self._done - HEADER_BYTES
        if request is not None and request.bytes == self.bytes:
            address = request.address
        else:
            if self.found is None:
                self.found = np.empty(self.bytes, np.uint8)
            address = int(self.found.ctypes.data)
        size = channel.pull(address + got, self.bytes - got)
        self._done += size
        return size

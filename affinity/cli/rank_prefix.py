"""Prefixes the output lines of several processes with the rank that wrote them."""

from __future__ import annotations

import os
import selectors
from contextlib import suppress
from typing import final

_AT_ONCE = 1 << 16


@final
class TaggedOutput:
    """Reads the ranks' output and prints whole lines, to standard output or error as the rank did.

    The last line of a rank gets the newline that it may lack. BrokenPipeError when the reader is
    gone.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._rest: dict[int, bytes] = {}
        self._origin: dict[int, tuple[bytes, int]] = {}

    def pipes(self, rank: int) -> tuple[int, int]:
        """The write ends of a rank's pipes, in place of its standard output and error."""
        return self._pipe(rank, onto=1), self._pipe(rank, onto=2)

    def drain(self) -> None:
        """Print the remaining output of ranks that have ended, without waiting for more."""
        for reading in list(self._rest):
            os.set_blocking(reading, False)
            with suppress(BlockingIOError):
                while reading in self._rest:
                    self._read(reading)
            if reading in self._rest:
                self._finish(reading)

    def _pipe(self, rank: int, onto: int) -> int:
        reading, writing = os.pipe()
        self._rest[reading] = b""
        self._origin[reading] = f"[{rank}] ".encode(), onto
        self._selector.register(reading, selectors.EVENT_READ, lambda: self._read(reading))
        return writing

    def _read(self, reading: int) -> None:
        data = os.read(reading, _AT_ONCE)
        if not data:
            self._finish(reading)
            return
        *lines, rest = (self._rest[reading] + data).split(b"\n")
        self._rest[reading] = rest
        self._hand_on(reading, lines)

    def _finish(self, reading: int) -> None:
        rest = self._rest.pop(reading)
        self._hand_on(reading, [rest] if rest else [])
        self._selector.unregister(reading)
        os.close(reading)

    def _hand_on(self, reading: int, lines: list[bytes]) -> None:
        tag, onto = self._origin[reading]
        data = b"".join(tag + line + b"\n" for line in lines)
        while data:
            data = data[os.write(onto, data) :]

"""Sends a line to a process's standard input that no terminal on the way echoes."""

from __future__ import annotations

import os
import termios
from typing import final

from knltrain.errors import KnltrainError

_LOCAL_MODES = 3
_SPECIAL = 6
"""Places in what termios.tcgetattr returns."""


@final
class SpokenLine:
    """Standard input for one process: it reads ``line`` there, and then the end of file.

    It is a pseudo-terminal whose echo is off. ``ssh -tt`` copies the modes of the local terminal to
    the remote one; with a pipe in its place the remote terminal would echo the line.
    """

    def __init__(self, line: str) -> None:
        try:
            self._speaking_fd, self.fd = os.openpty()
        except OSError as error:
            raise KnltrainError(
                f"no terminal for the standard input of a task: {error.strerror}; expected "
                "/dev/pts to be mounted, and fewer terminals to be open"
            ) from None
        self._line = line
        modes = termios.tcgetattr(self.fd)
        modes[_LOCAL_MODES] &= ~(termios.ECHO | termios.ECHONL)
        self._end = modes[_SPECIAL][termios.VEOF]
        termios.tcsetattr(self.fd, termios.TCSANOW, modes)

    def speak(self) -> None:
        """Send the line, once the process has the terminal."""
        os.write(self._speaking_fd, self._line.encode("ascii") + b"\n" + self._end)

    def __enter__(self) -> SpokenLine:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in (self._speaking_fd, self.fd):
            os.close(fd)

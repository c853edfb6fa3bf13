"""Makes standard streams safe to use: none is closed, and none fails at a character."""

from __future__ import annotations

import os
import sys

_MODES = {"stdin": "r", "stdout": "w", "stderr": "w"}


def secure_standard_streams() -> None:
    """Make standard input, output and error safe to use; to be called before all else.

    Descriptors 0 to 2 that were closed (`program <&-`, as some schedulers start it) are opened on
    /dev/null, for the programs that this one starts, too. Otherwise the next opened file would get
    their numbers, and receive the output. A character that the encoding of output or error lacks is
    written as an escape, ``\\u03b1``, instead of ending the program.
    """
    for name, mode in _MODES.items():
        if getattr(sys, name) is None:
            fd = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(fd, True)
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115 (until the end)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # not where somebody has put another kind there
            stream.reconfigure(errors="backslashreplace")

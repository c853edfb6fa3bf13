"""Training convolutional networks on many-core CPUs by elastic averaging between pinned workers."""

import atexit
import gc
import sys

__version__ = "0.1.0"


def _collect_garbage_rarely() -> None:
    """Have a process start and end sooner, by a tenth.

    Loading torch or Numba makes some 400,000 objects, which all stay; Python's collector would look
    through the new ones at every 700th. At the end nothing is to be looked for in what is to go.
    """
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)


_program = (getattr(sys, "argv", None) or [""])[0]
# In programs of ours alone: Python calls `-m knltrain...` just "-m" until this import is done.
if _program == "-m" or _program.endswith("/bin/knltrain"):
    _collect_garbage_rarely()

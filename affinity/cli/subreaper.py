"""Starts processes so that none is left behind, whoever is killed.

Work that starts processes is done in a child, the keeper. The keeper and its parent both adopt the
orphans of their descendants (PR_SET_CHILD_SUBREAPER, prctl(2)) and kill them:

    the parent is killed    the keeper sees the end of a pipe, and kills all its processes
    the keeper is killed    its children die with it; the parent adopts theirs, and kills them
    the work is done        the keeper kills what is left
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from affinity.errors import AffinityError
from affinity.process.other_process import children

PASSED_ON = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals that the parent sends on to the keeper, unless it was started to ignore them."""

_PR_SET_CHILD_SUBREAPER = 36


def in_keeper(work: Callable[[int], int]) -> int:
    """Do `work` in a keeper and return its status, or 128 + the signal that ended it.

    For a process without other children or threads: in the end all of its children are killed.
    `work` takes a file descriptor that ends when the parent does; from then on it should hurry. The
    signals of `PASSED_ON` reach it as if sent to it.
    """
    _adopt_orphans()
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    keeper = os.fork()
    if keeper == 0:
        os.close(writing)
        _keep(work, reading, before)
    os.close(reading)
    for number in heard():
        signal.signal(number, partial(_pass_on, keeper))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _, status = os.waitpid(keeper, 0)
    os.close(writing)
    end_descendants()
    return shell_status(status)


def heard() -> list[signal.Signals]:
    """Signals of `PASSED_ON` that this process does not ignore (nohup and the like make it)."""
    return [number for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN]


def shell_status(wait_status: int) -> int:
    """The exit status that a shell gives for what waitpid(2) returns."""
    code = os.waitstatus_to_exitcode(wait_status)
    return code if code >= 0 else 128 - code


def end_descendants() -> None:
    """Kill all processes below this one, until there are none: orphans are adopted one by one."""
    while True:
        for child in children():
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _pass_on(keeper: int, number: int, _: object) -> None:
    with suppress(ProcessLookupError):  # It has just ended.
        os.kill(keeper, number)


def _keep(work: Callable[[int], int], lifeline: int, mask: set[int | signal.Signals]) -> None:
    status = 1
    try:
        os.setsid()  # What the terminal sends to all of us would reach the work twice.
        _adopt_orphans()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        status = work(lifeline)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        end_descendants()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(status)


def _adopt_orphans() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1)) != 0:
        raise AffinityError(
            "this kernel cannot keep processes together (PR_SET_CHILD_SUBREAPER: "
            f"{os.strerror(ctypes.get_errno())}): start each rank by itself with --rank N"
        )

"""Turns signals into bytes on a pipe, so that one selector waits for workers and signals."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, TypeAlias, final

from knltrain.errors import KnltrainError, RunAborted

Handler: TypeAlias = Callable[[int, FrameType | None], None]

STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a run to end."""

ENDING: Final = (signal.SIGINT, signal.SIGHUP)
"""Signals that end a run at once; others may ask it for a checkpoint first."""

ASKING: Final = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals by which schedulers and users ask a run for something else, as it is configured."""

ECHO_SECONDS: Final = 0.25
"""Within this the same signal counts once: `timeout` and schedulers send it to a process, and to
its group. Not SIGINT, which a user types."""


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `signal 34` for numbers without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def check_main_thread() -> None:
    """Raise KnltrainError in any thread but the main one: only that receives signals."""
    if threading.current_thread() is not threading.main_thread():
        raise KnltrainError(
            f"a run was started by thread '{threading.current_thread().name}': expected the main "
            "thread, which alone receives signals; start it there, or by `knltrain train` in a "
            "process of its own"
        )


@final
class SignalPipe:
    """While entered, STOPPING and ASKING signals and SIGCHLD make `fd` readable, and no more.

    A SIGHUP that was already ignored stays ignored (`nohup`). Main thread only.
    """

    def __enter__(self) -> SignalPipe:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        self._previous_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        self._previous: dict[int, Any] = {
            number: signal.signal(number, _wake)
            for number in (*STOPPING, *ASKING, signal.SIGCHLD)
            if not (number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN)
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        signal.set_wakeup_fd(self._previous_fd)
        os.close(self.fd)
        os.close(self._write_fd)

    def arrived(self) -> list[signal.Signals]:
        """STOPPING and ASKING signals that arrived since the last call, oldest first."""
        try:
            numbers = os.read(self.fd, 4096)
        except BlockingIOError:
            return []
        return [
            signal.Signals(number)
            for number in numbers
            if number in self._previous and number in (*STOPPING, *ASKING)
        ]


@final
class Echoes:
    """Detects a signal that was sent once but delivered twice."""

    def __init__(self) -> None:
        self._heard: dict[signal.Signals, float] = {}

    def take(self, number: signal.Signals) -> bool:
        """Whether this signal is only the echo of one that has counted."""
        now = time.monotonic()
        if number != signal.SIGINT and now - self._heard.get(number, -math.inf) < ECHO_SECONDS:
            return True
        self._heard[number] = now
        return False


def _wake(number: int, frame: FrameType | None) -> None:
    """Receive a signal without acting: the wake-up descriptor has already carried its number."""


@contextmanager
def signals_raise(numbers: Collection[signal.Signals] = STOPPING) -> Iterator[None]:
    """While entered, these signals raise RunAborted, so that resources are closed.

    A SIGHUP that was already ignored stays ignored (`nohup`). Main thread only.
    """
    with _handled(dict.fromkeys(numbers, _stop)):
        yield


@contextmanager
def run_begins() -> Iterator[None]:
    """While entered, signals end a run that has no worker yet, as in `signals_raise`.

    SIGUSR1 does, too; SIGUSR2 does nothing, as there is no state to save.
    """
    with _handled({**dict.fromkeys(STOPPING, _stop), **_OF_A_BEGINNING}):
        yield


@contextmanager
def run_is_over() -> Iterator[None]:
    """While entered, signals that would end a run, or request something of it, have no effect.

    SIGINT, which a user types, ends the remaining work.
    """
    late = (*(number for number in STOPPING if number != signal.SIGINT), *ASKING)
    with _handled(dict.fromkeys(late, _wake)):
        yield


def _stop(number: int, _frame: FrameType | None) -> None:
    raise RunAborted(f"stopped by {signal_name(number)}", number)


_OF_A_BEGINNING: Final = {signal.SIGUSR1: _stop, signal.SIGUSR2: _wake}


@contextmanager
def _handled(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    previous = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if not (number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN)
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

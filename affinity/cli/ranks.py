"""The processes of all ranks: started, watched and ended together."""

from __future__ import annotations

import math
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import final

from affinity.cli.monitor import Bystander
from affinity.cli.rank_prefix import TaggedOutput
from affinity.cli.startup_messages import FirstWords
from affinity.cli.subreaper import heard, shell_status
from affinity.placement.wording import numbered

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_READER_GONE = 128 + signal.SIGPIPE


@dataclass(frozen=True, slots=True)
class Start:
    """A rank and its command, which puts itself in its place.

    `command` takes the file descriptor for messages before that. `bound_to` are the memory nodes
    that it may not leave, if any.
    """

    rank: int
    command: Callable[[int], Sequence[str]]
    bound_to: Sequence[int] = ()


@final
class Ranks:
    """All ranks of one run, in one loop over signals, ends of processes and output.

    The first rank that fails ends the others: they get SIGTERM, and SIGKILL if they are still
    there `grace_seconds` later. A signal to this process does the same, a second one kills at once.
    """

    def __init__(self, tagged: bool, grace_seconds: float, bystander: Bystander | None) -> None:
        self._rank_of: dict[int, int] = {}
        self._bound_to: dict[int, Sequence[int]] = {}
        self._status = 0
        self._deadline: float | None = None
        self._grace_seconds = grace_seconds
        self._bystander = bystander
        self._selector = selectors.DefaultSelector()
        self._output = TaggedOutput(self._selector) if tagged else None
        self._first_words = FirstWords(self._selector, _say)

    def run(self, starts: Sequence[Start], lifeline: int) -> int:
        """Start all and wait for all; 0, or the status of the first failure, or 128 + the signal.

        The end of `lifeline`, a file descriptor, kills all.
        """
        signals = _listen()
        self._selector.register(signals, selectors.EVENT_READ, lambda: self._hear(signals))
        self._selector.register(lifeline, selectors.EVENT_READ, lambda: self._orphaned(lifeline))
        try:
            for start in starts:
                self._start(start)
            while self._rank_of:
                self._wait()
            self._first_words.finish()
            if self._output:
                self._output.drain()
        except BrokenPipeError:
            self._kill()
            return _READER_GONE
        return self._status

    def _start(self, start: Start) -> None:
        if self._deadline is not None:
            return
        stdin = None if start.rank == 0 else subprocess.DEVNULL
        stdout, stderr = self._output.pipes(start.rank) if self._output else (None, None)
        first_words = self._first_words.pipe(start.rank)
        try:
            process = subprocess.Popen(
                start.command(first_words),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=(first_words,),
            )
        except OSError as error:
            _say(f"rank {start.rank} cannot be started: {error.strerror}")
            self._fail(1)
            return
        finally:
            for end in (stdout, stderr, first_words):
                if end is not None:
                    os.close(end)
        process.returncode = 0  # It is waited for here, with all others, and not by its object.
        self._rank_of[process.pid] = start.rank
        self._bound_to[start.rank] = start.bound_to

    def _wait(self) -> None:
        for key, _ in self._selector.select(self._patience()):
            key.data()
        if self._deadline is not None and time.monotonic() >= self._deadline:
            late = ", ".join(map(str, sorted(self._rank_of.values())))
            _say(f"still there after {self._grace_seconds:g} s, so killed: rank {late}")
            self._kill()
        if self._bystander:
            self._bystander.look(self._rank_of)

    def _patience(self) -> float | None:
        deadlines = [self._deadline, self._bystander and self._bystander.next_look]
        waits = [deadline for deadline in deadlines if deadline is not None]
        soonest = min(waits, default=math.inf)
        return None if math.isinf(soonest) else max(0.0, soonest - time.monotonic())

    def _hear(self, signals: int) -> None:
        for number in os.read(signals, 4096):
            if number == signal.SIGCHLD:
                self._reap()
            elif number not in _ENDING:
                self._pass_on(number)
            elif self._deadline is None:
                self._status = 128 + number
                self._end(number)
            else:
                self._kill()

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                rank = self._rank_of.pop(pid, None)
                if rank is not None:
                    self._ended(rank, shell_status(wait_status))

    def _ended(self, rank: int, status: int) -> None:
        if status == 0 or self._deadline is not None:
            return
        others = "; ending the others" if self._rank_of else ""
        _say(f"rank {rank} {_how(status, self._bound_to[rank])}{others}")
        self._fail(status)

    def _fail(self, status: int) -> None:
        self._status = status
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        self._deadline = time.monotonic() + self._grace_seconds
        self._signal_all(number)

    def _orphaned(self, lifeline: int) -> None:
        self._selector.unregister(lifeline)
        self._status = 128 + signal.SIGKILL
        self._kill()

    def _kill(self) -> None:
        self._deadline = math.inf
        self._signal_all(signal.SIGKILL)

    def _pass_on(self, number: int) -> None:
        # To the commands alone: their children would mostly die of a signal that they do not know.
        for pid in self._rank_of:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _signal_all(self, number: int) -> None:
        # As a terminal does: each rank leads a session and a group, its children are in that, too.
        for pid in self._rank_of:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)


def _listen() -> int:
    """A file descriptor from which the numbers of incoming signals can be read."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (*heard(), signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return reading


def _how(status: int, bound_to: Sequence[int]) -> str:
    if status <= 128 or status - 128 not in {*signal.Signals}:
        return f"ended with status {status}"
    name = signal.Signals(status - 128).name
    return f"was ended by {name}{_why_killed(bound_to) if name == 'SIGKILL' else ''}"


def _why_killed(bound_to: Sequence[int]) -> str:
    """A likely reason for SIGKILL, whose sender is not known."""
    if not bound_to:
        return " (the kernel does that when memory runs out: see dmesg)"
    return (
        f" (its memory is bound to {numbered('node', bound_to)}, and it may have needed more than "
        "there is: the kernel kills a process for that; see dmesg; --policy spill lets the rest go "
        "elsewhere, --need NAME=SIZE has it refused beforehand)"
    )


def _say(message: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"affinity run: {message}\n")
        sys.stderr.flush()

"""Starts one command of knltrain on several computers, without Slurm or MPI."""

from __future__ import annotations

import math
import os
import secrets
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, final

from affinity import allowed_cpus, pinned_command
from knltrain.cluster.job_secret import AT_STDIN, COMES_IN, new_secret
from knltrain.cluster.task import own_variables
from knltrain.errors import (
    SIGNALLED,
    ConfigError,
    KnltrainError,
    RunAborted,
    first_repeated,
)
from knltrain.launch.signals import ENDING, STOPPING, Echoes, SignalPipe, signal_name
from knltrain.launch.spoken_line import SpokenLine

VIA: Final = "ssh -tt -o BatchMode=yes -o ConnectTimeout=20 -o LogLevel=ERROR {host}"
"""-tt ends the remote command with the connection; BatchMode asks for no passwords."""

_OF_SSH_ITSELF: Final = 255
"""ssh's status for its own failures; knltrain never exits with it."""

GRACE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.1
_LAST_LINES_SECONDS: Final = 2.0


def launch(
    hosts: Sequence[str], words: Sequence[str], via: str = VIA, first_address: str | None = None
) -> int:
    """Run ``knltrain`` with these arguments on each host, as tasks of one launch.

    `via` is the command that reaches a ``{host}``; the task starts there in the same folder, with
    the same Python. The first host is task 0; the others reach it by its name, or by
    `first_address`. All tasks get the secret of the launch at their standard input.

    When one task fails, all others are ended. A first signal is passed on to all hosts, where it
    may ask for a checkpoint; a second one ends the tasks. Returns the launch's exit status. Raises
    ConfigError for invalid hosts, RunAborted if a signal ended the launch, and KnltrainError where
    ssh does not reach a host.
    """
    if not hosts:
        raise ConfigError("--hosts names no host: expected some, such as --hosts node1,node2")
    if (twice := first_repeated(hosts)) is not None:
        raise ConfigError(
            f"--hosts names '{twice}' twice: expected each computer once, such as --hosts "
            "node1,node2; how many workers it has, --workers says"
        )
    if "{host}" not in via:
        raise ConfigError(f"--via '{via}': expected a command with {{host}} in it, as '{VIA}'")
    job, secret = secrets.token_hex(8), new_secret()
    with SignalPipe() as signals, ExitStack() as started:
        tasks: list[_TaskOnHost] = []
        started.callback(_end, tasks)
        for rank, host in enumerate(hosts):
            own = _own(rank, hosts, job, first_address)
            said = started.enter_context(SpokenLine(secret))
            tasks.append(_TaskOnHost(host, _command(host, via, words, own), rank, said))
        pass_on = partial(_pass_on, tasks, via, job) if _by_ssh(via) else partial(_signal, tasks)
        status = _watch(tasks, signals, pass_on)
        if status == _OF_SSH_ITSELF and _by_ssh(via):
            raise _not_there(tasks, via)
        return status


@final
class _TaskOnHost:
    """A task on a host; output of all but the first is printed with the host's name."""

    def __init__(self, host: str, command: Sequence[str], rank: int, said: SpokenLine) -> None:
        self.host = host
        apart = subprocess.PIPE if rank else None
        self.process = subprocess.Popen(
            command,
            stdin=said.fd,
            stdout=apart,
            stderr=subprocess.STDOUT if rank else None,
            start_new_session=True,  # what its group is sent is for the launcher to pass on
        )
        said.speak()
        self._messengers: list[subprocess.Popen[bytes]] = []
        self._teller = threading.Thread(target=self._tell, daemon=True)
        self._teller.start()

    @property
    def status(self) -> int | None:
        """As a shell tells it: 128 + the signal's number for one that a signal has ended."""
        code = self.process.poll()
        return code if code is None or code >= 0 else SIGNALLED - code

    def await_end(self, until_seconds: float) -> bool:
        """Wait for the task's end and for its output; return whether it ended in time."""
        try:
            self.process.wait(max(0.0, until_seconds - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        self._teller.join(_LAST_LINES_SECONDS)
        self._end_messengers()
        return True

    def send(self, messenger: Sequence[str]) -> None:
        """Start a helper command that lives no longer than the task and the launcher."""
        command = pinned_command(messenger, allowed_cpus(), die_with_parent=os.getpid())
        self._messengers.append(
            subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        )

    def _end_messengers(self) -> None:
        """End the helper commands: they have done their work, or the task is gone."""
        for messenger in self._messengers:
            messenger.kill()
            messenger.wait()
        self._messengers.clear()

    def _tell(self) -> None:
        for line in self.process.stdout or ():
            text = line.decode(errors="replace").rstrip()
            print(f"{self.host}: {text}", file=sys.stderr, flush=True)


def _own(rank: int, hosts: Sequence[str], job: str, first_address: str | None) -> list[str]:
    first = first_address or hosts[0].rpartition("@")[2]  # ssh takes USER@HOST
    variables = own_variables(rank, len(hosts), job, first)
    return [f"{name}={value}" for name, value in {**variables, COMES_IN: AT_STDIN}.items()]


def _command(host: str, via: str, words: Sequence[str], variables: Sequence[str]) -> list[str]:
    there = [
        *("env", f"--chdir={Path.cwd()}"),
        *variables,
        *(() if sys.stdout.isatty() else ("TERM=dumb",)),
        *(sys.executable, "-m", "knltrain"),
        *words,
    ]
    way = [word.replace("{host}", host) for word in shlex.split(via)]
    if _by_ssh(via):  # which has a shell read what it is given
        there = [shlex.join(there)]
    return pinned_command([*way, *there], allowed_cpus(), die_with_parent=os.getpid())


def _by_ssh(via: str) -> bool:
    return any(Path(word).name == "ssh" for word in shlex.split(via))


def _not_there(tasks: Sequence[_TaskOnHost], via: str) -> KnltrainError:
    hosts = [task.host for task in tasks if task.status == _OF_SSH_ITSELF]
    way = via.replace("{host}", hosts[0])
    return KnltrainError(
        f"ssh did not get to {', '.join(hosts)}, or what ran there, or the connection, was ended "
        f"from outside (its status is {_OF_SSH_ITSELF}, its own words are above): expected hosts "
        f"that let in without a password, as in `{way} true`; --via names another way"
    )


def _watch(
    tasks: Sequence[_TaskOnHost], signals: SignalPipe, pass_on: Callable[[signal.Signals], None]
) -> int:
    """Wait for all, or the first that fails; raise RunAborted where a signal ends them."""
    stopped_by: signal.Signals | None = None
    until_seconds, echoes = math.inf, Echoes()
    while True:
        for number in signals.arrived():
            if echoes.take(number):
                continue
            if number in STOPPING and stopped_by is not None:
                _signal(tasks, number)
                raise _aborted(number)
            pass_on(number)
            if number in STOPPING:
                stopped_by = number
            if number in ENDING:
                until_seconds = time.monotonic() + GRACE_SECONDS
        alive = [task for task in tasks if task.status is None]
        failed = next((task.status for task in tasks if task.status), 0)
        if stopped_by is not None and (failed > SIGNALLED or time.monotonic() > until_seconds):
            raise _aborted(stopped_by)
        if failed or not alive:
            return failed
        alive[0].await_end(time.monotonic() + _LOOK_SECONDS)


def _signal(tasks: Sequence[_TaskOnHost], number: signal.Signals) -> None:
    for task in tasks:
        if task.status is None:
            task.process.send_signal(number)


def _pass_on(tasks: Sequence[_TaskOnHost], via: str, job: str, number: signal.Signals) -> None:
    """Send a signal to what runs on hosts, by connections of its own, or by ending those."""
    if number in ENDING:
        _signal(tasks, number)
        return
    words = ["-m", "knltrain.launch.pass_on", job, str(int(number))]
    for task in tasks:
        if task.status is None:
            way = [word.replace("{host}", task.host) for word in shlex.split(via)]
            there = shlex.join(["env", f"--chdir={Path.cwd()}", sys.executable, *words])
            task.send([*way, there])


def _aborted(number: signal.Signals) -> RunAborted:
    return RunAborted(f"stopped by {signal_name(number)}", number)


def _end(tasks: Sequence[_TaskOnHost]) -> None:
    """Give all tasks some time to end by themselves: those that have lost a peer do."""
    for end in (None, signal.SIGTERM, signal.SIGKILL):
        until_seconds = time.monotonic() + GRACE_SECONDS
        for task in tasks:
            if end is not None and task.status is None:
                task.process.send_signal(end)
        if all(task.await_end(until_seconds) for task in tasks):
            return

"""Python programs of tests, forked from a process that has loaded torch, Numba and knltrain.

A process of its own for each, as `subprocess.Popen` gives it: with a start of its own it would take
2 s of a core until torch is loaded, and there are hundreds. What a library reads of the environment
while it is loaded is that of the server, one OpenMP thread among it.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
LOADED = (
    "pytest",
    "knltrain.torch_distributed",
    "torch.nn.parallel",
    "knltrain.exchange.transports.segment",
)
MESSAGE_BYTES = 1 << 20
FDS = 16
SERVERS: dict[int, subprocess.Popen[bytes]] = {}
"""By its number, the process that forks: no test has left it behind, it ends with this one."""


class Forked:
    """A process that is a child of this one."""

    def __init__(self, pid: int, output: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout = os.fdopen(output, encoding="utf-8")

    def wait(self, timeout: float | None = None) -> int:
        """Exit status, or minus the number of the signal that has ended it."""
        limit = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif limit is not None and time.monotonic() > limit:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            else:
                time.sleep(0.005)
        return self.returncode

    def communicate(self, timeout: float = 600.0) -> tuple[str, None]:
        """What it prints until it ends."""
        limit = time.monotonic() + timeout
        fd, read = self.stdout.fileno(), b""
        while select.select([fd], [], [], max(0.0, limit - time.monotonic()))[0]:
            if not (piece := os.read(fd, 1 << 16)):
                self.wait(max(0.0, limit - time.monotonic()))
                self.stdout.close()
                return read.decode(), None
            read += piece
        raise subprocess.TimeoutExpired(str(self.pid), timeout, read)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start_python(
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> Forked:
    """Run a file with its arguments, which imports from the repository; its output is read."""
    words = {
        "arguments": list(arguments),
        "environment": {**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})},
        "folder": str(Path.cwd()),
        "fds": list(pass_fds),
    }
    ours, theirs = os.pipe()
    try:
        socket.send_fds(_server(), [json.dumps(words).encode()], [theirs, *pass_fds])
    finally:
        os.close(theirs)
    return Forked(int(_server().recv(100)), ours)


@functools.cache
def _server() -> socket.socket:
    """The way to the process that forks. It ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_BYTES)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        )
    SERVERS[process.pid] = process
    atexit.register(ours.close)
    return ours


def serve(requests: socket.socket) -> None:
    """Fork for every request; returns in the new process, which is to run its program."""
    gc.freeze()  # Pages of what is loaded stay shared with all that are forked.
    while True:
        message, fds, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, FDS)
        if not message:
            sys.exit()
        reader, writer = os.pipe()
        if (between := os.fork()) == 0:
            # The tests, a subreaper, become the parent of this process's child as soon as it ends.
            if (pid := os.fork()) != 0:
                os.write(writer, str(pid).encode())
                os._exit(0)
            for fd in (reader, writer):
                os.close(fd)
            requests.close()
            _become(json.loads(message), fds)
            return
        os.close(writer)
        os.waitpid(between, 0)
        requests.send(os.read(reader, 100))
        for fd in (reader, *fds):
            os.close(fd)


def _become(words: dict[str, object], fds: list[int]) -> None:
    environment, arguments, numbers = words["environment"], words["arguments"], words["fds"]
    assert isinstance(environment, dict)
    assert isinstance(arguments, list)
    assert isinstance(numbers, list)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(str(words["folder"]))
    sys.argv[:] = arguments
    _put(fds, [1, *numbers])


def _put(fds: list[int], numbers: list[int]) -> None:
    """Have files under these numbers, whatever numbers they came with."""
    beyond = max(fds + numbers) + 1
    away = [os.dup2(fd, beyond + place) for place, fd in enumerate(fds)]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(away, numbers, strict=True):
        os.dup2(fd, number)
        os.close(fd)


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    for name in LOADED:
        importlib.import_module(name)
    serve(requests)
    program = Path(sys.argv[0])
    sys.path[0] = str(program.parent)
    module = types.ModuleType("__main__")
    module.__file__ = str(program)
    sys.modules["__main__"] = module
    exec(compile(program.read_text(encoding="utf-8"), program, "exec"), module.__dict__)


if __name__ == "__main__":
    main()

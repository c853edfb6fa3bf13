"""A contestant's process: started pinned, warmed up, asked for rounds, ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, final

from affinity import pinned_command, thread_environment
from knltrain.errors import KnltrainError

END_SECONDS = 5.0

_FORGET_PEAK = "5"
"""What proc(5) wants in clear_refs, so that VmHWM starts from the present size anew."""


class PeerError(KnltrainError):
    """A contestant that could not be started, or that failed."""


@final
class PeerProcess:
    """A process that speaks the protocol of `knltrain.bench.step.protocol`.

    The process is `python` with `arguments`. It runs on `cpus` with a thread on each, or with
    `threads` that roam among them; `environment` adds to the inherited one, and `pass_fds` are open
    in it, too. Raises PeerError, with the end of the process's standard error, when it ends instead
    of answering.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        cpus: Sequence[int],
        threads: int | None = None,
        *,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.name = name
        of_threads = (
            thread_environment(len(cpus), [[cpu] for cpu in cpus])
            if threads is None
            else thread_environment(threads)
        )
        command = pinned_command(
            [python, *arguments], cpus, {**of_threads, **(environment or {})}, os.getpid()
        )
        with ExitStack() as until_started:
            self._errors = until_started.enter_context(tempfile.TemporaryFile("w+"))
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                pass_fds=pass_fds,
            )
            until_started.pop_all()  # from here on `close` sees to it
        self.ready: dict[str, Any] = {}

    def wait_ready(self) -> None:
        """Wait until the contestant is warm; `ready` is then its report.

        `peak_bytes` counts from here on: memory of the preparation that has been freed is not
        counted.
        """
        self.ready = self.answer()["ready"]
        with suppress(OSError):  # the peak of all time then, on kernels that cannot forget it
            Path(f"/proc/{self._process.pid}/clear_refs").write_text(_FORGET_PEAK)

    def measure(self, seconds: float) -> dict[str, Any]:
        """Let it work for about so long and return its answer."""
        self.ask(seconds)
        return self.answer()

    def ask(self, what: Any) -> None:
        """Ask it to work for so many seconds, or something else; `answer` must follow."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the missing answer tells why
            self._process.stdin.write(f"{json.dumps(what)}\n")
            self._process.stdin.flush()

    def fileno(self) -> int:
        """Return the descriptor of its answers, or of their end, for selectors."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def suspend(self) -> None:
        """Stop the process until `resume`, so that threads that spin use no core."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the process."""
        self._process.send_signal(signal.SIGCONT)

    def answer(self) -> dict[str, Any]:
        """Wait for its next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        raise self._ended()

    @property
    def peak_bytes(self) -> int:
        """Peak memory since it was warm (VmHWM), libraries included."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        found = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
        if found is None:  # A process that has ended keeps its place until it is waited for.
            raise self._ended()
        return int(found[1]) * 1024

    def close(self) -> None:
        """Close its input, and kill it if it does not end then; can be called twice."""
        self.resume()  # who is suspended would not see the end of its input
        try:
            # stdin.close() would raise for a line that the process did not live to read.
            self._process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        finally:
            self._errors.close()

    def _ended(self) -> PeerError:
        """The error of a process that is about to end, or has."""
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().strip()[-2000:]
        if code == -signal.SIGKILL:
            return PeerError(
                f"contestant '{self.name}' was killed, as the kernel does when memory runs out: "
                f"compare with fewer at a time, or take a smaller batch: {said}"
            )
        return PeerError(f"contestant '{self.name}' ended with exit code {code}: {said}")

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

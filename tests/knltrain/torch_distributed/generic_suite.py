"""PyTorch's generic tests of backends, run on ranks that stay: `generic_suite.py BACKEND RANKS`.

Prints a line for each test, and which passed: with names behind, those tests alone.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RANK = Path(__file__).with_name("generic_rank.py")
REPOSITORY = Path(__file__).parents[3]
START_SECONDS = 300
LIMIT_SECONDS = 180
GRACE_SECONDS = 3
"""How long ranks go on once another has failed."""


def names() -> list[str]:
    """The names of all tests of `DistributedTest`, read from its source."""
    found = importlib.util.find_spec("torch")
    assert found is not None
    assert found.origin is not None
    source = Path(found.origin).with_name("testing") / "_internal/distributed/distributed_test.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    return sorted(
        node.name
        for outer in ast.walk(tree)
        if isinstance(outer, ast.ClassDef) and outer.name == "_DistTestBase"
        for node in outer.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


class Suite:
    """The ranks of one backend; started anew after a test that does not end."""

    def __init__(self, backend: str, ranks: int, folder: Path) -> None:
        self._backend, self._ranks, self._folder = backend, ranks, folder
        self._number = 0
        self._processes: list[subprocess.Popen[str]] = []

    def run(self, name: str) -> tuple[str, str]:
        """How a test went: the worst that any rank says of it, and why."""
        if not self._processes:
            self._start()
        folder = self._new_folder()
        self._say_to_all(f"{name} {folder}")
        said = self._answers(LIMIT_SECONDS)
        if len(said) < self._ranks:
            self.end()
            said.append(("hung or died", f"of {self._ranks} ranks, {said} answered"))
        ways = ("hung or died", "failed", "skipped", "stopped", "passed")
        way, why = min(said, key=lambda each: ways.index(each[0]))
        return way, why if way != "hung or died" else f"{why}: {self._last()}"

    def end(self) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the child that does the test
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()
        self._processes = []

    def _start(self) -> None:
        self._processes = [self._started(rank) for rank in range(self._ranks)]
        if len(self._answers(START_SECONDS)) < self._ranks:
            self.end()
            raise RuntimeError(f"ranks of {self._backend} did not start: {self._last()}")

    def _answers(self, limit_seconds: float) -> list[tuple[str, str]]:
        said: list[tuple[str, str]] = []
        deadline, stop_at = time.monotonic() + limit_seconds, math.inf
        with selectors.DefaultSelector() as waiting:
            for process in self._processes:
                assert process.stdout is not None
                waiting.register(process.stdout, selectors.EVENT_READ)
            while waiting.get_map() and (left := deadline - time.monotonic()) > 0:
                if time.monotonic() > stop_at:
                    stop_at = math.inf
                    self._say_to_all("stop")
                for key, _ in waiting.select(min(left, max(stop_at - time.monotonic(), 0))):
                    line = key.fileobj.readline()  # type: ignore[union-attr]
                    waiting.unregister(key.fileobj)
                    if not line:
                        return said
                    way, why = json.loads(line)
                    said.append((way, why))
                    if way != "passed":
                        stop_at = min(stop_at, time.monotonic() + GRACE_SECONDS)
        return said

    def _say_to_all(self, line: str) -> None:
        for process in self._processes:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it has died, and does not answer
                process.stdin.write(line + "\n")
                process.stdin.flush()

    def _last(self) -> list[str]:
        """What the ranks have printed last."""
        logs = [self._folder / f"rank-{rank}.log" for rank in range(self._ranks)]
        return [log.read_text(errors="replace")[-1000:] for log in logs]

    def _started(self, rank: int) -> subprocess.Popen[str]:
        log = (self._folder / f"rank-{rank}.log").open("a")
        with log:
            return subprocess.Popen(
                [sys.executable, str(RANK), self._backend, str(rank), str(self._ranks)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=0,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
            )

    def _new_folder(self) -> Path:
        self._number += 1
        folder = self._folder / str(self._number)
        for name in ("barrier", "test_dir", "init_dir"):
            (folder / name).mkdir(parents=True)
        return folder


def main() -> None:
    backend, ranks, *chosen = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(backend, int(ranks), Path(folder))
        for name in chosen or names():
            begun = time.monotonic()
            way, why = suite.run(name)
            line = [name, way, round(time.monotonic() - begun, 1), why]
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
        suite.end()


if __name__ == "__main__":
    main()

"""A training that goes on for as long as it is timed, while the link between its hosts changes."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, final

import numpy as np
import numpy.typing as npt

from knltrain.bench.predict.steps import Ground, command_of, computing_in
from knltrain.bench.step.peer_process import PeerError
from knltrain.config import RunConfig, to_toml
from knltrain.errors import RESUMABLE, RunFolderError
from knltrain.metrics import read_metrics

LEAST_SECONDS: Final = 1.0
"""What is timed at least: five records of a log."""

_Log = list[tuple[int, float]]
"""Steps and seconds of each record of a worker's training."""

_NONE = subprocess.DEVNULL
_SETTLING_RECORDS = 2
"""A log's records after a change that do not count: the first one is of steps from before."""
_LOOK_SECONDS = 0.1
_LONGEST_SECONDS = 600.0
_GRACE_SECONDS = 35.0
"""More than `knltrain launch` takes to end what it has started."""


@final
class Running:
    """A training of so many workers, known by the logs that they write into the folder `run`."""

    def __init__(self, process: subprocess.Popen[bytes], run: Path, workers: int) -> None:
        self._process, self._run, self._workers = process, run, workers

    def await_step(self, step: int) -> None:
        """Wait until all workers have taken so many steps; PeerError as `seconds_of_step`."""
        deadline = time.monotonic() + _LONGEST_SECONDS
        while not all(log and log[-1][0] >= step for log in self._logs()):
            self._rest(deadline)

    def seconds_of_step(self, steps: int) -> float:
        """Seconds of a step from now on, the mean of the workers, each over `steps` or more.

        Raises PeerError if the training ends, or takes too long.
        """
        deadline = time.monotonic() + _LONGEST_SECONDS
        begins = [len(log) + _SETTLING_RECORDS - 1 for log in self._logs()]
        while True:
            spans = list(map(_since, begins, self._logs()))
            if all(done >= steps and seconds >= LEAST_SECONDS for done, seconds in spans):
                return statistics.mean(seconds / done for done, seconds in spans)
            self._rest(deadline)

    @property
    def computing(self) -> npt.NDArray[np.float64]:
        """Seconds that each worker has computed in its traced steps, (P, steps)."""
        return computing_in(self._run)

    def _logs(self) -> list[_Log]:
        return [self._log(rank) for rank in range(self._workers)]

    def _log(self, rank: int) -> _Log:
        try:
            records = read_metrics(self._run / f"metrics-{rank}.jsonl")
        except RunFolderError:  # it has not begun
            return []
        return [(each["step"], each["seconds"]) for each in records if each["kind"] == "train"]

    def _rest(self, deadline: float) -> None:
        if (status := self._process.poll()) is not None:
            raise PeerError(f"it ended with {status}")
        if time.monotonic() > deadline:
            raise PeerError(f"not so many steps in {_LONGEST_SECONDS:g} s: take fewer --steps")
        time.sleep(_LOOK_SECONDS)


def _since(begin: int, log: _Log) -> tuple[int, float]:
    """Steps and seconds since a record, which may be still to come."""
    if begin >= len(log):
        return 0, 0.0
    return log[-1][0] - log[begin][0], log[-1][1] - log[begin][1]


@contextmanager
def running(config: RunConfig, ground: Ground, folder: Path) -> Iterator[Running]:
    """Train for as long as the block takes; PeerError, with what it said, if it ends before."""
    there = folder / "run"
    there.mkdir()
    try:
        (there / "run.toml").write_text(to_toml(config), encoding="utf-8")
        words = ["train", "run.toml", "--name", "run", "--no-pictures"]
        said, command = there / "said", command_of(ground, there, words)
        with (
            said.open("wb") as error,
            subprocess.Popen(
                command, cwd=there, stdin=_NONE, stdout=_NONE, stderr=error
            ) as process,
        ):
            try:
                yield Running(process, there / "runs/run", config.total_workers)
            except PeerError as failure:
                _end(process)
                raise PeerError(_last_words(said) or str(failure)) from failure
            finally:
                status = _end(process)
        if status != RESUMABLE:
            raise PeerError(_last_words(said) or f"it ended with {status}")
    finally:
        shutil.rmtree(there)


def _end(process: subprocess.Popen[bytes]) -> int:
    """Ask for the end, and return the status: who is killed leaves children for a moment."""
    process.terminate()
    try:
        return process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _last_words(said: Path) -> str:
    return said.read_text(encoding="utf-8", errors="replace").strip()[-500:]

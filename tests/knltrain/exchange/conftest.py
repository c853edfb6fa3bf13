"""Real worker processes for the tests of transports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from knltrain.exchange.segment import Segment

REPOSITORY = Path(__file__).parents[3]
SCENARIO = Path(__file__).with_name("scenario.py")
LIMIT_SECONDS = 120


class Peers:
    """Worker processes that run one scenario, and what they found."""

    def __init__(
        self, folder: Path, name: str, segments: list[Segment], workers: int, argument: str
    ) -> None:
        self._files = [folder / f"{rank}.npz" for rank in range(workers)]
        places = ",".join(str(segment.fd) for segment in segments) or argument
        self.processes = [
            self._start([name, places, str(rank), str(self._files[rank]), argument], segments)
            for rank in range(workers)
        ]

    def _start(self, arguments: list[str], segments: list[Segment]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(SCENARIO), *arguments],
            pass_fds=[segment.fd for segment in segments],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self, rank: int) -> str:
        """Return the next line that a worker prints."""
        stream = self.processes[rank].stdout
        assert stream is not None
        return stream.readline().strip()

    def result(self, rank: int) -> dict[str, np.ndarray]:
        """Return what a worker found, once it has ended."""
        assert self.processes[rank].wait(LIMIT_SECONDS) == 0
        with np.load(self._files[rank]) as found:
            return dict(found)

    def results(self) -> list[dict[str, np.ndarray]]:
        return [self.result(rank) for rank in range(len(self.processes))]

    def error(self, rank: int) -> tuple[str, str]:
        """Return kind and text of the error that ended a worker."""
        kind, text = self.result(rank)["error"]
        return str(kind), str(text)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


class Start:
    """Starts peers on new segments, and ends whatever is left of both."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.peers: list[Peers] = []
        self.segments: list[Segment] = []

    def __call__(
        self, name: str, workers: int, sizes: tuple[int, ...] = (1000,), argument: str = "60"
    ) -> Peers:
        segments = [Segment.create(size, workers) for size in sizes]
        self.segments += segments
        return self.start(name, segments, workers, argument)

    def start(self, name: str, segments: list[Segment], workers: int, argument: str) -> Peers:
        folder = self._folder / str(len(self.peers))
        folder.mkdir()
        self.peers.append(Peers(folder, name, segments, workers, argument))
        return self.peers[-1]

    def end(self) -> None:
        for peers in self.peers:
            peers.end()
        for segment in self.segments:
            segment.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start peers: `start(scenario, workers, sizes, argument)`."""
    starter = Start(tmp_path)
    yield starter
    starter.end()


@pytest.fixture(scope="module")
def start_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start peers whose findings several tests look at."""
    starter = Start(tmp_path_factory.mktemp("peers"))
    yield starter
    starter.end()

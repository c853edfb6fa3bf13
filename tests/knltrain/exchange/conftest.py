"""Real worker processes for the tests of transports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from knltrain.exchange.transports.segment import Segment

from ..ranks import Ranks, Started

SCENARIO = Path(__file__).with_name("scenario.py")
LIMIT_SECONDS = 120


class Peers(Ranks):
    """Worker processes that run one scenario, and what they found."""

    def __init__(
        self, folder: Path, name: str, segments: list[Segment], workers: int, argument: str
    ) -> None:
        self._files = [folder / f"{rank}.npz" for rank in range(workers)]
        fds = [segment.fd for segment in segments]
        places = ",".join(map(str, fds)) or argument
        super().__init__(
            [
                [str(SCENARIO), name, places, str(rank), str(file), argument]
                for rank, file in enumerate(self._files)
            ],
            pass_fds=fds,
        )

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


class Start(Started):
    """Starts peers on new segments, and ends whatever is left of both."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.segments: list[Segment] = []

    def __call__(
        self,
        name: str,
        workers: int,
        sizes: tuple[int, ...] = (1000,),
        argument: str = "60",
        center_vectors: int = 1,
    ) -> Peers:
        segments = [Segment.create(size, workers, center_vectors=center_vectors) for size in sizes]
        self.segments += segments
        return self.start(name, segments, workers, argument)

    def start(self, name: str, segments: list[Segment], workers: int, argument: str) -> Peers:
        return self.add(Peers(self.new_folder(), name, segments, workers, argument))

    def end(self) -> None:
        super().end()
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

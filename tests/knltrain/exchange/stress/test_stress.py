"""Very many rounds of all kinds, by real processes at an uneven pace, with exact results."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from knltrain.communication.memory_box.local import SoftMemoryBox
from knltrain.exchange.transports.segment import Segment

REPOSITORY = Path(__file__).parents[4]
WORKER = Path(__file__).with_name("worker.py")
SIZES = (3, 900, 17_000, 140_000)
"""Less than a cache line, uneven stripes, stripes of pages, two pieces for those who come alone."""
BOX_BYTES, SHARED_SIZE = 2**20, 6_000
ENDLESS = 10**9
LONG = (pytest.mark.long, pytest.mark.timeout(3600))
"""Minutes, where nothing else runs; where the cores are shared every round may wait for a turn."""
LIMIT_SECONDS = 20
"""Of a wait for what takes a second at most; the time limit of the workers is three times that."""


class Stress:
    """Workers under stress, until the test ends."""

    def __init__(self, workers: int, seed: int, rounds: int, *options: str) -> None:
        self.segments = [Segment.create(size, workers) for size in SIZES]
        self.box = SoftMemoryBox.create(BOX_BYTES)
        key = self.box.create_buffer(SHARED_SIZE).key
        fds = [self.box.fd, *(segment.fd for segment in self.segments)]
        self.workers = [
            subprocess.Popen(
                [
                    *(sys.executable, str(WORKER)),
                    *map(str, (seed, rounds, rank, fds[0], key, *fds[1:])),
                    *options,
                ],
                pass_fds=fds,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(workers)
        ]

    def hear(self, rank: int) -> str:
        """The next line that a worker prints."""
        stream = self.workers[rank].stdout
        assert stream is not None
        return stream.readline().strip()

    def last_words(self) -> list[str]:
        """The last line of every worker, once it has ended."""
        found = []
        for worker in self.workers:
            assert worker.stdout is not None
            lines = worker.stdout.read().split("\n")
            found.append(([""] + [line for line in lines if line])[-1])
        return found

    def end(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.communicate()
        for segment in self.segments:
            segment.close()
        self.box.close()


Start = Callable[..., Stress]


@pytest.fixture
def stress() -> Iterator[Start]:
    """Start a stress: `stress(workers, seed, rounds)`."""
    started: list[Stress] = []

    def start(workers: int, seed: int, rounds: int, *options: str) -> Stress:
        started.append(Stress(workers, seed, rounds, *options))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.mark.slow
@pytest.mark.parametrize(
    "workers, rounds",
    [
        (2, 12_000),
        pytest.param(3, 8_000, marks=pytest.mark.slow),
        pytest.param(2, 600_000, marks=LONG),
        pytest.param(3, 400_000, marks=LONG),
    ],
)
def test_every_round_of_mixed_kinds_and_sizes_is_exact(
    stress: Start, workers: int, rounds: int
) -> None:
    assert stress(workers, workers, rounds).last_words() == ["done"] * workers


def test_mistake_is_told_with_seed_and_round(stress: Start) -> None:
    said = stress(2, 5, 1000, "--wrong", "700").last_words()
    assert any("AssertionError: seed 5, round 700 (" in words for words in said), said


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        1,
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 5)),
        *(pytest.param(seed, marks=LONG) for seed in range(5, 12)),
    ],
)
def test_others_notice_at_any_moment_that_one_was_killed(stress: Start, seed: int) -> None:
    """Events are left out: who waits for one does not know whose it is."""
    draw = random.Random(seed)
    run = stress(3, seed, ENDLESS, "--without", "notify")
    assert [run.hear(rank) for rank in range(3)] == ["going"] * 3
    time.sleep(draw.random() * 0.2)
    killed = draw.randrange(3)
    run.workers[killed].kill()
    others = [worker for rank, worker in enumerate(run.workers) if rank != killed]
    assert [worker.wait(LIMIT_SECONDS) for worker in others] == [0, 0], f"seed {seed}"
    said = run.last_words()
    del said[killed]
    assert all(words.startswith("PeerLost") for words in said), f"seed {seed}: {said}"


@pytest.mark.parametrize(
    "rounds", [pytest.param(12_000, marks=pytest.mark.slow), pytest.param(60_000, marks=LONG)]
)
def test_work_goes_on_after_one_was_stopped_and_continued(stress: Start, rounds: int) -> None:
    draw = random.Random(rounds)
    run = stress(2, 4, rounds)
    assert [run.hear(rank) for rank in range(2)] == ["going"] * 2
    for _ in range(4):
        stopped = run.workers[draw.randrange(2)]
        assert stopped.poll() is None, f"{rounds} rounds are too few to be stopped in the middle"
        stopped.send_signal(signal.SIGSTOP)
        time.sleep(0.1 + draw.random() * 0.3)
        stopped.send_signal(signal.SIGCONT)
        time.sleep(draw.random() * 0.05)
    assert run.last_words() == ["done", "done"]

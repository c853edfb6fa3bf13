"""Real runs of which a worker is stopped, or all of them for a while."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .worker_processes import workers_of

pytestmark = pytest.mark.usefixtures("two_cores")

Start = Callable[..., subprocess.Popen[str]]

ENDLESS = ("train.steps=100000000", "evaluation.every_epochs=0", "checkpoint.every_epochs=0")
LIMIT = "exchange.timeout_seconds=3"
LONGER_SECONDS = 4.5


@contextmanager
def under_way(
    folder: Path, start: Start, run_toml: str, *settings: str
) -> Iterator[subprocess.Popen[str]]:
    """A run that has done some steps, and does not end by itself."""
    (folder / "run.toml").write_text(run_toml)
    words = [word for each in (*ENDLESS, LIMIT, *settings) for word in ("--set", each)]
    with start("train", "run.toml", *words, cwd=folder) as process:
        try:
            wait_until(lambda: steps(folder) > 3 or process.poll() is not None)
            yield process
        finally:
            process.kill()


def steps(folder: Path) -> int:
    """How many lines rank 0 has written of its steps."""
    metrics = folder / "runs/run/metrics-0.jsonl"
    return metrics.read_text().count("\n") if metrics.exists() else 0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120  # kernels may have to be compiled first
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def again(method: str) -> object:
    return pytest.param(method, marks=pytest.mark.slow)


def once_more(method: str) -> object:
    return pytest.param(method, marks=pytest.mark.long)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        "easgd",
        again("sync_easgd"),
        *map(once_more, ("seasgd", "original_easgd", "downpour", "local_sgd", "sync_easgd3")),
        *map(once_more, ("layerwise_sgd", "hogwild_easgd", "hierarchical_easgd")),
    ],
)
def test_stopped_worker_ends_the_run_and_is_named(
    tmp_path: Path, start_knltrain: Start, run_toml: str, method: str
) -> None:
    """Also where the others would not miss it for long."""
    chosen = f"exchange.method={method}"
    with under_way(tmp_path, start_knltrain, run_toml, chosen) as process:
        stopped = workers_of(process)[1]
        os.kill(stopped, signal.SIGSTOP)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    host = socket.gethostname()
    named = f"error: worker 1 (process {stopped} on host {host}) is stopped (state T), for "
    assert err.startswith(named)
    assert err.rstrip().endswith("log: runs/run/worker-1.log")
    assert err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "with_parent",
    [
        pytest.param(True, id="with its parent"),
        pytest.param(False, marks=pytest.mark.long, id="workers alone"),
    ],
)
def test_run_that_is_suspended_as_a_whole_goes_on(
    tmp_path: Path, start_knltrain: Start, run_toml: str, with_parent: bool
) -> None:
    with under_way(tmp_path, start_knltrain, run_toml) as process:
        all_of_it = [*([process.pid] if with_parent else []), *workers_of(process).values()]
        for pid in all_of_it:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(LONGER_SECONDS)
        before = steps(tmp_path)
        for pid in all_of_it:
            os.kill(pid, signal.SIGCONT)
        wait_until(lambda: steps(tmp_path) > before or process.poll() is not None)
        assert process.poll() is None, process.communicate()

"""Real runs that are ended in every way: one message, an exit code, nothing left behind.

That no process and no shared memory stays is checked after every test, see tests/conftest.py.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .worker_processes import workers_of

pytestmark = pytest.mark.usefixtures("two_cores")

Start = Callable[..., subprocess.Popen[str]]

LONGEST_END_SECONDS = 3.0
"""A requirement of its own, not a guess about the machine: a run that is told to end, or loses a
worker, is gone within 3 s. That is why a test may measure it."""

ENDLESS = ("--set", "train.steps=100000000", "--set", "evaluation.every_epochs=0")
CHECKPOINTS = ("--set", "checkpoint.every_epochs=20", "--set", "checkpoint.keep=1")


@pytest.fixture
def folder(tmp_path: Path, run_toml: str) -> Path:
    (tmp_path / "run.toml").write_text(run_toml)
    return tmp_path


@pytest.fixture
def running(folder: Path, start_knltrain: Start) -> Iterator[subprocess.Popen[str]]:
    """A run that is in the middle of training and has written a checkpoint."""
    with start_knltrain("train", "run.toml", *ENDLESS, *CHECKPOINTS, cwd=folder) as process:
        try:
            _wait(lambda: any(folder.glob("runs/run/checkpoint-*")) or process.poll() is not None)
            yield process
        finally:
            process.kill()


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120  # kernels may have to be compiled first
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def _end(process: subprocess.Popen[str], action: Callable[[], None]) -> str:
    """What the run says on stderr after `action`, from which it must end in time."""
    begun = time.monotonic()
    action()
    _, err = process.communicate(timeout=120)
    assert time.monotonic() - begun <= LONGEST_END_SECONDS
    return err


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_stopped_run_says_how_to_go_on(
    running: subprocess.Popen[str], number: signal.Signals, code: int
) -> None:
    assert sorted(workers_of(running)) == [0, 1]
    err = _end(running, lambda: running.send_signal(number))
    assert running.returncode == code
    assert err.startswith(f"error: the run was stopped by {number.name} at step ")
    assert err.rstrip().endswith("knltrain train --resume runs/run")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_a_killed_worker_is_named_with_the_cause(running: subprocess.Popen[str]) -> None:
    victim = workers_of(running)[1]
    err = _end(running, lambda: os.kill(victim, signal.SIGKILL))
    assert running.returncode == 1
    assert err.startswith(
        "error: worker 1 failed: it was killed by SIGKILL (perhaps out of memory)"
    )
    assert "last good checkpoint: runs/run/checkpoint-" in err
    assert err.rstrip().endswith("log: runs/run/worker-1.log")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_what_the_mpi_library_of_a_killed_worker_leaves_in_memory_is_removed(
    running: subprocess.Popen[str],
) -> None:
    descriptor, left = tempfile.mkstemp(prefix="Intel_MPI_", dir="/dev/shm")
    os.close(descriptor)
    os.kill(workers_of(running)[1], signal.SIGKILL)
    _, err = running.communicate(timeout=120)
    assert "worker 1 failed: it was killed by SIGKILL" in err
    assert not Path(left).exists()


@pytest.mark.slow
def test_workers_die_with_their_parent(running: subprocess.Popen[str]) -> None:
    workers = workers_of(running)
    assert len(workers) == 2
    running.kill()
    running.communicate(timeout=120)
    # The tests' own process inherits the orphans, so it can wait for each of them.
    assert {os.waitpid(pid, 0)[1] for pid in workers.values()} == {int(signal.SIGKILL)}


@pytest.mark.slow
def test_a_loss_that_is_not_finite_ends_the_run(folder: Path, start_knltrain: Start) -> None:
    settings = ("--set", "learning_rate.base=1e10", "--set", "train.steps=1000")
    with start_knltrain("train", "run.toml", *settings, cwd=folder) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err.startswith("error: worker ")
    assert " failed: step " in err
    assert "is not finite; lower learning_rate.base" in err
    assert "last good checkpoint: none yet" in err
    assert err.count("\n") == 1
    log = err.rpartition("log: ")[2].strip()
    assert "NonFiniteLoss" in (folder / log).read_text()


@pytest.mark.slow
def test_the_last_good_checkpoint_is_good(folder: Path, start_knltrain: Start) -> None:
    """The first step leaves the model as it is, the second one ruins it; each has a checkpoint."""
    settings = {
        "learning_rate.base": "1e12",
        "learning_rate.warmup_steps": "2",
        "train.steps": "1000",
        "checkpoint.every_epochs": "0.1",
        "checkpoint.keep": "1",
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    with start_knltrain("train", "run.toml", *words, cwd=folder) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "is not finite" in err
    kept = err.partition("last good checkpoint: ")[2].partition(";")[0]
    assert [
        str(path.relative_to(folder)) for path in folder.glob("runs/run/checkpoint-*[0-9]")
    ] == [kept]
    with start_knltrain("evaluate", "runs/run", "--json", cwd=folder) as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert math.isfinite(json.loads(out)["loss"])


@pytest.mark.slow
def test_a_model_that_is_not_finite_after_the_last_step_is_no_result(
    folder: Path, start_knltrain: Start
) -> None:
    settings = ("exchange.method=sync_sgd", "learning_rate.base=1e38", "train.steps=1")
    words = [word for setting in settings for word in ("--set", setting)]
    with start_knltrain("train", "run.toml", *words, cwd=folder) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert " failed: step 1: " in err
    assert "is not finite; lower learning_rate.base" in err
    assert "last good checkpoint: none yet" in err
    assert not (folder / "runs/run/result.json").exists()

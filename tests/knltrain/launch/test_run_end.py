"""What is said of runs that have ended before their time, and whether to start them again."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.errors import KnltrainError, RunStopped
from knltrain.launch.failure import Failure
from knltrain.launch.run_end import stopped_error, worker_failed
from knltrain.launch.supervisor import Ending


def test_run_that_has_stopped_with_a_checkpoint_can_be_resumed_though_it_is_not_seen_yet(
    tmp_path: Path,
) -> None:
    """Another computer's file system may show the folder as it was a while ago."""
    ending = Ending(stopped_at=9, kept=True, why="SIGTERM")
    (tmp_path / "checkpoint-6").mkdir()
    error = stopped_error(ending, 12, tmp_path)
    assert isinstance(error, RunStopped)
    assert str(error) == (
        f"the run was stopped by SIGTERM at step 9 of 12; {tmp_path}/checkpoint-9 is kept: go on "
        f"with knltrain train --resume {tmp_path}"
    )


@pytest.mark.parametrize(
    ("before", "way_on"), [(False, "no checkpoint was written yet"), (True, "checkpoint-6 is kept")]
)
def test_run_that_could_not_keep_where_it_has_stopped_is_not_to_be_started_again(
    tmp_path: Path, before: bool, way_on: str
) -> None:
    """With status 75 it would be, and stop there again."""
    if before:
        (tmp_path / "checkpoint-6").mkdir()
    error = stopped_error(Ending(stopped_at=9, why="SIGTERM"), 12, tmp_path)
    assert type(error) is KnltrainError
    assert "at step 9 of 12, whose checkpoint could not be written; " in str(error)
    assert way_on in str(error)


def test_a_failed_worker_is_told_with_its_log_and_the_last_checkpoint(tmp_path: Path) -> None:
    failure = Failure(3, "out of room", 7, 0.0)
    error = worker_failed(failure, tmp_path)
    assert error.exit_code == 7
    assert str(error) == (
        "worker 3 failed: out of room; last good checkpoint: none yet; "
        f"log: {tmp_path}/worker-3.log"
    )
    (tmp_path / "checkpoint-6").mkdir()
    assert "last good checkpoint: " + str(tmp_path / "checkpoint-6") in str(
        worker_failed(failure, tmp_path)
    )

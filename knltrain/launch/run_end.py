"""The one error that tells how a run has ended, and the way on from there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from knltrain.checkpoint.folders import folder_at, latest_checkpoint
from knltrain.errors import IncompleteRun, KnltrainError, RunAborted, RunStopped, WorkerFailed
from knltrain.files.durable import CHECKPOINT, RESULT
from knltrain.launch.failure import Failure
from knltrain.launch.listener import Listener
from knltrain.launch.plan import RunPlan
from knltrain.launch.run_folder import log_of
from knltrain.launch.supervisor import Ending


def error_of(
    ending: Ending, plan: RunPlan, run_folder: Path, listener: Listener
) -> KnltrainError | None:
    """The one error that tells how the run ended, or None if it ended well."""
    if ending.lost is not None:
        return ending.lost
    if ending.failure is not None:
        return worker_failed(ending.failure, run_folder)
    if ending.stopped_at is not None:
        return stopped_error(ending, plan.total_steps, run_folder)
    if ending.stopped_by is None:
        return _incomplete(listener.lacking, run_folder)
    progress = listener.progress
    where = f" at step {progress['step']} of {progress['total']}" if progress else ""
    why = ending.why if ending.late else ending.stopped_by.name
    message = f"the run was stopped by {why}{where}; "
    if ending.late:
        grace_seconds = plan.config.preemption.grace_seconds
        message += f"no checkpoint came within preemption.grace_seconds = {grace_seconds:g}"
        message += f": {', '.join(ending.still)}; " if ending.still else "; "
    return RunAborted(message + _way_on(run_folder), ending.stopped_by)


def stopped_error(ending: Ending, total_steps: int, run_folder: Path) -> KnltrainError:
    """The error for a run whose workers have all stopped after a step.

    The workers agree on whether there is a checkpoint; the folder as seen from here may be older.
    Without a checkpoint the run must not be restarted by itself: it would stop in the same way each
    time.
    """
    assert ending.stopped_at is not None
    message = f"the run was stopped by {ending.why} at step {ending.stopped_at} of {total_steps}"
    if ending.kept:
        kept = folder_at(run_folder, ending.stopped_at)
        return RunStopped(f"{message}; {_way_on_from(kept)}")
    return KnltrainError(f"{message}, whose checkpoint could not be written; {_way_on(run_folder)}")


def _way_on(run_folder: Path) -> str:
    checkpoint = latest_checkpoint(run_folder)
    if checkpoint is None:
        return "no checkpoint was written yet (see checkpoint.every_minutes)"
    return _way_on_from(checkpoint)


def _way_on_from(checkpoint: Path) -> str:
    return f"{checkpoint} is kept: go on with knltrain train --resume {checkpoint.parent}"


def _incomplete(lacking: Mapping[tuple[int, str], str], run_folder: Path) -> IncompleteRun | None:
    """The error for a finished run whose result could not be written."""
    lost = [name for name in (CHECKPOINT, RESULT) if any(what == name for _, what in lacking)]
    if not lost:
        return None
    checkpoint = latest_checkpoint(run_folder)
    way_out = "make room for it, in another runs_folder perhaps, and train again"
    if checkpoint is not None:
        go_on = f"go on from {checkpoint.name} by --resume {run_folder}"
        way_out = f"make room, or the folder writable, and {go_on}"
    return IncompleteRun(
        f"the run has come to its end, but its {' and its '.join(lost)} could not be written "
        f"to {run_folder} (see above): {way_out}",
        run_folder,
    )


def worker_failed(failure: Failure, run_folder: Path) -> WorkerFailed:
    """The error for a run of which a worker has failed."""
    checkpoint = latest_checkpoint(run_folder) or "none yet"
    error = WorkerFailed(
        failure.rank,
        f"{failure.cause}; last good checkpoint: {checkpoint}; "
        f"log: {log_of(run_folder, failure.rank)}",
        failure.verb,
    )
    error.exit_code = failure.exit_code
    return error

"""A whole run as the user sees it: plan, folder, workers, progress, and one clear end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from affinity import Placement, PlacementError, TooManyWorkers, worker_command
from knltrain.build import check_resumable, network_size, plain_method
from knltrain.checkpoint import latest_checkpoint
from knltrain.cluster import WorkerIdentity
from knltrain.config import RunConfig
from knltrain.errors import ConfigError, KnltrainError, RunAborted, WorkerFailed
from knltrain.exchange.node_memory import NodeMemory
from knltrain.launch.events import Event
from knltrain.launch.failure import Failure
from knltrain.launch.listener import Listener
from knltrain.launch.plan import RunPlan, plan_run, threads_of
from knltrain.launch.progress import display_on
from knltrain.launch.run_folder import create_run_folder, held, read_config, write_config
from knltrain.launch.signals import SignalPipe
from knltrain.launch.supervisor import Ending, Supervisor
from knltrain.launch.worker_process import WorkerProcess

CHANGEABLE: Final = ("train.epochs", "train.steps", "placement.pin")
"""What may be other in the second part of a run than in the first."""


def train(config: RunConfig, kept_fds: Sequence[int] = ()) -> Path:
    """Carry out a new run; returns its folder. Workers keep the descriptors `kept_fds` open.

    Raises what `plan_run` raises, SegmentError and RunFolderError before anything is started;
    WorkerFailed or RunAborted after every worker has ended.
    """
    plan = plan_run(config)
    with _memory(plan) as (memory, notes):
        run_folder = create_run_folder(Path(plan.config.runs_folder), plan.config.name)
        with held(run_folder):
            write_config(run_folder, plan.config)
            _carry_out(plan.noting(notes), run_folder, memory, kept_fds, resume=False)
    return run_folder


def resume(run_folder: Path, overrides: Sequence[str] = ()) -> Path:
    """Go on with a run from its newest checkpoint; only `CHANGEABLE` keys may be overridden.

    Raises ConfigError, CheckpointError or RunFolderError before anything is started or written,
    and what `train` raises.
    """
    for override in overrides:
        if override.partition("=")[0].strip() not in CHANGEABLE:
            raise ConfigError(
                f"--set {override}: a resumed run keeps its configuration, only "
                f"{', '.join(CHANGEABLE)} may change: start a new run for the rest"
            )
    config = read_config(run_folder, tuple(overrides))
    try:
        plan = plan_run(config)
    except TooManyWorkers as error:
        raise PlacementError(
            f"the run has {config.workers} workers, but there is room for {error.most} here: a "
            "resumed run keeps its workers; widen the cpuset, or let them share cores by --set "
            "placement.pin=false"
        ) from error
    with held(run_folder), _memory(plan) as (memory, notes):
        check_resumable(plan.config, run_folder, plan.total_steps)
        write_config(run_folder, plan.config)
        _carry_out(plan.noting(notes), run_folder, memory, (), resume=True)
    return run_folder


@contextmanager
def _memory(plan: RunPlan) -> Iterator[tuple[NodeMemory | None, tuple[str, ...]]]:
    """The memory that the workers share, and how it differs from what was asked.

    A worker alone needs none.
    """
    if plan.workers == 1:
        yield None, ()
        return
    config = plan.config
    method = plain_method(config, plan.workers)
    memory = NodeMemory(network_size(config), plan.workers, method, config.exchange.segment)
    try:
        yield memory, memory.place(plan.placements)
    finally:
        memory.close()


def _carry_out(
    plan: RunPlan,
    run_folder: Path,
    memory: NodeMemory | None,
    kept_fds: Sequence[int],
    *,
    resume: bool,
) -> None:
    def abort(code: int) -> None:
        if memory is not None:
            memory.abort(code)

    with SignalPipe() as signals, display_on(sys.stdout) as display, ExitStack() as started:
        for line in (_heading(plan, run_folder), *(f"note: {note}" for note in plan.notes)):
            display.note(line)
        listener = Listener(plan, run_folder, display)
        workers = [
            started.enter_context(
                _start_worker(plan, placement, run_folder, memory, kept_fds, resume)
            )
            for placement in plan.placements
        ]
        ending = Supervisor(workers, signals, abort, listener.hear).watch()
    if (error := _error(ending, run_folder, listener.progress)) is not None:
        raise error


def _start_worker(
    plan: RunPlan,
    placement: Placement,
    run_folder: Path,
    memory: NodeMemory | None,
    kept_fds: Sequence[int],
    resume: bool,
) -> WorkerProcess:
    threads = threads_of(plan.config, placement)
    segment_fds = () if memory is None else memory.fds_of(placement.rank)

    def command(events_fd: int) -> list[str]:
        identity = WorkerIdentity(
            rank=placement.rank,
            workers=plan.workers,
            run_folder=run_folder,
            events_fd=events_fd,
            segment_fds=segment_fds,
            threads=threads,
            resume=resume,
        )
        return worker_command(
            [sys.executable, "-u", "-X", "faulthandler", "-m", "knltrain.launch.entry"],
            replace(placement, threads=threads),
            identity.to_environment(),
            die_with_parent=os.getpid(),
            pin_threads=plan.config.placement.pin,
        )

    log = log_of(run_folder, placement.rank)
    return WorkerProcess(placement.rank, command, log, (*segment_fds, *kept_fds))


def log_of(run_folder: Path, rank: int) -> Path:
    """Where all that worker `rank` prints goes."""
    return run_folder / f"worker-{rank}.log"


def _heading(plan: RunPlan, run_folder: Path) -> str:
    config = plan.config
    workers = "1 worker" if plan.workers == 1 else f"{plan.workers} workers"
    return (
        f"training {config.network.name} on {config.data.name} by {config.exchange.method} with "
        f"{workers}; run folder {run_folder}"
    )


def _error(ending: Ending, run_folder: Path, progress: Event | None) -> KnltrainError | None:
    """The one error that tells how the run ended, or None if it ended well."""
    if ending.failure is not None:
        return _worker_failed(ending.failure, run_folder)
    if ending.stopped_by is None:
        return None
    where = f" at step {progress['step']} of {progress['total']}" if progress else ""
    checkpoint = latest_checkpoint(run_folder)
    rest = (
        f"{checkpoint} is kept: go on with knltrain train --resume {run_folder}"
        if checkpoint
        else "no checkpoint was written yet (see checkpoint.every_epochs)"
    )
    message = f"the run was stopped by {ending.stopped_by.name}{where}; {rest}"
    return RunAborted(message, ending.stopped_by)


def _worker_failed(failure: Failure, run_folder: Path) -> WorkerFailed:
    checkpoint = latest_checkpoint(run_folder) or "none yet"
    error = WorkerFailed(
        failure.rank,
        f"{failure.cause}; last good checkpoint: {checkpoint}; "
        f"log: {log_of(run_folder, failure.rank)}",
    )
    error.exit_code = failure.exit_code
    return error

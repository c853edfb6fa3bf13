"""The main function of a worker process: reads its rank, builds its worker, trains, reports."""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from dataclasses import asdict
from typing import TextIO, final

from affinity import (
    Placement,
    allowed_cpus,
    arena,
    judge,
    memory_problems,
    observed_binding,
    own_placement,
    remarks,
)
from affinity.standard_streams import secure_standard_streams
from knltrain.assembly import build_worker
from knltrain.assembly.teams import build_team
from knltrain.cluster.worker import WorkerIdentity, worker_identity
from knltrain.errors import KnltrainError, MisplacedMemory
from knltrain.evaluation import Evaluation
from knltrain.exchange.transports.board import LossWindow
from knltrain.launch.events import EventWriter
from knltrain.launch.run_folder import read_config
from knltrain.worker.observer import Observer, RunResult
from knltrain.worker.view import WorkerView
from vectorized_ops.numba.compiling.journal import JOURNAL, TUNING, Progress, told


def main() -> int:
    """Run one worker to its end; returns the exit code. A failure's traceback goes to the log."""
    identity = worker_identity()
    events = EventWriter(identity.events_fd)
    across_nodes = identity.meeting_point is not None
    observer = ParentObserver(events, identity.rank, across_nodes)
    try:
        result = _train(identity, observer)
    except Exception as error:  # noqa: BLE001  (whatever it is, the parent must hear of it)
        observer.failed(error)
        return _exit_code(error)
    events.send_skipped()
    if result is None:
        step = observer.run_step
        events.send("stopped", step=step, kept=observer.kept_step == step)
    else:
        events.send("done", result=asdict(result))
    return 0


@final
class ParentObserver(Observer):
    """Sends the loop's events to the parent by the event pipe; rank 0 speaks for all workers.

    Only runs `across_nodes` have windows of MPI, whose place is told too.
    """

    def __init__(self, events: EventWriter, rank: int, across_nodes: bool = False) -> None:
        self.step: int | None = None
        """The worker's current step, from 0; None before the first one."""
        self.run_step = 0
        """The run's step at the last request."""
        self.kept_step: int | None = None
        """The run's step of the last checkpoint, the same at all workers."""
        self._events = events
        self._leads, self._across_nodes = rank == 0, across_nodes
        self._placement_told = self._failure_told = False
        self._told_images = self._told_kernels = 0
        self._lacking: dict[str, str] = {}
        self._told_seconds = self._told_data_seconds = 0.0
        self._loss: LossWindow | None = None

    def compiling(self, progress: Progress) -> None:
        """Tell how many kernels are left."""
        if self._leads:
            self._events.send("compiling", **progress.counts())

    def started(self, worker: WorkerView) -> None:
        """Remember the first step; by now nearly all kernels are compiled."""
        self._log_kernels()
        self.step = worker.step
        self._loss = worker.run_loss.window()
        self._told_images = worker.images_done
        self._told_seconds = worker.clocks.train_seconds
        self._told_data_seconds = worker.clocks.batch.seconds

    def step_done(self, worker: WorkerView, step: int, *_: float) -> None:
        """Report the run's loss, at most ten times a second."""
        self.step = step
        if not self._placement_told:
            self._tell_placement()
        if self._leads and self._events.progress_is_due(last=worker.progress.ended):
            self._tell_progress(worker)

    def evaluated(self, worker: WorkerView, evaluation: Evaluation) -> None:
        """Tell accuracy and loss on the test images."""
        if self._leads:
            accuracy, loss = evaluation.accuracy, evaluation.loss
            self._events.send("evaluation", step=worker.progress.step, accuracy=accuracy, loss=loss)

    def kept(self, worker: WorkerView, seconds: float) -> None:
        """Report a checkpoint and the time that it took."""
        self.kept_step = worker.progress.step
        if self._leads:
            self._events.send("checkpoint", step=worker.progress.step, seconds=seconds)

    def asked(self, worker: WorkerView) -> None:
        """Remember the run's step, since the run may stop there."""
        self.run_step = worker.progress.step

    def unwritten(self, worker: WorkerView, what: str, lacks: str) -> None:  # noqa: ARG002
        """Report what a file lacks, or that it is complete again."""
        if lacks != self._lacking.get(what, ""):
            self._lacking[what] = lacks
            self._events.send("unwritten", what=what, lacks=lacks)

    def finished(self, *_: object) -> None:
        """Report the place if there was no step after which to report it."""
        self._log_kernels()
        if not self._placement_told:
            self._tell_placement()

    def failed(self, error: Exception) -> None:
        """Report the first error, which ends the worker; its traceback goes to the log."""
        if self._failure_told:
            return
        self._failure_told = True
        _log("".join(traceback.format_exception(error)), sys.stderr)
        kind = type(error).__name__
        self._events.send(
            "error",
            kind=kind,
            message=str(error) if isinstance(error, KnltrainError) else f"{kind}: {error}",
            step=self.step,
            exit_code=_exit_code(error),
        )

    def _log_kernels(self) -> None:
        if len(JOURNAL.made) > self._told_kernels:
            self._told_kernels = len(JOURNAL.made)
            _log(told(JOURNAL.made), sys.stdout)
            if TUNING.measured:
                _log(TUNING.told(), sys.stdout)

    def _tell_placement(self) -> None:
        # Only after a step have the numerical libraries started all their threads, and touched
        # all their memory.
        placement = own_placement() or Placement(0, allowed_cpus(), 1, ())
        if placement.memory.mode != "default":
            from affinity import bring_back  # which most placements need not load

            bring_back(placement.memory)
        got = observed_binding()
        said = remarks(placement, got)
        if self._across_nodes:
            from knltrain.communication.mpi.placed_window import window_remarks

            said = (*said, *window_remarks())
        found = {"problems": judge(placement, got), "remarks": said}
        self._events.send("placement", got={**got, **found})
        self._placement_told = True
        if problems := memory_problems(placement, got):
            weaker = '"spill" or "none"' if placement.memory.policy == "strict" else '"none"'
            raise MisplacedMemory(
                # A remark may tell the cause, such as a policy that was forbidden.
                f"its memory is not where its placement wants it: "
                f"{'; '.join((*problems, *found['remarks']))}; free memory there, "
                f"or ask for less by placement.memory = {weaker}"
            )

    def _tell_progress(self, worker: WorkerView) -> None:
        assert self._loss is not None
        images, seconds = worker.images_done, worker.clocks.train_seconds
        data_seconds, passed = worker.clocks.batch.seconds, seconds - self._told_seconds
        images_per_second = (images - self._told_images) / passed
        self._events.send(
            "progress",
            step=worker.progress.step,
            total=worker.progress.total_steps,
            loss=self._loss.mean(),
            images_per_second=images_per_second,
            data_share=(data_seconds - self._told_data_seconds) / passed,
        )
        self._told_images, self._told_seconds = images, seconds
        self._told_data_seconds = data_seconds


def _train(identity: WorkerIdentity, observer: ParentObserver) -> RunResult | None:
    config = read_config(identity.run_folder)
    team = build_team(config, identity.segment_fds, identity.rank, identity.meeting_point)
    # For as long as the worker lives: much of its memory is touched in the first step only.
    with (
        arena("model"),
        build_worker(
            config,
            team,
            run_folder=identity.run_folder,
            threads=identity.threads,
            resume=identity.resume,
            observers=(observer,),
            requests=identity.requests,
            data_fd=identity.data_fd,
            batches_ahead=identity.batches,
            initial=identity.initial,
        ) as worker,
    ):
        try:
            return worker.run()
        except Exception as error:
            observer.failed(error)  # before closing, which may take long or fail in its turn
            raise


def _log(text: str, stream: TextIO) -> None:
    """Write to this worker's log if possible: a full disk must not end a worker."""
    with suppress(OSError):
        print(text, file=stream)


def _exit_code(error: Exception) -> int:
    return error.exit_code if isinstance(error, KnltrainError) else 1


if __name__ == "__main__":
    secure_standard_streams()
    sys.exit(main())

"""Watches the workers of one run until all have ended; if one fails, ends all."""

from __future__ import annotations

import math
import select
import selectors
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, final

from knltrain.errors import KnltrainError, PeerLost, process_name
from knltrain.launch.events import Event
from knltrain.launch.failure import LOOK_SECONDS, Failure, Vitals, first_cause
from knltrain.launch.preemption import Preemption
from knltrain.launch.signals import STOPPING, SignalPipe
from knltrain.launch.worker_process import LONGEST_END_SECONDS, WorkerProcess

FAILURE_CODE: Final = 1
"""Abort code when a worker failed; it is 128 + signal number when the user stopped the run."""

_STEPS: Final = ((0.5, signal.SIGTERM), (0.8, signal.SIGKILL))
"""Seconds after the abort code is set, and the signal for workers that are still alive then. A
worker of a run ignores SIGTERM, which schedulers send to all processes of a job."""

_NEWS_SECONDS: Final = 2.0
"""How long a process that starts workers elsewhere may take to end after one of its workers has."""

_BLAMED_FROM: Final = 0.5
"""A share of the time limit. A worker that has stood still for so long when another one times out
is the cause; the other may have begun to wait earlier, or later."""


@dataclass(slots=True)
class Ending:
    """How a run ended. Exactly one of these holds:

    - all workers are done: `results` by rank;
    - all workers have stopped at step `stopped_at` because of `why`, with a checkpoint of that step
      if `kept`; all processes of the run agree on this;
    - a worker failed: `failure`;
    - the `stopped_by` signal ended it. With `late` a checkpoint was requested first, because of
      `why`, and did not come in time; `still` names the workers that stood still then;
    - another process that starts workers of the run is `lost`, and why.
    """

    results: dict[int, Any] = field(default_factory=dict)
    failure: Failure | None = None
    stopped_by: signal.Signals | None = None
    lost: KnltrainError | None = None
    late: bool = False
    still: tuple[str, ...] = ()
    stopped_at: int | None = None
    kept: bool = False
    why: str | None = None


class PeerProcesses(Protocol):
    """The other processes that start workers of a run: `lost_fd` is readable when one is gone."""

    lost: PeerLost | None
    lost_fd: int


@final
class Supervisor:
    """Waits for events, ends of workers and signals at once; never blocks on one worker."""

    def __init__(
        self,
        workers: Sequence[WorkerProcess],
        signals: SignalPipe,
        abort: Callable[[int], None],
        on_event: Callable[[int, Event], None],
        job_peers: PeerProcesses | None = None,
        *,
        preemption: Preemption | None = None,
        limit_seconds: float = math.inf,
        on_failure: Callable[[Failure], None] = lambda _: None,
    ) -> None:
        """`abort(code)` tells workers to give up; `on_event(rank, event)` handles their events.

        `job_peers` are the other processes that start workers of this run. `preemption` takes the
        signals that do not end it at once. A worker that stands still for `limit_seconds`, stopped
        or frozen, ends the run, unless that is suspended as a whole. `on_failure` is called with a
        failure here as soon as it is known.
        """
        self._preemption = preemption
        self._stopped_at: int | None = None
        self._kept = False
        self._late = False
        self._still: tuple[str, ...] = ()
        self._job_peers = job_peers
        self._limit_seconds = limit_seconds
        self._vitals = Vitals(workers, alone=job_peers is None)
        self._workers = len(workers)
        self._alive = list(workers)
        self._signals = signals
        self._abort = abort
        self._on_event = on_event
        self._on_failure = on_failure
        self._failures: list[Failure] = []
        self._results: dict[int, Any] = {}
        self._stopped_by: signal.Signals | None = None
        self._stopped_at_seconds = 0.0
        self._stopping_since: float | None = None
        self._steps = list(_STEPS)
        self._sent: set[signal.Signals] = set()

    def watch(self) -> Ending:
        """Return when no worker is left."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals.fd, selectors.EVENT_READ, None)
            for worker in self._alive:
                selector.register(worker.events.fd, selectors.EVENT_READ, worker)
            if self._job_peers is not None:
                selector.register(self._job_peers.lost_fd, selectors.EVENT_READ, self._job_peers)
            if self._preemption is not None and self._preemption.fd is not None:
                selector.register(self._preemption.fd, selectors.EVENT_READ, self._preemption)
            while self._alive:
                for key, _ in selector.select(self._wait_seconds()):
                    if key.data is None:
                        self._obey_signals()
                        continue
                    if key.data is self._job_peers:
                        selector.unregister(key.fd)
                        self._blame(_BLAMED_FROM)
                        self._stop(FAILURE_CODE)
                        continue
                    if key.data is self._preemption:
                        if self._stopping_since is not None:
                            selector.unregister(key.fd)
                        continue  # which reads notes when it goes on
                    self._listen(key.data)
                    if key.data.events.at_end:
                        selector.unregister(key.fd)
                self._notice_ends()
                self._look_after()
                self._preempt()
                self._escalate()
        return self._ending()

    def _listen(self, worker: WorkerProcess) -> None:
        for event in worker.events.read():
            if event["event"] == "error":
                self._fail(Failure.from_event(worker.rank, event))
            elif event["event"] == "done":
                self._results[worker.rank] = event["result"]
            elif event["event"] == "stopped":
                self._results[worker.rank] = None
                self._stopped_at, self._kept = event["step"], event["kept"]
            elif self._preemption is None or not self._preemption.hears(event):
                self._on_event(worker.rank, event)

    def _notice_ends(self) -> None:
        for worker in list(self._alive):
            code = worker.exit_code()
            if code is None:
                continue
            self._alive.remove(worker)
            self._listen(worker)
            self._judge(worker, code)

    def _judge(self, worker: WorkerProcess, code: int) -> None:
        told = any(failure.rank == worker.rank for failure in self._failures)
        well = code == 0 and worker.rank in self._results
        if not (told or well or -code in self._sent):
            self._fail(Failure.from_exit(worker.rank, code))

    def _look_after(self) -> None:
        """End the run if a worker is ending too early, or stands still.

        The kernel reports the end itself only once the worker's memory is freed.
        """
        self._vitals.look(self._alive)
        for worker in self._vitals.ending:
            self._listen(worker)
            if (code := worker.sight.exit_code()) is not None:
                self._judge(worker, code)
            elif worker.rank not in self._results:
                self._stop(FAILURE_CODE)
        if self._stopping_since is None:
            self._blame()

    def _blame(self, share: float = 1.0) -> None:
        """Fail the workers that have stood still for this share of the time limit."""
        self._vitals.look(self._alive)
        for standstill in self._vitals.still_for(share * self._limit_seconds):
            if standstill.worker in self._alive:
                standstill.worker.send_signal(signal.SIGKILL)  # it takes no other
                failure = Failure.from_standstill(standstill)
                self._failures.append(failure)
                self._tell(failure)
                self._stop(FAILURE_CODE)

    def _fail(self, failure: Failure) -> None:
        self._failures.append(failure)
        if failure.may_come_of_a_standstill and self._stopping_since is None:
            self._blame(_BLAMED_FROM)
        self._tell(failure)
        self._stop(FAILURE_CODE)

    def _tell(self, failure: Failure) -> None:
        """Report the failure that ends the run, if it is the first cause and happened here.

        A worker killed by a stop signal is not reported: the signal may reach this process next.
        """
        elsewhere = failure.may_come_from_elsewhere or failure.signal_number in STOPPING
        if self._stopping_since is None and not elsewhere:
            self._on_failure(failure)

    def _obey_signals(self) -> None:
        for number in self._signals.arrived():
            if self._stopping_since is None and self._takes(number):
                continue
            if self._stopping_since is not None:
                if number not in STOPPING:
                    continue
                self._send(signal.SIGKILL)
            if self._stopped_by is None:
                self._stopped_by, self._stopped_at_seconds = number, time.monotonic()
            self._stop(128 + number)

    def _takes(self, number: signal.Signals) -> bool:
        """Whether a signal requests something else than the immediate end of the run."""
        if self._preemption is None or not self._alive:
            return number not in STOPPING
        return self._preemption.takes(number)

    def _preempt(self) -> None:
        if self._preemption is None or self._stopping_since is not None:
            return
        self._preemption.go_on()
        if (number := self._preemption.overdue) is not None:
            self._late = True
            still = self._vitals.still_for(0.0)
            self._still = tuple(f"{process_name(each.worker.rank)} {each.told}" for each in still)
            self._stopped_by, self._stopped_at_seconds = number, time.monotonic()
            self._stop(128 + number)

    def _stop(self, code: int) -> None:
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()
            self._abort(code)

    def _escalate(self) -> None:
        while self._steps and self._seconds_to_next_step() <= 0:
            self._send(self._steps.pop(0)[1])
        since = self._stopping_since
        if since is None or self._steps:
            return
        is_late = time.monotonic() - since > LONGEST_END_SECONDS
        for worker in [each for each in self._alive if each.is_held(is_late)]:
            cause = f"its process {worker.pid} was killed, but the kernel does not let it end"
            self._failures.append(Failure(worker.rank, cause, 1, time.monotonic()))
            self._alive.remove(worker)

    def _seconds_to_next_step(self) -> float:
        if self._stopping_since is None or not self._steps:
            return LOOK_SECONDS
        return self._stopping_since + self._steps[0][0] - time.monotonic()

    def _wait_seconds(self) -> float:
        return max(0.0, min(self._seconds_to_next_step(), LOOK_SECONDS))

    def _send(self, number: signal.Signals) -> None:
        self._sent.add(number)
        for worker in self._alive:
            worker.send_signal(number)

    def _ending(self) -> Ending:
        """All results if nothing went wrong; else whichever came first, a failure or a signal."""
        self._obey_signals()
        failure = first_cause(self._failures) if self._failures else None
        why = None if self._preemption is None else self._preemption.why
        if (lost := self._lost_elsewhere(failure)) is not None:
            return Ending(lost=lost)
        if failure is None and self._all_done():
            stopped_at, kept = self._stopped_at, self._kept
            return Ending(results=self._results, stopped_at=stopped_at, kept=kept, why=why)
        if self._stopped_by is None or (failure and not self._signal_explains(failure)):
            return Ending(failure=failure)
        return Ending(stopped_by=self._stopped_by, late=self._late, still=self._still, why=why)

    def _all_done(self) -> bool:
        return len(self._results) == self._workers

    def _lost_elsewhere(self, failure: Failure | None) -> PeerLost | None:
        """The failure in another process, if that is why workers end here.

        Its message may arrive a little after its consequences.
        """
        job_peers = self._job_peers
        if job_peers is None or self._stopped_by is not None:
            return None
        if failure is None:
            return None if self._all_done() else job_peers.lost
        if not failure.may_come_from_elsewhere:
            return None
        select.select([job_peers.lost_fd], [], [], _NEWS_SECONDS)
        return job_peers.lost

    def _signal_explains(self, failure: Failure) -> bool:
        """A stopped run's workers complain, and a scheduler may signal workers and parent alike."""
        late = failure.at_seconds >= self._stopped_at_seconds
        return late or failure.signal_number == self._stopped_by

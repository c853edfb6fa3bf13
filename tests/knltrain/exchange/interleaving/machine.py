"""A machine on which one worker runs at a time, from one step to its next, as it is told.

Workers are threads that run real code. Before each access to shared memory that others could
notice a worker stops and names the step that it is about to take; whoever explores the
interleavings then says which worker takes its step. What a worker remembers is what it has
observed, since its code does nothing by chance: that, shared memory and the steps to come are the
whole state.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from interleaving.steps import Choice, Location, Step, Worker


class Abandoned(BaseException):
    """Unwinds a worker whose execution will not be followed any further."""


class Machine:
    """Runs programs, one for each worker, in the order that ``choose`` says."""

    def __init__(self, workers: int) -> None:
        self.workers = [Worker(number) for number in range(workers)]
        self.on_exit: Callable[[int], None] = lambda number: None
        self._main = threading.Lock()
        self._choose: Callable[[], Choice | None] | None = None
        self._running: Worker | None = None
        self._abandoned = self._closed = False
        self._main.acquire()
        self._threads = [
            threading.Thread(target=self._live, args=(worker,), daemon=True)
            for worker in self.workers
        ]
        with one_core():
            for worker, thread in zip(self.workers, self._threads, strict=True):
                worker.wake.acquire()
                thread.start()

    @property
    def running(self) -> Worker | None:
        """The worker whose code runs at the moment; None before and after an execution."""
        return None if self._abandoned else self._running

    def run(self, programs: list[Callable[[], None]], choose: Callable[[], Choice | None]) -> None:
        """Run until ``choose`` returns None; it may look at all workers; on `one_core`."""
        self._choose = None
        for worker, program in zip(self.workers, programs, strict=True):
            worker.begin(program)
            self._hand_to(worker)  # to its first step
        self._choose = choose
        following = self._next()
        if following is not None:
            self._hand_to(following)
        self._abandon()

    def close(self) -> None:
        """End the threads, and let go of what errors and the exploration hold."""
        self._closed = True
        for worker, thread in zip(self.workers, self._threads, strict=True):
            worker.wake.release()
            thread.join()
        self.workers.clear()
        self._choose = None

    def take(self, step: Step) -> None:
        """Stop the running worker before a step until it is chosen."""
        if self._abandoned:
            raise Abandoned
        worker = self._running
        assert worker is not None
        worker.step = step
        following = self._next()
        if following is not worker:
            self._pass_to(following)
            worker.wake.acquire()
            if self._abandoned:
                raise Abandoned
        worker.step = None

    def sleep(self) -> None:
        """Stop the running worker until something that it has looked at in this nap is otherwise.

        Then it is as it was when the nap began.
        """
        worker = self._running
        assert worker is not None
        worker.asleep = True
        self.take(Step("wakes", frozenset(worker.looked)))
        worker.asleep = False
        del worker.observed[worker.nap_begins :]
        worker.looked, worker.missed = set(), False

    def can_go(self, worker: Worker) -> bool:
        """Whether a worker's step can be taken: one that sleeps must have something to see."""
        return worker.alive and (worker.missed or not worker.asleep)

    def observe(self, location: Location, value: int) -> int:
        """Let the running worker remember a value that it has read."""
        worker = self.running
        if worker is not None:
            worker.observed.append(value)
            if worker.nap_begins is not None:
                worker.looked.add(location)
        return value

    def change(self, location: Location) -> None:
        """Tell those who have looked at a location in their naps that it has become otherwise."""
        for worker in self.workers:
            worker.missed |= location in worker.looked

    @contextmanager
    def napping(self) -> Iterator[None]:
        """A loop of looks and sleeps, whose turns are all the same until one sees what it wants."""
        worker = self.running
        if worker is None:
            yield
            return
        worker.nap_begins = len(worker.observed)
        try:
            yield
            del worker.observed[worker.nap_begins :]
        finally:
            worker.looked, worker.missed, worker.nap_begins = set(), False, None

    @contextmanager
    def remembering_result_only(self, name: str) -> Iterator[Callable[[Hashable], None]]:
        """A call after which a worker's future depends on its result alone, not on what it saw."""
        worker = self.running
        if worker is None:
            yield lambda result: None
            return
        begin = len(worker.observed)

        def remember(result: Hashable) -> None:
            del worker.observed[begin:]
            worker.observed.append((name, result))

        yield remember

    def _abandon(self) -> None:
        """Unwind whoever has not come to an end."""
        self._abandoned = True
        for worker in self.workers:
            if worker.program is not None:
                self._hand_to(worker)
        self._abandoned, self._running = False, None

    def _live(self, worker: Worker) -> None:
        while True:
            worker.wake.acquire()
            if self._closed:
                return
            following: Worker | None = None
            try:
                self._run_program(worker)
                following = self._next()
            except Abandoned:
                pass
            worker.program = None
            self._pass_to(following)

    def _run_program(self, worker: Worker) -> None:
        assert worker.program is not None
        try:
            worker.program()
        except Exception as error:  # noqa: BLE001 (whatever it is, it is how this worker ended)
            worker.error = error
            worker.observed.append(repr(error))
        self.take(Step("exit", writes=frozenset([("process", worker.number)])))
        self._end(worker)

    def _end(self, worker: Worker) -> None:
        worker.alive = False
        self.change(("process", worker.number))
        self.on_exit(worker.number)

    def _next(self) -> Worker | None:
        """Who takes a step now: None ends the execution, or the time before the first choice."""
        while self._choose is not None:
            choice = self._choose()
            if choice is None:
                return None
            worker = self.workers[choice[0]]
            if choice[1] == "goes":
                return worker
            worker.died = True
            self._end(worker)
        return None

    def _pass_to(self, worker: Worker | None) -> None:
        self._running = worker
        (worker.wake if worker else self._main).release()

    def _hand_to(self, worker: Worker) -> None:
        self._pass_to(worker)
        self._main.acquire()


@contextmanager
def one_core() -> Iterator[None]:
    """Keep threads on one core: those that run one at a time take turns much faster there."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cpus)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cpus)

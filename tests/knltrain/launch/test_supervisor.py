"""Real processes that end in every way there is, watched by a real supervisor."""

from __future__ import annotations

import math
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from knltrain.errors import PeerLost
from knltrain.launch.events import Event
from knltrain.launch.failure import LOOK_SECONDS, Failure
from knltrain.launch.preemption import Preemption
from knltrain.launch.signals import SignalPipe
from knltrain.launch.supervisor import FAILURE_CODE, Ending, PeerProcesses, Supervisor
from knltrain.launch.worker_process import WorkerProcess

PREAMBLE = """
import os, signal, sys, time
from knltrain.launch.events import EventWriter
events = EventWriter(int(sys.argv[1]))
"""
FINISH = "events.send('progress', step=1); events.send('done', result={'steps': 1})"
WAIT = "events.send('ready'); time.sleep(600)"
STOPS_ITSELF = "events.send('ready'); os.kill(os.getpid(), signal.SIGSTOP)"
AWAIT_GO = "[time.sleep(0.01) for _ in iter(lambda: os.path.exists('go'), True)]"
CRASH = "import signal; signal.raise_signal(signal.SIGSEGV)"
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN); " + WAIT


class Watched:
    """Runs scripts as workers under a supervisor and keeps what happened."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.aborts: list[int] = []
        self.events: list[tuple[int, str]] = []
        self.workers: list[WorkerProcess] = []
        self.told: list[Failure] = []

    def run(
        self,
        *scripts: str,
        when_ready: Callable[[int], None] | None = None,
        job_peers: PeerProcesses | None = None,
        limit_seconds: float = math.inf,
        on_abort: Callable[[], None] = lambda: None,
        preemption: Clockwork | None = None,
    ) -> Ending:
        """`when_ready(rank)` is called as soon as that worker says that it is ready."""

        def on_event(rank: int, event: Event) -> None:
            self.events.append((rank, event["event"]))
            if when_ready is not None and event["event"] == "ready":
                when_ready(rank)

        def abort(code: int) -> None:
            self.aborts.append(code)
            on_abort()

        with SignalPipe() as signals, ExitStack() as stack:
            self.workers = [
                stack.enter_context(self._start(rank, script))
                for rank, script in enumerate(scripts)
            ]
            supervisor = Supervisor(
                self.workers,
                signals,
                abort,
                on_event,
                job_peers,
                preemption=cast(Preemption | None, preemption),
                limit_seconds=limit_seconds,
                on_failure=self.told.append,
            )
            return supervisor.watch()

    def _start(self, rank: int, script: str) -> WorkerProcess:
        def command(events_fd: int) -> Sequence[str]:
            preamble = f"import os; os.chdir({str(self.folder)!r}){PREAMBLE}"
            return [sys.executable, "-c", preamble + script, str(events_fd)]

        return WorkerProcess(rank, command, self.folder / f"worker-{rank}.log")


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


class Elsewhere:
    """Other processes that start workers, and what has become of them."""

    def __init__(self) -> None:
        self.lost: PeerLost | None = None
        self.lost_fd, self._telling = os.pipe()

    def lose(self) -> None:
        self.lost = PeerLost("task 1 is gone")
        os.write(self._telling, b".")

    def close(self) -> None:
        os.close(self.lost_fd)
        os.close(self._telling)


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    found = Elsewhere()
    yield found
    found.close()


def test_results_of_all_workers_are_collected(watched: Watched) -> None:
    ending = watched.run(FINISH, FINISH)
    assert ending.results == {0: {"steps": 1}, 1: {"steps": 1}}
    assert ending.failure is None
    assert ending.stopped_by is None
    assert watched.aborts == []
    assert sorted(watched.events) == [(0, "progress"), (1, "progress")]


@pytest.mark.parametrize("kept", [True, False])
def test_workers_that_stop_tell_whether_there_is_a_checkpoint(watched: Watched, kept: bool) -> None:
    stop = f"events.send('stopped', step=7, kept={kept})"
    ending = watched.run(stop, stop)
    assert (ending.stopped_at, ending.kept, ending.failure) == (7, kept, None)


def test_a_worker_that_ends_without_a_result_has_failed(watched: Watched) -> None:
    ending = watched.run(FINISH, "sys.exit(0)")
    assert ending.failure is not None
    assert ending.failure.rank == 1
    assert "exited with code 0" in ending.failure.cause


def test_a_killed_worker_ends_the_others(watched: Watched) -> None:
    ending = watched.run(WAIT, "events.send('ready'); os.kill(os.getpid(), signal.SIGKILL)")
    assert ending.failure is not None
    assert (ending.failure.rank, ending.failure.signal_number) == (1, signal.SIGKILL)
    assert watched.aborts == [FAILURE_CODE]
    assert watched.workers[0].exit_code() == -signal.SIGTERM


@pytest.mark.slow
def test_a_worker_that_ignores_sigterm_is_killed(watched: Watched) -> None:
    ending = watched.run(STUBBORN, "time.sleep(1); sys.exit(5)")
    assert ending.failure is not None
    assert ending.failure.rank == 1
    assert watched.workers[0].exit_code() == -signal.SIGKILL


def test_a_stopped_worker_is_killed_too(watched: Watched) -> None:
    def stop_then_ask(rank: int) -> None:
        os.kill(watched.workers[0].pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGINT)

    assert watched.run(WAIT, when_ready=stop_then_ask).stopped_by == signal.SIGINT
    assert watched.workers[0].exit_code() == -signal.SIGKILL


@pytest.mark.slow
def test_a_worker_that_stands_still_ends_the_run_after_the_time_limit(watched: Watched) -> None:
    """Even where the others do not need it."""
    ending = watched.run(WAIT, STOPS_ITSELF, limit_seconds=0.6)
    assert ending.failure is not None
    assert (ending.failure.rank, ending.failure.verb) == (1, "")
    host = socket.gethostname()
    named = f"(process {watched.workers[1].pid} on host {host}) is stopped (state T), for "
    assert ending.failure.cause.startswith(named)
    assert watched.aborts == [FAILURE_CODE]
    assert watched.workers[1].exit_code() == -signal.SIGKILL


@pytest.mark.slow
def test_a_worker_that_stands_still_is_blamed_for_what_others_wait_for(watched: Watched) -> None:
    """Though they give up before this process does."""
    in_vain = "kind='ExchangeTimeout', message='in vain', step=2, exit_code=1"
    victim = f"{AWAIT_GO}; time.sleep(1.5); events.send('error', {in_vain})"

    def go_on(rank: int) -> None:
        stat = Path(f"/proc/{watched.workers[rank].pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            pass
        (watched.folder / "go").touch()

    ending = watched.run(victim, STOPS_ITSELF, when_ready=go_on, limit_seconds=2)
    assert ending.failure is not None
    assert ending.failure.rank == 1
    assert "is stopped (state T)" in ending.failure.cause


@pytest.mark.slow
def test_workers_that_all_stand_still_are_a_suspended_run(watched: Watched) -> None:
    ready: list[int] = []

    def stop_when_all_are_ready(rank: int) -> None:
        ready.append(rank)
        if len(ready) == 2:
            tell_all(signal.SIGSTOP)
            later.start()

    def tell_all(number: signal.Signals) -> None:
        for worker in watched.workers:
            os.kill(worker.pid, number)

    def go_on() -> None:
        tell_all(signal.SIGCONT)
        (watched.folder / "go").touch()

    later = threading.Timer(2.5, go_on)
    goes_on = f"events.send('ready'); {AWAIT_GO}; {FINISH}"
    ending = watched.run(goes_on, goes_on, when_ready=stop_when_all_are_ready, limit_seconds=1.2)
    later.join()
    assert ending.failure is None
    assert ending.results.keys() == {0, 1}


def test_the_only_worker_here_is_waited_for_elsewhere(
    watched: Watched, elsewhere: Elsewhere
) -> None:
    ending = watched.run(STOPS_ITSELF, job_peers=elsewhere, limit_seconds=0.6)
    assert ending.failure is not None
    assert "is stopped (state T)" in ending.failure.cause


@pytest.mark.slow
def test_others_that_give_up_elsewhere_are_told_who_stands_still_here(
    watched: Watched, elsewhere: Elsewhere
) -> None:
    later = threading.Timer(3, elsewhere.lose)
    ending = watched.run(
        *(STOPS_ITSELF, f"{AWAIT_GO}"),
        when_ready=lambda _: later.start(),
        job_peers=elsewhere,
        limit_seconds=4,
    )
    later.join()
    assert ending.lost is None
    assert ending.failure is not None
    assert ending.failure.rank == 0


BIG = """
import mmap
memory = mmap.mmap(-1, 256 << 20)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, len(memory), mmap.PAGESIZE):
    memory[at] = 1
os.nice(19)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_others_hear_of_a_dying_worker_before_its_memory_is_free(watched: Watched) -> None:
    """And of the signal that killed it."""
    seen: list[object] = []

    def look_for_its_end() -> None:
        with suppress(ChildProcessError):  # it was asked for its end before
            how = os.WEXITED | os.WNOWAIT | os.WNOHANG
            seen.append(os.waitid(os.P_PID, watched.workers[1].pid, how))

    for _ in range(20):  # this process may be without a core itself meanwhile
        ending = watched.run(WAIT, BIG, on_abort=look_for_its_end)
        assert ending.failure is not None
        assert (ending.failure.rank, ending.failure.signal_number) == (1, signal.SIGKILL)
        assert watched.told[-1] is ending.failure
        if None in seen:
            return
    pytest.fail("the end of the process was seen only when its parent was told of it")


@pytest.mark.parametrize("script", [CRASH, "signal.raise_signal(signal.SIGTERM)"])
def test_what_may_come_from_elsewhere_is_not_told_there_at_once(
    watched: Watched, script: str
) -> None:
    assert watched.run(WAIT, script).failure is not None
    assert watched.told == []


def test_a_consequence_told_first_gives_way_to_its_cause(watched: Watched) -> None:
    consequence = "events.send('error', kind='PeerLost', message='lost', step=2, exit_code=1)"
    cause = "events.send('error', kind='NonFiniteLoss', message='nan', step=2, exit_code=1)"
    ending = watched.run(f"{consequence}; sys.exit(1)", f"time.sleep(0.2); {cause}; sys.exit(1)")
    assert ending.failure is not None
    assert (ending.failure.rank, ending.failure.cause) == (1, "step 2: nan")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopping_signal_ends_all_workers(watched: Watched, number: signal.Signals) -> None:
    ready: list[int] = []

    def stop_when_both_are_ready(rank: int) -> None:
        ready.append(rank)
        if len(ready) == 2:
            os.kill(os.getpid(), number)

    ending = watched.run(WAIT, WAIT, when_ready=stop_when_both_are_ready)
    assert ending.stopped_by == number
    assert ending.failure is None
    assert watched.aborts == [128 + number]
    assert [worker.exit_code() for worker in watched.workers] == [-signal.SIGTERM] * 2


def test_a_second_signal_kills_at_once(watched: Watched) -> None:
    def stop_twice(rank: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    assert watched.run(WAIT, when_ready=stop_twice).stopped_by == signal.SIGINT
    assert watched.workers[0].exit_code() == -signal.SIGKILL


class Clockwork:
    """Preemption by what is no signal, and notes that are there and not heeded when it is over."""

    why = "the end of its job"

    def __init__(self) -> None:
        self.fd, self._noting_fd = os.pipe()
        self.overdue: signal.Signals | None = None

    def takes(self, number: signal.Signals) -> bool:
        return False

    def hears(self, event: Event) -> bool:
        return False

    def go_on(self) -> None:
        pass

    def note(self) -> None:
        os.write(self._noting_fd, b".")

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._noting_fd)


@pytest.fixture
def clockwork() -> Iterator[Clockwork]:
    made = Clockwork()
    yield made
    made.close()


@pytest.mark.slow
def test_stop_that_is_late_is_told_with_who_stands_still(
    watched: Watched, clockwork: Clockwork
) -> None:
    def fall_due(rank: int) -> None:
        while watched.workers[0].sight.standstill() is None:
            pass
        threading.Timer(1.0, setattr, (clockwork, "overdue", signal.SIGTERM)).start()

    ending = watched.run(
        STOPS_ITSELF, WAIT, when_ready=lambda rank: rank or fall_due(rank), preemption=clockwork
    )
    assert (ending.stopped_by, ending.late, ending.why) == (15, True, "the end of its job")
    here = f"(process {watched.workers[0].pid} on host {socket.gethostname()})"
    assert ending.still == (f"worker 0 {here} is stopped (state T)",)


def test_notes_that_come_while_the_run_ends_are_left_in_peace(
    watched: Watched, clockwork: Clockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float | None] = []

    class Counted(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> Any:
            looks.append(timeout)
            return super().select(timeout)

    monkeypatch.setattr(selectors, "DefaultSelector", Counted)
    stop = lambda _: os.kill(os.getpid(), signal.SIGINT)  # noqa: E731
    begun = time.monotonic()
    watched.run(STUBBORN, when_ready=stop, on_abort=clockwork.note, preemption=clockwork)
    assert len(looks) < 100 + 2 * (time.monotonic() - begun) / LOOK_SECONDS


def test_complaints_after_a_signal_do_not_hide_it(watched: Watched) -> None:
    complaint = (
        "signal.signal(signal.SIGTERM, lambda *_: ("
        "events.send('error', kind='ValueError', message='torn', step=1, exit_code=1),"
        "os._exit(1))); "
    )
    ending = watched.run(complaint + WAIT, when_ready=lambda _: os.kill(os.getpid(), 15))
    assert (ending.stopped_by, ending.failure) == (signal.SIGTERM, None)


def test_a_signal_to_workers_and_parent_alike_is_a_stop(watched: Watched) -> None:
    def signal_everyone(rank: int) -> None:
        os.kill(watched.workers[0].pid, signal.SIGTERM)
        while watched.workers[0].exit_code() is None:
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    assert watched.run(WAIT, when_ready=signal_everyone).stopped_by == signal.SIGTERM


def _error(kind: str) -> str:
    words = f"kind='{kind}', message='why', step=1, exit_code=1"
    return f"events.send('error', {words}); sys.exit(1)"


def test_process_that_is_gone_elsewhere_ends_the_workers(
    watched: Watched, elsewhere: Elsewhere
) -> None:
    ending = watched.run(WAIT, when_ready=lambda _: elsewhere.lose(), job_peers=elsewhere)
    assert (str(ending.lost), ending.failure) == ("task 1 is gone", None)
    assert watched.aborts == [FAILURE_CODE]


@pytest.mark.parametrize(
    "end",
    [*map(_error, ("PeerLost", "CollectiveError", "ExchangeTimeout")), CRASH],
    ids=["PeerLost", "CollectiveError", "ExchangeTimeout", "a crash"],
)
def test_cause_elsewhere_that_is_heard_after_its_consequence_is_told(
    watched: Watched, elsewhere: Elsewhere, end: str
) -> None:
    later = threading.Timer(0.8, elsewhere.lose)
    later.start()
    ending = watched.run(end, job_peers=elsewhere)
    later.join()
    assert str(ending.lost) == "task 1 is gone"


def test_cause_here_is_told_whatever_becomes_of_others(
    watched: Watched, elsewhere: Elsewhere
) -> None:
    elsewhere.lose()
    ending = watched.run(_error("DataError"), job_peers=elsewhere)
    assert ending.lost is None
    assert ending.failure is not None


@pytest.mark.slow
def test_a_crash_is_its_own_cause_where_nobody_is_gone_elsewhere(
    watched: Watched, elsewhere: Elsewhere
) -> None:
    ending = watched.run(CRASH, job_peers=elsewhere)
    assert ending.failure is not None
    assert ending.failure.cause == "it was killed by SIGSEGV"


def test_workers_that_are_done_are_done_whatever_becomes_of_others(
    watched: Watched, elsewhere: Elsewhere
) -> None:
    ending = watched.run(FINISH, job_peers=elsewhere)
    assert ending.results == {0: {"steps": 1}}


def test_a_failing_listener_leaves_no_worker(watched: Watched) -> None:
    def fail(rank: int) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        watched.run(WAIT, WAIT, when_ready=fail)
    codes: list[Any] = [worker.exit_code() for worker in watched.workers]
    assert codes == [-signal.SIGKILL] * 2

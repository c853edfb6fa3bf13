"""The thread of an exchange works while there is something to do, and sleeps when there is not."""

import threading
import time

from knltrain.clocks import Clock
from knltrain.exchange.tree_exchange.progress import LONGEST_NAP_SECONDS, Progress


class Work:
    """So much to do; counts how often it is asked."""

    def __init__(self):
        self.changed = threading.Condition()
        self.left = self.asked = 0
        self.blocked = False

    def step(self):
        self.asked += 1
        if self.blocked or not self.left:
            return False
        self.left -= 1
        return True

    def is_idle(self):
        return not self.left

    def give(self, steps):
        with self.changed:
            self.left += steps
            self.changed.notify_all()

    def await_done(self):
        with self.changed:
            return self.changed.wait_for(self.is_idle, 10)


def test_work_is_done_when_it_comes_and_waiters_are_told():
    work = Work()
    progress = Progress(work.step, work.is_idle, work.changed, "work")
    for steps in (5, 3):
        work.give(steps)
        assert work.await_done()
    progress.end()


def test_nothing_is_asked_while_there_is_nothing_to_do():
    work = Work()
    progress = Progress(work.step, work.is_idle, work.changed, "work")
    work.give(1)
    assert work.await_done()
    asked = work.asked
    time.sleep(0.1)
    assert work.asked <= asked + 1  # it may have been about to see that all is done
    progress.end()


def test_work_that_waits_for_others_is_looked_at_again_with_naps():
    work = Work()
    work.blocked = True
    progress = Progress(work.step, work.is_idle, work.changed, "work")
    began = time.monotonic()
    work.give(1)
    while work.asked < 50:
        assert time.monotonic() < began + 10
        time.sleep(0.01)
    asked, waited_seconds = work.asked, time.monotonic() - began
    assert asked <= 20 + waited_seconds / LONGEST_NAP_SECONDS
    work.blocked = False
    assert work.await_done()
    progress.end()


def test_a_failure_is_kept_and_wakes_who_waits():
    changed = threading.Condition()

    def fail():
        raise ValueError("broken")

    progress = Progress(fail, lambda: False, changed, "work")
    with changed:
        assert changed.wait_for(lambda: progress.failure is not None, 10)
    assert str(progress.failure) == "broken"
    progress.end()


def test_its_clock_runs_while_there_is_something_to_do_and_no_longer():
    work, clock = Work(), Clock()
    progress = Progress(work.step, work.is_idle, work.changed, "work")
    progress.clock = clock
    spans, expected = [], []
    clock.watch = lambda begin, end: spans.append((begin, end))
    for number in range(2):
        work.blocked = True
        given, asked = time.perf_counter(), work.asked
        work.give(1)
        _await(lambda asked=asked: work.asked > asked)
        runs = time.perf_counter()
        time.sleep(0.02)
        expected.append((given, runs, time.perf_counter()))
        work.blocked = False
        _await(lambda number=number: len(spans) > number)  # and sleeps until there is more to do
    progress.end()
    assert len(spans) == 2
    for (begin, end), (given, runs, ends) in zip(spans, expected, strict=True):
        assert given <= begin <= runs < ends <= end


def _await(there):
    limit = time.monotonic() + 10
    while not there():
        assert time.monotonic() < limit
        time.sleep(0.001)
